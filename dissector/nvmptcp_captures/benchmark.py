# SPDX-License-Identifier: GPL-2.0-or-later
"""What the plugin costs: `python -m nvmptcp_captures.benchmark`.

tshark with and without it reads the same captures, in turn, several times; the least user CPU time
and the largest resident memory of each count. Time that passes doesn't.

Stock tshark takes bytes in the midst of a PDU, where a subflow goes on, for a header with any
length, and then puts the subflow's bytes together in a buffer that it copies with each segment: its
time grows with the square of the capture. So on the large one it is stopped after `--stock-limit`.
It gives back no memory on its way, so what it has taken by then is the least that it would need,
and the ratio the most that it could be.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nvmptcp_lab.build import ensure_kernel
from nvmptcp_lab.errors import LabError
from nvmptcp_lab.topology import from_table

from .record import INTERRUPTED, capture_guest
from .stored import DISSECTOR
from .tshark import Cost, DissectionError, Tshark, built_plugin, require

KEPT = DISSECTOR.parent / "build" / "dissector-benchmark"
TOPOLOGY = from_table({"paths": 4, "rate": "1000mbit"}, "benchmark")
HEADERS_ONLY = ("-o", "nvme_mptcp.keep:152")
SEED = 1


@dataclass(frozen=True)
class Case:
    """What is measured: a capture, options of tshark for the plugin, and the most it may cost, as a
    multiple of stock."""

    name: str
    transport: str
    mib: int  # of I/O
    repeats: int
    options: tuple[str, ...] = ()
    most_cpu: float | None = None
    most_memory: float | None = None
    stock_limit: int | None = None  # s of CPU time


@dataclass(frozen=True)
class Ratio:
    """The best of the runs."""

    case: Case
    size: int  # of the capture, bytes
    stock: Cost
    plugin: Cost

    @property
    def cpu(self) -> float:
        return self.plugin.cpu_seconds / self.stock.cpu_seconds

    @property
    def memory(self) -> float:
        return self.plugin.peak_kib / self.stock.peak_kib

    @property
    def good(self) -> bool:
        return (self.cpu <= (self.case.most_cpu or self.cpu)
                and self.memory <= (self.case.most_memory or self.memory))


def cases(args: argparse.Namespace) -> list[Case]:
    """What is measured; `args` as of main()."""
    return [
        Case("MPTCP", "mptcp", args.mib, args.repeats, most_cpu=1.0),
        Case("MPTCP, headers only", "mptcp", args.mib, args.repeats, HEADERS_ONLY, 1.0, 1.3),
        # Here the plugin has next to nothing to do: only many runs show so little.
        Case("TCP", "tcp", args.tcp_mib, 5 * args.repeats, most_cpu=1.02),
        Case("large, MPTCP, headers only", "mptcp", args.large_mib, 1, HEADERS_ONLY, 1.0, 1.3,
             args.stock_limit)]


def large_capture(transport: str, mib: int, directory: Path) -> Path:
    """A capture of so many MiB of I/O, made unless it is there. Raises LabError, OSError."""
    file = directory / f"{transport}-{mib}.pcapng"
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            made = capture_guest(ensure_kernel(), "bulk", [transport, str(mib)], TOPOLOGY, SEED,
                                 Path(scratch))
            made.rename(file)
        file.chmod(0o644)
    return file


def measure(case: Case, file: Path, stock: Tshark, plugin: Tshark) -> Ratio:
    """Read a capture with either, in turn. Raises DissectionError."""
    found: dict[Tshark, list[Cost]] = {stock: [], plugin: []}
    for _ in range(case.repeats):
        found[stock].append(stock.cost("-n", "-r", file, limit=case.stock_limit))
        found[plugin].append(plugin.cost("-n", "-r", file, *case.options))
    return Ratio(case, file.stat().st_size, *(
        Cost(min(cost.cpu_seconds for cost in costs), max(cost.peak_kib for cost in costs),
             any(cost.cut_short for cost in costs)) for costs in found.values()))


def table(ratios: Sequence[Ratio]) -> str:
    """What was measured, for people."""
    lines = [f"{'capture':50} {'stock':>8} {'plugin':>8} {'ratio':>7} {'at most':>8}"]
    for ratio in ratios:
        name = f"{ratio.case.name} ({ratio.size >> 20} MiB)"
        least, most = (">", "<") if ratio.stock.cut_short else ("", "")
        for what, stock, plugin, quotient, allowed, digits in (
                ("user CPU s", ratio.stock.cpu_seconds, ratio.plugin.cpu_seconds, ratio.cpu,
                 ratio.case.most_cpu, 2),
                ("MiB", ratio.stock.peak_kib / 1024, ratio.plugin.peak_kib / 1024, ratio.memory,
                 ratio.case.most_memory, 0)):
            lines.append(f"{name + ', ' + what:50} {least + format(stock, f'.{digits}f'):>8}"
                         f" {plugin:8.{digits}f} {most + format(quotient, '.3f'):>7}"
                         f" {format(allowed, '.2f') if allowed else '-':>8}")
    if any(ratio.stock.cut_short for ratio in ratios):
        lines.append("> stock was stopped after this CPU time, and had taken this memory by then;"
                     " < the ratio is smaller still")
    return "\n".join(lines)


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="nvmptcp_captures.benchmark", description="CPU time and memory of tshark with the"
        " plugin, against tshark without it, on large captures that the lab makes first.",
        epilog="Exit codes: 0, 1 the plugin costs too much or something failed, 2 usage,"
        " 130 interrupted.")
    for option, default, of in (
            ("--mib", 48, "I/O in the capture of MPTCP, MiB"),
            ("--tcp-mib", 256, "I/O in the capture of TCP, MiB"),
            ("--large-mib", 1024, "I/O in the large capture of MPTCP, MiB"),
            ("--stock-limit", 120, "CPU time of stock tshark on the large capture, s"),
            ("--repeats", 3, "runs of either; five times as many on TCP, one on the large one")):
        parser.add_argument(option, type=_at_least_one, default=default, metavar="N",
                            help=f"{of} (default: %(default)s)")
    parser.add_argument("--captures", type=Path, default=KEPT, metavar="DIR",
                        help="where the captures are kept: mptcp-N.pcapng, tcp-N.pcapng")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures there, too")
    args = parser.parse_args(argv)
    try:
        require("tshark")
        ratios = _all(cases(args), args.captures)
        if args.json:
            args.json.write_text(json.dumps({each.case.name: {
                "cpu": round(each.cpu, 3), "memory": round(each.memory, 3),
                "stock_cut_short": each.stock.cut_short} for each in ratios},
                indent=1) + "\n")
    except LabError as error:
        print(f"nvmptcp_captures: error: {error}", file=sys.stderr)
        return error.exit_code
    except (DissectionError, OSError) as error:
        print(f"nvmptcp_captures: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    print(table(ratios))
    return 0 if all(each.good for each in ratios) else 1


def _all(chosen: Sequence[Case], kept: Path) -> list[Ratio]:
    with tempfile.TemporaryDirectory(prefix="nvmptcp-benchmark-", dir="/var/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)
        users = [Tshark(directory / each) for each in ("stock", "plugin")]
        for user in users:
            user.home.mkdir()
        users[1].install(built_plugin())
        ratios = []
        for case in chosen:
            # An ordinary user may not read the place where it is kept.
            file = directory / "capture.pcapng"
            shutil.copy(large_capture(case.transport, case.mib, kept), file)
            file.chmod(0o644)
            ratios.append(measure(case, file, *users))
        return ratios


if __name__ == "__main__":
    sys.exit(main())
