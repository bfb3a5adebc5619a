# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Management visibility."""

import contextlib
import re
import socket
import time
from collections import Counter
from typing import Any

from nvmptcp_lab.guest import discovery, fabrics, nvmet, sockets
from nvmptcp_lab.guest.netns import inside

from .middlebox import FIRST_STAYS, STRIP, box
from .ports import change
from .situation import (
    SETTLE,
    TARGET,
    connect,
    counters,
    ip,
    kernel_log,
    main,
    on,
    target,
    transfer,
)

BURST = 15  # refusals at once, more than the kernel logs of one kind (10 in 5 s)
REQUIRED = nvmet.Port(1, TARGET, variant="mptcp", attributes="mpreq")
OTHER = nvmet.Port(2, TARGET, trsvcid=4421, variant="mptcp", attributes="mpreq")


def host() -> dict[str, Any]:
    """What a host shows of associations by both variants, of one of which a connection fell back
    and another lost a subflow.
    """
    target()
    result: dict[str, Any] = {}
    for variant in (None, "tcp"):
        controller = fabrics.connect(TARGET, variant=variant)
        result[str(variant)] = {"variant": controller.attribute("tcp_variant"),
                                "queues": controller.queues()}
        controller.disconnect()

    with box("target", *FIRST_STAYS):
        controller = connect()
    result["fell back"] = _seen(controller)
    controller.disconnect()

    controller = connect()
    result["mptcp"] = _seen(controller)
    victim = max(sockets.subflows(), key=lambda key: sockets.subflows()[key].remote)
    on("host", "ss", "-K", "sport", "=", f":{victim.split()[0].rpartition(':')[2]}")
    time.sleep(SETTLE)
    result["lost a subflow"] = _seen(controller)
    controller.disconnect()

    limited = {}
    for subflows in (0, 1, 2):  # further ones, besides the first
        ip("host", "mptcp", "limits", "set", "subflows", str(subflows))
        controller = connect()
        limited[subflows] = controller.queues()
        controller.disconnect()
    return {**result, "limited": limited}


def _seen(controller: fabrics.Controller) -> dict[str, Any]:
    """sysfs, and beside it what ss(8) knows: (local, remote) of the subflows of each connection."""
    found = sockets.subflows().items()
    connections = Counter(flow.token or key for key, flow in found)
    return {"variant": controller.attribute("tcp_variant"), "queues": controller.queues(),
            "subflows": sorted(connections.values()),
            "addresses": sorted((flow.local, flow.remote) for _, flow in found),
            "target": sorted(int(count) + 1 for count in re.findall(
                r"subflows:(\d+)", on("target", "ss", "-HMni", "state", "established")))}


def port() -> dict[str, Any]:
    """A port that is made one of TCP only; attributes written while a connection is open."""
    port = nvmet.Port(1, TARGET, variant="mptcp", attributes="adda")
    target(port)
    controller = connect()
    before = {"queues": controller.queues(), "subflows": sorted(sockets.subflows())}
    writes: dict[str, int | str | None] = {}
    for name, value in (("tcp_variant", "tcp"), ("tcp_variant", "mptcp"),
                        ("mptcp_attrs", "mpreq"), ("mptcp_attrs", "none")):
        try:
            nvmet.write(port.path / f"addr_{name}", value)
            writes[f"{name} {value}"] = "taken"
        except OSError as error:
            writes[f"{name} {value}"] = error.errno
    time.sleep(SETTLE)
    after = {"queues": controller.queues(), "subflows": sorted(sockets.subflows())}
    kept = {name: (port.path / f"addr_{name}").read_text().strip()
            for name in ("tcp_variant", "mptcp_attrs")}
    whole = transfer()
    controller.disconnect()

    change(port, ("tcp_variant", "tcp"))
    answered = counters("host")["MPCapableSYNACKRX"]
    controller = connect()
    only_tcp = {"queues": controller.queues(), "whole": transfer(),
                "answered": counters("host")["MPCapableSYNACKRX"] - answered,
                "tcpv": sorted({entry.tsas[1] for entry in discovery.read_log(TARGET)})}
    return {"before": before, "after": after, "writes": writes, "kept": kept, "whole": whole,
            "only TCP": only_tcp}


def refusals() -> dict[str, Any]:
    """Refusals by MPREQ, as the port counts them: three, at accept and at the ICReq, then a burst,
    then hosts that use MPTCP; what another port counts; the port closed and opened again.
    """
    target(REQUIRED, OTHER)
    with contextlib.suppress(OSError):
        fabrics.connect(TARGET)
    _plain()
    with box("target", f"tcp flags & syn != syn meta length > 100 {STRIP}"), \
            contextlib.suppress(OSError):
        fabrics.connect(TARGET, variant="mptcp")
    result: dict[str, Any] = {"few": _refused(REQUIRED)}
    for _ in range(BURST):
        _plain()
    result |= {"burst": _refused(REQUIRED), "logged": len(kernel_log("MPTCP is required"))}
    connect().disconnect()
    result |= {"accepted": _refused(REQUIRED), "other": _refused(OTHER)}
    try:
        nvmet.write(REQUIRED.path / "addr_mptcp_refused", 0)
        result["write"] = None
    except OSError as error:
        result["write"] = error.errno
    change(REQUIRED, ("mptcp_attrs", "mpreq"))
    _plain()
    return result | {"opened again": _refused(REQUIRED)}


def _refused(port: nvmet.Port) -> int:
    return int((port.path / "addr_mptcp_refused").read_text())


def _plain() -> None:
    """Open a TCP connection, wait for its end."""
    with inside("host"), contextlib.suppress(ConnectionResetError):
        socket.create_connection((TARGET, 4420)).recv(1)


SITUATIONS = (host, port, refusals)

if __name__ == "__main__":
    main(SITUATIONS)
