# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel against model, cell by cell: what lies outside of the tolerances, and why."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nvmptcp_conformance.perf.results import CellResult, ResultSet
from nvmptcp_conformance.perf.scenario import Scenario, Settings
from nvmptcp_conformance.perf.toml_lines import Lines
from nvmptcp_lab import tomlfile
from nvmptcp_lab.errors import LabError, UsageError

from .backend import ROOT

KERNEL = ROOT / "docs" / "results" / "perf.json"
DEVIATIONS = ROOT / "model" / "deviations.toml"
LOSSLESS, IMPAIRED, GAP = 0.03, 0.15, 0.25
GAP_RESOLUTION_MS = 1  # of fio's logs
COMPARED = re.compile(r"(read|write)_(mib_s|p50_ms|p99_ms)|host\d+_mib_s|path\d+_share|gap_ms")


@dataclass(frozen=True)
class Check:
    """One figure of one cell: medians of kernel and model."""

    scenario: str
    cell: str
    figure: str
    kernel: float
    model: float
    tolerance: float  # a share, such as 0.03; of a path's share: points, so 0.03 too

    @property
    def place(self) -> tuple[str, str]:
        """The cell and the figure, as deviations.toml names them."""
        return f"{self.scenario}: {self.cell}", self.figure

    @property
    def deviation(self) -> float:
        """The model's relative deviation; of a path's share, which is relative, the difference."""
        if self.figure.endswith("_share"):
            return self.model - self.kernel
        if not self.kernel:
            return 0.0 if not self.model else float("inf")
        return self.model / self.kernel - 1

    @property
    def inside(self) -> bool:
        if self.figure == "gap_ms" and abs(self.model - self.kernel) <= GAP_RESOLUTION_MS:
            return True
        return abs(self.deviation) <= self.tolerance


@dataclass(frozen=True)
class Cause:
    """Why the model is outside somewhere: an entry of deviations.toml."""

    text: str
    places: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Validation:
    """All checks, and the causes of those outside."""

    kernel: str  # what measured
    model: str
    checks: tuple[Check, ...]
    causes: tuple[Cause, ...]

    def cause(self, check: Check) -> Cause | None:
        return next((cause for cause in self.causes if check.place in cause.places), None)

    def unlisted(self) -> list[Check]:
        """Outside, and no cause says why."""
        return [check for check in self.checks if not check.inside and not self.cause(check)]

    def stale(self) -> list[Check]:
        """A cause says why it is outside, but it is not."""
        return [check for check in self.checks if check.inside and self.cause(check)]

    def unknown(self) -> list[tuple[str, str]]:
        """Places of causes, in cells that were checked, which have no such figure."""
        checked = {check.place for check in self.checks}
        cells = {cell for cell, _ in checked}
        return sorted(place for cause in self.causes for place in cause.places
                      if place[0] in cells and place not in checked)

    @property
    def ok(self) -> bool:
        return not (self.unlisted() or self.stale() or self.unknown())

    def document(self) -> dict[str, Any]:
        """As JSON; `of_document` reads it."""
        return {
            "kernel": self.kernel, "model": self.model, "ok": self.ok,
            "checks": [{**asdict(check), "deviation": round(check.deviation, 4),
                        "inside": check.inside,
                        "cause": cause.text if (cause := self.cause(check)) else None}
                       for check in self.checks],
        }


def of_document(data: Mapping[str, Any]) -> Validation:
    """What `document` has made. Raises KeyError, TypeError."""
    texts: dict[str, set[tuple[str, str]]] = {}
    checks = []
    for entry in data["checks"]:
        check = Check(**{name: entry[name] for name in Check.__dataclass_fields__})
        checks.append(check)
        if entry["cause"]:
            texts.setdefault(entry["cause"], set()).add(check.place)
    return Validation(data["kernel"], data["model"], tuple(checks), tuple(
        Cause(text, frozenset(places)) for text, places in texts.items()))


def tolerance(settings: Settings, figure: str) -> float:
    """How far off a figure may be: paths that are alike and lose nothing leave less to chance."""
    if figure == "gap_ms":
        return GAP
    ends = {end for link in settings.paths().links for end in (link.to_host, link.to_target)}
    impaired = settings.event or len(ends) > 1 or any(end.loss or end.jitter for end in ends)
    return IMPAIRED if impaired else LOSSLESS


def require(scenarios: Sequence[Scenario], kernel: ResultSet) -> None:
    """Raises LabError when the kernel's results lack a cell."""
    measured = {(cell.scenario, cell.name) for cell in kernel.cells}
    for one in scenarios:
        for cell in one.cells:
            if (one.name, cell.name) not in measured:
                raise LabError(f"{kernel.source} has no cell {one.name!r}: {cell.name!r}:"
                               " `make perf` measures it")


def check(scenarios: Sequence[Scenario], kernel: ResultSet, model: ResultSet,
          causes: tuple[Cause, ...]) -> Validation:
    """Raises LabError where one of the two lacks a cell or a figure."""
    require(scenarios, kernel)
    measured = {(cell.scenario, cell.name): cell for cell in kernel.cells}
    simulated = {(cell.scenario, cell.name): cell for cell in model.cells}
    checks: list[Check] = []
    for one in scenarios:
        for cell in one.cells:
            place = (one.name, cell.name)
            checks += _cell(cell.settings, measured[place], simulated[place])
    return Validation(kernel.source, model.source, tuple(checks), causes)


def _cell(settings: Settings, kernel: CellResult, model: CellResult) -> Iterator[Check]:
    for name, figure in kernel.figures.items():
        if not COMPARED.fullmatch(name):
            continue
        # The lab counts only the subflows that are there at the end; a failure ends some.
        if name.endswith("_share") and settings.event:
            continue
        if name not in model.figures:
            raise LabError(f"the model has no figure {name} of {kernel.scenario!r}:"
                           f" {kernel.name!r}")
        yield Check(kernel.scenario, kernel.name, name, figure.median, model.figures[name].median,
                    tolerance(settings, name))


def causes(path: Path = DEVIATIONS) -> tuple[Cause, ...]:
    """Read deviations.toml. Raises UsageError: `FILE:LINE: what`."""
    text, table = tomlfile.read(path, "deviations")
    return _Reader(path, Lines(text)).causes(table)


class _Reader:
    """Checks the entries of deviations.toml."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self.path, self.lines = path, lines
        self.taken: set[tuple[str, str]] = set()

    def fail(self, why: str, *location: str | int) -> UsageError:
        return UsageError(f"{self.path}:{self.lines.of(location)}: {why}")

    def causes(self, table: Mapping[str, Any]) -> tuple[Cause, ...]:
        for name in table:
            if name != "cause":
                raise self.fail(f"{name}: unknown; known here: cause", name)
        return tuple(self._cause(number, entry) for number, entry in
                     enumerate(table.get("cause", [])))

    def _cause(self, number: int, entry: Mapping[str, Any]) -> Cause:
        places = set()
        for cell, figures in entry.get("cells", {}).items():
            where = ("cause", number, "cells", cell)
            if not isinstance(figures, list) or not figures:
                raise self.fail(f"{cell}: must be a list of figures", *where)
            for figure in figures:
                if (cell, figure) in self.taken:
                    raise self.fail(f"{cell}: {figure} has a cause already", *where)
                self.taken.add((cell, figure))
                places.add((cell, figure))
        if not isinstance(entry.get("text"), str) or not places:
            raise self.fail("needs text, and cells", "cause", number)
        return Cause(entry["text"], frozenset(places))


def load(path: Path) -> Validation:
    """What `write` has left. Raises UsageError."""
    try:
        return of_document(json.loads(path.read_text()))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: no validation of `nvmptcp-model validate`: {error}") from None


# --- for people -------------------------------------------------------------------------------

def table(found: Validation) -> str:
    """A line a cell: bandwidth of both, and the deviations; then what is amiss."""
    cells: dict[str, list[Check]] = {}
    for one in found.checks:
        cells.setdefault(one.place[0], []).append(one)
    width = max((len(cell) for cell in cells), default=0)
    lines = [f"{'cell':{width}} {'kernel':>8} {'model':>8} {'MiB/s':>8} {'p50':>8} {'p99':>8}"
             f" {'share':>8} {'gap':>8}  verdict"]
    for cell, checks in cells.items():
        bandwidth = [one for one in checks if one.figure in ("read_mib_s", "write_mib_s")]
        outside = [one.figure for one in checks if not one.inside]
        lines.append(
            f"{cell:{width}} {sum(one.kernel for one in bandwidth):8.1f}"
            f" {sum(one.model for one in bandwidth):8.1f}"
            + "".join(f" {_worst(checks, kind):>8}" for kind in
                      ("_mib_s", "_p50_ms", "_p99_ms", "_share", "gap_ms"))
            + (f"  OUTSIDE: {', '.join(outside)}" if outside else "  ok"))
    inside = sum(one.inside for one in found.checks)
    lines.append(f"{inside} of {len(found.checks)} figures of {len(cells)} cells are inside"
                 f" ({LOSSLESS:.0%} lossless, {IMPAIRED:.0%} lossy or unequal, {GAP:.0%} gap);"
                 f" {len(found.checks) - inside - len(found.unlisted())} outside have a cause")
    for one in found.unlisted():
        lines.append(f"UNLISTED {one.place[0]}: {one.figure}: kernel {one.kernel:g}, model"
                     f" {one.model:g}, {one.deviation:+.1%}: mend it, or give its cause in"
                     f" {DEVIATIONS.name}")
    for one in found.stale():
        lines.append(f"STALE {one.place[0]}: {one.figure} is inside: take it out of"
                     f" {DEVIATIONS.name}")
    for cell, figure in found.unknown():
        lines.append(f"STALE {cell} has no figure {figure}: take it out of {DEVIATIONS.name}")
    return "\n".join(lines)


def _worst(checks: Sequence[Check], kind: str) -> str:
    """The deviation that is farthest off, of the figures of this kind."""
    found = [one.deviation for one in checks if one.figure.endswith(kind)]
    return f"{max(found, key=abs):+.1%}" if found else "-"
