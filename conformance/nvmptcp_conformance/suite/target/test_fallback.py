# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Fallback to TCP: what a port does with hosts that come by TCP."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from scapy.compat import raw

from ...endpoints import mptcp_socket
from ...endpoints.host import EndError, Host
from ...endpoints.raw import Connection, Segment, Subflow
from ...layers import mptcp, nvme, nvme_tcp
from ...target import KATO, Target
from ..verdict import ConceptualPass, Failed, check
from .associations import (
    Disk,
    Middlebox,
    RawQueue,
    Scratch,
    Steered,
    host_on,
    raw_admin_queue,
    raw_connection,
    raw_io_queue,
)

EXCHANGES = 10
READS = 8  # of 64 KiB: more than windows and send buffers hold
SILENCE = 0.03  # seconds
KEY = bytes(range(8))  # of an MP_CAPABLE of version 0
PLACES = ("SYN", "SYN/ACK", "third packet", "first data")


@pytest.fixture
def open_port(mptcp_port: Target) -> Target:
    """An MPTCP port that accepts TCP, too."""
    mptcp_port.exclude("mpreq")
    return mptcp_port


@pytest.fixture
def strict_port(mptcp_port: Target) -> Target:
    """An MPTCP port that refuses TCP."""
    mptcp_port.require("mpreq")
    return mptcp_port


@pytest.mark.requirement("TCPV-FALL-002")
def test_tcp_is_accepted(open_port: Target) -> None:
    """Without MPREQ, a host that comes by TCP is served.

    Sent: a SYN without MP_CAPABLE, then ICReq, Connect, and the commands that enable the
    controller.
    Expected: each command succeeds.
    """
    with open_port.admin_queue(mptcp=False) as (host, _):
        host.identify_controller()


@pytest.mark.requirement("TCPV-FALL-004")
@pytest.mark.usefixtures("serves_afterwards")
def test_tcp_is_refused(strict_port: Target) -> None:
    """With MPREQ, a connection over TCP is closed.

    Sent: a SYN without MP_CAPABLE, then ICReq.
    Expected: the connection is closed or reset and no PDU comes; a fresh association over MPTCP is
    served.
    """
    try:
        with strict_port.connection(mptcp=False) as host:
            answer = host.initialize()
    except TimeoutError:
        check(False, f"nothing came within {strict_port.address.timeout:g} s")
    except (EndError, ConnectionError):
        return
    check(False, f"{answer.name} came")


@pytest.mark.requirement("TCPV-FALL-006")
def test_decision_is_taken_once(strict_port: Target) -> None:
    """With MPREQ, a connection that has its ICResp stays.

    Sent: ICReq, Connect and ten Keep Alive commands over MPTCP.
    Expected: each command succeeds.
    """
    with strict_port.admin_queue() as (host, _):
        for _ in range(EXCHANGES):
            host.keep_alive()


@pytest.mark.requirement("TCPV-FALL-010")
def test_other_connections_stay(open_port: Target) -> None:
    """A connection stays when another one of the association is TCP.

    Sent: an Admin Queue over MPTCP, I/O queue 1 over TCP, and ten Keep Alive commands; the I/O
    queue is closed after five of them.
    Expected: each Keep Alive command succeeds, and the Admin Queue stays MPTCP.
    """
    with open_port.admin_queue() as (host, cntlid):
        host.allow_io_queues()
        with open_port.io_queue(cntlid, mptcp=False):
            for _ in range(EXCHANGES // 2):
                host.keep_alive()
        for _ in range(EXCHANGES // 2):
            host.keep_alive()
        check(mptcp_socket.info(host.socket) is not None, "the Admin Queue fell back to TCP")


# Options that get lost on the way, and MP_CAPABLE that is none


def stripping(place: str) -> Middlebox:
    """A middlebox that removes MPTCP options: of the SYN, the SYN/ACK, or all that the host sends
    from the third packet or the first data on.
    """
    def strip(segment: Segment, *, where: bool) -> Segment:
        return segment.without_mptcp() if where else segment

    def out(_: Subflow, segment: Segment) -> Segment:
        syn, third = "S" in segment.flags, segment.find(mptcp.MPCapableACK)
        return strip(segment, where=(place == "SYN" if syn else place == "third packet" or (
            place == "first data" and not third)))

    def into(_: Subflow, segment: Segment) -> Segment:
        return strip(segment, where=place == "SYN/ACK" and "S" in segment.flags)

    return Middlebox(out, into)


@pytest.mark.requirement("TCPV-FALL-002")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("place", PLACES)
def test_options_get_lost(open_port: Target, place: str) -> None:
    """Without MPREQ, a host is served whose MPTCP options get lost before data.

    Sent: a SYN with MP_CAPABLE, ICReq, Connect and more; the MPTCP options are missing where the
    name of the test says, and from the third packet or the first data on in all that follows.
    Expected: each command succeeds, over TCP.
    """
    with raw_connection(open_port, stripping(place), mptcp=False) as connection:
        check_serves(open_port, connection)
        check(not connection.mptcp, "the target goes on with MPTCP")


def check_serves(target: Target, connection: Connection) -> None:
    """An association on a connection, whatever its protocol is going to be."""
    host = host_on(connection)
    host.initialize()
    host.connect(target.nqn, target.address.hostnqn, kato=KATO)
    host.enable()
    host.wait_ready()
    host.identify_controller()


@pytest.mark.requirement("TCPV-FALL-002")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize(("option", "may_be_answered"), [
    pytest.param(mptcp.MPCapableSYN(flags=0x41), False, id="flag B set"),
    pytest.param(mptcp.MPCapableSYN(flags=0x00), False, id="flag H cleared"),
    pytest.param(b"\x00\x01" + KEY, True, id="version 0"),
    pytest.param(mptcp.MPCapableSYN(version=2), True, id="version 2"),
])
def test_other_mp_capable(open_port: Target, option: mptcp.MPTCPOption | bytes,
                          may_be_answered: bool) -> None:
    """Without MPREQ, a host is served whose MP_CAPABLE offers something unknown.

    Sent: a SYN with MP_CAPABLE: flag B set (an extension that nobody knows), flag H cleared (no
    HMAC algorithm in common), or another version; then Connect and more, over MPTCP if the SYN/ACK
    has MP_CAPABLE of version 1, else without options.
    Expected: no MP_CAPABLE in the SYN/ACK (RFC 8684, section 3.1), but that another version may be
    answered by one that the target has; each command succeeds.
    """
    with raw_connection(open_port, options=[option], mptcp=False) as connection:
        check(may_be_answered or not connection.mptcp, "the SYN/ACK has MP_CAPABLE")
        check_serves(open_port, connection)


@pytest.mark.requirement("TCPV-FALL-004")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("place", PLACES)
def test_fallen_back_is_refused(strict_port: Target, place: str) -> None:
    """With MPREQ, a connection that fell back before data is closed.

    Sent: a SYN with MP_CAPABLE, and ICReq; the MPTCP options are missing where the name of the test
    says, and from the third packet or the first data on in all that follows.
    Expected: the connection is closed or reset when the ICReq has come, or before, and no PDU
    comes.
    """
    try:
        with raw_connection(strict_port, stripping(place), mptcp=False) as connection:
            host = host_on(connection)
            host.send(raw(nvme_tcp.ICReq()))
            answer = host.receive()
    except TimeoutError:
        raise Failed(f"nothing came within {strict_port.address.timeout:g} s") from None
    except (EndError, ConnectionError):
        return
    raise Failed(f"{answer.name} came")


@pytest.mark.requirement("TCPV-FALL-005")
@pytest.mark.usefixtures("raw", "serves_afterwards")
def test_early_refusal(strict_port: Target) -> None:
    """With MPREQ, a SYN without MP_CAPABLE is enough for a refusal.

    Sent: a SYN without MP_CAPABLE, the third packet, and no ICReq.
    Expected: a reset.
    """
    try:
        with raw_connection(strict_port, options=[], mptcp=False) as connection:
            connection.wait("a reset", lambda: connection.subflows[0].ended,
                            strict_port.address.timeout)
    except ConnectionError:
        return
    except TimeoutError:
        raise ConceptualPass("the connection stays until the ICReq comes") from None


# Fallback after data


class Mistrusting(Steered):
    """Doesn't believe a DSS checksum of what comes while `doubts` is set."""

    doubts = False

    def checksum_fits(self, expected: int, received: int | None) -> bool:
        doubted, self.doubts = self.doubts, False
        return not doubted and super().checksum_fits(expected, received)


def fall_back(queue: RawQueue, finder: str) -> None:
    """A checksum is wrong on the only subflow, by the judgement of the host or the controller, and
    the connection goes on as TCP. ConceptualPass where the target closes it at once instead.
    """
    connection = queue.connection
    behaviour = connection.behaviour
    assert isinstance(behaviour, Mistrusting)
    since = connection.mark()
    capsule = keep_alive_capsule(queue.host)
    try:
        if finder == "host":
            behaviour.doubts = True
            connection.sendall(capsule)
        else:
            connection.send_mapping(capsule, checksum=0x0BAD)
        connection.wait("the fallback", lambda: connection.fell_back or not connection.alive,
                        queue.target.address.timeout)
        answer = queue.host.receive()
    except (EndError, ConnectionError):
        offered = any("R" not in segment.flags and segment.find(mptcp.MPFail)
                      for segment in connection.received(since))
        if finder == "controller" and not offered:
            raise ConceptualPass("the connection is reset at the wrong checksum; RFC 8684, section"
                                 " 3.7, would have it fall back") from None
        raise
    check(isinstance(answer, nvme_tcp.CapsuleResp), f"{answer.name} came")


def keep_alive_capsule(host: Host) -> bytes:
    """A Keep Alive command."""
    return raw(host.capsule(nvme.KeepAlive(cid=0x7000)))


@contextmanager
def summed_admin_queue(target: Target) -> Iterator[RawQueue]:
    """An Admin Queue on a connection with DSS checksums."""
    with raw_admin_queue(target, Mistrusting(checksum_required=True)) as queue:
        yield queue


@pytest.mark.requirement("TCPV-FALL-012")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("finder", ["host", "controller"])
def test_fallback_after_data(mptcp_port: Target, finder: str) -> None:
    """A connection that falls back after data goes on.

    Sent: Keep Alive on an Admin Queue with DSS checksums and one subflow; either the capsule's
    checksum is wrong, or the host says MP_FAIL to the response; then the infinite mapping, and ten
    more commands.
    Expected: each command succeeds, over TCP.
    """
    with summed_admin_queue(mptcp_port) as queue:
        fall_back(queue, finder)
        for _ in range(EXCHANGES):
            queue.host.keep_alive()
        check(not queue.connection.mptcp, "the connection is still MPTCP")


class Patient(Mistrusting):
    """Keeps a wrong checksum to itself until it is told to say MP_FAIL."""

    rejected: tuple[Subflow, int] | None = None  # and the DSN

    def checksum_failed(self, connection: Connection, subflow: Subflow, dsn: int) -> None:
        self.rejected = subflow, dsn


@pytest.mark.requirement("TCPV-FALL-012")
@pytest.mark.usefixtures("raw", "serves_afterwards")
def test_fallback_with_much_on_the_way(mptcp_port: Target, scratch: Scratch) -> None:
    """A connection falls back while the controller has sent all that it may.

    Sent: Write, then several Read commands at once, on I/O queue 1; a checksum of the data that
    come is wrong, by the host's judgement. It acknowledges them to TCP only, and says MP_FAIL when
    the controller has stopped to send. No DATA_ACK follows: with both MP_FAIL the connection is
    TCP.
    Expected: each command succeeds, and what is read is what was written.
    """
    behaviour = Patient(checksum_required=True)
    with raw_io_queue(mptcp_port, behaviour) as queue:
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        disk.write(data)
        behaviour.doubts = True
        reads = [disk.begin_read() for _ in range(READS)]
        connection = queue.connection
        connection.wait("data", lambda: behaviour.rejected, mptcp_port.address.timeout)
        wait_for_silence(connection)
        assert behaviour.rejected
        connection.reject_mapping(*behaviour.rejected)
        connection.wait("MP_FAIL", lambda: connection.fell_back, mptcp_port.address.timeout)
        check(disk.finish_reads(reads) == [data] * READS, "what is read isn't what was written")


def wait_for_silence(connection: Connection) -> None:
    """Until nothing comes any more: not so long that data are sent again, after which they are no
    longer contiguous, and a peer may refuse to fall back (RFC 8684 §3.7).
    """
    before = -1
    while before != (now := len(connection.received())):
        before = now
        time.sleep(SILENCE)


@pytest.mark.requirement("TCPV-FALL-006")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("finder", ["host", "controller"])
def test_fallback_after_data_is_not_refused(strict_port: Target, finder: str) -> None:
    """With MPREQ, too, a connection that falls back after data goes on.

    Sent: as in the test `fallback_after_data`.
    Expected: each command succeeds, over TCP.
    """
    with summed_admin_queue(strict_port) as queue:
        fall_back(queue, finder)
        for _ in range(EXCHANGES):
            queue.host.keep_alive()


@pytest.mark.requirement("TCPV-FALL-010")
@pytest.mark.usefixtures("raw", "serves_afterwards")
def test_io_queue_falls_back_alone(mptcp_port: Target, scratch: Scratch) -> None:
    """The Admin Queue stays as it is when an I/O queue falls back after data.

    Sent: Write and Read on I/O queue 1, which falls back by MP_FAIL in between; Keep Alive on the
    Admin Queue.
    Expected: each command succeeds, what is read is what was written, and the Admin Queue stays
    MPTCP.
    """
    behaviour = Mistrusting(checksum_required=True)
    with raw_admin_queue(mptcp_port) as admin:
        admin.host.allow_io_queues()
        with raw_connection(mptcp_port, behaviour) as connection:
            host = host_on(connection)
            maxh2cdata = host.initialize().maxh2cdata
            host.connect(mptcp_port.nqn, mptcp_port.address.hostnqn, qid=1, cntlid=admin.cntlid)
            disk, data = Disk(host, scratch, maxh2cdata), scratch.pattern()
            disk.write(data)
            behaviour.doubts = True
            check(disk.read() == data, "what is read isn't what was written")
            check(bool(connection.fell_back), "the target ignores MP_FAIL")
            admin.host.keep_alive()
            check(disk.read() == data, "what is read over TCP isn't what was written")
        admin.host.keep_alive()
        check(admin.connection.mptcp, "the Admin Queue fell back, too")
