# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Transport Specific Address Subtype."""

import json
import time
from pathlib import Path
from typing import Any

from nvmptcp_lab.guest import fabrics, nvmet

from .ports import change, read_log, refer
from .situation import SETTLE, TARGET, main, on, target

FULL = nvmet.Port(1, TARGET, variant="mptcp", attributes="adda,dcsr,mpreq", maximum_subflows=255,
                  subflow_group=0xFFFF)
PLAIN = nvmet.Port(2, "10.0.2.2")
BARE = nvmet.Port(3, TARGET, trsvcid=4421, variant="mptcp")
LATE = nvmet.Port(4, TARGET, trsvcid=4422, variant="mptcp")
TCPV = 1024 + 768 + 1  # of the first entry of a log page, in bytes
SECOND = "nqn.2026-11.org.example:second"


def _second_subsystem(*ports: nvmet.Port) -> None:
    """Another NVM subsystem behind ports that are open already."""
    path = nvmet.NVMET / "subsystems" / SECOND
    path.mkdir()
    nvmet.write(path / "attr_allow_any_host", 1)
    for port in ports:
        (port.path / "subsystems" / SECOND).symlink_to(path)


def _protocols(port: nvmet.Port, variant: str) -> list[str]:
    controller = fabrics.connect(port.traddr, trsvcid=port.trsvcid, variant=variant)
    time.sleep(SETTLE)
    protocols = [protocol for _, protocol, _ in controller.queues()]
    controller.disconnect()
    return protocols


def _stock_host(port: nvmet.Port) -> dict[str, Any]:
    """What nvme-cli, which knows no TCPV, makes of the entry of a port with TCPV 1h."""
    where = ["-t", "tcp", "-a", port.traddr, "-s", str(port.trsvcid), "-q", fabrics.HOST_NQN,
             "-I", fabrics.HOST_ID]
    log = json.loads(on("host", "nvme", "discover", *where, "-o", "json"))
    on("host", "nvme", "connect-all", *where)
    controllers = [fabrics.Controller(path.name) for path in sorted(
        Path("/sys/class/nvme").glob("nvme[0-9]*"))]
    queues = [controller.queues() for controller in controllers]
    for controller in controllers:
        controller.disconnect()
    return {"records": log["records"], "queues": queues}


def logs() -> dict[str, Any]:
    """The logs of ports with everything, with nothing and with TCP, and who connects to them."""
    subsystem = target(FULL, PLAIN, BARE)
    _second_subsystem(FULL, BARE)
    refer(FULL, BARE)
    change(PLAIN, ("tcp_variant", "mptcp"), ("mptcp_attrs", "adda,dcsr,mpreq"), ("mptcp_maxsf", 9),
           ("mptcp_sfgid", 9), ("tcp_variant", "tcp"))
    ports = {"full": FULL, "plain": PLAIN, "bare": BARE}
    result: dict[str, Any] = {
        "logs": {name: read_log(port).hex() for name, port in ports.items()},
        "stock": _stock_host(BARE),
    }
    result["protocols"] = {name: _protocols(port, "mptcp") for name, port in ports.items()}
    # a target whose system administrator switches MPTCP off
    on("target", "sysctl", "-w", "net.mptcp.enabled=0")
    result["switched off"] = {"protocols": _protocols(BARE, "mptcp"), "tcpv": read_log(BARE)[TCPV]}
    try:
        nvmet.add_port(LATE, subsystem)
        result["late"] = read_log(LATE).hex()
    except OSError as error:
        result["late"] = f"refused: {error.errno}"
    return result


SITUATIONS = (logs,)

if __name__ == "__main__":
    main(SITUATIONS)
