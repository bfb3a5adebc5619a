# SPDX-License-Identifier: GPL-2.0-or-later
"""A performance cell where the target and each host are kernels of their own: see guest/part.py."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import boot, separate, verbs
from .topology import end_script


def run(guest: boot.Guest, hosts: int, directory: Path) -> dict[str, Any]:
    """Boot the target and the hosts, measure, power off; the result as guest.cell has it.

    guest: what all have in common. directory: with cell.json. Raises LabError.
    """
    found = run_parts(guest, hosts, directory, "part")
    return {rw: merge([part[rw] for part in found]) for rw in found[0]}


def run_parts(guest: boot.Guest, hosts: int, directory: Path, module: str) -> list[Any]:
    """Boot the target and the hosts, each with its part of this guest module, power off.

    Returns what each left in `directory`, the target first. As `run`.
    """
    verbs.require("ethtool", "gcc")
    paths = guest.topology
    assert paths
    names = ["target", *(f"host{number}" for number in range(1, hosts + 1))]
    guests = {}
    for number, name in enumerate(names):
        netns = "host" if number else "target"
        # Files are named after namespaces: those of further hosts need a place of their own.
        capture = guest.capture and (guest.capture / name if number > 1 else guest.capture)
        if capture:
            capture.mkdir(exist_ok=True)
        guests[name] = replace(
            guest, command=boot.python(module, str(directory), name), capture=capture,
            script=end_script(paths, netns, number, hosts))
    separate.run(guests, len(paths.links), sys.stderr)
    return [json.loads((directory / name / "result.json").read_text()) for name in names]


def merge(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One run from the target's counters and the runs of the hosts."""
    hosts = parts[1:]
    counters: Counter[str] = Counter()
    for part in parts:
        counters.update(part["counters"])
    return {
        "job": hosts[0]["job"] if len(hosts) == 1 else merge_jobs(host["job"] for host in hosts),
        "subflows": [flow for host in hosts for flow in host["subflows"]],
        "counters": counters,
        "begin_unix_ms": hosts[0]["begin_unix_ms"],
        "disk_bytes": [size for host in hosts for size in host["disk_bytes"]],
    }


def merge_jobs(jobs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What fio would report of all hosts' jobs as one group; fio's bins of latency tell which."""
    listed = list(jobs)
    merged: dict[str, Any] = {}
    for direction in ("read", "write"):
        found = [job[direction] for job in listed if job[direction]["total_ios"]]
        seconds = max((part["runtime"] for part in found), default=0) / 1000  # the slowest's
        done = sum(part["total_ios"] for part in found)
        merged[direction] = {
            "total_ios": done, "iops": done / seconds if done else 0,
            "bw_bytes": sum(part["io_bytes"] for part in found) / seconds if done else 0}
        bins: Counter[int] = Counter()
        for part in found:
            bins.update({int(ns): count for ns, count in part["clat_ns"]["bins"].items()})
        if found:
            merged[direction]["clat_ns"] = {
                "mean": sum(ns * count for ns, count in bins.items()) / bins.total(),
                "max": max(part["clat_ns"]["max"] for part in found),
                "percentile": {name: _percentile(bins, float(name))
                               for name in found[0]["clat_ns"]["percentile"]},
            }
    return merged


def _percentile(bins: Mapping[int, int], percent: float) -> int:
    """The value of the bin, in ns, that this share of all completions reaches."""
    needed, seen = percent / 100 * sum(bins.values()), 0
    for value, count in sorted(bins.items()):
        seen += count
        if seen >= needed:
            return value
    raise ValueError("no completions")
