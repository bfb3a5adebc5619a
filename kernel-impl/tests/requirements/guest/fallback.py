# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Fallback to TCP."""

import contextlib
import socket
import time
from typing import Any

from nvmptcp_conformance.layers import nvme_tcp
from nvmptcp_lab.guest import fabrics, nvmet
from nvmptcp_lab.guest.netns import inside
from scapy.compat import raw

from .middlebox import STRIP, SYN, THIRD_ACK, box, corruption
from .situation import (
    SETTLE,
    TARGET,
    connect,
    counters,
    kernel_log,
    main,
    subflow_ends,
    target,
    transfer,
)

# Byte 300 of an IP packet is past all headers, that of the command capsule included; a segment of
# this length carries data of a command.
DATA, OFFSET = "meta length > 1000", 300
SILENT, EAGER = 30_001, 30_002  # ports of TCP connections of our own


def without_mpreq() -> dict[str, Any]:
    """Ports without MPREQ, with and without DCSR: a host of TCP, and hosts of MPTCP behind boxes
    that remove MPTCP from the SYN, from the third packet or from the first data.
    """
    ports = {"adda": nvmet.Port(1, TARGET, variant="mptcp", attributes="adda"),
             "dcsr": nvmet.Port(2, TARGET, trsvcid=4421, variant="mptcp", attributes="dcsr")}
    target(*ports.values())
    boxes = {"SYN": f"{SYN} {STRIP}", "third ACK": f"{THIRD_ACK} {STRIP}",
             "data": f"tcp flags & syn != syn meta length > 100 {STRIP}"}
    result: dict[str, Any] = {}
    for name, port in ports.items():
        for where, rule in {"nothing": None, **boxes}.items():
            with box("target", rule) if rule else contextlib.nullcontext():
                controller = fabrics.connect(port.traddr, trsvcid=port.trsvcid,
                                             variant="mptcp" if rule else None)
                fabrics.block_device()
                whole = transfer()
                result[f"{name}, {where}"] = {"queues": controller.queues(), "whole": whole}
                controller.disconnect()
    return result


def again() -> dict[str, Any]:
    """A controller whose connections fell back is reset when the box is gone."""
    target()
    with box("target", f"{SYN} {STRIP}"):
        controller = connect()
        before = controller.queues()
    nvmet.write(controller.path / "reset_controller", 1)
    time.sleep(SETTLE)
    return {"before": before, "after": controller.queues(),
            "state": controller.attribute("state")}


def with_mpreq() -> dict[str, Any]:
    """A port with MPREQ: a TCP connection that sends nothing, one that sends an ICReq at once, and
    the kernel's host behind a box that removes MPTCP from the first data.
    """
    target(attributes="mpreq")
    silent = _plain(SILENT, b"")
    eager = _plain(EAGER, raw(nvme_tcp.ICReq()))
    begin = time.time()
    with box("target", f"tcp flags & syn != syn meta length > 100 {STRIP}"):
        try:
            # EAGAIN, what the host makes of no answer, is no exception to Python's write()
            connected = fabrics.connect(TARGET, variant="mptcp").path.exists()
        except OSError:
            connected = False
    end = time.time()
    time.sleep(SETTLE)
    return {"silent": silent, "eager": eager, "connected": connected, "begin": begin, "end": end,
            "log": kernel_log("MPTCP is required"), "left": subflow_ends("target")}


def _plain(source: int, data: bytes) -> str:
    """Open a TCP connection from a port and send some data: what comes back within 5 s."""
    try:
        with inside("host"):
            connection = socket.create_connection((TARGET, 4420), source_address=("", source))
        connection.settimeout(5)
        with connection:
            if data:
                connection.sendall(data)
            return connection.recv(1024).hex() or "end"
    except ConnectionResetError:
        return "reset"
    except TimeoutError:
        return "nothing"


def after_data() -> dict[str, Any]:
    """A port with MPREQ and DCSR, one path. A box changes data that goes to the target, later, with
    a new association, data that goes to the host.
    """
    target(attributes="dcsr,mpreq")
    result: dict[str, Any] = {}
    for name, netns in (("to target", "host"), ("to host", "target")):
        controller = connect()
        before = controller.queues()
        infinite = {side: counters(side)["InfiniteMapRx"] for side in ("host", "target")}
        begin = time.time()
        with corruption(netns, 1, where=DATA, offset=OFFSET):
            changed = transfer(4096)
        end = time.time()
        time.sleep(30)  # keep alives go on, too
        whole = transfer()  # the infinite mapping comes with the next data
        result[name] = {
            "before": before, "after": controller.queues(), "changed": not changed,
            "begin": begin, "end": end, "whole": whole,
            "infinite": sum(counters(side)["InfiniteMapRx"] - infinite[side] for side in infinite),
            "state": controller.attribute("state")}
        controller.disconnect()
    return {**result, "log": kernel_log("error recovery|refused|fatal|timeout|I/O error")}


SITUATIONS = (without_mpreq, again, with_mpreq, after_data)

if __name__ == "__main__":
    main(SITUATIONS)
