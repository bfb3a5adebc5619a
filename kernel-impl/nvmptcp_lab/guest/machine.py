# SPDX-License-Identifier: GPL-2.0-or-later
"""A real machine's part in a performance cell; `nvmptcp_conformance.perf.machines` calls it.

`python3 -m nvmptcp_lab.guest.machine VERB`, run as root in a directory with cell.json. Target:
`offer`, `withdraw`; hosts: `connect`, `measure`, which leaves result.json and what fio writes, and
`disconnect`; both: `about` and `counters`, as JSON on standard output. Needs nothing but Python,
iproute2 and, on hosts, fio.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import counters, fabrics, fio, nvmet
from .cell import connect, measure, nqn, offer

SUBSYSTEMS, PORTS = nvmet.NVMET / "subsystems", nvmet.NVMET / "ports"
DISKS = "disks.json"


# Kernel modules, and what is there when they are, or are built in.
MODULES = {"nvmet": nvmet.NVMET, "nvmet-tcp": Path("/sys/module/nvmet_tcp"),
           "null_blk": nvmet.NULLB, "nvme-tcp": Path("/sys/module/nvme_tcp")}


def _load(*modules: str) -> None:
    """Load what isn't there. Raises OSError with modprobe's words."""
    for module in modules:
        if not MODULES[module].exists():
            done = subprocess.run(["modprobe", module], capture_output=True, text=True)
            if done.returncode:
                raise OSError(f"modprobe {module}: {done.stderr.strip()}")


def _about(_cell: dict[str, Any]) -> object:
    if os.geteuid():
        raise OSError("the account is not root's")
    multipath = Path("/sys/module/nvme_core/parameters/multipath")
    return {"release": os.uname().release,
            "native_multipath": not multipath.exists() or multipath.read_text().strip() == "Y"}


def _ours(cell: dict[str, Any]) -> tuple[list[Path], list[Path]]:
    """The subsystems and ports of a cell."""
    return ([SUBSYSTEMS / nqn(host) for host in range(1, cell["hosts"] + 1)],
            [PORTS / str(number) for number in range(1, len(cell["traddrs"]) + 1)])


def _offer(cell: dict[str, Any]) -> object:
    _load("nvmet", "nvmet-tcp", *([] if cell["block_devices"] else ["null_blk"]))
    subsystems, ports = _ours(cell)
    # What is there already may be somebody else's, and is not to be withdrawn.
    for path in (*subsystems, *ports):
        if path.exists():
            raise OSError(f"{path} exists already: the target is in use, or left from another run")
    given = [Path(name) for name in cell["block_devices"]]
    for block in given:
        if not block.is_block_device():
            raise OSError(f"{block}: no such block device")
    try:
        offer(cell, given or [nvmet.null_block(cell["size_mib"], False, f"nvmptcp{host}")
                              for host in range(cell["hosts"])], None)
    except OSError:
        _withdraw(cell)
        raise
    return None


def _withdraw(cell: dict[str, Any]) -> object:
    subsystems, ports = _ours(cell)
    for port in ports:
        for link in port.glob("subsystems/*"):
            link.unlink()
        _remove(port)
    for subsystem in subsystems:
        for namespace in subsystem.glob("namespaces/*"):
            nvmet.write(namespace / "enable", 0)
            namespace.rmdir()
        _remove(subsystem)
    for block in nvmet.NULLB.glob("nvmptcp*"):
        block.rmdir()
    return None


def _remove(directory: Path) -> None:
    if directory.exists():
        directory.rmdir()


def _connect(cell: dict[str, Any]) -> object:
    _load("nvme-tcp")
    disks = connect(cell, [cell["host"]], netns=None, **cell["identity"])
    fabrics.set_iopolicy(cell["iopolicy"], nqn(cell["host"]))
    Path(DISKS).write_text(json.dumps([str(disk) for disk in disks]))
    return None


def _measure(cell: dict[str, Any]) -> object:
    disks = [Path(name) for name in json.loads(Path(DISKS).read_text())]
    rw = cell["rw"][0]
    run = measure(disks, Path.cwd(), rw, cell, [None])
    Path("result.json").write_text(json.dumps({rw: run}))
    return None


def _disconnect(cell: dict[str, Any]) -> object:
    for entry in Path("/sys/class/nvme").iterdir():
        if (entry / "subsysnqn").read_text().strip() == nqn(cell["host"]):
            fabrics.Controller(entry.name).disconnect()
    return None


def _counters(_cell: dict[str, Any]) -> object:
    return counters.read([None])


VERBS: dict[str, Callable[[dict[str, Any]], object]] = {
    "about": _about, "offer": _offer, "withdraw": _withdraw, "connect": _connect,
    "measure": _measure, "disconnect": _disconnect, "counters": _counters}


def main() -> int:
    file = Path("cell.json")
    try:
        found = VERBS[sys.argv[1]](json.loads(file.read_text()) if file.exists() else {})
    except (OSError, TimeoutError, fio.FioError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
