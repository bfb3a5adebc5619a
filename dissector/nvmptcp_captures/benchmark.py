# SPDX-License-Identifier: GPL-2.0-or-later
"""What the plugin costs: `python -m nvmptcp_captures.benchmark`.

tshark with and without it reads the same captures, in turn, several times. The ratio of the medians
of CPU time and of peak resident memory is printed; time that passes doesn't count.
"""

import argparse
import json
import shutil
import statistics
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
    """What is measured: a capture, options of tshark for the plugin, and the most it may cost."""

    transport: str
    options: tuple[str, ...]
    most_cpu: float  # as a multiple of stock
    most_memory: float | None

    @property
    def name(self) -> str:
        return self.transport + (", headers only" if self.options else "")


CASES = (Case("mptcp", (), 1.0, None), Case("mptcp", HEADERS_ONLY, 1.0, 1.3),
         Case("tcp", (), 1.02, None))


@dataclass(frozen=True)
class Ratio:
    """Medians of the runs."""

    case: Case
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
        return self.cpu <= self.case.most_cpu and (
            self.case.most_memory is None or self.memory <= self.case.most_memory)


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


def measure(case: Case, file: Path, repeats: int, stock: Tshark, plugin: Tshark) -> Ratio:
    """Read a capture with either, in turn. Raises DissectionError."""
    costs: dict[Tshark, list[Cost]] = {stock: [], plugin: []}
    for _ in range(repeats):
        for user, found in costs.items():
            options = case.options if user is plugin else ()
            found.append(user.cost("-n", "-r", file, *options))
    return Ratio(case, *(Cost(statistics.median(cost.cpu_seconds for cost in found),
                              int(statistics.median(cost.peak_kib for cost in found)))
                         for found in costs.values()))


def table(ratios: Sequence[Ratio]) -> str:
    """What was measured, for people."""
    lines = [f"{'capture':28} {'stock':>8} {'plugin':>8} {'ratio':>6} {'at most':>8}"]
    for ratio in ratios:
        case = ratio.case
        lines.append(f"{case.name + ', CPU s':28} {ratio.stock.cpu_seconds:8.2f}"
                     f" {ratio.plugin.cpu_seconds:8.2f} {ratio.cpu:6.2f} {case.most_cpu:8.2f}")
        most = f"{case.most_memory:8.2f}" if case.most_memory else f"{'-':>8}"
        lines.append(f"{case.name + ', MiB':28} {ratio.stock.peak_kib / 1024:8.0f}"
                     f" {ratio.plugin.peak_kib / 1024:8.0f} {ratio.memory:6.2f} {most}")
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
    parser.add_argument("--mib", type=_at_least_one, default=48, metavar="N",
                        help="I/O in each capture (default: %(default)s); stock tshark's time grows"
                        " much faster with it than the plugin's, on MPTCP")
    parser.add_argument("--repeats", type=_at_least_one, default=3, metavar="N",
                        help="runs of either (default: %(default)s)")
    parser.add_argument("--captures", type=Path, default=KEPT, metavar="DIR",
                        help="where the captures are kept; mptcp-N.pcapng and tcp-N.pcapng")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures there, too")
    args = parser.parse_args(argv)
    try:
        require("tshark")
        ratios = _all(args.mib, args.repeats, args.captures)
        if args.json:
            args.json.write_text(json.dumps({each.case.name: {
                "cpu": round(each.cpu, 3), "memory": round(each.memory, 3)} for each in ratios},
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


def _all(mib: int, repeats: int, kept: Path) -> list[Ratio]:
    with tempfile.TemporaryDirectory(prefix="nvmptcp-benchmark-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        users = [Tshark(directory / each) for each in ("stock", "plugin")]
        for user in users:
            user.home.mkdir()
        users[1].install(built_plugin())
        ratios = []
        for case in CASES:
            # An ordinary user may not read the place where it is kept.
            file = directory / "capture.pcapng"
            shutil.copy(large_capture(case.transport, mib, kept), file)
            file.chmod(0o644)
            ratios.append(measure(case, file, repeats, *users))
        return ratios


if __name__ == "__main__":
    sys.exit(main())
