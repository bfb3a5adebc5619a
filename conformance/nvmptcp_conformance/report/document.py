# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of a run with all that a report says of it. `results.json` has the same."""

import platform
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from .. import requirements
from ..suite.case import UNSETTLED, Case, Outcome, Result, Side

FORMAT = 1  # of results.json
UNTESTED = "not tested"
# The worst verdict of its tests is that of a requirement.
_WORST_FIRST = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.CONCEPTUAL, Outcome.PASS,
                Outcome.NOT_APPLICABLE)


@dataclass(frozen=True)
class Device:
    """The device under test as the report has it."""

    side: Side
    address: str  # where it was, or where it was made to connect to
    nqn: str
    name: str = ""  # of the product, its maker's words
    version: str = ""
    description: str = ""  # what it announces, or its trigger, in a line
    claims: dict[str, bool | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Selection:
    """Which tests of a side were wanted; None: all."""

    requirement: str | None = None
    section: int | None = None
    destructive: bool = False

    @property
    def is_all(self) -> bool:
        """Whether no requirement and no section was asked for."""
        return self.requirement is None and self.section is None

    def covers(self, case: Case) -> bool:
        """Whether requirement and section of a test are the wanted ones."""
        return (self.requirement in (None, *case.requirements)
                and self.section in (None, case.chapter.number))

    def wants(self, case: Case) -> bool:
        """Whether a test is to be run."""
        return self.covers(case) and (self.destructive or not case.destructive)


@dataclass(frozen=True)
class Verdict:
    """That of one requirement."""

    ident: str
    requirement: requirements.Requirement
    verdict: str  # an Outcome, or UNTESTED
    tests: tuple[str, ...]
    reason: str  # why it isn't tested


@dataclass
class Document:
    """The results of a run, finished or not."""

    device: Device
    selection: Selection
    cases: list[Case]  # that the run has, in order
    suite: str = field(default_factory=lambda: version("nvmptcp"))
    revision: str = field(default_factory=requirements.revision)  # of the requirements
    kernel: str = field(default_factory=lambda: f"{platform.system()} {platform.release()}")
    started: str = field(default_factory=lambda: now())
    finished: str = ""  # empty: it was interrupted, or goes on
    by_key: dict[str, Result] = field(default_factory=dict)

    @property
    def results(self) -> list[Result]:
        """What there is, in the order of the cases."""
        return [self.by_key[case.key] for case in self.cases if case.key in self.by_key]

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many results have each verdict."""
        counted = Counter(result.verdict for result in self.results)
        return {outcome: counted[outcome] for outcome in Outcome}

    @property
    def exit_code(self) -> int:
        """1 if something failed or is unsettled."""
        return int(any(self.counts[outcome] for outcome in UNSETTLED))

    def verdicts(self) -> list[Verdict]:
        """A verdict for each requirement that concerns this side, in the order of the IDs."""
        results: dict[str, list[Result]] = {}
        for result in self.results:
            for ident in result.case.requirements:
                results.setdefault(ident, []).append(result)
        reasons = self._untested()
        found = []
        for ident, requirement in requirements.load().items():
            mine = results.get(ident, [])
            if not (mine or requirement.concerns(self.device.side)):
                continue
            outcomes = {result.verdict for result in mine}
            worst = next((o.value for o in _WORST_FIRST if o in outcomes), UNTESTED)
            found.append(Verdict(ident, requirement, worst,
                                 tuple(result.case.key for result in mine),
                                 "" if mine else reasons.get(ident, "no result")))
        return found

    def _untested(self) -> dict[str, str]:
        """Why this run has no test of a requirement."""
        reasons = requirements.without_test(self.device.side, self.cases)
        if not self.selection.is_all:
            return dict.fromkeys(reasons, "not in this run")
        other = "no test" if self.selection.destructive else "destructive tests were left out"
        return {ident: reason or other for ident, reason in reasons.items()}

    def as_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {
            "format": FORMAT, "suite": self.suite, "revision": self.revision, "kernel": self.kernel,
            "started": self.started, "finished": self.finished, "device": asdict(self.device),
            "selection": asdict(self.selection),
            "counts": {outcome.value: number for outcome, number in self.counts.items()},
            # "verdict" is null where the case hasn't been run
            "results": [self.by_key[case.key].as_json() if case.key in self.by_key
                        else {**case.as_json(), "verdict": None} for case in self.cases],
        }

    @classmethod
    def from_json(cls, data: Any) -> "Document":
        """The inverse of `as_json`. Raises ValueError, KeyError, TypeError, if it isn't that."""
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r} instead of {FORMAT}")
        results = [Result.from_json(entry) for entry in data["results"] if entry["verdict"]]
        device = Device(**{**data["device"], "side": Side(data["device"]["side"])})
        words = {key: str(data[key])
                 for key in ("suite", "revision", "kernel", "started", "finished")}
        return cls(device, Selection(**data["selection"]),
                   [Case.from_json(entry) for entry in data["results"]],
                   by_key={result.case.key: result for result in results}, **words)


def now() -> str:
    """The time as ISO 8601 has it, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
