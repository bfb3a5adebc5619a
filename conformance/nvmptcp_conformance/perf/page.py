# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of results: its text quotes measured figures only.

`python -m nvmptcp_conformance.perf.page [DIRECTORY]` takes the results that `perf run` left there,
keeps what the page needs as docs/results/perf.json, with what is there of other scenarios and the
same kernel, and writes docs/explanation/performance.md. docs/results/cost.json is from
`nvmptcp-lab cost`; cost-24-patches.json is what that found of a kernel with only the first 24
patches.
"""

import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
from nvmptcp_lab.errors import LabError, UsageError
from nvmptcp_lab.reproduce import published

from .results import CellResult, Figure, ResultSet, load

TEMPLATE = Path(__file__).with_name("page.md.jinja")
DOCS = Path(__file__).parents[3] / "docs"
PAGE, RESULTS = DOCS / "explanation" / "performance.md", DOCS / "results"


class Quotes:
    """What the template asks for. Each method raises LabError when the results don't have it."""

    def __init__(self, found: ResultSet, template: Path = TEMPLATE) -> None:
        self.found, self.template = found, template

    def cells(self, scenario: str, *labels: str) -> list[CellResult]:
        """The cells of a scenario that have all these labels on their axes.

        Of a swept key the value alone will do: `randread` for `rw randread`.
        """
        cells = [cell for cell in self.found.cells if cell.scenario == scenario and all(
            any(label in (value, value.partition(" ")[2]) for value in cell.axes.values())
            for label in labels)]
        if not cells:
            raise LabError(f"{self.template.name}: no cell of {scenario!r} has {labels}")
        return cells

    def cell(self, scenario: str, *labels: str) -> CellResult:
        """The only cell with these labels."""
        cells = self.cells(scenario, *labels)
        if len(cells) > 1:
            raise LabError(f"{self.template.name}: {len(cells)} cells of {scenario!r} have"
                           f" {labels}")
        return cells[0]

    def value(self, scenario: str, *labels: str, figure: str = "mib_s") -> float:
        """A median; `mib_s` is that of the direction which was run."""
        return self._figure(self.cell(scenario, *labels), figure).median

    def mean(self, scenario: str, *labels: str, figure: str = "mib_s") -> float:
        """The mean over several cells' medians, such as reads and writes."""
        return statistics.fmean(self._figure(cell, figure).median
                                for cell in self.cells(scenario, *labels))

    def share(self, scenario: str, *labels: str) -> float:
        """Bandwidth by what the links carry at most, in percent."""
        cell = self.cell(scenario, *labels)
        (limit,) = cell.limit_mib_s.values()
        if not limit:
            raise LabError(f"{self.template.name}: {labels} of {scenario!r} has no limit")
        return 100 * self._figure(cell, "mib_s").median / limit

    def window(self, begin: float, end: float, scenario: str, *labels: str) -> float:
        """Mean MiB/s between two times of a cell's timeline, in s."""
        timeline = self.cell(scenario, *labels).timeline
        if not timeline:
            raise LabError(f"{self.template.name}: {labels} of {scenario!r} has no timeline")
        first, last = (round(at * 1000) // timeline["bin_ms"] for at in (begin, end))
        return statistics.fmean(timeline["mib_s"][first:last])

    def published(self, transport: str, links: str) -> dict[str, Any]:
        """What was published of these links under round-robin, in MiB/s."""
        (row,) = [row for row in published()["result"] if (
            row["transport"], row["topology"], row["iopolicy"]) == (
                transport, links, "round-robin")]
        found: dict[str, Any] = row
        return found

    def claim(self, holds: bool, statement: str) -> str:
        """A statement of the text that the figures have to bear out."""
        if not holds:
            raise LabError(f"{self.template.name}: the figures don't say any more that {statement}")
        return statement

    def table(self, scenario: str, columns: str = "", figure: str = "mib_s", digits: int = 1,
              labels: tuple[str, ...] = ()) -> str:
        """A figure of all cells: rows by the other axes, columns by this one, or a single column;
        median, and spread where there are several runs."""
        cells = self.cells(scenario, *labels)
        unit = "ms" if figure.endswith("_ms") else "MiB/s"
        heads = list(dict.fromkeys(cell.axes.get(columns, unit) for cell in cells))
        rows: dict[tuple[str, ...], dict[str, str]] = {}
        varying = [axis for axis in cells[0].axes if axis != columns
                   and len({cell.axes[axis] for cell in cells}) > 1]
        for cell in cells:
            row = rows.setdefault(tuple(cell.axes[axis] for axis in varying), {})
            row[cell.axes.get(columns, unit)] = _with_spread(self._figure(cell, figure), digits)
        lines = ["| " + " | ".join([*("" for _ in varying), *heads]) + " |",
                 "|" + "---|" * (len(varying) + len(heads))]
        lines += ["| " + " | ".join([*names, *(row.get(head, "") for head in heads)]) + " |"
                  for names, row in rows.items()]
        return "\n".join(lines)

    def asked(self) -> dict[str, Any]:
        """All that a template may call, by name."""
        return {name: getattr(self, name) for name in (
            "cell", "cells", "value", "mean", "share", "window", "claim", "published", "table")}

    def _figure(self, cell: CellResult, name: str) -> Figure:
        for full in (name, f"read_{name}", f"write_{name}"):
            if full in cell.figures:
                return cell.figures[full]
        raise LabError(f"{self.template.name}: {cell.name} of {cell.scenario!r} has no {name!r}")


def _with_spread(figure: Figure, digits: int) -> str:
    text = f"{figure.median:.{digits}f}"
    return text if figure.runs == 1 else f"{text} ({figure.min:.{digits}f}-{figure.max:.{digits}f})"


def render(found: ResultSet) -> str:
    """The page. Raises LabError when the text claims what the figures don't show."""
    return environment().from_string(TEMPLATE.read_text()).render(
        source=found.source, scenarios=found.scenarios, cost=_kept_cost("cost.json"),
        cost_before=_kept_cost("cost-24-patches.json"), **Quotes(found).asked())


def _kept_cost(name: str) -> dict[str, Any]:
    """What `nvmptcp-lab cost` found. Raises UsageError."""
    file = RESULTS / name
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}; `make cost` makes it") from None
    return found


def merged(kept: ResultSet, found: ResultSet) -> ResultSet:
    """Whole scenarios of `found` take the place of those kept, if both are of the same kernel."""
    if kept.source != found.source:
        return found
    cells = [*(cell for cell in kept.cells if cell.scenario not in found.scenarios), *found.cells]
    return ResultSet(found.source, dict(sorted({**kept.scenarios, **found.scenarios}.items())),
                     tuple(sorted(cells, key=lambda cell: cell.scenario)))


def environment() -> jinja2.Environment:
    """For templates of Markdown pages."""
    made = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    made.filters["median"] = statistics.median
    return made


def essence(found: ResultSet) -> ResultSet:
    """Without what the page and its plots don't show: the tree needn't keep it."""
    def less(cell: CellResult) -> CellResult:
        if not cell.timeline:
            return cell
        kept = {name: cell.timeline[name] for name in ("bin_ms", "gap_ms", "gap_at")}
        return replace(cell, timeline={
            **kept, "mib_s": [round(rate) for rate in cell.timeline["mib_s"]]})

    return replace(found, cells=tuple(less(cell) for cell in found.cells))


def main(arguments: list[str]) -> int:
    try:
        if len(arguments) > 1:
            raise UsageError("usage: python -m nvmptcp_conformance.perf.page [DIRECTORY]")
        file = RESULTS / "perf.json"
        found = load(file)
        if arguments:
            found = merged(found, essence(load(Path(arguments[0]))))
        text = render(found)
        file.write_text(found.json())
        PAGE.write_text(text)
    except LabError as error:
        print(f"perf page: error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
