# SPDX-License-Identifier: GPL-2.0-or-later
"""A scenario's cell on real machines, reached over ssh: a backend of the runner.

What happens on them is `nvmptcp_lab.guest.machine`, which is copied to a temporary directory there
for each run. Their paths are as they are: a scenario can't change them.
"""

import contextlib
import hashlib
import io
import json
import shlex
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import nvmptcp_lab
from nvmptcp_lab import perf, separate_cell, tomlfile, topology, units
from nvmptcp_lab.errors import LabError, UsageError
from nvmptcp_lab.guest import fio
from nvmptcp_lab.topology import MAX_PATHS, Direction
from pydantic import Field, ValidationError, field_validator

from .lab_cell import lab_cell
from .scenario import Scenario, Section, Settings

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
_running: set["subprocess.Popen[bytes]"] = set()
_lock = threading.Lock()


class Target(Section):
    """`[target]`."""

    ssh: str = Field(min_length=1, description="its address, as for `ssh`, of an account that is"
                     " root; `~/.ssh/config` can say the rest")
    addresses: list[str] = Field(min_length=1, max_length=MAX_PATHS, description="its address on"
                                 " each path, in the order of the scenario's paths")
    block_devices: list[str] = Field(default_factory=list, description="one a host, such as"
                                     " `/dev/nvme0n1`; what is there is lost. Default:"
                                     " `null_blk`")
    rate: str | None = Field(None, description="of each path, such as `25gbit`, for the limit that"
                             " results name")

    @field_validator("rate")
    @classmethod
    def _unit(cls, value: str | None) -> str | None:
        if value is not None:
            units.rate(value)
        return value


class Host(Section):
    """`[[host]]`."""

    ssh: str = Field(min_length=1, description="as of the target")
    hostnqn: str | None = Field(None, description="default: made from the host's number")
    hostid: str | None = Field(None, description="a UUID; default: made from the host's number")

    def identity(self) -> dict[str, str]:
        """As `nvmptcp_lab.guest.fabrics.connect` takes it."""
        given = {"host_nqn": self.hostnqn, "host_id": self.hostid}
        return {name: value for name, value in given.items() if value}


class Inventory(Section):
    """The machines."""

    target: Target
    host: list[Host] = Field(min_length=1)


def load(path: Path) -> Inventory:
    """Read an inventory. Raises UsageError that names the file and the key."""
    _, table = tomlfile.read(path, "inventory")
    try:
        return Inventory.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(word) for word in first["loc"])
        raise UsageError(f"{path}: {key}: {first['msg'].removeprefix('Value error, ')}") from None


def check(inventory: Inventory, scenarios: list[Scenario]) -> None:
    """Whether the machines can run all cells. Raises UsageError that names the first other one."""
    for scenario in scenarios:
        for cell in scenario.cells:
            if why := _obstacle(inventory, cell.settings):
                raise UsageError(f"{scenario.name}: {cell.name}: {why}; --only chooses cells")


def _obstacle(inventory: Inventory, settings: Settings) -> str | None:
    """Why the machines can't do this."""
    paths, association = settings.paths(), settings.association
    plain = topology.from_table({"paths": len(paths.links)}, "none")
    ends = [end for link in paths.links for end in (link.to_target, link.to_host)]
    if any(end != Direction(rate=end.rate) for end in ends):
        return "netem settings: the machines' paths are as they are"
    if replace(paths, links=plain.links, family=plain.family) != plain:
        return "mtu, [mptcp] or [sysctl]: they are as the machines' administrator has set them"
    if len(paths.links) != len(inventory.target.addresses):
        return (f"{len(paths.links)} paths, but the inventory has"
                f" {len(inventory.target.addresses)} addresses")
    if association.hosts > len(inventory.host):
        return f"{association.hosts} hosts, but the inventory has {len(inventory.host)}"
    blocks = inventory.target.block_devices
    if blocks and len(blocks) < association.hosts:
        return f"{association.hosts} hosts, but the inventory has {len(blocks)} block devices"
    if settings.event:
        return "[[event]]: only the lab can change paths"
    if settings.devices.bonding != "none" or not settings.devices.gso:
        return "[devices]: they are as the machines' administrator has set them"
    if settings.fio.timeline_ms and association.hosts > 1:
        return "fio.timeline_ms: not of several machines, whose clocks differ"
    return None


@cache
def package() -> bytes:
    """What the machines need of nvmptcp_lab, as a tar file."""
    root = Path(nvmptcp_lab.__file__).parent
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in (root / "__init__.py", *sorted((root / "guest").glob("*.py"))):
            archive.add(file, file.relative_to(root.parent))
    return buffer.getvalue()


def _ssh(machine: str, command: str, data: bytes = b"") -> bytes:
    """Standard output of a command on a machine. Raises LabError with its last line."""
    with subprocess.Popen([*SSH, machine, "--", command], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with _lock:
            _running.add(process)
        try:
            output, words = process.communicate(data)
        finally:
            process.kill()
            with _lock:
                _running.discard(process)
    if process.returncode:
        lines = words.decode(errors="replace").strip().splitlines() or ["it says nothing"]
        raise LabError(f"{machine}: {lines[-1]} (exit code {process.returncode})")
    return output


@dataclass(frozen=True)
class _Stage:
    """A temporary directory on a machine, with the code that runs there."""

    machine: str
    directory: str

    def call(self, verb: str) -> Any:
        """Run a verb of guest.machine. Returns what it printed. Raises LabError."""
        directory = shlex.quote(self.directory)
        return json.loads(_ssh(self.machine, f"cd {directory} && PYTHONPATH={directory}"
                               f" python3 -B -m nvmptcp_lab.guest.machine {verb}"))

    def fetch(self, to: Path) -> None:
        """Copy what fio and guest.machine left. Raises LabError."""
        data = _ssh(self.machine, f"cd {shlex.quote(self.directory)} && tar -cf -"
                    " --exclude=nvmptcp_lab .")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(to, filter="data")


@contextlib.contextmanager
def _staged(machine: str, cell: dict[str, Any] | None) -> Iterator[_Stage]:
    made = _ssh(machine, "d=$(mktemp -d /tmp/nvmptcp-XXXXXX) && tar -xf - -C $d && echo $d",
                package())
    stage = _Stage(machine, made.decode().strip())
    try:
        if cell is not None:
            _ssh(machine, f"cat >{shlex.quote(stage.directory)}/cell.json",
                 json.dumps(cell).encode())
        yield stage
    finally:
        with contextlib.suppress(LabError):  # what went wrong before counts
            _ssh(machine, f"rm -r {shlex.quote(stage.directory)}")


@dataclass(frozen=True)
class MachinesBackend:
    """These machines; `runner.Backend` has the meaning of the methods."""

    inventory: Inventory
    releases: tuple[str, ...]  # the kernels: the target's, then the hosts'

    @classmethod
    def of(cls, inventory: Inventory, native_multipath: set[bool]) -> "MachinesBackend":
        """Look at the machines. Raises LabError.

        native_multipath: what the cells ask for; hosts have it or not until they are booted anew.
        """
        machines = [inventory.target.ssh, *(host.ssh for host in inventory.host)]
        releases = []
        for number, machine in enumerate(machines):
            with _staged(machine, None) as stage:
                about = stage.call("about")
            if number and native_multipath != {about["native_multipath"]}:
                raise UsageError(f"{machine}: nvme_core.multipath is"
                                 f" {'Y' if about['native_multipath'] else 'N'} there, and some"
                                 " cells need it otherwise; --only chooses cells")
            releases.append(about["release"])
        return cls(inventory, tuple(releases))

    @property
    def source(self) -> str:
        names = ["target", *(f"host {number}" for number in range(1, len(self.releases)))]
        return "machines over ssh: " + ", ".join(
            f"{name} Linux {release}" for name, release in zip(names, self.releases, strict=True))

    def key(self, settings: Settings, seed: int) -> str:
        """The seed only counts runs: no two on real machines are the same."""
        text = json.dumps([settings.model_dump(mode="json"), seed, self.releases,
                           self.inventory.model_dump(),
                           hashlib.sha256(package()).hexdigest()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def measure(self, settings: Settings, seed: int) -> dict[str, Any]:
        """Set up target and hosts, run fio, take all down again. Raises LabError."""
        begin = time.monotonic()
        target, count = self.inventory.target, len(self.inventory.target.addresses)
        paths = {"paths": count, **({"rate": target.rate} if target.rate else {})}
        cell = replace(lab_cell(settings), topology=topology.from_table(paths, "inventory"))
        spec = {**cell.spec(), "traddrs": target.addresses[:cell.ports or count],
                "block_devices": target.block_devices[:cell.hosts]}
        if cell.hosts > 1:
            spec["fio_options"] = [*spec["fio_options"], fio.BINS]
        with tempfile.TemporaryDirectory(prefix="nvmptcp-machines-") as name:
            directory = Path(name)
            parts = self._run(spec, directory)
            found = perf.outcome(cell, {cell.rw[0]: separate_cell.merge(parts)}, directory)
        return {**found, "seed": seed, "fio": {}, "machines": list(self.releases),
                "kernel": {"release": self.releases[0], "key": "", "profile": ""},
                "wall_seconds": round(time.monotonic() - begin, 2)}

    def _run(self, spec: dict[str, Any], directory: Path) -> list[dict[str, Any]]:
        """The target's counters and the hosts' runs, as `separate_cell.merge` takes them."""
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(_staged(self.inventory.target.ssh, spec))
            target.call("offer")
            stack.push(_at_last(target, "withdraw"))
            hosts = []
            for number, host in enumerate(self.inventory.host[:spec["hosts"]], 1):
                mine = {**spec, "host": number, "identity": host.identity()}
                hosts.append(stack.enter_context(_staged(host.ssh, mine)))
                stack.push(_at_last(hosts[-1], "disconnect"))
                hosts[-1].call("connect")
            before = target.call("counters")
            with ThreadPoolExecutor(len(hosts)) as pool:
                list(pool.map(lambda host: host.call("measure"), hosts))
            after = target.call("counters")
            parts = [{"counters": {name: after[name] - before.get(name, 0) for name in after}}]
            for number, stage in enumerate(hosts, 1):
                stage.fetch(directory / f"host{number}")
                result = json.loads((directory / f"host{number}" / "result.json").read_text())
                parts.append(result[spec["rw"][0]])
        return parts

    def stop(self) -> None:
        with _lock:
            for process in _running:
                process.terminate()


def _at_last(stage: _Stage, verb: str) -> Callable[..., None]:
    """For `ExitStack.push`: takes something down. Of two errors the one that was first counts."""
    def leave(kind: type[BaseException] | None, *_: object) -> None:
        try:
            stage.call(verb)
        except LabError:
            if kind is None:
                raise

    return leave
