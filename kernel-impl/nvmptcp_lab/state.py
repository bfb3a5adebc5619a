# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `state`: what a target holds for each host that is connected, idle.

Host and target are kernels of their own, so all that is counted is the target's. Some hundred hosts
(host NQNs of one kernel) connect; the target's memory and sockets before and after say what one
takes.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import perf, separate_cell, topology, verbs
from .build import Kernel, ensure_kernel
from .errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

SETUPS = {"tcp": "native multipath over TCP", "mptcp": "one MPTCP association"}
LARGEST = 8  # slab caches that are named; the others are summed up
MAX_PATHS = 8


@dataclass(frozen=True)
class Run:
    """What is counted: see the verb's options."""

    kernel: Kernel
    hosts: int

    def one(self, transport: str, paths: int) -> dict[str, Any]:
        """What a host takes of the target: sockets, and bytes as the kernel counts them.

        Raises LabError.
        """
        cell = perf.Cell(
            transport=transport, topology=topology.from_table({"paths": paths}, "--paths"),
            ports=1 if transport == "mptcp" else None, connect_options="nr_io_queues=1")
        with tempfile.TemporaryDirectory(prefix="nvmptcp-state-") as name:
            directory = Path(name)
            guest = perf.prepare(self.kernel, cell, directory, seed=1)
            (directory / "cell.json").write_text(json.dumps(
                {**cell.spec(), "clients": self.hosts}))
            before, after = separate_cell.run_parts(guest, 1, directory, "state.part")[0]
        return {"transport": transport, "paths": paths, **difference(before, after, self.hosts)}


def difference(before: Mapping[str, Any], after: Mapping[str, Any], hosts: int) -> dict[str, Any]:
    """By host: sockets, memory that is in use, and the slab caches that grew most, in bytes."""
    grown = {name: (slab["objects"] - before["slabs"].get(name, {"objects": 0})["objects"],
                    slab["object_bytes"]) for name, slab in after["slabs"].items()}
    largest = sorted(grown, key=lambda name: -grown[name][0] * grown[name][1])[:LARGEST]
    return {
        **{f"{protocol}_sockets": (after["sockets"][protocol] - before["sockets"][protocol]) / hosts
           for protocol in ("tcp", "mptcp")},
        **{name: round((after[name] - before[name]) / hosts) for name in (
            "used_bytes", "slab_bytes")},
        "slabs": {name: {"objects": round(grown[name][0] / hosts, 2),
                         "object_bytes": grown[name][1]} for name in largest},
    }


def add_parser(subparsers: "_SubParsersAction[Any]") -> None:
    state = subparsers.add_parser(
        "state", help="sockets and memory that a target holds for each host",
        description="Connect hosts to a target that is a kernel of its own, over TCP (a controller"
        " a path) and over MPTCP (one association, a subflow a path), and count what the target"
        " holds for each of them, idle: sockets, and memory. Each controller has an admin queue and"
        " one I/O queue.",
    )
    state.add_argument("--hosts", type=verbs.positive, default=128, metavar="N",
                       help="(default: %(default)s)")
    state.add_argument("--paths", default="1,2,4", metavar="N[,N]", help="(default: %(default)s)")
    verbs.add_profile(state)
    state.add_argument("--json", type=Path, metavar="OUT", help="write the result there")
    state.set_defaults(func=_state)


def _paths(text: str) -> list[int]:
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(1 <= count <= MAX_PATHS for count in found):
        raise UsageError(f"--paths {text}: must be numbers from 1 to {MAX_PATHS}, such as 1,4")
    return found


def _state(args: argparse.Namespace) -> int:
    counts = _paths(args.paths)
    if args.json:
        verbs.directory(args.json.absolute().parent, "--json")
    run = Run(ensure_kernel(args.profile), args.hosts)
    rows = [run.one(transport, paths) for paths in counts for transport in SETUPS]
    if args.json:
        verbs.write_json(args.json, {
            "kernel": {"release": run.kernel.release, "key": run.kernel.key}, "hosts": run.hosts,
            "rows": rows})
    print(summary(rows))
    return 0


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """What a person wants to see of a result, by host."""
    lines = [f"{'of each host':28} {'paths':>5} {'TCP sockets':>12} {'MPTCP sockets':>14}"
             f" {'slab, KiB':>10} {'in all, KiB':>12}"]
    for row in rows:
        lines.append(f"{SETUPS[row['transport']]:28} {row['paths']:5} {row['tcp_sockets']:12.2f}"
                     f" {row['mptcp_sockets']:14.2f} {row['slab_bytes'] / 1024:10.1f}"
                     f" {row['used_bytes'] / 1024:12.1f}")
        lines.append("    " + ", ".join(
            f"{slab['objects']:g} x {name} ({slab['object_bytes']})"
            for name, slab in row["slabs"].items()))
    return "\n".join(lines)
