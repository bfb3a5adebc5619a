# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `benchmark`: events a second, and what links, rate and hosts cost."""

import argparse
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvmptcp_lab import verbs as lab_verbs

from . import verbs

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from nvmptcp_conformance.perf.runner import Backend

SECONDS = 2
DEPTH_A_LINK = 32  # I/Os in flight: the same queue on each link
MIB_S_A_HOST = 20
SERIES: Mapping[str, tuple[str, Sequence[tuple[float, Mapping[str, Any]]]]] = {
    "links": ("links of 1 Gbit/s", [
        (count, {"topology": {"paths": count, "rate": "1gbit"},
                 "fio": {"iodepth": DEPTH_A_LINK * count}}) for count in (2, 4, 6, 8)]),
    "rate": ("Gbit/s of each of 4 links", [
        (rate, {"topology": {"paths": 4, "rate": f"{rate}gbit"}}) for rate in (1, 5, 10, 20)]),
    # The same load of each, far from what the links carry.
    "hosts": (f"hosts on 4 switches, {MIB_S_A_HOST} MiB/s each", [
        (hosts, {"topology": {"paths": 4, "rate": "25gbit", "delay": "10us"},
                 "association": {"hosts": hosts},
                 "fabric": {"kind": "switch", "host_rate": "10gbit", "host_delay": "10us",
                            "start_within": "100ms"},
                 "fio": {"iodepth": 4, "rate_mib_s": MIB_S_A_HOST * hosts}})
        for hosts in (4, 8, 16, 32)]),
}
BASE: Mapping[str, Mapping[str, Any]] = {
    "association": {"transport": "mptcp", "ports": 1},
    "fio": {"rw": "randread", "bs": "128k", "iodepth": 256, "numjobs": 1, "runtime": SECONDS},
}


@dataclass(frozen=True)
class Point:
    """What a run of SECONDS cost."""

    x: float
    events: int
    cpu_seconds: float
    peak_memory_kib: int
    mib_s: float


@dataclass(frozen=True)
class Fit:
    """A least-squares line. r_squared: how much of the spread it explains; 1 is all."""

    slope: float
    intercept: float
    r_squared: float


@dataclass(frozen=True)
class Line:
    """Points of a series, with the lines of CPU seconds and events, each a simulated second.

    Events follow from the simulation alone, CPU time from the machine and what else it does, too.
    """

    what: str
    points: tuple[Point, ...]
    cpu: Fit
    events: Fit


def add_parsers(subparsers: "_SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser(
        "benchmark", help="what a simulation costs",
        description="Run the model with more and more links, rate and hosts, one run at a time, and"
        " fit a line to the CPU time of each series. Leaves benchmark.json.")
    parser.add_argument("--output", type=Path, default=Path(verbs.OUTPUT), metavar="DIR",
                        help="(default: %(default)s)")
    parser.add_argument("--repeat", type=int, choices=range(1, 10), default=2, metavar="N",
                        help="runs of each point, the quickest counts (default: %(default)s)")
    parser.add_argument("--series", choices=SERIES, action="append", help="which alone; may be"
                        " repeated (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.set_defaults(func=_benchmark)


def measure(backend: "Backend", names: Iterable[str], repeat: int) -> list[Line]:
    """Raises LabError."""
    lines = []
    for name in names:
        what, series = SERIES[name]
        points = [_point(backend, x, tables, repeat) for x, tables in series]
        xs = [point.x for point in points]
        lines.append(Line(what, tuple(points), _fit(xs, [point.cpu_seconds for point in points]),
                          _fit(xs, [point.events for point in points])))
    return lines


def _fit(xs: Sequence[float], costs: Sequence[float]) -> Fit:
    """costs: of runs of SECONDS."""
    ys = [cost / SECONDS for cost in costs]
    fit = statistics.linear_regression(xs, ys)
    return Fit(round(fit.slope, 4), round(fit.intercept, 4),
               round(statistics.correlation(xs, ys) ** 2, 4))


def _point(backend: "Backend", x: float, tables: Mapping[str, Any], repeat: int) -> Point:
    from nvmptcp_conformance.perf.scenario import merge

    from .schema import ModelSettings

    table = {**{name: dict(keys) for name, keys in BASE.items()}}
    merge(table, tables)
    settings = ModelSettings.model_validate(table)
    runs = [backend.measure(settings, 1) for _ in range(repeat)]
    quickest = min(runs, key=lambda run: float(run["cpu_seconds"]))
    return Point(x, quickest["simulator"]["events"], quickest["cpu_seconds"],
                 quickest["peak_memory_kib"], quickest["read_mib_s"])


def table(lines: Sequence[Line]) -> str:
    """For people."""
    text = []
    for line in lines:
        text += [f"{line.what}: {fit.slope:.{digits}f} x {fit.intercept:+.{digits}f} {unit} a"
                 f" simulated second, R^2 {fit.r_squared:.3f}"
                 for fit, unit, digits in ((line.cpu, "CPU seconds", 3),
                                           (line.events, "events", 0))]
        text += [f"  {point.x:6g}: {point.mib_s:8.1f} MiB/s, {point.events:10} events,"
                 f" {point.cpu_seconds:7.2f} s, {point.events / point.cpu_seconds:9.0f} events/s,"
                 f" {point.peak_memory_kib / 1024:6.0f} MiB" for point in line.points]
    return "\n".join(text)


def _benchmark(args: argparse.Namespace) -> int:
    output = lab_verbs.directory(args.output, "--output")
    assert output
    model = verbs.backend(args)
    lines = measure(model, args.series or SERIES, args.repeat)
    document = json.dumps({"source": model.source, "seconds": SECONDS,
                           "lines": [asdict(line) for line in lines]}, indent=1)
    (output / "benchmark.json").write_text(document + "\n")
    print(document if args.json else table(lines))
    return 0
