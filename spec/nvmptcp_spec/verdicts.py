# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirement → tests → last verdict on the reference kernel (spec/verdicts.json).

The file has no dates and no parameters of tests, so that it changes only when an outcome does.
It speaks of one kernel: the outcomes of another one replace it as a whole.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import SpecError
from .reader import Requirement

FILE = "spec/verdicts.json"
NOT_RUN = "not run"
NO_TEST = "no test"
OUTCOMES = ("passed", "skipped", "failed")


@dataclass(frozen=True)
class Verdict:
    """The outcome for one requirement, the worst of its tests, and that of each."""

    outcome: str
    tests: dict[str, str]

    def of(self, test: str) -> str:
        """The outcome of one test."""
        return self.tests.get(test, NOT_RUN)


@dataclass(frozen=True)
class Row:
    """A row of the traceability matrix."""

    requirement: Requirement
    tests: dict[str, str]  # test → file:line
    verdict: str

    def as_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {**asdict(self.requirement), "tests": self.tests, "verdict": self.verdict}


def read(root: Path) -> dict[str, Verdict]:
    """The committed verdicts; none if there is no file."""
    path = root / FILE
    return _parse(path, FILE) if path.is_file() else {}


def kernel(root: Path) -> dict[str, str] | None:
    """Which kernel they are about."""
    path = root / FILE
    found: dict[str, str] | None = (json.loads(path.read_text()).get("kernel")
                                    if path.is_file() else None)
    return found


def matrix(requirements: Mapping[str, Requirement], tests: Mapping[str, dict[str, str]],
           known: Mapping[str, Verdict]) -> list[Row]:
    """A row for each requirement, in the order of the IDs.

    A requirement has passed if each test that it has now has passed.
    """
    rows = []
    for r in requirements.values():
        mine = dict(sorted(tests.get(r.id, {}).items()))
        outcomes = [known[r.id].of(test) if r.id in known else NOT_RUN for test in mine]
        worst = next((o for o in ("failed", NOT_RUN, "skipped", "passed") if o in outcomes),
                     NO_TEST)
        rows.append(Row(r, mine, worst))
    return rows


def summary(rows: list[Row]) -> dict[str, int]:
    """How many requirements there are, by level, with a test, and by verdict."""
    levels = Counter(row.requirement.level for row in rows)
    outcomes = Counter(row.verdict for row in rows)
    counts = {"requirements": len(rows)}
    counts |= {level: levels[level] for level in ("shall", "should", "may")}
    counts["with a test"] = sum(bool(row.tests) for row in rows)
    counts["without a test, reason given"] = sum(
        not row.tests and bool(row.requirement.untested) for row in rows)
    counts["without a test, no reason given"] = len(rows) - sum(
        bool(row.tests or row.requirement.untested) for row in rows)
    return counts | {o: outcomes[o] for o in ("passed", "failed", "skipped", NOT_RUN)}


def merge(root: Path, new: Path, requirements: Mapping[str, Requirement]) -> int:
    """Bring the outcomes of a run into the committed file; returns how many it has now."""
    fresh = _parse(new, str(new))
    identity = _kernel_identity()
    old = read(root) if kernel(root) == identity else {}
    merged = {i: v for i, v in {**old, **fresh}.items() if i in requirements}
    text = json.dumps({"kernel": identity,
                       "requirements": {i: asdict(v) for i, v in merged.items()}},
                      indent=1, sort_keys=True)
    (root / FILE).write_text(text + "\n")
    return len(merged)


def _kernel_identity() -> dict[str, str]:
    """The source and the series that the lab's reference kernel is built from."""
    from nvmptcp_lab import series, source

    tree = "another tree (KERNEL_SRC)" if os.environ.get("KERNEL_SRC") else source.load_pin().ident
    return {"source": tree, "series": series.digest(series.load(series.SERIES))[:12]}


def _parse(path: Path, name: str) -> dict[str, Verdict]:
    try:
        entries = json.loads(path.read_text())["requirements"]
        found = {i: Verdict(e["outcome"], dict(e["tests"])) for i, e in entries.items()}
    except OSError as error:
        raise SpecError(f"{name}: {error.strerror}: `make verdicts` makes it") from error
    except json.JSONDecodeError as error:
        raise SpecError(f"{name}:{error.lineno}: not JSON: {error.msg}: `make verdicts` makes it"
                        ) from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SpecError(f"{name}: no requirements with outcome and tests in it:"
                        " `make verdicts` makes it") from error
    bad = [o for v in found.values() for o in (v.outcome, *v.tests.values()) if o not in OUTCOMES]
    if bad:
        raise SpecError(f"{name}: outcome {bad[0]!r} is none of {', '.join(OUTCOMES)}")
    return found
