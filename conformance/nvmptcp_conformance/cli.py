# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-conformance`."""

import argparse
import json
import os
import sys
from pathlib import Path

from nvmptcp_spec.errors import SpecError

from .endpoints.host import HOST_NQN
from .errors import UsageError


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="nvmptcp-conformance",
        description="Test a device for the requirements of the MPTCP variant of the NVMe TCP"
        " transport.",
        epilog="Exit codes: 0, 1 a test failed or was inconclusive, 2 usage or no device there,"
        " 130 interrupted.",
    )
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)

    verb = verbs.add_parser(
        "target", help="test an NVMe/TCP target",
        description="Read the target's Discovery log page, connect to the port under test over"
        " MPTCP and TCP, and print a verdict for each test: pass, fail, not applicable or"
        " inconclusive. Nothing is written to a namespace. Needs no rights, but MPTCP in this"
        " machine's kernel (Linux 5.16), which joins addresses as far as `ip mptcp limits`"
        " allows.",
    )
    verb.add_argument("--traddr", required=True, metavar="ADDRESS",
                      help="address of the port under test, as its entry has it")
    verb.add_argument("--trsvcid", type=_port, default=4420, metavar="PORT",
                      help="its TCP port number (default: %(default)s)")
    verb.add_argument("--discovery-trsvcid", type=_port, metavar="PORT",
                      help="the port number of the Discovery controller at the same address"
                      " (default: that of --trsvcid)")
    verb.add_argument("--nqn", help="NVM subsystem to connect to (default: that of the entry)")
    verb.add_argument("--hostnqn", default=HOST_NQN, help="connect as this host, where the target"
                      " asks for a known one (default: %(default)s)")
    verb.add_argument("--timeout", type=_seconds, default=5, metavar="S",
                      help="how long the target may be silent (default: %(default)s)")
    verb.add_argument("--require-mptcp", action="store_true",
                      help="the port has to report TCPV 1h: tests that need it fail where they"
                      " would be not applicable")
    verb.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    _add_selection(verb)
    verb.set_defaults(run=test_target)

    verb = verbs.add_parser("list", help="the tests, by chapter")
    _add_selection(verb)
    verb.add_argument("--json", action="store_true", help="machine readable")
    verb.set_defaults(run=list_cases)

    verb = verbs.add_parser("explain", help="a requirement, and what its tests send and expect")
    verb.add_argument("id", metavar="ID", help="such as TCPV-TSAS-001")
    verb.set_defaults(run=explain)
    return top


def _add_selection(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--requirement", metavar="ID", help="only the tests of this requirement")
    verb.add_argument("--section", type=int, metavar="N",
                      help="only the tests of this clause of the proposal")


def _port(text: str) -> int:
    value = int(text)
    if not 0 < value < 1 << 16:
        raise argparse.ArgumentTypeError("must be from 1 to 65535")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be above 0")
    return value


class _Selection:
    """The tests that the user wants. UsageError where there is none."""

    def __init__(self, args: argparse.Namespace) -> None:
        # pytest and Scapy take a second to import: not for `--help`.
        from .suite import plugin
        from .suite.case import Case

        def wanted(case: Case) -> bool:
            return (args.requirement in (None, *case.requirements)
                    and args.section in (None, case.chapter.number))

        self.wanted = wanted
        self.cases = plugin.cases(wanted)
        if not self.cases:
            given = [f"--{name} {value}" for name in ("requirement", "section")
                     if (value := getattr(args, name)) is not None]
            raise UsageError(f"{' '.join(given)}: no test; see `nvmptcp-conformance list`")


def test_target(args: argparse.Namespace) -> int:
    """The verb `target`."""
    from . import target
    from .report import Report
    from .suite import plugin

    selection = _Selection(args)
    if args.json:
        args.json.write_text("")  # before the tests: an error is told now
    address = target.Address(args.traddr, args.trsvcid, args.discovery_trsvcid or args.trsvcid,
                             args.nqn, args.hostnqn, args.timeout, args.require_mptcp)
    report = Report(target.find(address), lambda line: print(line, flush=True))
    try:
        plugin.run(report.target, report.add, selection.wanted)
    finally:
        if args.json:  # what there is, also after an interruption
            args.json.write_text(report.as_json())
    return report.finish()


def list_cases(args: argparse.Namespace) -> int:
    """The verb `list`."""
    cases = _Selection(args).cases
    if args.json:
        print(json.dumps([case.as_json() for case in cases], indent=1))
        return 0
    chapter = None
    for case in cases:
        if case.chapter != chapter:
            chapter = case.chapter
            print(f"{chapter.number} {chapter.title}")
        print(f"  {' '.join(case.requirements):16}{case.name}")
    return 0


def explain(args: argparse.Namespace) -> int:
    """The verb `explain`."""
    from .report import statements

    text = statements((args.id,))
    if not text:
        raise UsageError(f"{args.id}: no such requirement; see `nvmptcp-spec list`")
    from .suite import plugin
    cases = plugin.cases(lambda case: args.id in case.requirements)
    print(f"{args.id}  {text[args.id]}")
    by_test = {case.name.partition("[")[0]: case for case in cases}
    for name, case in by_test.items():
        print(f"\n{name}  {case.title}\n  sent:      {case.sent}\n  expected:  {case.expected}")
    if not cases:
        print("\nNo test of this command is for it: `nvmptcp-spec show` tells which tests of the"
              " reference kernel are.")
    return 0


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except (UsageError, SpecError) as error:
        print(f"nvmptcp-conformance: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("nvmptcp-conformance: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"nvmptcp-conformance: error: {where}{error.strerror or error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
