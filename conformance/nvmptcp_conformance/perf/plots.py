# SPDX-License-Identifier: GPL-2.0-or-later
"""Plots of a result set, in the form that fits each scenario."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .results import CellResult, ResultSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEPTH = "fio.iodepth"
FORMATS = ("png", "svg")


def write(found: ResultSet, directory: Path) -> list[Path]:
    """A plot for each scenario, as PNG and SVG, named by it. Raises OSError."""
    written = []
    for scenario, head in found.scenarios.items():
        figure = draw([cell for cell in found.cells if cell.scenario == scenario])
        figure.suptitle(head["title"])
        written += save(figure, directory / scenario)
    return written


def save(figure: "Figure", stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG, the same each time. Raises OSError."""
    from matplotlib import rc_context

    written = [stem.with_name(f"{stem.name}.{form}") for form in FORMATS]
    with rc_context({"svg.hashsalt": "nvmptcp"}):
        for path in written:
            figure.savefig(path, bbox_inches="tight",
                           metadata={"Date": None} if path.suffix == ".svg" else None)
    return written


def draw(cells: Sequence[CellResult]) -> "Figure":
    """Timelines where there are any, latency curves for a sweep of the depth, else bars."""
    if any(cell.timeline for cell in cells):
        return timelines(cells)
    if any(DEPTH in cell.axes for cell in cells):
        return latency_curves(cells)
    return bars(cells)


def _plain(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)


def bars(cells: Sequence[CellResult]) -> "Figure":
    """MiB/s of each cell with the spread of its runs, and what the links carry at most."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.34 * len(cells) + 1))
    axes = figure.subplots()
    for number, cell in enumerate(cells):
        offset = 0.0
        for direction, colour in (("read", "#3b75af"), ("write", "#e08a3c")):
            bandwidth = cell.figures.get(f"{direction}_mib_s")
            if bandwidth is None:
                continue
            spread = [[bandwidth.median - bandwidth.min], [bandwidth.max - bandwidth.median]]
            axes.barh(number, bandwidth.median, 0.7, left=offset, color=colour, xerr=spread,
                      capsize=2, ecolor="#888888")
            offset += bandwidth.median
        limits = [limit for limit in cell.limit_mib_s.values() if limit]
        if limits:
            axes.plot(max(limits), number, "r.", markersize=4)
    axes.set_yticks(range(len(cells)), [cell.name for cell in cells])
    axes.invert_yaxis()
    axes.set_xlabel("MiB/s: reads blue, writes orange; red dot: limit of the links")
    _plain(axes)
    return figure


def latency_curves(cells: Sequence[CellResult]) -> "Figure":
    """Bandwidth and p99 completion latency against the depth, a line for the other axes' values."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4))
    left, right = figure.subplots(1, 2)
    lines: dict[str, list[CellResult]] = {}
    for cell in cells:
        others = ", ".join(label for axis, label in cell.axes.items() if axis != DEPTH)
        lines.setdefault(others, []).append(cell)
    for name, line in lines.items():
        direction = "read" if "read_mib_s" in line[0].figures else "write"
        depths = [int(cell.axes[DEPTH].split()[-1]) for cell in line]
        for axes, figure_name in ((left, f"{direction}_mib_s"), (right, f"{direction}_p99_ms")):
            axes.plot(depths, [cell.figures[figure_name].median for cell in line], "o-",
                      markersize=3, label=name)
    for axes, what in ((left, "MiB/s"), (right, "p99 latency, ms")):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("I/Os in flight a job")
        axes.set_ylabel(what)
        _plain(axes)
    right.set_yscale("log")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=2, loc="lower center",
                  bbox_to_anchor=(0.5, 0.98))
    return figure


def timelines(cells: Sequence[CellResult]) -> "Figure":
    """Bandwidth over time, a panel each cell."""
    from matplotlib.figure import Figure

    shown = [cell for cell in cells if cell.timeline]
    figure = Figure(figsize=(10, 1.4 * len(shown) + 0.6), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, cell in zip(panels, shown, strict=True):
        assert cell.timeline
        seconds = cell.timeline["bin_ms"] / 1000
        times = [number * seconds for number in range(len(cell.timeline["mib_s"]))]
        axes.fill_between(times, cell.timeline["mib_s"], step="post", color="#3b75af", alpha=0.8)
        axes.set_title(f"{cell.name}: longest time without a completion"
                       f" {cell.timeline['gap_ms']} ms", fontsize=9, loc="left")
        axes.set_ylabel("MiB/s")
        _plain(axes)
    panels[-1].set_xlabel("s (virtual)")
    return figure
