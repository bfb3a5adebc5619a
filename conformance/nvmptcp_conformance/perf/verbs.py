# SPDX-License-Identifier: GPL-2.0-or-later
"""The verbs `nvmptcp-lab perf run` and `nvmptcp-lab perf compare`, and what others share of them.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvmptcp_lab import perf, units, verbs
from nvmptcp_lab.build import profiles
from nvmptcp_lab.errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from .results import ResultSet
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
    add_run_options(run, "perf-out", "perf")
    run.add_argument("--kernel-profile", default="default", choices=profiles(),
                     help="which build of the kernel (default: %(default)s)")
    run.add_argument("--separate-kernels", action="store_true", dest="all_separate",
                     help="host and target as kernels of their own in all cells, as a scenario can"
                     " ask for itself (association.separate_kernels)")
    run.add_argument("--inventory", type=Path, metavar="FILE",
                     help="on real machines, which this file names, over ssh; not in the lab")
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
    compare.add_argument("--tolerance", type=share, default=0.05, metavar="PERCENT",
                         help="how much worse a figure may be (default: 5%%)")
    compare.add_argument("--figures", metavar="NAME,NAME…",
                         help="which figures, as in results.csv (default: bandwidths and p99)")
    compare.add_argument("--common", action="store_true",
                         help="what B lacks is no failure")
    compare.add_argument("--as-json", action="store_true", help="print JSON, not a table")
    compare.set_defaults(func=_compare)


def add_scenarios(parser: argparse.ArgumentParser, count: str = "+") -> None:
    """Which scenarios, and which cells of them."""
    parser.add_argument("scenarios", nargs=count, metavar="SCENARIO",
                        help="a TOML file, or the name of one that the package brings; `all`: all"
                        " of these")
    parser.add_argument("--only", metavar="WORDS", default="",
                        help="cells whose name has these words")


def add_cache(parser: argparse.ArgumentParser, cache: str) -> None:
    """Where runs are kept, and where they take place."""
    parser.add_argument("--cache", type=Path, metavar="DIR", help="finished runs are kept there"
                        f" (default: $XDG_CACHE_HOME/nvmptcp/{cache})")
    parser.add_argument("--jobs", type=verbs.positive, default=os.cpu_count() or 1, metavar="N",
                        help="cells at a time on this machine, one CPU each (default: %(default)s)")
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="a Dask scheduler, such as tcp://host:8786, with workers of its own;"
                        " `dask ssh HOST…` starts both on several machines")


def add_run_options(parser: argparse.ArgumentParser, output: str, cache: str) -> None:
    """What a verb takes that runs the cells of scenarios."""
    add_scenarios(parser)
    parser.add_argument("--output", type=Path, default=Path(output), metavar="DIR",
                        help="results.json, results.csv, plots (default: %(default)s)")
    add_cache(parser, cache)
    parser.add_argument("--runs", "--seeds", type=verbs.positive, metavar="N",
                        help="seeds of each cell, instead of the scenario's number")
    parser.add_argument("--list", action="store_true", help="list the cells, measure nothing")


def share(text: str) -> float:
    """A percentage as a share, for argparse."""
    try:
        return units.percent(text, "a percentage") / 100
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def choose(given: Sequence[str], only: str, find: "Callable[[str], Scenario]",
           names: Iterable[str]) -> "list[Scenario]":
    """The scenarios that somebody named, `names` for `all`, with the cells that have the words.

    Raises UsageError.
    """
    asked = [name for word in given for name in (names if word == "all" else [word])]
    found = [find(name) for name in dict.fromkeys(asked)]
    taken: set[str] = set()
    for name, one in zip(dict.fromkeys(asked), found, strict=True):
        if one.name in taken:
            raise UsageError(f"{name}: a scenario named {one.name} is given twice")
        taken.add(one.name)
    chosen = [replace(one, cells=tuple(cell for cell in one.cells if only in cell.name))
              for one in found]
    if not any(one.cells for one in chosen):
        raise UsageError(f"--only {only}: no cell has these words; --list shows all")
    return [one for one in chosen if one.cells]


def show(scenarios: "Iterable[Scenario]") -> int:
    """Print the cells. Returns the exit code."""
    for one in scenarios:
        print(f"{one.name}: {one.head.title}")
        for cell in one.cells:
            print(f"  {cell.name}")
    return 0


def report(found: "ResultSet", output: Path, shown: Path) -> int:
    """Write results and plots, print the essence. Returns the exit code. Raises OSError."""
    drawn = draw_and_write(found, output)
    for result in found.cells:
        print(f"{result.scenario}: {result.name}: " + ", ".join(
            f"{name} {figure.median:g}" for name, figure in result.figures.items()
            if name.endswith(("_mib_s", "_p50_ms", "_p99_ms")) or name == "gap_ms"))
    print(f"results: {shown}/results.json, results.csv, {len(drawn)} plots")
    return 0


def draw_and_write(found: "ResultSet", output: Path) -> list[Path]:
    """results.json, results.csv and plots. Returns the latter. Raises OSError."""
    from . import plots

    found.write(output)
    return plots.write(found, output)


def cache_directory(given: Path | None, name: str) -> Path:
    """Where runs are kept: the user's --cache, or that of this name. Raises UsageError."""
    from .runner import default_cache

    found = verbs.directory(given or default_cache(name), "--cache")
    assert found
    return found


def _run(args: argparse.Namespace) -> int:
    from . import lab_cell, runner, scenario

    perf.refuse_cell_options(args)
    scenarios = choose(args.scenarios, args.only, scenario.find, scenario.names())
    if args.list:
        return show(scenarios)
    output = verbs.directory(args.output, "--output")
    assert output
    cache = cache_directory(args.cache, "perf")
    backend: runner.Backend
    if args.inventory:
        from . import machines

        if args.all_separate or args.scheduler:
            raise UsageError("--inventory: not together with --separate-kernels or --scheduler")
        inventory = machines.load(args.inventory)
        machines.check(inventory, scenarios)
        backend = machines.MachinesBackend.of(inventory, {
            cell.settings.association.native_multipath for one in scenarios for cell in one.cells})
        args.jobs = 1  # the machines do one thing at a time
    else:
        verbs.require("fio", "ip", "insmod")
        backend = lab_cell.LabBackend.of(args.kernel_profile, args.all_separate)
    found = runner.run(scenarios, cache, backend, jobs=args.jobs, scheduler=args.scheduler,
                       seeds=args.runs)
    return report(found, output, args.output)


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
