# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-model`."""

import argparse
from pathlib import Path

from nvmptcp_lab import cli

from . import benchmark, examples, sweep, validate, verbs


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="nvmptcp-model",
        description="The ns-3 model of NVMe/TCP over Multipath TCP and over native NVMe multipath:"
        " run scenarios, check it against the reference kernel, sweep parameters.",
        epilog="Exit codes: 0, 1 a check failed or a run broke, 2 usage, 130 interrupted, 143"
        " terminated.",
    )
    top.add_argument("--build", type=Path, metavar="DIR", help="where the program was built"
                     " (default: $NVMPTCP_MODEL_BUILD, or build/model in the checkout)")
    verb = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for module in (verbs, validate, sweep, benchmark, examples):
        module.add_parsers(verb)
    return top


def main(argv: list[str] | None = None) -> int:
    return cli.run("nvmptcp-model", parser().parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())
