# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-lab`."""

import argparse
import os
import signal
import sys
from types import FrameType

from . import build, doctor, perf, reproduce, selftest, verbs
from .errors import LabError

INTERRUPTED, TERMINATED = 130, 143  # 128 + SIGINT, 128 + SIGTERM, as shells count


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
    for module in (build, verbs, perf, reproduce, selftest, doctor):
        module.add_parser(verb)
    return top


def _terminate(_signum: int, _frame: FrameType | None) -> None:
    sys.exit(TERMINATED)  # as an exception: whoever holds a guest or a directory gives it up


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code: int = args.func(args)
        sys.stdout.flush()
        return code
    except LabError as error:
        print(f"nvmptcp-lab: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("nvmptcp-lab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read our output has left, as `head` does.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:  # a full disk, a directory that went away
            where = f"{error.filename}: " if error.filename else ""
            print(f"nvmptcp-lab: error: {where}{error.strerror or error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
