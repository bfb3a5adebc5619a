# SPDX-License-Identifier: GPL-2.0-or-later
"""One performance cell, inside the guest: target, connections, fio, counters.

`python -m nvmptcp_lab.guest.cell DIRECTORY` reads DIRECTORY/cell.json, writes fio-RW.json beside it
and, when all is done, result.json. `..perf` is the other side of it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import counters, devices, fabrics, fio, nvmet, sockets


def set_up(cell: dict[str, Any]) -> list[Path]:
    """Target, ports and connections. Returns the block device of each host."""
    devices.set_up(cell["paths"], cell["bonding"], cell["bond_addresses"], cell["gso"])
    names = [nvmet.NQN, *(f"{nvmet.NQN}-{host}" for host in range(2, cell["hosts"] + 1))]
    subsystems = [
        nvmet.subsystem(nvmet.null_block(cell["size_mib"], cell["memory_backed"], f"nullb{number}"),
                        name) for number, name in enumerate(names)]
    for number, traddr in enumerate(cell["traddrs"], 1):
        port = nvmet.Port(number, traddr, variant=cell["transport"], attributes="adda"
                          if cell["transport"] == "mptcp" else "none")
        nvmet.add_port(port, subsystems[0])
        for subsystem in subsystems[1:]:
            nvmet.offer(port, subsystem)
    for host, name in enumerate(names, 1):
        plain = cell["transport"] == "tcp" or host > cell["hosts"] - cell["tcp_hosts"]
        for _ in range(cell["controllers_per_path"]):
            for traddr in cell["traddrs"]:
                fabrics.connect(traddr, nqn=name, variant=None if plain else "mptcp",
                                host_id=f"{fabrics.HOST_ID[:-12]}{host:012}",
                                options="duplicate_connect," + cell["connect_options"])
    disks = [fabrics.block_device(name) for name in names]
    fabrics.set_iopolicy(cell["iopolicy"])
    return disks


def measure(disks: list[Path], directory: Path, rw: str, cell: dict[str, Any]) -> dict[str, Any]:
    """One fio run, with a job for each disk, and the counters around it."""
    before, counted = sockets.subflows(), counters.read()
    sectors = [_sectors(disk) for disk in disks]
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
    flows = sockets.difference(before, sockets.subflows())
    return {"job": data["jobs"][0], "subflows": [vars(flow) for flow in flows],
            "counters": counters.read() - counted, "begin_unix_ms": begin,
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
