# SPDX-License-Identifier: GPL-2.0-or-later
"""Result sets: medians with spread of each cell, as JSON and CSV; fio's own JSON is read, too."""

import csv
import ipaddress
import json
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nvmptcp_lab import perf
from nvmptcp_lab.errors import UsageError

FORMAT = 1
# Figures that are sums of both ends' counters.
COUNTERS = {"sent_segments": "netem.packets", "sent_bytes": "netem.bytes",
            "drops": "netem.drops", "retransmitted_segments": "Tcp.RetransSegs",
            "timeouts": "TcpExt.TCPTimeouts", "reinjections": "MPTcpExt.MPTCPRetrans"}
SHOWN_HOSTS = 16  # with more only the least and the most
LATENCIES = ("mean", "p50", "p99", "p99.9", "max")
# All names that a figure may have; which of them a cell has depends on the cell.
_NAME = re.compile("|".join([
    rf"(read|write)_(mib_s|iops|({'|'.join(map(re.escape, LATENCIES))})_ms)", "gap_ms",
    r"path\d+_share", r"(host\d+|least_host|most_host)_mib_s", "subflows", "events", "memory_mib",
    *COUNTERS]))


@dataclass(frozen=True)
class Figure:
    """A measured quantity over the runs of a cell."""

    median: float
    min: float
    max: float
    runs: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Figure":
        listed = [round(value, 3) for value in values]
        return cls(round(statistics.median(listed), 3), min(listed), max(listed), len(listed))


@dataclass(frozen=True)
class CellResult:
    """A cell's figures by name.

    `read_mib_s`, `write_mib_s` (MiB/s), `…_iops`, and completion latencies in ms such as
    `read_p99_ms`; with a timeline, `gap_ms`; COUNTERS, where the lab or a model measured; with
    several hosts `host1_mib_s` …, with many `least_host_mib_s` and `most_host_mib_s`; with several
    paths `path1_share` …, what part of all bytes each carried, 0 to 1, subflows that were gone at
    the end left out; of a model, `subflows` at the end, `events`, `memory_mib` (MiB).
    `limit_mib_s`: what the links carry at most, by direction; without it where a path has no rate.
    `timeline`: that of the first seed.
    """

    scenario: str
    name: str
    axes: Mapping[str, str]
    figures: Mapping[str, Figure]
    limit_mib_s: Mapping[str, float | None] = field(default_factory=dict)
    timeline: Mapping[str, Any] | None = None
    flows: int | None = None  # TCP connections, or subflows, of which each carried a 1 MiB and more


@dataclass(frozen=True)
class ResultSet:
    """What a run, or somebody's fio, has left."""

    source: str  # what was measured, such as a kernel's release and key
    scenarios: Mapping[str, Mapping[str, Any]]  # title, answers; by name
    cells: tuple[CellResult, ...]

    def json(self) -> str:
        """What `load` reads; a line for each cell."""
        head = json.dumps({"format": FORMAT, "source": self.source, "scenarios": self.scenarios},
                          indent=1)
        cells = ",\n".join(json.dumps(asdict(cell)) for cell in self.cells)
        return f'{head.removesuffix("}").rstrip()},\n "cells": [\n{cells}\n]}}\n'

    def write(self, directory: Path) -> None:
        """results.json and results.csv. Raises OSError."""
        (directory / "results.json").write_text(self.json())
        with (directory / "results.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["scenario", "cell", "figure", "median", "min", "max", "runs"])
            for cell in self.cells:
                for name, figure in cell.figures.items():
                    writer.writerow([cell.scenario, cell.name, name, figure.median, figure.min,
                                     figure.max, figure.runs])


def is_name(name: str) -> bool:
    """Whether some cell may have a figure of this name."""
    return bool(_NAME.fullmatch(name))


def figures(run: Mapping[str, Any]) -> dict[str, float]:
    """A lab result's figures, by the names of `CellResult`."""
    found: dict[str, float] = {}
    for direction in ("read", "write"):
        if run[f"{direction}_mib_s"] is None:
            continue
        found[f"{direction}_mib_s"] = run[f"{direction}_mib_s"]
        found[f"{direction}_iops"] = run[f"{direction}_iops"]
        for name in LATENCIES:
            if name in run[f"{direction}_latency_ms"]:
                found[f"{direction}_{name}_ms"] = run[f"{direction}_latency_ms"][name]
    for timeline in run.get("timelines", {}).values():
        found["gap_ms"] = timeline["gap_ms"]
    for shares in run.get("host_mib_s", {}).values():
        if len(shares) > SHOWN_HOSTS:
            found |= {"least_host_mib_s": min(shares), "most_host_mib_s": max(shares)}
        elif len(shares) > 1:
            found |= {f"host{number}_mib_s": share for number, share in enumerate(shares, 1)}
    found |= _path_shares(run)
    for counters in run.get("counters", {}).values():
        found |= {name: counters.get(counter, 0) for name, counter in COUNTERS.items()}
    if "simulator" in run:
        found["subflows"] = sum(len(flows) for flows in run["subflows"].values())
        found["events"] = run["simulator"]["events"]
        found["memory_mib"] = round(run["peak_memory_kib"] / 1024)
    return found


def _path_shares(run: Mapping[str, Any]) -> dict[str, float]:
    """What part of all bytes each path carried, 0 to 1; nothing where there is one path or bond."""
    count = len(run["cell"]["topology"]["links"]) if "cell" in run else 0
    if "machines" in run:  # real ones have addresses of their own
        return {}
    carried = [0] * (count + 1)
    for flow in (flow for flows in run.get("subflows", {}).values() for flow in flows):
        address = ipaddress.ip_address(flow["local"])
        # 10.0.PATH.1 or fd00:PATH::1, as nvmptcp_lab.topology gives them
        path = address.packed[2 if address.version == 4 else 3]
        if path <= count:
            carried[path] += flow["bytes_sent"] + flow["bytes_received"]
    total = sum(carried)
    if count < 2 or not total:
        return {}
    return {f"path{path}_share": round(carried[path] / total, 3) for path in range(1, count + 1)}


def summarize(scenario: str, axes: Mapping[str, str], name: str,
              runs: list[dict[str, Any]]) -> CellResult:
    """Medians and spread of a cell's runs, which are in the order of their seeds."""
    listed = [figures(run) for run in runs]
    timelines = list(runs[0].get("timelines", {}).values())
    flows = [sum(flow["bytes_sent"] + flow["bytes_received"] >= 2**20 for flow in part)
             for part in runs[0]["subflows"].values()]
    return CellResult(
        scenario, name, dict(axes),
        {figure: Figure.of(values[figure] for values in listed) for figure in listed[0]},
        {direction: limit for direction, limit in runs[0]["limit_mib_s"].items()
         if f"{direction}_mib_s" in listed[0]},
        timelines[0] if timelines else None, flows[0] if flows else None)


def load(path: Path) -> ResultSet:
    """Read results.json, a directory that has one, or fio's JSON. Raises UsageError."""
    file = path / "results.json" if path.is_dir() else path
    try:
        text = file.read_text()
        data = json.loads(text[max(0, text.find("{")):])  # fio's warnings may stand before it
        if "jobs" in data:
            return _of_fio(data, str(path))
        if data["format"] != FORMAT:
            raise UsageError(f"{file}: format {data['format']}, but this program reads {FORMAT}")
        cells = tuple(CellResult(**{**cell, "figures": {
            name: Figure(**figure) for name, figure in cell["figures"].items()}})
            for cell in data["cells"])
        return ResultSet(data["source"], data["scenarios"], cells)
    except OSError as error:
        raise UsageError(f"{file}: can't read results: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file}: neither a result set of `perf run` nor fio's JSON"
                         f" (--output-format=json): {type(error).__name__}: {error}") from None


def _of_fio(data: Mapping[str, Any], source: str) -> ResultSet:
    """fio's own JSON: a cell for each of its jobs."""
    cells = []
    for job in data["jobs"]:
        found = figures(perf.figures({"": {"job": job}}))
        cells.append(CellResult("fio", job["jobname"], {"job": job["jobname"]},
                                {name: Figure.of([value]) for name, value in found.items()}))
    return ResultSet(f"{data.get('fio version', 'fio')}: {source}", {}, tuple(cells))
