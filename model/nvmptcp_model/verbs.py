# SPDX-License-Identifier: GPL-2.0-or-later
"""The verbs `run`, `list` and `plot`, and the options that others share with them."""

import argparse
import json
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvmptcp_conformance.perf import verbs as perf_verbs
from nvmptcp_lab import verbs as lab_verbs
from nvmptcp_lab.errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from nvmptcp_conformance.perf.scenario import Scenario

    from .backend import ModelBackend

OUTPUT, CACHE = "model-out", "model"


def add_parsers(subparsers: "_SubParsersAction[Any]") -> None:
    run = subparsers.add_parser(
        "run", help="measure the cells of scenarios",
        description="Simulate each cell of the scenarios with each seed, and write medians with"
        " their spread as JSON and CSV, and plots, as `nvmptcp-lab perf run` does. A finished run"
        " is kept, by what it follows from (cell, seed, the program): the same command goes on"
        " where it was interrupted. Dask distributes the runs: over this machine's CPUs, or"
        " wherever the workers of --scheduler are; each has to have the same build.",
    )
    perf_verbs.add_run_options(run, OUTPUT, CACHE)
    add_changes(run)
    run.add_argument("--pcap", type=Path, metavar="DIR", help="write the packets of each device"
                     " there, with MPTCP's options; of a single cell (--only)")
    run.add_argument("--trace", type=Path, metavar="DIR", help="write time series there, as CSV:"
                     " congestion windows, bytes of the subflows, reorder queue; of a single cell")
    run.set_defaults(func=_run)
    listing = subparsers.add_parser(
        "list", help="list scenarios and their cells",
        description="The scenarios of lab and model; with names or files, their cells.")
    perf_verbs.add_scenarios(listing, "*")
    add_changes(listing)
    listing.add_argument("--json", action="store_true", help="each cell as the program reads it, a"
                         " line each: `nvmptcp-model list … --json | head -1 | nvme-mptcp-cell`")
    listing.set_defaults(func=_list)
    plot = subparsers.add_parser(
        "plot", help="draw results or time series",
        description="Draw the results of a run, a validation or a sweep, or the time series that"
        " `run --trace` left, as PNG and SVG.")
    plot.add_argument("source", type=Path, metavar="DIR|FILE",
                      help="results.json, or a directory that has it or CSV of time series")
    plot.add_argument("--output", type=Path, metavar="DIR", help="(default: that directory)")
    plot.set_defaults(func=_plot)


def add_changes(parser: argparse.ArgumentParser) -> None:
    """What goes on top of the scenarios."""
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="on top of the scenario, such as fio.bs=4k; a list is swept:"
                        " 'fio.iodepth=[1, 16]'; may be repeated")
    parser.add_argument("--attribute", action="append", default=[], metavar="ns3::X::Y=VALUE",
                        help="the default of an ns-3 attribute; a TOML list is swept, whose words"
                        " have quotes; may be repeated")


def changes(args: argparse.Namespace) -> dict[str, Any]:
    """Tables of --set and --attribute. Raises UsageError."""
    found: dict[str, Any] = {}
    for text in args.set:
        _add(found, text, text, "--set")
    for text in args.attribute:
        name, equals, value = text.partition("=")
        if name.count("::") < 2 or not equals:
            raise UsageError(f"--attribute {text}: write ns3::CLASS::ATTRIBUTE=VALUE")
        _add(found, f'attributes."{name}"={value}', text, "--attribute")
    return found


def _add(found: dict[str, Any], assignment: str, text: str, option: str) -> None:
    key, equals, value = assignment.partition("=")
    if not equals:
        raise UsageError(f"{option} {text}: write KEY=VALUE, such as fio.bs=4k")
    for shown in (value, json.dumps(value)):  # a bare word is a string
        try:
            table = tomllib.loads(f"{key} = {shown}")
            break
        except tomllib.TOMLDecodeError:
            if value.lstrip().startswith("["):
                raise UsageError(f"{option} {text}: no list; words need quotes in one, such as"
                                 ' ["4k", "8k"]') from None
    else:
        raise UsageError(f"{option} {text}: {key!r} is no key, such as fio.bs")
    _deepen(found, table)


def _deepen(found: dict[str, Any], table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            _deepen(found[key], value)
        else:
            found[key] = value


def choose(args: argparse.Namespace, given: Sequence[str]) -> "list[Scenario]":
    """The scenarios, with the cells and changes that were asked for. Raises UsageError."""
    from . import schema

    overrides = changes(args)
    given = [name for word in given for name in (schema.names() if word == "own" else [word])]
    return perf_verbs.choose(given, args.only, lambda name: schema.find(name, overrides),
                             schema.all_names())


def backend(args: argparse.Namespace, pcap: Path | None = None,
            trace: Path | None = None) -> "ModelBackend":
    """The program that --build says. Raises LabError."""
    from .backend import ModelBackend, default_build

    return ModelBackend.of((args.build or default_build()).resolve(), pcap, trace)


def _run(args: argparse.Namespace) -> int:
    from nvmptcp_conformance.perf import runner

    scenarios = choose(args, args.scenarios)
    if args.list:
        return perf_verbs.show(scenarios)
    cells = sum(len(one.cells) for one in scenarios)
    for option in ("pcap", "trace"):
        if getattr(args, option) and cells > 1:
            raise UsageError(f"--{option}: of a single cell, but there are {cells}: see --only")
    pcap, trace = (lab_verbs.directory(getattr(args, name), f"--{name}")
                   for name in ("pcap", "trace"))
    output = lab_verbs.directory(args.output, "--output")
    assert output
    model = backend(args, pcap, trace)
    with tempfile.TemporaryDirectory() as afresh:  # a kept result comes without files
        cache = (Path(afresh) if pcap or trace
                 else perf_verbs.cache_directory(args.cache, CACHE))
        found = runner.run(scenarios, cache, model, jobs=args.jobs, scheduler=args.scheduler,
                           seeds=args.runs)
    return perf_verbs.report(found, output, args.output)


def _list(args: argparse.Namespace) -> int:
    from . import schema
    from .cell import document

    scenarios = choose(args, args.scenarios or ["all"])
    if args.json:
        for one in scenarios:
            for cell in one.cells:
                assert isinstance(cell.settings, schema.ModelSettings)
                print(json.dumps(document(cell.settings, 1)))
        return 0
    if args.scenarios:
        return perf_verbs.show(scenarios)
    for one in scenarios:
        print(f"{one.name}: {one.head.title} ({len(one.cells)} cells)")
    return 0


def _plot(args: argparse.Namespace) -> int:
    from nvmptcp_conformance.perf import plots, results

    from . import traces

    directory = args.source if args.source.is_dir() else args.source.parent
    output = lab_verbs.directory(args.output or directory, "--output")
    assert output
    series = sorted(args.source.glob("*.csv")) if args.source.is_dir() else []
    if series and not (args.source / "results.json").exists():
        drawn = traces.write(series, output)
    else:
        drawn = plots.write(results.load(args.source), output)
    print("\n".join(str(path) for path in drawn))
    return 0
