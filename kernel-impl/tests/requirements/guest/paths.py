# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Addresses, joins and path loss."""

import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvmptcp_conformance.endpoints.mptcp_socket import IPPROTO_MPTCP
from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.mptcp_stream import LISTENER
from nvmptcp_lab.guest import discovery, fabrics, nvmet
from nvmptcp_lab.guest.netns import inside
from nvmptcp_lab.guest.sockets import difference, subflows

from .situation import (
    SETTLE,
    TARGET,
    block,
    connect,
    counters,
    ip,
    kernel_log,
    main,
    mark,
    on,
    read,
    subflow_ends,
    target,
    transfer,
    unblock,
    wait_until,
)
from .wire import Joiner, Observer, Tap

SIZE, OFFSET = 1 << 20, 4 << 20  # bytes: of a transfer, and where the first one of `loss` is
SHORT = 0.02  # seconds: far less than any retransmission timer


def announced() -> dict[str, Any]:
    """All addresses announced and joined; two more appear, later one goes; the host announces its
    own, and the target's limits are those of the documentation (no announced address is joined).
    """
    ip("target", "mptcp", "limits", "set", "subflows", "3", "add_addr_accepted", "0")
    for path in range(3, 5):
        ip("target", "mptcp", "endpoint", "delete", "id", str(path))
    for path in range(1, 5):
        ip("host", "mptcp", "endpoint", "add", f"10.0.{path}.1", "dev", f"path{path}", "signal")
    target(nvmet.Port(1, TARGET, variant="mptcp", attributes="adda", maximum_subflows=4))
    portids = [[entry.portid for entry in discovery.read_log(TARGET, variant="mptcp")]]
    controller = connect()
    cntlids = [_cntlid(controller)]
    before = controller.queues()
    for path in range(3, 5):
        ip("target", "mptcp", "endpoint", "add", f"10.0.{path}.2", "dev", f"path{path}", "signal")
    time.sleep(SETTLE)
    cntlids.append(_cntlid(controller))
    portids.append([entry.portid for entry in discovery.read_log(TARGET, variant="mptcp")])
    after = controller.queues()
    withdrawn_at = mark()
    ip("target", "mptcp", "endpoint", "delete", "id", "2")
    time.sleep(SETTLE)
    whole = transfer()
    result = {
        "before": before, "after": after, "withdrawn": controller.queues(), "whole": whole,
        "withdrawn_at": withdrawn_at, "cntlids": cntlids, "portids": portids,
    }
    controller.disconnect()
    return result


def _cntlid(controller: fabrics.Controller) -> int:
    """CNTLID (bytes 79:78) of Identify Controller, asked over the wire."""
    done = subprocess.run(["nvme", "id-ctrl", f"/dev/{controller.name}", "--raw-binary"],
                          check=True, capture_output=True)
    return int.from_bytes(done.stdout[78:80], "little")


def refused() -> dict[str, Any]:
    """Joins to 10.0.2.2 are refused, joins to 10.0.3.2 have no answer."""
    block("target", "l ip daddr 10.0.2.2 tcp flags syn reject with tcp reset",
          "l ip daddr 10.0.3.2 tcp flags syn drop")
    target()
    controller = connect()
    before = controller.queues()
    time.sleep(10)
    return {"before": before, "after": controller.queues(), "whole": transfer(),
            "state": controller.attribute("state"), "log": kernel_log("error recovery|timeout")}


def without_adda() -> dict[str, Any]:
    """A port without ADDA in a namespace that has addresses to announce; then, at `announces_at`,
    the host announces addresses, and the target's limits allow to join them; then, at `adda_at`,
    the target has an endpoint to open subflows from and one to announce, at a port with ADDA.
    """
    with_adda = nvmet.Port(2, TARGET, trsvcid=4421, variant="mptcp", attributes="adda")
    target(nvmet.Port(1, TARGET, variant="mptcp"), with_adda)
    controller = connect()
    queues = controller.queues()
    controller.disconnect()
    time.sleep(SETTLE)
    ip("target", "mptcp", "endpoint", "flush")
    for path in range(2, 5):
        ip("host", "mptcp", "endpoint", "add", f"10.0.{path}.1", "dev", f"path{path}", "signal")
    announces_at = mark()
    connect().disconnect()
    time.sleep(SETTLE)
    ip("target", "mptcp", "endpoint", "add", "10.0.3.2", "dev", "path3", "signal")
    ip("target", "mptcp", "endpoint", "add", "10.0.2.2", "subflow")
    adda_at = mark()
    controller = fabrics.connect(TARGET, trsvcid=with_adda.trsvcid, variant="mptcp")
    time.sleep(SETTLE)
    return {"queues": queues, "announces_at": announces_at, "adda_at": adda_at,
            "queues with ADDA": controller.queues()}


def strangers() -> dict[str, Any]:
    """A stranger who knows a connection's keys tries to join it, here and there.

    Ports 1, 2 and 4 are a subflow group, the last with a TRSVCID of its own. Ports 3 and 5 at
    10.0.4.2 are in none; 3 is without ADDA. 10.0.3.2 is announced; 10.0.3.22 is an address of the
    target that is neither, at first; then another service listens there.
    """
    for path in (2, 4):
        ip("target", "mptcp", "endpoint", "delete", "id", str(path))
    ip("target", "address", "add", "10.0.3.22/24", "dev", "path3")
    target(*(nvmet.Port(number, address, trsvcid=service, variant="mptcp", attributes=attributes,
                        subflow_group=group)
             for number, address, service, attributes, group in (
                 (1, TARGET, 4420, "adda", 7), (2, "10.0.2.2", 4420, "adda", 7),
                 (3, "10.0.4.2", 4420, "none", 0), (4, "10.0.4.2", 4421, "adda", 7),
                 (5, "10.0.4.2", 4422, "adda", 0))))
    taps = [Tap("host", path) for path in range(1, 5)]
    observer = Observer(*taps)
    controller = connect()
    connection = observer.update()[-1]  # the I/O queue's
    token = connection.token(LISTENER)
    before = controller.queues()
    known = subflow_ends("target")

    def stranger(destination: str, dport: int = 4420) -> Joiner:
        path = int(destination.split(".")[2])
        return Joiner(taps[path - 1], f"10.0.{path}.99", destination, dport)

    refused = {
        "plain SYN, announced address": stranger("10.0.3.2").syn(None),
        "MP_CAPABLE, announced address": stranger("10.0.3.2").syn(mptcp.MPCapableSYN()),
        "unknown token, port": stranger(TARGET).join(token ^ 1),
        "unknown token, announced address": stranger("10.0.3.2").join(token ^ 1),
        "neither announced nor a port": stranger("10.0.3.22").join(token),
    }
    unharmed = {"queues": controller.queues() == before,
                "subflows": sorted(subflow_ends("target")) == sorted(known),
                "transfer": transfer()}
    with inside("target"), \
            socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP) as other:
        other.bind(("10.0.3.22", 4420))
        other.listen()
        outside = {"another service": stranger("10.0.3.22").join(token)}
    outside["port"] = stranger("10.0.4.2").join(token)
    outside["port, other TRSVCID"] = stranger("10.0.4.2", 4422).join(token)
    accepted = {"plain SYN, port": stranger(TARGET).syn(None)}
    for destination, dport in ((TARGET, 4420), ("10.0.2.2", 4420), ("10.0.4.2", 4421),
                               ("10.0.3.2", 4420)):
        joiner = stranger(destination, dport)
        name = f"{destination}:{dport}"
        accepted[f"join, {name}"] = joiner.join(token)
        assert joiner.hmacs_fit(connection), "the SYN/ACK's HMAC is wrong"
        accepted[f"HMAC, {name}"] = joiner.complete(connection)
        joiner.reset()
    return {"refused": refused, "unharmed": unharmed, "outside": outside, "accepted": accepted,
            "alone": _alone(stranger)}


def _alone(stranger: Callable[[str], Joiner]) -> dict[str, str]:
    """Joins of a connection to port 3, which is in no group and announces nothing."""
    observer = Observer(Tap("host", 4))
    fabrics.connect("10.0.4.2", variant="mptcp", options="duplicate_connect")
    token = observer.update()[-1].token(LISTENER)
    return {destination: stranger(destination).join(token)
            for destination in ("10.0.4.2", TARGET, "10.0.3.2")}


def loss() -> dict[str, Any]:
    """Four paths. While the host writes, what goes to the target over path 3 is dropped, and then
    the subflows there are gone; those on path 2 are reset. While it reads, the same is done to what
    comes to the host over path 4.
    """
    target()
    controller = connect()
    queues = [controller.queues()]
    block("target", "i iifname path3 drop")
    write_at = mark()
    with ThreadPoolExecutor() as pool:
        writes = [pool.submit(transfer, SIZE, OFFSET)]
        time.sleep(SHORT)
        on("host", "ss", "-K", "dst", "10.0.3.2")
        time.sleep(SHORT)
        queues.append(controller.queues())
        writes.append(pool.submit(transfer, SIZE, OFFSET + SIZE))
        on("host", "ss", "-K", "dst", "10.0.2.2")
        whole = [write.result() for write in writes]
        expected = read(SIZE, OFFSET)
        block("host", "i iifname path4 drop")
        read_at = mark()
        again = pool.submit(read, SIZE, OFFSET)
        time.sleep(SHORT)
        on("target", "ss", "-K", "dst", "10.0.4.1")
        on("host", "ss", "-K", "dst", "10.0.4.2")
        whole.append(again.result() == expected)
    queues.append(controller.queues())
    unblock("target")
    unblock("host")
    time.sleep(20)
    return {"queues": queues, "later": controller.queues(), "whole": whole, "write_at": write_at,
            "read_at": read_at, "state": controller.attribute("state"),
            "log": kernel_log(r"nvme\d|nvmet: ctrl")}


def last() -> dict[str, Any]:
    """Two paths. All subflows go, and the host waits 7 s; then the host joins again in time; then
    the target's subflows go, and nothing comes through any more.
    """
    default = int(on("host", "sysctl", "-n", "net.mptcp.close_timeout"))
    on("host", "sysctl", "-w", "net.mptcp.close_timeout=7")
    on("target", "sysctl", "-w", "net.mptcp.close_timeout=600")
    target()
    controller = connect("keep_alive_tmo=15,reconnect_delay=1")
    on("host", "ss", "-K", "dport", "=", ":4420")
    time.sleep(0.1)
    without = controller.queues()
    waited = wait_until(lambda: controller.attribute("state") != "live", 60)
    recovered = wait_until(lambda: controller.attribute("state") == "live", 60)
    controller.disconnect()
    time.sleep(SETTLE)

    on("host", "sysctl", "-w", "net.mptcp.close_timeout=60")
    controller = connect("keep_alive_tmo=120")
    on("host", "ss", "-K", "dport", "=", ":4420")
    time.sleep(3)
    empty = controller.queues()
    log = kernel_log("nvme1:|nvme0:")
    ip("host", "mptcp", "endpoint", "add", "10.0.2.1", "dev", "path2", "subflow")
    time.sleep(SETTLE)
    rejoined = controller.queues()
    rejoin = {"empty": empty, "rejoined": rejoined, "whole": transfer(),
              "quiet": log == kernel_log("nvme1:|nvme0:")}
    controller.disconnect()
    time.sleep(60)  # until the target has nothing left of the former associations

    controller = connect("keep_alive_tmo=5")
    established = counters("target")["MPCurrEstab"]
    block("target", "i drop", "o drop")
    on("target", "ss", "-K", "sport", "=", ":4420")
    time.sleep(1)
    kept = counters("target")["MPCurrEstab"]
    released = wait_until(lambda: counters("target")["MPCurrEstab"] == 0, 120, 0.5)
    return {"default": default, "without": without, "waited": waited, "recovered": recovered,
            "rejoin": rejoin, "established": established, "kept": kept, "released": released,
            "expired": kernel_log("keep-alive timer .* expired")}


def backup() -> dict[str, Any]:
    """Two paths. The host joins from a second address as backup; later the target makes 10.0.2.2 a
    backup by MP_PRIO.
    """
    ip("host", "address", "add", "10.0.1.11/24", "dev", "path1")
    ip("host", "mptcp", "endpoint", "add", "10.0.1.11", "subflow", "backup")
    target()
    controller = connect()
    queues = controller.queues()
    carried = []
    for _ in range(2):
        before = subflows()
        assert transfer(SIZE), "the data came back damaged"
        carried.append([vars(flow) for flow in difference(before, subflows())])
        ip("target", "mptcp", "endpoint", "change", "id", "2", "backup")
        time.sleep(SETTLE)
    return {"queues": queues, "carried": carried}


SITUATIONS = (announced, refused, without_adda, strangers, loss, last, backup)

if __name__ == "__main__":
    main(SITUATIONS)
