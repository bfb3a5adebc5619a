# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-conformance`."""

import argparse
import json
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nvmptcp_lab.errors import ending
from nvmptcp_spec.errors import SpecError

from . import profile
from .errors import UsageError

if TYPE_CHECKING:
    from .profile import Profile
    from .session import Options
    from .store import Store
    from .suite.case import Case, Side

DEFAULT_RESULTS = Path("nvmptcp-conformance-results")
DEFAULT_TIMEOUT = 5  # seconds
DEFAULT_TRIGGER_TIMEOUT = 30  # seconds
DEFAULT_TRSVCID = 4420
SIDES = ("target", "host")
COLOURS = ("auto", "always", "never")
FORMS = ("tree", "html", "junit", "json")


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong in one line, without the usage, which has many."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"nvmptcp-conformance: error: {message}; see `{self.prog} --help`\n")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = _Parser(
        prog="nvmptcp-conformance",
        description="Test a device for the requirements of the MPTCP variant of the NVMe TCP"
        " transport.",
        epilog="Exit codes: 0, 1 a test failed or was inconclusive, 2 usage or no device there or"
        " results that can't be written, 130 interrupted.",
    )
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)

    verb = verbs.add_parser(
        "target", help="test an NVMe/TCP target",
        description="Read the target's Discovery log page, connect to the port under test over"
        " MPTCP and TCP, and print a verdict for each test: pass, conceptual pass, fail, not"
        " applicable or inconclusive. Needs MPTCP in this machine's kernel (Linux 5.16), which"
        " joins addresses as far as `ip mptcp limits` allows; tests with raw packets, and captures,"
        " need CAP_NET_RAW.",
    )
    verb.add_argument("--traddr", type=_checked(profile.address), metavar="ADDRESS",
                      help="address of the port under test, as its entry has it")
    verb.add_argument("--trsvcid", type=_port, metavar="PORT",
                      help=f"its TCP port number (default: {DEFAULT_TRSVCID})")
    verb.add_argument("--discovery-traddr", type=_checked(profile.address), metavar="ADDRESS",
                      help="the address of the Discovery controller (default: that of --traddr)")
    verb.add_argument("--discovery-trsvcid", type=_port, metavar="PORT",
                      help="its port number (default: that of --trsvcid)")
    verb.add_argument("--nqn", type=_checked(profile.nqn_text),
                      help="NVM subsystem to connect to (default: that of the entry)")
    verb.add_argument("--hostnqn", type=_checked(profile.nqn_text), help="connect as this host,"
                      " where the target asks for a known one (default: one of this suite)")
    verb.add_argument("--timeout", type=_seconds, metavar="S",
                      help=f"how long the target may be silent (default: {DEFAULT_TIMEOUT})")
    verb.add_argument("--require-mptcp", action="store_true",
                      help="the port claims TCPV 1h: tests that need it fail where they would be"
                      " not applicable")
    _add_profile(verb)
    _add_run_options(verb)
    verb.set_defaults(run=test_target)

    verb = verbs.add_parser(
        "host", help="test an NVMe/TCP host",
        description="Be a target, have the host under test connect by the trigger, a shell command"
        " of yours, and print a verdict for each test. The trigger's environment says where the"
        " host has to connect to.",
    )
    verb.add_argument("--listen", type=_listen, metavar="ADDRESS[:PORT]",
                      help="address of this machine that the host can reach; IPv6 with a port as"
                      f" [ADDRESS]:PORT (default port: {DEFAULT_TRSVCID})")
    verb.add_argument("--further", type=_checked(profile.address), action="append",
                      metavar="ADDRESS", help="one more address of this machine that the host can"
                      " reach, for tests with several; may be repeated")
    verb.add_argument("--trigger", metavar="CMD", help="makes the host connect")
    verb.add_argument("--untrigger", metavar="CMD", help="makes it disconnect")
    verb.add_argument("--status", metavar="CMD",
                      help="prints what the host shows its administrator")
    verb.add_argument("--timeout", type=_seconds, metavar="S", help="how long a trigger may take"
                      f" (default: {DEFAULT_TRIGGER_TIMEOUT})")
    _add_profile(verb)
    _add_run_options(verb)
    verb.set_defaults(run=test_host)

    verb = verbs.add_parser(
        "reference", help="test the reference kernel in the lab",
        description="Boot the reference kernel in the lab, in virtual time, and test it as a target"
        " and as a host. Needs a checkout; builds the kernel first, if it isn't built yet.",
    )
    verb.add_argument("side", nargs="?", choices=SIDES, help="only this side (default: both)")
    verb.add_argument("--variant", choices=("tcp", "mptcp"), default="mptcp",
                      help="TCP variant of the target's port (default: %(default)s)")
    verb.add_argument("--attributes", default="adda", metavar="LIST",
                      help="MPATTR of the target's port: `none`, or some of adda,dcsr,mpreq"
                      " (default: %(default)s)")
    _add_run_options(verb)
    verb.set_defaults(run=test_reference)

    verb = verbs.add_parser("list", help="the tests, by chapter")
    verb.add_argument("--side", choices=SIDES, help="only the tests of this side")
    _add_selection(verb)
    verb.add_argument("--untested", action="store_true",
                      help="instead the requirements without a test, and why they have none")
    verb.add_argument("--json", action="store_true", help="machine readable")
    verb.set_defaults(run=list_cases)

    verb = verbs.add_parser("explain", help="a requirement, and what its tests send and expect")
    verb.add_argument("id", metavar="ID", help="such as TCPV-TSAS-001")
    verb.set_defaults(run=explain)

    verb = verbs.add_parser("profile", help="print a template of a device's profile")
    verb.set_defaults(run=print_profile)

    verb = verbs.add_parser("report", help="render the results of a run again")
    verb.add_argument("results", type=Path, metavar="DIR", help="directory of the results, or its"
                      " results.json")
    verb.add_argument("--format", choices=FORMS, default="tree", help="(default: %(default)s)")
    verb.add_argument("-o", "--output", type=Path, metavar="FILE",
                      help="write there instead of printing; links of the HTML form are relative to"
                      " the directory of the results")
    verb.set_defaults(run=render)
    return top


def _add_profile(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--profile", type=Path, metavar="FILE", help="what the device is and claims,"
                      " and hooks: `nvmptcp-conformance profile` prints a template")


def _add_run_options(verb: argparse.ArgumentParser) -> None:
    _add_selection(verb)
    verb.add_argument("--destructive", action="store_true", default=None,
                      help="also tests that may harm what else the device does")
    group = verb.add_argument_group("results")
    group.add_argument("--results", type=Path, metavar="DIR",
                       help="where results, reports and captures go (default:"
                       f" {DEFAULT_RESULTS}/NAME-or-address/SIDE)")
    modes = group.add_mutually_exclusive_group()
    modes.add_argument("--resume", dest="mode", action="store_const", const="resume",
                       help="go on with the interrupted run in DIR")
    modes.add_argument("--failed", dest="mode", action="store_const", const="failed",
                       help="run again what failed or was inconclusive in DIR; the rest is kept")
    modes.add_argument("--restart", dest="mode", action="store_const", const="restart",
                       help="drop the interrupted run in DIR")
    group.add_argument("--captures", choices=("all", "failed", "none"), default="failed",
                       help="whose packets are kept; `failed`: of tests that neither passed nor are"
                       " not applicable (default: %(default)s)")
    group.add_argument("--color", choices=COLOURS, default="auto",
                       help="colours and progress (default: %(default)s, on a terminal)")


def _add_selection(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--requirement", metavar="ID", help="only the tests of this requirement")
    verb.add_argument("--section", type=int, metavar="N",
                      help="only the tests of this clause of the proposal")


def _checked(check: Callable[[str], str]) -> Callable[[str], str]:
    """As argparse wants it: the text of the error is shown."""
    def convert(text: str) -> str:
        try:
            return check(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return convert


def _port(text: str) -> int:
    try:
        return profile.port(int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number from 1 to 65535 is needed, not {text!r}"
                                         ) from None


def _listen(text: str) -> tuple[str, int | None]:
    """`ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT`."""
    match = re.fullmatch(r"\[(.+)\](?::(.+))?|([^:]+):([^:]+)", text)
    address, port = (match[1] or match[3], match[2] or match[4]) if match else (text, None)
    return _checked(profile.address)(address), _port(port) if port else None


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) <= profile.LONGEST:
            return float(text)
    raise argparse.ArgumentTypeError(f"seconds are needed, more than 0 and at most"
                                     f" {profile.LONGEST}, not {text!r}")


def _selected(args: argparse.Namespace, sides: tuple["Side", ...]) -> list["Case"]:
    """The tests that the user wants. UsageError where there is none."""
    # pytest and Scapy take a second to import: not for `--help`.
    from .report.document import Selection
    from .suite import plugin

    found = plugin.cases(Selection(args.requirement, args.section).covers, sides)
    given = [f"--{name} {value}" for name in ("requirement", "section")
             if (value := getattr(args, name)) is not None]
    if given and not found:
        raise UsageError(f"{' '.join(given)}: no test; see `nvmptcp-conformance list`")
    return found


def _options(args: argparse.Namespace, known: "Profile", default: str, side: "Side") -> "Options":
    """How to run, by options and profile. `default`: names the results where nothing else does."""
    from .report.document import Selection
    from .session import Captures, Options
    from .store import Mode

    cases = _selected(args, (side,))
    name = re.sub(r"[^\w.-]+", "-", (known.name or default).lower()).strip("-.") or "device"
    destructive = known.destructive if args.destructive is None else args.destructive
    return Options(args.results or DEFAULT_RESULTS / name / side, Mode(args.mode or Mode.NEW),
                   Selection(args.requirement, args.section, bool(destructive)), cases,
                   Captures(args.captures), args.color, known.hooks)


def _profile(args: argparse.Namespace) -> "Profile":
    return profile.load(args.profile) if args.profile else profile.Profile()


def test_target(args: argparse.Namespace) -> int:
    """The verb `target`."""
    from . import session, target
    from .endpoints.host import HOST_NQN
    from .report.document import Device
    from .suite.case import Side

    known = _profile(args)
    keys = known.target
    traddr = args.traddr or keys.traddr
    if not traddr:
        raise UsageError("no address: give --traddr, or `traddr` in [target] of the --profile")
    trsvcid = args.trsvcid or keys.trsvcid or DEFAULT_TRSVCID
    address = target.Address(
        traddr, trsvcid, args.discovery_traddr or keys.discovery_traddr or traddr,
        args.discovery_trsvcid or keys.discovery_trsvcid or trsvcid, args.nqn or keys.nqn,
        args.hostnqn or keys.hostnqn or HOST_NQN, args.timeout or known.timeout or DEFAULT_TIMEOUT)
    claims = known.claims.with_mptcp() if args.require_mptcp else known.claims

    def find(_: "Store") -> session.Subject:
        found = target.find(address, claims)
        device = Device(Side.TARGET, str(address), found.nqn, known.name or "", known.version or "",
                        found.describe(), claims.stated())
        ports = frozenset({address.trsvcid, address.discovery_trsvcid})
        return session.Subject(found, device, ports)

    options = _options(args, known, f"{traddr}-{trsvcid}", Side.TARGET)
    return session.run(Side.TARGET, options, find)


def test_host(args: argparse.Namespace) -> int:
    """The verb `host`."""
    from . import session
    from .host_under_test import HostUnderTest
    from .report.document import Device
    from .suite.case import Side
    from .target import endpoint

    known = _profile(args)
    listen, trsvcid = args.listen or (known.host.listen, None)
    trigger = args.trigger or known.hooks.trigger
    if not listen:
        raise UsageError("no address: give --listen, or `listen` in [host] of the --profile")
    if not trigger:
        raise UsageError("no trigger: give --trigger, or `trigger` in [hooks] of the --profile")
    dut = HostUnderTest(
        listen, trigger, trsvcid or known.host.trsvcid or DEFAULT_TRSVCID,
        tuple(args.further or known.host.further or ()),
        args.untrigger or known.hooks.untrigger or "", args.status or known.hooks.status or "",
        args.timeout or known.hooks.timeout or DEFAULT_TRIGGER_TIMEOUT,
        known.claims)

    def find(_: "Store") -> session.Subject:
        dut.probe()
        where = endpoint(dut.listen, dut.trsvcid)
        device = Device(Side.HOST, where, "", known.name or "", known.version or "",
                        f"made to connect by: {dut.trigger}", known.claims.stated())
        return session.Subject(dut, device, frozenset({dut.trsvcid}))

    return session.run(Side.HOST, _options(args, known, f"{dut.listen}-{dut.trsvcid}", Side.HOST),
                       find)


def test_reference(args: argparse.Namespace) -> int:
    """The verb `reference`."""
    from . import reference
    from .suite.case import Side

    _selected(args, (Side(args.side),) if args.side else tuple(Side))
    return reference.run(args, args.results or DEFAULT_RESULTS / "reference")


def list_cases(args: argparse.Namespace) -> int:
    """The verb `list`."""
    from .suite.case import Side

    sides = (Side(args.side),) if args.side else tuple(Side)
    cases = _selected(args, sides)
    if args.untested:
        return _list_untested(args, sides, cases)
    if args.json:
        print(json.dumps([case.as_json() for case in cases], indent=1))
        return 0
    before = None
    for case in cases:
        if before is None or case.side != before.side:
            print(f"{case.side} under test")
        if before is None or (case.side, case.chapter) != (before.side, before.chapter):
            print(f"  {case.chapter.number} {case.chapter.title}" if case.chapter.number
                  else f"  {case.chapter.title}")
        before = case
        print(f"    {' '.join(case.requirements) or '-':16}{case.name}"
              f"{'  (destructive)' if case.destructive else ''}")
    return 0


def _list_untested(args: argparse.Namespace, sides: tuple["Side", ...],
                   cases: list["Case"]) -> int:
    from . import requirements

    found = {side.value: requirements.without_test(side, cases) for side in sides}
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    known = requirements.load()
    for side, reasons in found.items():
        print(f"{side} under test")
        for ident, reason in reasons.items():
            print(f"  {ident}  {known[ident].level:6}  {reason or 'no test and no reason yet'}")
    return 0


def explain(args: argparse.Namespace) -> int:
    """The verb `explain`."""
    from . import requirements
    from .suite import plugin
    from .suite.case import Side

    found = requirements.load().get(args.id.upper())
    if not found:
        raise UsageError(f"{args.id}: no such requirement; see `nvmptcp-conformance list`")
    ident = args.id.upper()
    print(f"{ident}  {found.title}\n{found.statement}\n"
          f"  level:     {found.level}, asked of {_ASKED_OF[found.actor]}\n"
          f"  rests on:  {found.rests_on}")
    cases = plugin.cases(lambda case: ident in case.requirements)
    by_test = {(case.side, case.name.partition("[")[0]): case for case in cases}
    for (side, name), case in by_test.items():
        print(f"\n{side}: {name}  {case.title}\n  sent:      {case.sent}\n"
              f"  expected:  {case.expected}")
    for side in Side:
        reason = requirements.without_test(side, cases).get(ident)
        if reason is not None:
            print(f"\n{side}: no test: {reason or 'no reason yet'}")
    return 0


_ASKED_OF = {"host": "the host", "controller": "the controller",
             "discovery controller": "the Discovery controller", "both": "host and controller"}


def print_profile(args: argparse.Namespace) -> int:
    """The verb `profile`."""
    print(profile.template(), end="")
    return 0


def render(args: argparse.Namespace) -> int:
    """The verb `report`."""
    import io

    from . import store
    from .report import html, junit, terminal

    document = store.read(args.results)
    if args.format == "tree":
        text = io.StringIO()
        terminal.tree(document, text)
        said = text.getvalue()
    elif args.format == "json":
        said = json.dumps(document.as_json(), indent=1) + "\n"
    else:
        said = {"html": html, "junit": junit}[args.format].render(document)
    if args.output:
        store.write(args.output, said)
    else:
        print(said, end="")
    return 0


def _terminate(_signum: int, _frame: object) -> None:
    raise KeyboardInterrupt  # keeps the results, ends what was started


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except (UsageError, SpecError) as error:
        return ending("nvmptcp-conformance", UsageError(str(error)))
    except (KeyboardInterrupt, OSError) as error:
        return ending("nvmptcp-conformance", error, broken=2)  # 1 is for what a test found


if __name__ == "__main__":
    sys.exit(main())
