# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's part in a performance cell where host and target are kernels of their own.

`python -m nvmptcp_lab.guest.part DIRECTORY NAME`, NAME being `target` or `host1`, `host2`, …, does
what `.cell` does in one kernel; the kernels wait for one another through files in DIRECTORY, which
all of them mount. It leaves DIRECTORY/NAME/result.json, and fio's JSON beside it.
`..separate_cell` is the other side of it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import counters, devices, fabrics, fio
from .cell import connect, measure, null_blocks, offer, play

POLL, AFTER = 0.02, 0.1  # s

Meet = Callable[[str], None]


def meeting(directory: Path, me: str, members: Sequence[str]) -> Meet:
    """A function that returns in all kernels at the same time, once all have called it."""
    def meet(point: str) -> None:
        mine = directory / f"{point}.{me}"
        partial = directory / f"{mine.name}.partial"
        partial.write_text(str(time.time_ns()))
        partial.rename(mine)
        others = [directory / f"{point}.{name}" for name in members]
        while not all(file.exists() for file in others):
            time.sleep(POLL)
        # One clock: all compute the same moment, when all have seen the last one's file.
        moment = max(int(file.read_text()) for file in others) / 1e9 + AFTER
        time.sleep(max(0, moment - time.time()))

    return meet


def target(cell: dict[str, Any], meet: Meet) -> dict[str, Any]:
    """The target's part. Returns its counters for each pattern."""
    offer(cell, null_blocks(cell))
    meet("offered")
    runs = {}
    for rw in cell["rw"]:
        counted = counters.read(["target"])
        meet(f"{rw}-begins")
        play(cell["events"])
        meet(f"{rw}-is-over")
        runs[rw] = {"counters": counters.read(["target"]) - counted}
    return runs


def host(cell: dict[str, Any], number: int, directory: Path, meet: Meet) -> dict[str, Any]:
    """A host's part. Returns what `.cell.measure` does for each pattern."""
    if cell["hosts"] > 1:
        cell = {**cell, "fio_options": [*cell["fio_options"], fio.BINS]}
    meet("offered")
    disks = connect(cell, [number])
    fabrics.set_iopolicy(cell["iopolicy"])
    runs = {}
    for rw in cell["rw"]:
        def ready(point: str = f"{rw}-begins") -> None:
            meet(point)

        runs[rw] = measure(disks, directory, rw, cell, ["host"], ready)
        meet(f"{rw}-is-over")
    return runs


def main() -> int:
    directory, name = Path(sys.argv[1]), sys.argv[2]
    cell = json.loads((directory / "cell.json").read_text())
    netns = name.rstrip("0123456789")
    members = ["target", *(f"host{number}" for number in range(1, cell["hosts"] + 1))]
    # Each line of an event says with `-n` where it happens.
    events = [(at, "\n".join(line for line in command.splitlines() if f" -n {netns} " in line))
              for at, command in cell["events"]]
    cell["events"] = [event for event in events if event[1]]
    mine = directory / name
    mine.mkdir()
    meet = meeting(directory, name, members)
    try:
        devices.set_up(cell["paths"], cell["bonding"], cell["bond_addresses"], cell["gso"], [netns])
        runs = (target(cell, meet) if netns == "target"
                else host(cell, int(name.removeprefix("host")), mine, meet))
    except (OSError, TimeoutError, fio.FioError, subprocess.CalledProcessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    (mine / "result.json").write_text(json.dumps(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
