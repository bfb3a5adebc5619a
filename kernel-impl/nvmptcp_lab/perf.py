# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `perf`: one cell, measured by fio. Its result schema is that of all results."""

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import boot, separate_cell, timeline, topology, units, verbs
from .build import Kernel, ensure_kernel
from .errors import LabError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

TRANSPORTS = ("tcp", "mptcp")
IOPOLICIES = ("numa", "round-robin", "queue-depth")
PATTERNS = ("read", "write", "randread", "randwrite", "rw", "randrw")

MAX_HOSTS = 16
BOND = 100  # a bonding device has the addresses of a path with this number

# Bytes of a full Ethernet frame as netem counts it, and what TCP carries in it: IPv4/IPv6 and TCP
# headers, 12 bytes of timestamps; MPTCP adds a DSS option of 28 with 64-bit DSN and DATA_ACK
# (RFC 8684 §3.3).
ETHERNET, IP, TCP, DSS = 14, {"ipv4": 20, "ipv6": 40}, 20 + 12, 28


@dataclass(frozen=True)
class Cell:
    """One measurement: paths, connections and an fio job."""

    transport: str
    topology: topology.Topology
    iopolicy: str = "numa"
    controllers_per_path: int = 1
    ports: int | None = None  # target ports, on the first paths' addresses; None: one a path
    bs: str = "128k"
    rw: tuple[str, ...] = ("randread", "randwrite")
    iodepth: int = 256
    numjobs: int = 4
    runtime: int = 10  # seconds, of the guest's clock
    size_mib: int = 262144
    memory_backed: bool = False
    connect_options: str = ""
    fio_options: tuple[str, ...] = field(default=())
    bonding: str = "none"  # the mode of one bonding device of all paths
    gso: bool = True
    events: tuple[tuple[float, str], ...] = ()  # s since fio's start, shell command in the guest
    hosts: int = 1  # each with its own NQN, subsystem and fio job
    tcp_hosts: int = 0  # of these, the last ones: plain TCP, whatever the ports offer
    separate_kernels: bool = False  # each host's and the target's own; else all share one
    timeline_ms: int | None = None  # keep what was completed when, in such intervals

    def spec(self) -> dict[str, Any]:
        """What `guest.cell` reads."""
        paths = range(1, (self.ports or len(self.topology.links)) + 1)
        prefix = "24" if self.topology.family == "ipv4" else "64"
        return {
            **{name: value for name, value in asdict(self).items() if name != "topology"},
            "paths": len(self.topology.links),
            "traddrs": [self.topology.target_address(path) for path in
                        (paths if self.bonding == "none" else [BOND])],
            "bond_addresses": {"host": f"{self.topology.host_address(BOND)}/{prefix}",
                               "target": f"{self.topology.target_address(BOND)}/{prefix}"},
        }


def limit_mib_s(cell: Cell, direction: str) -> float | None:
    """Payload that the links carry at most, in MiB/s; None where a path has no rate.

    direction: "to_host" (reads) or "to_target" (writes). Loss takes its share. Plain TCP under the
    policy `numa`, or to one port, uses one path, taken to be the best.
    """
    overhead = IP[cell.topology.family] + TCP + (DSS if cell.transport == "mptcp" else 0)
    share = (cell.topology.mtu - overhead) / (cell.topology.mtu + ETHERNET)
    rates = []
    for link in cell.topology.links:
        end: topology.Direction = getattr(link, direction)
        if end.rate is None:
            return None
        rates.append(units.rate(end.rate) / 8 * (1 - units.percent(end.loss or "0%") / 100))
    one = cell.bonding == "none" and cell.transport == "tcp" and (
        cell.iopolicy == "numa" or cell.ports == 1)
    total = max(rates) if one else sum(rates)
    return total * share / 2**20


def run_cell(kernel: Kernel, cell: Cell, fio_output: Path | None = None,
             **guest_options: Any) -> dict[str, Any]:
    """Boot, measure, power off.

    fio_output: fio's own JSON is kept there as `<fio_output>.fio-<rw>.json`.
    Raises LabError, with fio's or the kernel's own words.
    """
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nvmptcp-cell-") as name:
        directory = Path(name)
        guest = prepare(kernel, cell, directory, **guest_options)
        if cell.separate_kernels:
            runs = separate_cell.run(guest, cell.hosts, directory)
        else:
            runs = run_one_kernel(guest, directory)
        result = outcome(cell, runs, directory)
        kept = {}
        for file in sorted(directory.glob("**/fio-*.json")) if fio_output else []:
            assert fio_output
            several = f"{file.parent.name}." if cell.separate_kernels and cell.hosts > 1 else ""
            copy = fio_output.with_name(f"{fio_output.name}.{several}{file.name}")
            shutil.copyfile(file, copy)
            kept[several + file.stem.removeprefix("fio-")] = copy.name
    return {
        **result, "seed": guest_options.get("seed"), "fio": kept,
        "kernel": {"release": kernel.release, "key": kernel.key, "profile": kernel.profile},
        "wall_seconds": round(time.monotonic() - begin, 2),
    }


def prepare(kernel: Kernel, cell: Cell, directory: Path, **guest_options: Any) -> boot.Guest:
    """A guest that measures the cell, which it finds in `directory`."""
    (directory / "cell.json").write_text(json.dumps(cell.spec()))
    return boot.Guest(**{
        "kernel": kernel, "command": boot.python("cell", str(directory)),
        "topology": cell.topology, "writable": [directory], "memory": "2G",
        "timeout": 600 + 60 * cell.runtime, **guest_options})


def described(cell: Cell) -> dict[str, Any]:
    """What a result says of the cell itself: its settings, and what the links carry at most."""
    return {"cell": {**asdict(cell), "rw": list(cell.rw)},
            "limit_mib_s": {"read": limit_mib_s(cell, "to_host"),
                            "write": limit_mib_s(cell, "to_target")}}


def outcome(cell: Cell, runs: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """What follows from the runs of a cell and the logs that fio left below `directory`."""
    timelines = {
        rw: timeline.read(directory.glob(f"**/log-{rw}_lat.*"), run["begin_unix_ms"],
                          cell.timeline_ms, cell.runtime)
        for rw, run in runs.items() if cell.timeline_ms}
    return {
        **described(cell),
        **figures(runs),
        "subflows": {rw: run["subflows"] for rw, run in runs.items()},
        "counters": {rw: run["counters"] for rw, run in runs.items()},
        # The drain after fio's end included.
        "host_mib_s": {rw: [round(size / 2**20 / cell.runtime, 2) for size in run["disk_bytes"]]
                       for rw, run in runs.items()},
        **({"timelines": timelines} if timelines else {}),
    }


def run_one_kernel(guest: boot.Guest, directory: Path) -> dict[str, Any]:
    """What guest.cell leaves. Raises LabError."""
    result = boot.run(guest, stdout=sys.stderr)
    if verbs.finish(result):
        raise LabError(f"the cell failed in the guest (exit code {result.exit_code})")
    runs: dict[str, Any] = json.loads((directory / "result.json").read_text())
    return runs


def figures(runs: Mapping[str, Any]) -> dict[str, Any]:
    """Bandwidth (MiB/s), IOPS and completion latency (ms) by direction; None where not run."""
    figures: dict[str, Any] = {}
    for direction in ("read", "write"):
        found = [run["job"][direction] for run in runs.values()
                 if run["job"][direction]["total_ios"]]
        job = found[0] if found else None
        figures[f"{direction}_mib_s"] = round(job["bw_bytes"] / 2**20, 2) if job else None
        figures[f"{direction}_iops"] = round(job["iops"], 1) if job else None
        figures[f"{direction}_latency_ms"] = _latency(job["clat_ns"]) if job else None
    return figures


def _latency(clat: Mapping[str, Any]) -> dict[str, float]:
    """Completion latency in ms: fio's percentiles by number, mean, max."""
    named = {f"p{float(name):g}": value for name, value in clat.get("percentile", {}).items()}
    named |= {"mean": clat["mean"], "max": clat["max"]}
    return {name: round(value / 1e6, 3) for name, value in named.items()}


def add_parser(subparsers: "_SubParsersAction[Any]") -> None:
    cell = subparsers.add_parser(
        "perf", help="measure one cell with fio",
        description="Build the paths, set up a target with one port a path, connect, run fio for"
        " each --rw, and report bandwidth, latency and the bytes of each subflow.",
    )
    cell.add_argument("--transport", choices=TRANSPORTS, default="mptcp")
    cell.add_argument("--topology", metavar="FILE|NAME",
                      help="paths from a file; instead of the five options below")
    cell.add_argument("--paths", type=int, metavar="N", help="number of paths (default: 4)")
    cell.add_argument("--rate", metavar="RATE", help="of each path (default: 1000mbit)")
    cell.add_argument("--delay", metavar="TIME", help="of each path, each way")
    cell.add_argument("--loss", metavar="PERCENT", help="of each path, each way")
    cell.add_argument("--limit", type=int, metavar="PACKETS", help="of each queue (default: 1000)")
    cell.add_argument("--iopolicy", choices=IOPOLICIES, default="numa")
    cell.add_argument("--controllers-per-path", type=verbs.positive, default=1, metavar="N",
                      help="controllers on each path; stands for the queues that a machine with"
                      " more CPUs opens (default: %(default)s)")
    cell.add_argument("--ports", type=verbs.positive, metavar="N",
                      help="target ports; MPTCP reaches the other paths' addresses by joining"
                      " (default: one a path)")
    cell.add_argument("--bs", default="128k", help="block size (default: %(default)s)")
    cell.add_argument("--rw", default="randread,randwrite", metavar="PATTERN[,PATTERN]",
                      help=f"one fio run each, of {', '.join(PATTERNS)} (default: %(default)s)")
    cell.add_argument("--iodepth", type=verbs.positive, default=256, help="(default: %(default)s)")
    cell.add_argument("--numjobs", type=verbs.positive, default=4, help="(default: %(default)s)")
    cell.add_argument("--runtime", type=verbs.positive, default=10, metavar="S",
                      help="seconds of the guest's clock a run (default: %(default)s)")
    cell.add_argument("--separate-kernels", action="store_true",
                      help="host and target as kernels of their own, a switch between them, under"
                      " one virtual clock")
    cell.add_argument("--hosts", type=verbs.positive, default=1, metavar="N",
                      help="hosts, each with a subsystem of its own and an fio; with"
                      " --separate-kernels also with network devices of its own"
                      " (default: %(default)s)")
    cell.add_argument("--real-time", action="store_true", help="not in virtual time")
    cell.add_argument("--seed", type=verbs.positive, metavar="N",
                      help="random numbers follow from it: the same seed gives the same result"
                      " (default: they are random)")
    cell.add_argument("--json", type=Path, metavar="OUT",
                      help="write the result there, fio's own JSON beside it")
    verbs.add_guest_options(cell)
    cell.set_defaults(func=_perf, memory="2G")
    # Scenarios lie with the tests of targets and hosts: models share them.
    from nvmptcp_conformance.perf.verbs import add_parsers

    cell.set_defaults(cell_defaults=vars(cell.parse_args([])))
    add_parsers(cell.add_subparsers(dest="perf_verb", metavar="VERB"))


def refuse_cell_options(args: argparse.Namespace) -> None:
    """For the verbs below `perf`: they don't take its own options. Raises UsageError."""
    for name, default in args.cell_defaults.items():
        if name != "func" and getattr(args, name) != default:
            raise UsageError(f"--{name.replace('_', '-')}: not together with perf"
                             f" {args.perf_verb}, whose options stand after its name")


def _topology(args: argparse.Namespace) -> topology.Topology:
    given = {name: getattr(args, name) for name in ("paths", "rate", "delay", "loss", "limit")
             if getattr(args, name) is not None}
    if args.topology:
        if given:
            raise UsageError(f"--{next(iter(given))}: not together with --topology")
        return verbs.find_topology(args.topology)
    return topology.from_table({"paths": 4, "rate": "1000mbit", **given}, "command line")


def _perf(args: argparse.Namespace) -> int:
    rw = tuple(args.rw.split(","))
    for pattern in rw:
        if pattern not in PATTERNS:
            raise UsageError(f"--rw {pattern}: must be of {', '.join(PATTERNS)}")
    if not re.fullmatch(r"\d+[kKmM]?", args.bs):
        raise UsageError(f"--bs {args.bs}: write a size such as 4k, 128k or 1m")
    cell = Cell(
        transport=args.transport, topology=_topology(args), iopolicy=args.iopolicy,
        controllers_per_path=args.controllers_per_path, ports=args.ports, bs=args.bs, rw=rw,
        iodepth=args.iodepth, numjobs=args.numjobs, runtime=args.runtime,
        hosts=args.hosts, separate_kernels=args.separate_kernels,
    )
    if args.hosts > MAX_HOSTS:
        raise UsageError(f"--hosts {args.hosts}: at most {MAX_HOSTS}")
    if args.separate_kernels and args.real_time:
        raise UsageError("--separate-kernels: not together with --real-time; their clock is"
                         " virtual")
    if args.seed and args.real_time:
        raise UsageError("--seed: not together with --real-time, where no two runs are the same")
    if cell.ports and cell.ports > len(cell.topology.links):
        raise UsageError(f"--ports {cell.ports}: there are only {len(cell.topology.links)} paths")
    verbs.require("fio", "ip", "insmod", *(["dumpcap"] if args.capture else []))
    output: Path | None = args.json
    if output:
        verbs.directory(output.absolute().parent, "--json")
    result = run_cell(
        ensure_kernel(args.profile), cell, output,
        capture=verbs.directory(args.capture, "--capture"), real_time=args.real_time,
        seed=args.seed, memory=args.memory, module_options=verbs.module_options(args.module_option),
        **({"timeout": args.timeout} if args.timeout else {}),
    )
    if output:
        verbs.write_json(output, result)
    print(summary(result))
    return 0


def summary(result: Mapping[str, Any]) -> str:
    """What a person wants to see of a result."""
    lines = []
    for direction in ("read", "write"):
        bandwidth, limit = result[f"{direction}_mib_s"], result["limit_mib_s"][direction]
        if bandwidth is None:
            continue
        latency = result[f"{direction}_latency_ms"]
        share = f" ({bandwidth / limit:.1%} of the links' {limit:.1f})" if limit else ""
        lines.append(f"{direction:5} {bandwidth:8.1f} MiB/s{share},"
                     f" p50 {latency['p50']:.2f} ms, p99 {latency['p99']:.2f} ms")
    for rw, flows in result["subflows"].items():
        by_path: dict[str, int] = {}
        for flow in flows:
            by_path[flow["remote"]] = by_path.get(flow["remote"], 0) + (
                flow["bytes_sent"] + flow["bytes_received"])
        shares = ", ".join(f"{remote} {count / 2**20:.0f}" for remote, count in by_path.items())
        lines.append(f"{rw}: MiB by path: {shares}")
    return "\n".join(lines)
