# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-lab`."""

import argparse
import signal
import sys
from types import FrameType

from . import build, cost, doctor, perf, reproduce, selftest, state, verbs
from .errors import LabError, ending

TERMINATED = 143  # 128 + SIGTERM, as shells count


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="nvmptcp-lab",
        description="The reference kernel of NVMe/TCP over Multipath TCP: build it, boot it as a"
        " process, in virtual time, without root or KVM.",
        epilog="Exit codes: 0, 1 a check failed or the lab broke, 2 usage, 124 time-out, 130"
        " interrupted, 143 terminated; `run` passes on the command's own.",
    )
    verb = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for module in (build, verbs, perf, cost, state, reproduce, selftest, doctor):
        module.add_parser(verb)
    return top


def _terminate(_signum: int, _frame: FrameType | None) -> None:
    sys.exit(TERMINATED)  # as an exception: whoever holds a guest or a directory gives it up


def main(argv: list[str] | None = None) -> int:
    return run("nvmptcp-lab", parser().parse_args(argv))


def run(program: str, args: argparse.Namespace) -> int:
    """Call the verb's `func`; what goes wrong is a line, and an exit code. For any command."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code: int = args.func(args)
        sys.stdout.flush()
        return code
    except (LabError, KeyboardInterrupt, OSError) as error:
        return ending(program, error)


if __name__ == "__main__":
    sys.exit(main())
