# SPDX-License-Identifier: GPL-2.0-or-later
"""The verbs `nvmptcp-lab perf run` and `nvmptcp-lab perf compare`."""

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvmptcp_lab import perf, units, verbs
from nvmptcp_lab.build import profiles

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from .scenario import Scenario


def add_parsers(subparsers: "_SubParsersAction[Any]") -> None:
    """Below `perf`. What takes long to import is imported when a verb runs."""
    run = subparsers.add_parser(
        "run", help="measure the cells of scenarios",
        description="Measure each cell of the scenarios with each seed, and write medians with"
        " their spread as JSON and CSV, and plots. A finished run is kept, by what it follows from"
        " (cell, seed, kernel, fio, the lab's code): the same command goes on where it was"
        " interrupted. Dask distributes the runs: over this machine's CPUs, or wherever the"
        " workers of --scheduler are; each has to have the same checkout.",
    )
    run.add_argument("scenarios", nargs="+", metavar="SCENARIO",
                     help="a TOML file, or the name of one that the package brings; `all`: those")
    run.add_argument("--output", type=Path, default=Path("perf-out"), metavar="DIR",
                     help="results.json, results.csv, plots (default: %(default)s)")
    run.add_argument("--cache", type=Path, metavar="DIR",
                     help="finished runs are kept there (default: $XDG_CACHE_HOME/nvmptcp/perf)")
    run.add_argument("--only", metavar="WORDS", default="",
                     help="cells whose name has these words")
    run.add_argument("--runs", type=_positive, metavar="N",
                     help="seeds of each cell, instead of the scenario's number")
    run.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N",
                     help="cells at a time on this machine, one CPU each (default: %(default)s)")
    run.add_argument("--scheduler", metavar="ADDRESS",
                     help="a Dask scheduler, such as tcp://host:8786, with workers of its own;"
                     " `dask ssh HOST…` starts both on several machines")
    run.add_argument("--kernel-profile", default="default", choices=profiles(),
                     help="which build of the kernel (default: %(default)s)")
    run.add_argument("--list", action="store_true", help="list the cells, measure nothing")
    run.set_defaults(func=_run)
    compare = subparsers.add_parser(
        "compare", help="compare two result sets",
        description="Ratios of the medians of two result sets, B by A: results.json, the directory"
        " that has it, or JSON that fio wrote on machines of yours (its job names are then the"
        " cells' names). Exit code 1 when a figure of B is worse than that of A by more than the"
        " tolerance, or is missing.",
    )
    compare.add_argument("before", type=Path, metavar="A")
    compare.add_argument("after", type=Path, metavar="B")
    compare.add_argument("--tolerance", type=_share, default=0.05, metavar="PERCENT",
                         help="how much worse a figure may be (default: 5%%)")
    compare.add_argument("--figures", metavar="NAME,NAME…",
                         help="which figures, as in results.csv (default: bandwidths and p99)")
    compare.add_argument("--common", action="store_true",
                         help="what B lacks is no failure")
    compare.add_argument("--as-json", action="store_true", help="print JSON, not a table")
    compare.set_defaults(func=_compare)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def _share(text: str) -> float:
    try:
        return units.percent(text) / 100
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _scenarios(args: argparse.Namespace) -> "list[Scenario]":
    from dataclasses import replace

    from nvmptcp_lab.errors import UsageError

    from . import scenario

    asked = [name for given in args.scenarios
             for name in (scenario.names() if given == "all" else [given])]
    found = [scenario.find(name) for name in dict.fromkeys(asked)]
    taken: dict[str, str] = {}
    for name, one in zip(dict.fromkeys(asked), found, strict=True):
        if one.name in taken:
            raise UsageError(f"{name}: a scenario named {one.name} is given twice")
        taken[one.name] = name
    chosen = [replace(one, cells=tuple(cell for cell in one.cells if args.only in cell.name))
              for one in found]
    if not any(one.cells for one in chosen):
        raise UsageError(f"--only {args.only}: no cell has these words; --list shows all")
    return [one for one in chosen if one.cells]


def _run(args: argparse.Namespace) -> int:
    perf.refuse_cell_options(args)
    scenarios = _scenarios(args)
    if args.list:
        for one in scenarios:
            print(f"{one.name}: {one.head.title}")
            for cell in one.cells:
                print(f"  {cell.name}")
        return 0
    from . import plots, runner

    verbs.require("fio", "ip", "insmod")
    output = verbs.directory(args.output, "--output")
    cache = verbs.directory(args.cache or runner.default_cache(), "--cache")
    assert output
    assert cache
    found = runner.run(scenarios, cache, jobs=args.jobs, scheduler=args.scheduler,
                       profile=args.kernel_profile, seeds=args.runs)
    found.write(output)
    drawn = plots.write(found, output)
    for result in found.cells:
        print(f"{result.scenario}: {result.name}: " + ", ".join(
            f"{name} {figure.median:g}" for name, figure in result.figures.items()
            if name.endswith(("_mib_s", "_p50_ms", "_p99_ms")) or name == "gap_ms"))
    print(f"results: {args.output}/results.json, results.csv, {len(drawn)} plots")
    return 0


def _compare(args: argparse.Namespace) -> int:
    perf.refuse_cell_options(args)
    from . import compare, results

    figures = args.figures.split(",") if args.figures else compare.DEFAULT_FIGURES
    before, after = results.load(args.before), results.load(args.after)
    found, lacking = compare.compare(before, after, figures, args.tolerance)
    if args.as_json:
        print(json.dumps({"before": before.source, "after": after.source, "missing": lacking,
                          "figures": [{**asdict(one), "ratio": one.ratio,
                                       "regressed": one.regressed} for one in found]}, indent=1))
    else:
        print(f"before: {before.source}\nafter:  {after.source}")
        print(compare.table(found, lacking))
    return int(any(one.regressed for one in found) or bool(lacking and not args.common))
