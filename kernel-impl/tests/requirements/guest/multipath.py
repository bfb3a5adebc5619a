# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Native multipath, ANA and congestion."""

import subprocess
import time
from pathlib import Path
from typing import Any

from nvmptcp_lab.guest import discovery, fabrics, nvmet

from .situation import SETTLE, TARGET, connect, ip, main, mark, target, transfer

SECOND = "10.0.2.2"
ANA_LOG_PAGE = 0x0C
TOS = 10 << 2  # DSCP 10 (AF11) in the place that it has in the IP header


def group() -> dict[str, Any]:
    """Two ports of one subflow group, each announced on connections to the other. Port 1 reports
    the namespace as non-optimized, port 2 as optimized.
    """
    ports = [nvmet.Port(number, address, variant="mptcp", attributes="adda", subflow_group=7)
             for number, address in enumerate((TARGET, SECOND), 1)]
    target(*ports)
    nvmet.write(ports[0].path / "ana_groups" / "1" / "ana_state", "non-optimized")
    logs = [[entry.fields() for entry in discovery.read_log(port.traddr)
             if entry.subtype == discovery.NVM_SUBSYSTEM] for port in ports]
    connections = []
    for subflows, traddr, options in (
            (0, TARGET, ""), (8, TARGET, ""), (8, SECOND, ""), (8, TARGET, f"tos={TOS}")):
        ip("host", "mptcp", "limits", "set", "subflows", str(subflows))
        begin = mark()
        controller = connect(options, traddr)
        connections.append({
            "begin": begin, "queues": controller.queues(), "ana": _ana_state(controller),
            "whole": transfer(), **_multipath_paths(controller), "end": mark()})
        controller.disconnect()
        time.sleep(SETTLE)
    return {"logs": logs, "connections": connections}


def _ana_state(controller: fabrics.Controller) -> dict[int, int]:
    """ANA state by group, from the log page that is read over the wire."""
    log = subprocess.run(
        ["nvme", "get-log", f"/dev/{controller.name}", f"--log-id={ANA_LOG_PAGE}",
         "--log-len=4096", "--raw-binary"], check=True, capture_output=True).stdout
    states, offset = {}, 16
    for _ in range(int.from_bytes(log[8:10], "little")):
        descriptor = log[offset:offset + 32]
        states[int.from_bytes(descriptor[:4], "little")] = descriptor[16] & 0xF
        offset += 32 + 4 * int.from_bytes(descriptor[4:8], "little")
    return states


def _multipath_paths(controller: fabrics.Controller) -> dict[str, Any]:
    """What native multipath makes of the association: controllers, and paths to the namespace."""
    subsystem = (controller.path / "subsystem").resolve()
    names = [entry.name for entry in subsystem.iterdir() if entry.name.startswith("nvme")]
    return {
        "native": Path("/sys/module/nvme_core/parameters/multipath").read_text().strip(),
        "controllers": [name for name in names if name.removeprefix("nvme").isdigit()],
        "paths": [entry.name for entry in controller.path.glob("nvme*c*n*")],
    }


if __name__ == "__main__":
    main((group,))
