# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Connections."""

import time
from typing import Any

from nvmptcp_lab.guest import fabrics, nvmet, sockets

from .bytewise import BytewiseHost, BytewiseTarget
from .middlebox import FIRST_FALLS_BACK, FIRST_STAYS, MP_CAPABLE, SYN, box
from .situation import SETTLE, TARGET, connect, kernel_log, main, on, target, transfer

SIZE = 1 << 20  # bytes


def queues() -> dict[str, Any]:
    """An association with digests over paths of different delay, to a port that is not on the first
    path and not on the usual trsvcid.
    """
    port = nvmet.Port(1, "10.0.2.2", trsvcid=4421, variant="mptcp", attributes="adda")
    target(port)
    controller = fabrics.connect(port.traddr, trsvcid=port.trsvcid, variant="mptcp",
                                 options="hdr_digest,data_digest")
    fabrics.block_device()
    time.sleep(SETTLE)
    wholes = [transfer(SIZE, SIZE * number) for number in range(3)]
    result = {"queues": controller.queues(), "wholes": wholes, "log": kernel_log("digest|recovery")}
    controller.disconnect()
    return result


def no_joins() -> dict[str, Any]:
    """No SYN with MP_JOIN is ever answered."""
    with box("target", f"{SYN} tcp option mptcp subtype 1 drop", path=2):
        target()
        controller = connect()
        return {"queues": controller.queues(), "whole": transfer()}


def mixed() -> dict[str, Any]:
    """Associations whose connections differ: in the protocol in effect, by a box that removes
    MP_CAPABLE from all SYNs but the first, or from the first only; and in their subflows.
    """
    target()
    result: dict[str, Any] = {}
    for name, rules in (("I/O fell back", FIRST_STAYS), ("admin fell back", FIRST_FALLS_BACK)):
        with box("target", *rules):
            controller = connect()
        before = controller.queues()
        wholes = [transfer()]
        time.sleep(30)  # keep alives go on, too
        wholes.append(transfer())
        result[name] = {"queues": before, "after": controller.queues(), "wholes": wholes,
                        "state": controller.attribute("state")}
        controller.disconnect()
    controller = connect()
    last = max(sockets.subflows().items(), key=lambda item: item[1].remote)
    on("host", "ss", "-K", "sport", "=", f":{last[0].split()[0].rpartition(':')[2]}")
    time.sleep(SETTLE)
    result["subflows"] = {"queues": controller.queues(), "wholes": [transfer()],
                          "state": controller.attribute("state")}
    return result


def lost_syn() -> dict[str, Any]:
    """SYNs with MP_CAPABLE are dropped during a first connect, and not during a second."""
    target()
    with box("target", f"{MP_CAPABLE} drop"):
        begin = time.time()
        try:
            fabrics.connect(TARGET, variant="mptcp")
            outcome = "connected"
        except OSError:
            outcome = "failed"
        end = time.time()
    return {"outcome": outcome, "begin": begin, "end": end, "queues": connect().queues()}


def bytewise_host() -> dict[str, Any]:
    """A host that sends ICReq, Connect and more byte by byte."""
    target()
    host = BytewiseHost(kato=30_000)
    for _ in range(3):
        host.keep_alive()
    return {}


def bytewise_target() -> dict[str, Any]:
    """A target that sends ICResp, the completion of Connect and more byte by byte."""
    target_ = BytewiseTarget()
    controller = connect()
    return {"queues": controller.queues(), "connections": len(target_.connections),
            "whole": transfer()}


SITUATIONS = (queues, no_joins, mixed, lost_syn, bytewise_host, bytewise_target)

if __name__ == "__main__":
    main(SITUATIONS)
