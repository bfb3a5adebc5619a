# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `cost`: what a GiB costs the CPU, over MPTCP against over TCP, side by side.

The guest runs in real time on paths without a rate, so that the CPU is what limits it. A GiB's cost
is the difference in CPU time of a long run and a short one, by the difference in data: boot and
set-up fall out. Kernel, fio, and both ends of the connections are in it.
"""

import argparse
import resource
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import functions, perf, topology, verbs
from .build import Kernel, ensure_kernel
from .errors import LabError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

SHORT = 1  # seconds of the shorter run


@dataclass(frozen=True)
class Cost:
    """What a GiB of payload took over one transport, in one round."""

    cpu_seconds: float
    packets: float  # that IP sent, of both ends; a GSO packet is one


@dataclass(frozen=True)
class Run:
    """What is measured: see the verb's options."""

    kernel: Kernel
    paths: int
    bs: str
    iodepth: int
    runtime: int  # seconds of the longer run

    def cell(self, transport: str, rw: str, runtime: int) -> perf.Cell:
        """The same paths for both: a TCP controller each, or one MPTCP association."""
        return perf.Cell(
            transport=transport, topology=topology.from_table({"paths": self.paths}, "--paths"),
            iopolicy="queue-depth", ports=1 if transport == "mptcp" else None, bs=self.bs,
            rw=(rw,), iodepth=self.iodepth, numjobs=1, runtime=runtime)

    def _used(self, transport: str, rw: str, runtime: int) -> tuple[float, float, float]:
        """CPU seconds, packets and GiB of one run."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = perf.run_cell(self.kernel, self.cell(transport, rw, runtime), real_time=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return (seconds, result["counters"][rw]["Ip.OutRequests"],
                sum(result["host_mib_s"][rw]) * runtime / 1024)

    def cost(self, transport: str, rw: str) -> Cost:
        """Raises LabError where a longer run did no more."""
        short, *few, less = self._used(transport, rw, SHORT)
        long, *many, more = self._used(transport, rw, self.runtime)
        if more <= less or long <= short:
            raise LabError(f"{transport} {rw}: {self.runtime} s did no more than {SHORT} s: the"
                           " machine is too busy, or --runtime too short")
        return Cost((long - short) / (more - less), (many[0] - few[0]) / (more - less))


def add_parser(subparsers: "_SubParsersAction[Any]") -> None:
    cost = subparsers.add_parser(
        "cost", help="CPU time a GiB, MPTCP against TCP",
        description="Measure the CPU time that a GiB takes over TCP (a controller a path,"
        " queue-depth) and over MPTCP (one association), turn by turn, in real time, over paths"
        " without a rate: kernel, fio and both ends together. What counts is the ratio of the two,"
        " measured side by side; the seconds are this machine's.",
    )
    cost.add_argument("--rounds", type=verbs.positive, default=5, metavar="N",
                      help="of each transport, in turn; medians count (default: %(default)s)")
    cost.add_argument("--rw", default="randread,randwrite", metavar="PATTERN[,PATTERN]",
                      help="(default: %(default)s)")
    cost.add_argument("--paths", type=verbs.positive, default=4, metavar="N",
                      help="(default: %(default)s)")
    cost.add_argument("--bs", default="128k", help="block size (default: %(default)s)")
    cost.add_argument("--iodepth", type=verbs.positive, default=32, help="(default: %(default)s)")
    cost.add_argument("--runtime", type=verbs.positive, default=6, metavar="S",
                      help=f"seconds of a run, above {SHORT} (default: %(default)s)")
    cost.add_argument("--functions", type=verbs.positive, metavar="N",
                      help="also the N kernel functions whose cost differs most, by sampling with"
                      " Linux perf")
    verbs.add_profile(cost)
    cost.add_argument("--json", type=Path, metavar="OUT", help="write the result there")
    cost.set_defaults(func=_cost)


def _cost(args: argparse.Namespace) -> int:
    patterns = args.rw.split(",")
    for pattern in patterns:
        if pattern not in ("read", "write", "randread", "randwrite"):
            raise UsageError(f"--rw {pattern}: must be of read, write, randread, randwrite")
    if args.runtime <= SHORT:
        raise UsageError(f"--runtime {args.runtime}: must be above {SHORT}")
    verbs.require("fio", "ip", "insmod")
    if args.functions:
        functions.require_perf()
    if args.json:
        verbs.directory(args.json.absolute().parent, "--json")
    run = Run(ensure_kernel(args.profile), args.paths, args.bs, args.iodepth, args.runtime)
    result: dict[str, Any] = {
        "kernel": {"release": run.kernel.release, "key": run.kernel.key},
        "paths": run.paths, "bs": run.bs, "iodepth": run.iodepth, "runtime": run.runtime,
        "rounds": {}, "functions": {}}
    for pattern in patterns:
        rounds: list[dict[str, Any]] = []
        for number in range(1, args.rounds + 1):
            costs = {name: run.cost(name, pattern) for name in perf.TRANSPORTS}
            rounds.append({name: asdict(cost) for name, cost in costs.items()} | {
                "ratio": costs["mptcp"].cpu_seconds / costs["tcp"].cpu_seconds})
            print(f"{pattern}: round {number} of {args.rounds}: MPTCP / TCP"
                  f" {rounds[-1]['ratio']:.2f}", file=sys.stderr)
        result["rounds"][pattern] = rounds
        if args.functions:
            print(f"{pattern}: sampling functions", file=sys.stderr)
            result["functions"][pattern] = functions.compare(
                {transport: functions.sample(run.kernel, run.cell(transport, pattern, run.runtime))
                 for transport in perf.TRANSPORTS},
                {name: median(rounds, name, "cpu_seconds") for name in perf.TRANSPORTS},
                args.functions)
    if args.json:
        verbs.write_json(args.json, result)
    print(summary(result))
    return 0


def median(rounds: Sequence[Mapping[str, Any]], transport: str, figure: str) -> float:
    """A figure's median over rounds, `cpu_seconds` or `packets`, both a GiB."""
    values: list[float] = [one[transport][figure] for one in rounds]
    return statistics.median(values)


def summary(result: Mapping[str, Any]) -> str:
    """What a person wants to see of a result."""
    lines = ["             CPU seconds a GiB                          packets a GiB",
             "               TCP  MPTCP  MPTCP / TCP                  TCP   MPTCP"]
    for pattern, rounds in result["rounds"].items():
        ratios = [one["ratio"] for one in rounds]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        seconds, packets = ([median(rounds, name, figure) for name in perf.TRANSPORTS]
                            for figure in ("cpu_seconds", "packets"))
        lines.append(f"{pattern:12} {seconds[0]:5.2f}  {seconds[1]:5.2f}  {spread:24}"
                     f" {packets[0]:7.0f} {packets[1]:7.0f}")
    for pattern, rows in result["functions"].items():
        lines += ["", f"{pattern + ', sampled: CPU ms a GiB':42}    TCP   MPTCP"]
        lines += [f"  {row['function']:40} {row['tcp']:6.1f}  {row['mptcp']:6.1f}" for row in rows]
    return "\n".join(lines)
