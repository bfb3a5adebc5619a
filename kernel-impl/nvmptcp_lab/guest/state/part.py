# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's part in counting what a target holds for its hosts, idle.

`python -m nvmptcp_lab.guest.state.part DIRECTORY NAME`, NAME being `target` or `host1`, reads
DIRECTORY/cell.json and leaves DIRECTORY/NAME/result.json. `nvmptcp_lab.state` is the other side.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .. import cell, fabrics, netns, nvmet
from ..part import meeting

SETTLE = 5  # s of virtual time: subflows join, RCU frees, delayed work is done
FIRST = 1  # hosts that come before the first count: caches and modules are warm then


def count() -> dict[str, Any]:
    """Memory in bytes (/proc/meminfo, /proc/slabinfo) and open TCP sockets (ss) of the target."""
    time.sleep(SETTLE)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    time.sleep(SETTLE)
    memory = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, value, *_ = line.replace(":", " ").split()
        memory[name] = int(value) * 1024
    slabs = {}
    for line in Path("/proc/slabinfo").read_text().splitlines()[2:]:
        name, active, _, size, *_ = line.split()
        slabs[name] = {"objects": int(active), "object_bytes": int(size)}
    return {"used_bytes": memory["MemTotal"] - memory["MemFree"], "slab_bytes": memory["Slab"],
            "slabs": slabs, "sockets": {"tcp": _sockets("-t"), "mptcp": _sockets("-M")}}


def _sockets(option: str) -> int:
    listing = subprocess.run(
        [*netns.entering("target"), "ss", option, "-nH", "state", "established"],
        check=True, capture_output=True, text=True).stdout
    return len(listing.splitlines())


def connect(wanted: dict[str, Any], first: int, last: int) -> None:
    """Connect hosts of these numbers, each with a host NQN of its own, to all ports."""
    for host in range(first, last + 1):
        for traddr in wanted["traddrs"]:
            fabrics.connect(traddr, nqn=nvmet.NQN,
                            variant="mptcp" if wanted["transport"] == "mptcp" else None,
                            options=wanted["connect_options"],
                            host_id=f"{fabrics.HOST_ID[:-12]}{host:012}")


def main() -> int:
    directory, name = Path(sys.argv[1]), sys.argv[2]
    wanted = json.loads((directory / "cell.json").read_text())
    mine = directory / name
    mine.mkdir()
    meet = meeting(directory, name, ["target", "host1"])
    found: list[dict[str, Any]] = []
    try:
        if name == "target":
            cell.offer(wanted, cell.null_blocks(wanted))
        meet("offered")
        for point, first, last in (("first", 1, FIRST),
                                   ("all", FIRST + 1, FIRST + wanted["clients"])):
            if name != "target":
                connect(wanted, first, last)
            meet(f"{point}-are-there")
            if name == "target":
                found.append(count())
            meet(f"{point}-are-counted")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    (mine / "result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
