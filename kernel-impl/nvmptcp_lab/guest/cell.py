# SPDX-License-Identifier: GPL-2.0-or-later
"""One performance cell, inside the guest: target, connections, fio, counters.

`python -m nvmptcp_lab.guest.cell DIRECTORY` reads DIRECTORY/cell.json, writes fio-RW.json beside it
and, when all is done, result.json. `..perf` is the other side of it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from . import fabrics, fio, nvmet, sockets


def set_up(cell: dict[str, Any]) -> Path:
    """Target, ports and connections. Returns the host's block device."""
    subsystem = nvmet.subsystem(nvmet.null_block(cell["size_mib"], cell["memory_backed"]))
    for number, traddr in enumerate(cell["traddrs"], 1):
        nvmet.add_port(nvmet.Port(number, traddr, variant=cell["transport"], attributes="adda"
                                  if cell["transport"] == "mptcp" else "none"), subsystem)
    for _ in range(cell["controllers_per_path"]):
        for traddr in cell["traddrs"]:
            fabrics.connect(traddr, variant="mptcp" if cell["transport"] == "mptcp" else None,
                            options="duplicate_connect," + cell["connect_options"])
    device = fabrics.block_device()
    fabrics.set_iopolicy(cell["iopolicy"])
    return device


def measure(device: Path, directory: Path, rw: str, cell: dict[str, Any]) -> dict[str, Any]:
    """One fio run with the subflow counters around it."""
    before = sockets.subflows()
    data = fio.run(device, directory / f"fio-{rw}.json", [
        "--name=cell", "--ioengine=libaio", f"--rw={rw}", f"--bs={cell['bs']}",
        f"--iodepth={cell['iodepth']}", f"--numjobs={cell['numjobs']}",
        f"--runtime={cell['runtime']}", "--time_based", *cell["fio_options"],
    ])
    flows = sockets.difference(before, sockets.subflows())
    return {"job": data["jobs"][0], "subflows": [vars(flow) for flow in flows]}


def main() -> int:
    directory = Path(sys.argv[1])
    cell = json.loads((directory / "cell.json").read_text())
    try:
        device = set_up(cell)
        runs = {rw: measure(device, directory, rw, cell) for rw in cell["rw"]}
    except (OSError, TimeoutError, fio.FioError) as error:
        print(f"cell: {error}", file=sys.stderr)
        return 1
    (directory / "result.json").write_text(json.dumps(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
