# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the suite's tests of the chapters on connections, fallback, paths and security in the lab's
guest; prints the results as JSON.

`python -m suite_raw_in_guest faults`: against the soft target on the raw stack, without a fault and
with each of RAW_FAULTS, there only the tests of what it breaks. Further words name targets.
"""

import contextlib
import dataclasses
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nvmptcp_conformance import target as under_test
from nvmptcp_conformance.layers import discovery
from nvmptcp_conformance.layers.registry import Mpattr
from nvmptcp_conformance.profile import Claims
from nvmptcp_conformance.softtarget import TargetOptions
from nvmptcp_conformance.softtarget.raw_faults import RAW_FAULTS
from nvmptcp_conformance.softtarget.raw_target import RawTarget
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Case, Outcome, Result, Side
from nvmptcp_conformance.suite.target import test_mappings
from nvmptcp_lab.guest.netns import inside
from soft_in_guest import Collector, serve

TARGET = "10.0.1.2"
CHAPTERS = ("connection", "fallback", "paths", "security")
MAPPINGS = {name.removeprefix("test_")  # of the first chapter, for suite_stream_in_guest
            for name, _ in inspect.getmembers(test_mappings, inspect.isfunction)}
OUTSIDER = "10.0.4.2"
FIRST_PORT = 6000

Wanted = Callable[[Case], bool]
Soft = tuple[type[RawTarget], TargetOptions]


class Group(RawTarget):
    """Has also an entry that is outside of its subflow group."""

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        super().entries(entries)
        outsider = entries[1].copy()
        outsider.traddr, outsider.tsas.sfgid = OUTSIDER.encode(), 0
        entries.append(outsider)


OPEN = TargetOptions(TARGET, joins_at=("10.0.2.2", "10.0.3.2"), mpattr=int(Mpattr.ADDA), maxsf=8)
STRICT = dataclasses.replace(OPEN, mpattr=int(Mpattr.ADDA | Mpattr.DCSR | Mpattr.MPREQ))
GOOD: dict[str, Soft] = {
    "open": (RawTarget, OPEN), "strict": (RawTarget, STRICT),
    "group": (Group, dataclasses.replace(OPEN, mpattr=0, maxsf=0, sfgid=7))}
# Which tests: where a port differs from the first one.
TESTS: dict[str, Wanted] = {
    "open": lambda case: True,
    "strict": lambda case: case.chapter.name == "fallback",
    "group": lambda case: bool({"TCPV-PATH-006", "TCPV-PATH-007"} & set(case.requirements))}
BAD: dict[str, Soft] = {name: (fault, OPEN) for name, fault in RAW_FAULTS.items()}


class Caught(Exception):
    """A fault was found."""


class UntilCaught(Collector):
    """Ends the run at the first failure of what a fault breaks."""

    def __init__(self, breaks: tuple[str, ...]) -> None:
        super().__init__()
        self._missing = set(breaks)

    def end(self, result: Result) -> None:
        super().end(result)
        if result.verdict in (Outcome.FAIL, Outcome.CONCEPTUAL):
            self._missing -= set(result.case.requirements)
            if not self._missing:
                raise Caught


def base(case: Case) -> str:
    """The name of a test without its parameters."""
    return case.name.split("[")[0]


def suite(trsvcid: int, found: Collector, wanted: Wanted) -> list[dict[str, Any]]:
    """The results of some tests, at a port of the target."""
    with inside("host"), contextlib.suppress(Caught):
        device = under_test.find(under_test.Address(TARGET, trsvcid, TARGET, trsvcid), Claims())
        plugin.run(Side.TARGET, device, found, wanted)
    return [result.as_json() for result in found.results]


def ours(case: Case) -> bool:
    """Whether a test is one of those that this module is for."""
    return case.chapter.name in CHAPTERS and base(case) not in MAPPINGS


def results(targets: Mapping[str, Soft], first_port: int, among: Wanted,
            tests: Callable[[str], Wanted], names: Sequence[str] = ()) -> dict[str, Any]:
    """Target, known good or with a fault → results of the tests `among` those of the suite.

    A target without a fault gets `tests` of its name, one with a fault those of what it breaks.
    """
    found = {}
    for number, (name, (kind, options)) in enumerate(targets.items()):
        if names and name not in names:
            continue
        target = serve(kind, dataclasses.replace(options, trsvcid=first_port + 2 * number))
        broken, due = set(kind.breaks), tests(name)

        def wanted(case: Case, broken: set[str] = broken, due: Wanted = due) -> bool:
            return among(case) and (bool(broken & set(case.requirements)) if broken else due(case))

        collector = UntilCaught(kind.breaks) if broken else Collector()
        found[name] = suite(target.options.trsvcid, collector, wanted)
        target.stop()
    return found


def faults(names: list[str]) -> dict[str, Any]:
    """Target, known good or with a fault → results."""
    return results(GOOD | BAD, FIRST_PORT, ours, lambda name: TESTS.get(name, TESTS["open"]), names)


if __name__ == "__main__":
    print(json.dumps({"faults": faults}[sys.argv[1]](sys.argv[2:])))
