# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `sweep`: parameters, and seeds until the medians are sure enough."""

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvmptcp_conformance.perf import verbs as perf_verbs
from nvmptcp_lab import verbs as lab_verbs
from nvmptcp_lab.errors import LabError, UsageError

from . import verbs
from .interval import LEAST, Interval

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from nvmptcp_conformance.perf.runner import Backend
    from nvmptcp_conformance.perf.scenario import Cell, Scenario


def add_parsers(subparsers: "_SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser(
        "sweep", help="sweep parameters, with as many seeds as it takes",
        description="Simulate all cells that scenarios and lists make ('--set fio.iodepth=[1, 16]'"
        f" is swept), each with {LEAST} seeds, then with more of them, until half the width of the"
        " 95 % confidence interval of each median is below --precision. Finished runs are kept:"
        " the same command goes on where it was interrupted. Leaves sweep.csv, results.json and"
        " plots. Exit code 1 when --most seeds don't suffice.")
    perf_verbs.add_run_options(parser, verbs.OUTPUT, verbs.CACHE)
    verbs.add_changes(parser)
    parser.add_argument("--precision", type=perf_verbs.share, default=0.02, metavar="PERCENT",
                        help="of each figure's median (default: 2%%)")
    parser.add_argument("--figures", default="read_mib_s,write_mib_s", metavar="NAME,NAME…",
                        help="whose medians have to be that sure (default: %(default)s)")
    parser.add_argument("--most", type=lab_verbs.positive, default=100, metavar="N",
                        help="seeds of a cell (default: %(default)s)")
    parser.set_defaults(func=_sweep, runs=LEAST)


@dataclass
class Point:
    """A cell, and the runs that it has so far."""

    cell: "Cell"
    runs: list[dict[str, Any]]

    def intervals(self, names: Sequence[str]) -> dict[str, Interval]:
        """Of the figures of these names that the cell has."""
        from nvmptcp_conformance.perf import results

        from . import interval

        listed = [results.figures(run) for run in self.runs]
        return {name: interval.of([figures[name] for figures in listed])
                for name in names if name in listed[0]}

    def precision(self, names: Sequence[str]) -> float:
        """Of its least sure figure. Raises UsageError when it has none of them."""
        found = self.intervals(names)
        if not found:
            raise UsageError(f"--figures {','.join(names)}: {self.cell.scenario}: {self.cell.name}"
                             " has none of them")
        return max(interval.precision for interval in found.values())


def more(count: int, most: int) -> int:
    """How many seeds next: half as many again, since the interval shrinks with the root."""
    return min(most, count + max(2, count // 2))


def sweep(cells: "Sequence[Cell]", cache: Path, backend: "Backend", *, names: Sequence[str],
          precision: float, least: int, most: int, jobs: int, scheduler: str | None) -> list[Point]:
    """Simulate until each cell is sure enough or has `most` seeds. Raises LabError, as `runner`."""
    from nvmptcp_conformance.perf import runner

    points = [Point(cell, []) for cell in cells]
    unsure, seeds = points, least
    while unsure:
        wanted = [(point.cell, seed) for point in unsure
                  for seed in range(len(point.runs) + 1, seeds + 1)]
        found = iter(runner.obtain(wanted, cache, backend, jobs=jobs, scheduler=scheduler))
        for point in unsure:
            point.runs += [next(found) for _ in range(len(point.runs), seeds)]
        unsure = [point for point in unsure if point.precision(names) > precision]
        print(f"{len(points) - len(unsure)} of {len(points)} cells are within {precision:.1%} with"
              f" {seeds} seeds", file=sys.stderr)
        if seeds == most:
            break
        seeds = more(seeds, most)
    return points


def write(points: Sequence[Point], names: Sequence[str], path: Path) -> None:
    """sweep.csv: a line a figure, its interval, and the cell's axes. Raises OSError."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["scenario", "cell", "figure", "median", "low", "high", "precision",
                         "runs"])
        for point in points:
            for name, one in point.intervals(names).items():
                writer.writerow([point.cell.scenario, point.cell.name, name, one.median, one.low,
                                 one.high, round(one.precision, 5), len(point.runs)])


def _sweep(args: argparse.Namespace) -> int:
    from nvmptcp_conformance.perf import results

    if not LEAST <= args.runs <= args.most:
        raise UsageError(f"--runs {args.runs} --most {args.most}: at least {LEAST} runs, and no"
                         " more than --most")
    if not args.precision:
        raise UsageError("--precision 0%: no interval is that small; say more than 0%")
    names = args.figures.split(",")
    for name in names:
        if not results.is_name(name):
            raise UsageError(f"--figures {name}: no figure is called that; they are the columns of"
                             " results.csv, such as read_mib_s, write_p99_ms or path1_share")
    scenarios = verbs.choose(args, args.scenarios)
    if args.list:
        return perf_verbs.show(scenarios)
    output = lab_verbs.directory(args.output, "--output")
    assert output
    model = verbs.backend(args)
    points = sweep([cell for one in scenarios for cell in one.cells],
                   perf_verbs.cache_directory(args.cache, verbs.CACHE), model, names=names,
                   precision=args.precision, least=args.runs, most=args.most, jobs=args.jobs,
                   scheduler=args.scheduler)
    write(points, names, output / "sweep.csv")
    for line in _lines(points, names):
        print(line)
    perf_verbs.draw_and_write(results.ResultSet(
        model.source, _heads(scenarios), tuple(results.summarize(
            point.cell.scenario, point.cell.axes, point.cell.name, point.runs)
            for point in points)), output)
    unsure = sum(point.precision(names) > args.precision for point in points)
    print(f"results: {args.output}/sweep.csv, results.json, results.csv, plots")
    if unsure:
        raise LabError(f"{unsure} of {len(points)} cells are not within {args.precision:.1%} after"
                       f" {args.most} seeds: raise --most or --precision")
    return 0


def _heads(scenarios: "Sequence[Scenario]") -> dict[str, Any]:
    return {one.name: one.head.model_dump() for one in scenarios}


def _lines(points: Sequence[Point], names: Sequence[str]) -> Iterator[str]:
    for point in points:
        yield f"{point.cell.scenario}: {point.cell.name}: " + ", ".join(
            f"{name} {one.median:g} ({one.low:g} to {one.high:g}, {len(point.runs)} seeds)"
            for name, one in point.intervals(names).items())
