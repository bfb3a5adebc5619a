# SPDX-License-Identifier: GPL-2.0-or-later
"""One performance cell, inside the guest: target, connections, fio, counters.

`python -m nvmptcp_lab.guest.cell DIRECTORY` reads DIRECTORY/cell.json, writes fio-RW.json beside it
and, when all is done, result.json. `..perf` is the other side of it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import counters, devices, fabrics, fio, nvmet, sockets


def set_up(cell: dict[str, Any]) -> list[Path]:
    """Target, ports and connections. Returns the block device of each host."""
    devices.set_up(cell["paths"], cell["bonding"], cell["bond_addresses"], cell["gso"])
    offer(cell, null_blocks(cell))
    disks = connect(cell, range(1, cell["hosts"] + 1))
    fabrics.set_iopolicy(cell["iopolicy"])
    return disks


def nqn(host: int) -> str:
    """The subsystem of a host, which counts from 1."""
    return nvmet.NQN if host == 1 else f"{nvmet.NQN}-{host}"


def null_blocks(cell: dict[str, Any]) -> Iterator[Path]:
    """A null_blk device for each host."""
    for number in range(cell["hosts"]):
        yield nvmet.null_block(cell["size_mib"], cell["memory_backed"], f"nullb{number}")


def offer(cell: dict[str, Any], blocks: Iterable[Path], netns: str | None = "target") -> None:
    """A subsystem for each host, with one of these block devices, and the ports, in `netns`."""
    subsystems = [nvmet.subsystem(block, nqn(host)) for host, block in enumerate(blocks, 1)]
    for number, traddr in enumerate(cell["traddrs"], 1):
        port = nvmet.Port(number, traddr, variant=cell["transport"], attributes="adda"
                          if cell["transport"] == "mptcp" else "none")
        nvmet.add_port(port, subsystems[0], netns)
        for subsystem in subsystems[1:]:
            nvmet.offer(port, subsystem, netns)


def connect(cell: dict[str, Any], hosts: Sequence[int], **options: Any) -> list[Path]:
    """Connect these hosts, which count from 1. Returns the block device of each.

    options: as `fabrics.connect` has them.
    """
    for host in hosts:
        plain = cell["transport"] == "tcp" or host > cell["hosts"] - cell["tcp_hosts"]
        for _ in range(cell["controllers_per_path"]):
            for traddr in cell["traddrs"]:
                fabrics.connect(traddr, nqn=nqn(host), variant=None if plain else "mptcp",
                                options="duplicate_connect," + cell["connect_options"],
                                **{"host_id": f"{fabrics.HOST_ID[:-12]}{host:012}", **options})
    return [fabrics.block_device(nqn(host)) for host in hosts]


def measure(disks: list[Path], directory: Path, rw: str, cell: dict[str, Any],
            namespaces: Sequence[str | None] = counters.NAMESPACES,
            ready: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """One fio run, with a job for each disk, and the counters of these namespaces around it.

    namespaces: None is the one that we are in; the first one is the host's. ready: called right
    before fio starts.
    """
    before, counted = sockets.subflows(namespaces[0]), counters.read(namespaces)
    sectors = [_sectors(disk) for disk in disks]
    ready()
    begin = time.time_ns() // 1_000_000
    # Each completion with its time of day, in ms: `..timeline` reads it.
    log = [f"--write_lat_log={directory}/log-{rw}", "--log_unix_epoch=1",
           "--disable_slat=1"] if cell["timeline_ms"] else []
    jobs = [word for disk in disks for word in (f"--name={disk.name}", f"--filename={disk}")]
    data = fio.run(None, directory / f"fio-{rw}.json", [
        "--ioengine=libaio", f"--rw={rw}", f"--bs={cell['bs']}",
        f"--iodepth={cell['iodepth']}", f"--numjobs={cell['numjobs']}",
        f"--runtime={cell['runtime']}", "--time_based", *cell["fio_options"], *log, *jobs,
    ], lambda: play(cell["events"]))
    flows = sockets.difference(before, sockets.subflows(namespaces[0]))
    return {"job": data["jobs"][0], "subflows": [vars(flow) for flow in flows],
            "counters": counters.read(namespaces) - counted, "begin_unix_ms": begin,
            "disk_bytes": [512 * (_sectors(disk) - first)
                           for disk, first in zip(disks, sectors, strict=True)]}


def _sectors(disk: Path) -> int:
    """Sectors of 512 bytes read and written so far (block/stat of sysfs)."""
    words = (Path("/sys/class/block") / disk.name / "stat").read_text().split()
    return int(words[2]) + int(words[6])


def play(events: Sequence[tuple[float, str]]) -> None:
    """Run each event's shell command at its time, in seconds from now."""
    begin = time.monotonic()
    for at, command in events:
        time.sleep(max(0, begin + at - time.monotonic()))
        subprocess.run(["sh", "-e", "-c", command], check=True)


def main() -> int:
    directory = Path(sys.argv[1])
    cell = json.loads((directory / "cell.json").read_text())
    try:
        disks = set_up(cell)
        runs = {rw: measure(disks, directory, rw, cell) for rw in cell["rw"]}
    except (OSError, TimeoutError, fio.FioError, subprocess.CalledProcessError) as error:
        print(f"cell: {error}", file=sys.stderr)
        return 1
    (directory / "result.json").write_text(json.dumps(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
