# SPDX-License-Identifier: GPL-2.0-or-later
"""A scenario's cell on the reference kernel in the lab: the lab as backend of the runner."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from nvmptcp_lab import boot, perf
from nvmptcp_lab.build import Kernel, ensure_kernel
from nvmptcp_lab.errors import LabError
from nvmptcp_lab.separate import calendar_program

from .scenario import Settings

MEMORY = "2G"


def lab_cell(settings: Settings) -> perf.Cell:
    """What the lab measures for these settings."""
    association, fio = settings.association, settings.fio
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
        transport=association.transport, topology=settings.paths(), iopolicy=association.iopolicy,
        controllers_per_path=association.controllers_per_path, ports=association.ports,
        bs=fio.bs, rw=(fio.rw,), iodepth=fio.iodepth, numjobs=fio.numjobs, runtime=fio.runtime,
        hosts=association.hosts, tcp_hosts=association.tcp_hosts,
        separate_kernels=association.separate_kernels,
        connect_options=association.connect_options, fio_options=tuple(options),
        bonding=settings.devices.bonding, gso=settings.devices.gso,
        events=tuple(sorted(_commands(settings))), timeline_ms=fio.timeline_ms,
    )


def _commands(settings: Settings) -> Iterator[tuple[float, str]]:
    """Each change of a path, with the shell command that makes it happen in the guest."""
    for change in settings.changes():
        name, lines = f"path{change.path}", []
        if change.state:
            lines.append(f"ip -n target link set {name} {change.state}")
        if change.link:
            for netns, end in (("host", change.link.to_target), ("target", change.link.to_host)):
                lines.append(f"tc -n {netns} qdisc replace dev {name} root netem {end.netem()}")
        yield change.at, "\n".join(lines)


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


def key(settings: Settings, seed: int, kernel_key: str) -> str:
    """What a result is kept under: the same key, the same result."""
    cell = lab_cell(settings)
    separate = [calendar_program().parent.name] if cell.separate_kernels else []
    text = json.dumps([cell.spec(), repr(cell.topology), settings.association.native_multipath,
                       seed, kernel_key, MEMORY, surroundings(), *separate], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class LabBackend:
    """The reference kernel of this profile; `runner.Backend` has the meaning of the methods."""

    profile: str
    kernel_key: str
    separate_kernels: bool = False  # also where the scenario doesn't ask for them

    @classmethod
    def of(cls, profile: str, separate_kernels: bool = False) -> "LabBackend":
        """With this machine's kernel, built if need be."""
        return cls(profile, kernel(profile).key, separate_kernels)

    @property
    def source(self) -> str:
        text = f"Linux {kernel(self.profile).release}, build {self.kernel_key}"
        return f"{text}, separate kernels" if self.separate_kernels else text

    def _settings(self, settings: Settings) -> Settings:
        if not self.separate_kernels:
            return settings
        association = settings.association.model_copy(update={"separate_kernels": True})
        return settings.model_copy(update={"association": association})

    def key(self, settings: Settings, seed: int) -> str:
        return key(self._settings(settings), seed, self.kernel_key)

    def measure(self, settings: Settings, seed: int) -> dict[str, Any]:
        """Boot, measure, power off; maybe on another machine than the client's.

        Raises LabError, also when this machine's kernel is another one than the client's.
        """
        mine = kernel(self.profile)
        if mine.key != self.kernel_key:
            raise LabError(f"the worker has kernel {mine.key}, not {self.kernel_key}: give it the"
                           " same checkout")
        return perf.run_cell(
            mine, lab_cell(self._settings(settings)), seed=seed, memory=MEMORY,
            module_options={} if settings.association.native_multipath
            else {"nvme-core": "multipath=N"})

    def stop(self) -> None:
        boot.stop_all()
