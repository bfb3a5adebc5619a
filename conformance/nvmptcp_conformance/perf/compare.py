# SPDX-License-Identifier: GPL-2.0-or-later
"""Two result sets side by side: ratios, and which of them are regressions."""

from collections.abc import Sequence
from dataclasses import dataclass

from nvmptcp_lab.errors import UsageError

from .results import CellResult, Figure, ResultSet

DEFAULT_FIGURES = ("read_mib_s", "write_mib_s", "read_p99_ms", "write_p99_ms")


@dataclass(frozen=True)
class Comparison:
    """One figure of one cell, before and after."""

    cell: str
    figure: str
    before: Figure
    after: Figure
    tolerance: float  # a share, such as 0.05

    @property
    def ratio(self) -> float | None:
        """After by before, None where there was nothing before."""
        return self.after.median / self.before.median if self.before.median else None

    @property
    def regressed(self) -> bool:
        """Whether it is worse by more than the tolerance: less of a rate, more of a time."""
        if self.figure.endswith("_ms"):
            return self.after.median > self.before.median * (1 + self.tolerance)
        return self.after.median < self.before.median * (1 - self.tolerance)


def compare(before: ResultSet, after: ResultSet, figures: Sequence[str],
            tolerance: float) -> tuple[list[Comparison], list[str]]:
    """Comparisons, and the cells of `before` that `after` lacks.

    Cells belong together by scenario and name; between a result set and fio's own JSON by name
    alone; where each has a single cell, those two do. Raises UsageError when nothing belongs
    together.
    """
    pairs = _pairs(before, after)
    found, lacking = [], []
    for name, old, new in pairs:
        if new is None:
            lacking.append(name)
            continue
        for figure in figures:
            if figure in old.figures and figure in new.figures:
                found.append(Comparison(name, figure, old.figures[figure], new.figures[figure],
                                        tolerance))
            elif figure in old.figures:
                lacking.append(f"{name}: {figure}")
    if not found:
        raise UsageError(f"nothing to compare: no cell of {before.source!r} that has one of"
                         f" {', '.join(figures)} is in {after.source!r}, too")
    return found, lacking


def _pairs(before: ResultSet, after: ResultSet) -> list[tuple[str, CellResult, CellResult | None]]:
    if len(before.cells) == len(after.cells) == 1:
        return [(before.cells[0].name, before.cells[0], after.cells[0])]
    exact = {(cell.scenario, cell.name): cell for cell in after.cells}
    plain = bool(before.scenarios) != bool(after.scenarios)  # one of them is fio's
    by_name = {cell.name: cell for cell in after.cells} if plain else {}
    return [(f"{cell.scenario}: {cell.name}", cell,
             exact.get((cell.scenario, cell.name)) or by_name.get(cell.name))
            for cell in before.cells]


def table(found: Sequence[Comparison], lacking: Sequence[str]) -> str:
    """For people: medians with the spread of the runs, ratio, verdict."""
    width = max(len(one.cell) for one in found)
    lines = [f"{'cell':{width}}  {'figure':12} {'before':>24} {'after':>24}  ratio"]
    for one in found:
        ratio = f"{one.ratio:6.3f}" if one.ratio is not None else "     -"
        verdict = f"  REGRESSED by more than {one.tolerance:.1%}" if one.regressed else ""
        lines.append(f"{one.cell:{width}}  {one.figure:12} {_spread(one.before):>24}"
                     f" {_spread(one.after):>24} {ratio}{verdict}")
    lines += [f"missing afterwards: {name}" for name in lacking]
    return "\n".join(lines)


def _spread(figure: Figure) -> str:
    if figure.runs == 1:
        return f"{figure.median:.2f}"
    return f"{figure.median:.2f} ({figure.min:.1f}-{figure.max:.1f})"
