# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Security considerations."""

import random
import time
from typing import Any

from nvmptcp_conformance.layers import mptcp, nvme, nvme_tcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER, Connection
from scapy.compat import raw
from scapy.layers.inet import IP, TCP

from .situation import (
    SETTLE,
    TARGET,
    CommandError,
    connect,
    counters,
    ip,
    kernel_log,
    main,
    subflow_ends,
    target,
    transfer,
    wait_until,
)
from .wire import Answerer, Joiner, Observer, Tap

FLOOD = 1_000  # SYNs, as many as TCPV-SEC-008 has
FLOODER = "10.0.2.97"
LIMITS = (8, 64, 255, 256)


def controller_attacked() -> dict[str, Any]:
    """A stranger who knows a connection's keys attacks the controller. What it does wrongly it does
    rightly as well (`control`), so that it is known to work.
    """
    ip("target", "mptcp", "limits", "set", "subflows", "2")
    target()
    taps = [Tap("host", path) for path in range(1, 4)]
    observer = Observer(*taps)
    controller = connect()
    connection = observer.update()[-1]  # the I/O queue's
    token = connection.token(LISTENER)
    beyond = Joiner(taps[1], "10.0.2.98", "10.0.2.2")
    answer = beyond.join(token)
    limit = {"queues": controller.queues(),
             "beyond": beyond.complete(connection) if answer == "syn/ack" else answer}
    configurable = [count for count in LIMITS if _set_limit(count)]
    established = counters("target")["MPCurrEstab"]
    observer.update()
    taps[0].send([observer.forge(connection.subflows[0], INITIATOR, mptcp.MPFastclose(
        receiver_key=connection.keys[LISTENER]))])
    closed = wait_until(lambda: counters("target")["MPCurrEstab"] < established, 1)
    controller.disconnect()
    time.sleep(SETTLE)

    ip("target", "mptcp", "limits", "set", "subflows", "8")
    controller = connect()
    connection = observer.update()[-1]
    token = connection.token(LISTENER)

    def stranger() -> Joiner:
        joiner = Joiner(taps[1], "10.0.2.99", "10.0.2.2")
        assert joiner.join(token) == "syn/ack", "the join is refused before its HMAC is known"
        return joiner

    known = sorted(subflow_ends("target"))
    wrong = stranger()
    outcomes = {"wrong HMAC": wrong.complete(connection, wrong=True)}
    wrong.data(_next_dsn(observer, connection), _flush())
    outcomes["data after it"] = wrong.outcome()
    without = stranger()
    without.data(_next_dsn(observer, connection), _flush())
    outcomes["data without HMAC"] = without.outcome()
    forged = observer.forge(connection.subflows[0], INITIATOR, mptcp.MPFastclose(
        receiver_key=connection.keys[LISTENER] ^ 1))
    taps[0].send([forged])
    time.sleep(SETTLE)
    unharmed = {"transfer": transfer(), "subflows": sorted(subflow_ends("target")) == known,
                "state": controller.attribute("state"),
                "log": kernel_log("error recovery|nvmet.*err")}

    before = counters("target")
    taps[1].lend_address(FLOODER)
    taps[1].ignore(FLOODER)
    taps[1].send(_flood(token))
    time.sleep(SETTLE)
    flood = {"transfer": transfer(1 << 20), "state": controller.attribute("state"),
             "half-open": counters("target")["MPJoinSynRx"] - before["MPJoinSynRx"]}

    _next_dsn(observer, connection)
    control: dict[str, Any] = {"closed": closed}
    right = Joiner(taps[0], "10.0.1.99", TARGET)
    control["join"] = right.join(token)
    control["HMAC"] = right.complete(connection)
    dsn = _next_dsn(observer, connection)
    right.data(dsn, _flush())
    acknowledged = [option.data_ack - dsn for tcp in right.receive()
                    if (option := mptcp.find_option(tcp, mptcp.DSS)) and option.flags.A]
    control["acknowledged"] = max(acknowledged, default=None)
    return {"limit": limit, "configurable": configurable, "outcomes": outcomes,
            "unharmed": unharmed, "flood": flood, "control": control}


def _set_limit(count: int) -> bool:
    try:
        ip("target", "mptcp", "limits", "set", "subflows", str(count))
    except CommandError:
        return False
    return True


def _flush() -> bytes:
    """The PDU of a Flush command with a command identifier that the host doesn't use."""
    return raw(nvme_tcp.CapsuleCmd(ccsqe=nvme.Command(opcode=0, nsid=1, cid=0x7777)))


def _next_dsn(observer: Observer, connection: Connection) -> int:
    observer.update()
    return (connection.first_dsn(INITIATOR) + len(connection.stream(INITIATOR))) % (1 << 64)


def _flood(token: int) -> list[Any]:
    """SYNs with MP_JOIN from ports of their own; nobody is going to complete their handshakes."""
    return [IP(src=FLOODER, dst="10.0.2.2") / TCP(
        sport=20_000 + number, dport=4420, flags="S", seq=random.randrange(1 << 32),
        options=[("MPTCP", mptcp.MPJoinSYN(address_id=98, token=token,
                                           nonce=random.randrange(1 << 32)))])
            for number in range(FLOOD)]


def host_attacked() -> dict[str, Any]:
    """A stranger on the target's side attacks the host, by forged signals and as one who is joined;
    at the end it does the same things rightly.
    """
    target()
    accepted = {}
    for limit in (0, 1, 8):
        ip("host", "mptcp", "limits", "set", "add_addr_accepted", str(limit))
        controller = connect()
        accepted[limit] = controller.queues()
        controller.disconnect()
        time.sleep(SETTLE)

    taps = [Tap("target", path) for path in range(1, 4)]
    observer = Observer(*taps)
    controller = connect()
    connection = observer.update()[0]  # the Admin Queue's
    before = controller.queues()

    def announce(address: str, option: mptcp.MPTCPOption | bytes) -> Answerer:
        observer.update()
        answerer = Answerer(taps[1], address)
        segment = observer.forge(connection.subflows[0], LISTENER, None)
        segment[TCP].options = [("MPTCP", option)]
        taps[0].send([segment])
        answerer.listen(SETTLE)
        return answerer

    forged = {
        "wrong": len(announce("10.0.2.71", _add_addr(connection, 71, wrong=True)).joins),
        "missing": len(announce("10.0.2.72", raw(mptcp.AddAddr(
            address_id=72, address="10.0.2.72"))[:-8]).joins),
    }
    wrong = announce("10.0.2.73", _add_addr(connection, 73))
    answers = {"wrong": wrong.answer(connection, wrong=True)}
    wrong.listen(10)
    repeated = len(wrong.joins)
    observer.update()
    taps[0].send([observer.forge(connection.subflows[0], LISTENER, mptcp.MPFastclose(
        receiver_key=connection.keys[INITIATOR] ^ 1))])
    time.sleep(SETTLE)
    unharmed = {"transfer": transfer(), "queues": controller.queues() == before,
                "state": controller.attribute("state"), "log": kernel_log("error recovery")}
    right = announce("10.0.2.74", _add_addr(connection, 74))
    control: dict[str, Any] = {"joins": len(right.joins)}
    answers["right"] = right.answer(connection)
    observer.update()
    taps[0].send([observer.forge(connection.subflows[0], LISTENER, mptcp.MPFastclose(
        receiver_key=connection.keys[INITIATOR]))])
    control["closed"] = wait_until(lambda: controller.attribute("state") != "live", 2)
    return {"accepted": accepted, "forged": forged, "answers": answers, "repeated": repeated,
            "unharmed": unharmed, "control": control}


def _add_addr(connection: Connection, address_id: int, *, wrong: bool = False) -> mptcp.AddAddr:
    """ADD_ADDR of the target for 10.0.2.ID, with the right HMAC or a wrong one."""
    initiator, listener = connection.keys
    address = f"10.0.2.{address_id}"
    hmac = mptcp.add_addr_hmac(listener, initiator, address_id, address)
    if wrong:
        hmac = bytes([hmac[0] ^ 1]) + hmac[1:]
    return mptcp.AddAddr(address_id=address_id, address=address, hmac=hmac)


if __name__ == "__main__":
    main((controller_attacked, host_attacked))
