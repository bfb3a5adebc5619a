# SPDX-License-Identifier: GPL-2.0-or-later
"""A scenario's cell on the reference kernel in the lab."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from nvmptcp_lab import boot, perf
from nvmptcp_lab.build import Kernel, ensure_kernel
from nvmptcp_lab.errors import LabError
from nvmptcp_lab.topology import Link, Topology

from .scenario import Event, Settings

MEMORY = "2G"


def lab_cell(settings: Settings) -> perf.Cell:
    """What the lab measures for these settings."""
    association, fio, paths = settings.association, settings.fio, settings.paths()
    options = [f"--rwmixread={fio.rwmixread}"]
    if fio.bssplit:
        options.append(f"--bssplit={fio.bssplit}")
    if fio.rate_mib_s:
        # fio's rate is that of each job, for reads and for writes.
        each = round(fio.rate_mib_s * 2**20 / fio.numjobs / association.hosts)
        shares = ((fio.rwmixread, 100 - fio.rwmixread) if fio.rw in ("rw", "randrw")
                  else (100, 100))
        options.append("--rate=" + ",".join(str(max(1, each * share // 100)) for share in shares))
    return perf.Cell(
        transport=association.transport, topology=paths, iopolicy=association.iopolicy,
        controllers_per_path=association.controllers_per_path, ports=association.ports,
        bs=fio.bs, rw=(fio.rw,), iodepth=fio.iodepth, numjobs=fio.numjobs, runtime=fio.runtime,
        hosts=association.hosts, tcp_hosts=association.tcp_hosts,
        connect_options=association.connect_options, fio_options=tuple(options),
        bonding=settings.devices.bonding, gso=settings.devices.gso,
        events=tuple(sorted(_commands(settings.event, paths))), timeline_ms=fio.timeline_ms,
    )


def _commands(events: list[Event], paths: Topology) -> Iterator[tuple[float, str]]:
    """Each event's moments, with the shell command that makes it happen in the guest."""
    links = list(paths.links)
    for event in sorted(events, key=lambda event: event.at):
        name, lines = f"path{event.path}", []
        if event.link:
            lines.append(f"ip -n target link set {name} {event.link}")
        if event.netem():
            before = links[event.path - 1]
            now = Link(*(replace(end, **event.netem())
                         for end in (before.to_target, before.to_host)))
            links[event.path - 1] = now
            for netns, end in (("host", now.to_target), ("target", now.to_host)):
                lines.append(f"tc -n {netns} qdisc replace dev {name} root netem {end.netem()}")
        for moment in event.moments():
            yield moment, "\n".join(lines)


@cache
def kernel(profile: str) -> Kernel:
    """The reference kernel on this machine, built if need be."""
    return ensure_kernel(profile)


@cache
def surroundings() -> str:
    """A hash of what else a result follows from: fio, and what the lab runs in the guest."""
    version = subprocess.run(["fio", "--version"], check=True, capture_output=True).stdout
    hashed = hashlib.sha256(version)
    for path in sorted(boot.GUEST.glob("*.py")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def measure(settings_json: str, seed: int, profile: str, kernel_key: str) -> dict[str, Any]:
    """Boot, measure, power off; a Dask worker calls this, maybe on another machine.

    Raises LabError, also when this machine's kernel is another one than the client's.
    """
    mine = kernel(profile)
    if mine.key != kernel_key:
        raise LabError(f"the worker has kernel {mine.key}, not {kernel_key}: give it the same"
                       " checkout")
    settings = Settings.model_validate_json(settings_json)
    return perf.run_cell(
        mine, lab_cell(settings), seed=seed, memory=MEMORY,
        module_options={} if settings.association.native_multipath
        else {"nvme-core": "multipath=N"})


def key(settings: Settings, seed: int, kernel_key: str) -> str:
    """What a result is kept under: the same key, the same result."""
    cell = lab_cell(settings)
    text = json.dumps([cell.spec(), repr(cell.topology), settings.association.native_multipath,
                       seed, kernel_key, MEMORY, surroundings()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load(path: Path) -> dict[str, Any] | None:
    """A kept result, None where there is none that can be read."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found
