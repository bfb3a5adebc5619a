# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Connections: the forms of mappings, and what may happen to them on the way.

Data are sent as no socket would: each test decides on the mappings (RFC 8684, section 3.3).
"""

import random
from contextlib import suppress
from itertools import cycle
from typing import Any

import pytest

from ...endpoints import raw
from ...layers import mptcp
from ...target import Target
from ..verdict import ConceptualPass, check
from .associations import (
    RECOVERY,
    SETTLE,
    Disk,
    RawQueue,
    Scratch,
    Steered,
    join,
    overtaken,
    raw_admin_queue,
    raw_io_queue,
    stays_quiet,
)
from .test_connection import check_completed, keep_alives

CHAPTER = "connection"
CID, FORGED = 0x7100, 0x6600
PIECE = 1_000  # bytes in a mapping
NEAR = 1 << 16  # bytes that are left before a number wraps
FAR = 1 << 30  # bytes
SMALL_WINDOW, WINDOW = 4_096, 1 << 17  # bytes
PROBES = 64  # bytes that TCP may send to see whether the window is still closed
CLOSED = 3.0  # seconds that the window is closed
TRIES = 5
EACH = 3  # of so many segments one gets lost
UNKNOWN_SUBTYPE = b"\xe0\x00"


def begin_data(disk: Disk, data: bytes) -> tuple[int, bytes]:
    """Send a Write command; its CID, and the PDUs that its first R2T asks for, unsent. The test
    sends them; `check_written` answers further R2Ts.
    """
    cid = disk.begin_write()
    return cid, b"".join(disk.host_data(disk.take_r2t(cid), data))


def check_written(disk: Disk, cid: int, data: bytes) -> None:
    """The command is completed, and what is read is what was written."""
    disk.finish_write(cid, data)
    check(disk.read() == data, "what is read isn't what was written")


def write_and_read(queue: RawQueue, scratch: Scratch) -> None:
    """Write the scratch area and read it."""
    disk, data = Disk.on(queue, scratch), scratch.pattern()
    disk.write(data)
    check(disk.read() == data, "what is read isn't what was written")


def send_again(connection: raw.Connection, dsn: int, stream: bytes) -> None:
    """See to it that a stream that starts at `dsn` is acknowledged: a target may drop a mapping of
    which it has a part.
    """
    def done() -> int:
        return (connection.acknowledged_dsn - dsn) % (1 << 64)

    for _ in range(TRIES):
        with suppress(TimeoutError):
            connection.wait("DATA_ACK", lambda: done() >= len(stream), SETTLE)
            return
        for start in range(done(), len(stream), PIECE):
            connection.send_mapping(stream[start:start + PIECE], dsn=(dsn + start) % (1 << 64))
    check(False, f"DATA_ACK covers {done()} of {len(stream)} bytes that were sent {TRIES} times")


def mapping(connection: raw.Connection, ssn: int, dsn: int, data: bytes) -> mptcp.DSS:
    """The DSS option for some data."""
    fields: dict[str, Any] = {"flags": "MmAa", "data_ack": connection.data_ack, "dsn": dsn,
                              "ssn": ssn, "data_len": len(data)}
    if not connection.checksum:
        return mptcp.DSS(**fields)
    return mptcp.DSSChecksum(**fields, checksum=mptcp.dss_checksum(dsn, ssn, len(data), data))


def next_dsn(connection: raw.Connection, data: bytes, subflow: raw.Subflow) -> int:
    """The DSN for data that the caller sends by a subflow; the stack sends them again by another
    one where the target doesn't take them.
    """
    with connection.stack.lock:
        return connection.sender.skip(data, subflow, False)


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("ack", [4, 8], ids=["DATA_ACK of 4", "DATA_ACK of 8"])
@pytest.mark.parametrize("dsn", [4, 8], ids=["DSN of 4", "DSN of 8"])
def test_octets_of_dss(mptcp_port: Target, scratch: Scratch, dsn: int, ack: int) -> None:
    """DSN and DATA_ACK may have 4 octets or 8.

    Sent: Write and Read, with as many octets in the host's DSN and DATA_ACK as the name of the test
    says.
    Expected: both commands succeed, and what is read is what was written.
    """
    with raw_io_queue(mptcp_port, Steered(dsn_octets=dsn, data_ack_octets=ack)) as queue:
        write_and_read(queue, scratch)


class SoonWrapping(Steered):
    """Has initial sequence numbers whose lower 32 bits wrap soon."""

    def key(self) -> int:
        while True:
            key = random.getrandbits(64)
            if mptcp.idsn(key) % (1 << 32) >= (1 << 32) - NEAR:
                return key

    def isn(self) -> int:
        return (1 << 32) - NEAR // 2


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("octets", [4, 8], ids=["DSN of 4", "DSN of 8"])
def test_numbers_wrap(mptcp_port: Target, scratch: Scratch, octets: int) -> None:
    """The lower 32 bits of the DSN and a subflow's sequence numbers may wrap.

    Sent: Write and Read on a connection whose initial DSN and sequence number are little below a
    multiple of 2^32, until both have passed it.
    Expected: the commands succeed, and what is read is what was written.
    """
    with raw_io_queue(mptcp_port, SoonWrapping(dsn_octets=octets)) as queue:
        sender = queue.connection.sender
        while sender.next < NEAR:
            write_and_read(queue, scratch)


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.parametrize("subflows", [1, 2], ids=["same subflow", "other subflow"])
def test_data_come_twice(joinable_port: Target, scratch: Scratch, subflows: int) -> None:
    """Data that come twice count once.

    Sent: a Write command, its data in mappings each of which is sent twice, the second time by the
    subflow that the name of the test says; then Read.
    Expected: both commands succeed, and what is read is what was written.
    """
    with raw_io_queue(joinable_port) as queue:
        connection = queue.connection
        other = join(connection) if subflows > 1 else connection.subflows[0]
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        cid, stream = begin_data(disk, data)
        for start in range(0, len(stream), PIECE):
            piece, dsn = stream[start:start + PIECE], connection.next_dsn
            connection.send_mapping(piece, subflow=connection.subflows[0])
            connection.send_mapping(piece, subflow=other, dsn=dsn)
        check_written(disk, cid, data)


def overlapping(size: int, kind: str) -> list[tuple[int, int]]:
    """Start and end of the mappings of a stream: each repeats the second half of the one before,
    or each second one encloses a smaller one that has come already.
    """
    found = []
    for start in range(0, size, PIECE):
        end = min(size, start + PIECE)
        if kind == "half again":
            found.append((max(0, start - PIECE // 2), end))
        else:
            third = (end - start) // 3
            found += [(start + third, end - third), (start, end)]
    return [span for span in found if span[0] < span[1]]


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.parametrize("kind", ["half again", "all around"])
@pytest.mark.parametrize("subflows", [1, 2], ids=["one subflow", "two subflows"])
def test_mappings_overlap(joinable_port: Target, scratch: Scratch, subflows: int,
                          kind: str) -> None:
    """Mappings may overlap.

    Sent: a Write command, its data in mappings each of which repeats the second half of the one
    before, or encloses one that has come already, on one subflow or on two in turn; what isn't
    acknowledged then is sent once more; then Read.
    Expected: both commands succeed, and what is read is what was written.
    """
    with raw_io_queue(joinable_port) as queue:
        connection = queue.connection
        if subflows > 1:
            join(connection)
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        cid, stream = begin_data(disk, data)
        base = connection.next_dsn
        for (start, end), subflow in zip(overlapping(len(stream), kind), cycle(connection.alive),
                                         strict=False):
            connection.send_mapping(stream[start:end], subflow=subflow,
                                    dsn=(base + start) % (1 << 64))
        send_again(connection, base, stream)
        check_written(disk, cid, data)


@pytest.mark.requirement("TCPV-CONN-012", "TCPV-CONN-013")
def test_first_byte_comes_last(joinable_port: Target) -> None:
    """Many small mappings may wait for the one before them.

    Sent: an Admin Queue with two subflows; four Keep Alive capsules, each byte but the first as a
    mapping of its own by the second subflow; the first byte, by the first one, arrives last.
    Expected: the four commands are completed.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        first, second = connection.subflows[0], join(connection)
        cids = range(CID, CID + 4)
        stream = keep_alives(queue.host, *cids)
        with overtaken(first, by=second):
            connection.send_mapping(stream[:1], subflow=first)
            for at in range(1, len(stream)):
                connection.send_mapping(stream[at:at + 1], subflow=second)
        check_completed(queue.host, *cids)


@pytest.mark.requirement("TCPV-CONN-013")
@pytest.mark.parametrize("checksum", [False, True], ids=["no checksum", "checksum"])
def test_mapping_stays_incomplete(joinable_port: Target, checksum: bool) -> None:
    """A mapping may stay incomplete when its subflow is lost.

    Sent: an Admin Queue with two subflows; half of a Keep Alive capsule by the second one, with the
    mapping of the whole; a reset of this subflow; the whole capsule by the first one.
    Expected: the command is completed once.
    """
    with raw_admin_queue(joinable_port, Steered(checksum_required=checksum)) as queue:
        connection = queue.connection
        first, second = connection.subflows[0], join(connection)
        capsule, dsn = keep_alives(queue.host, CID), connection.next_dsn
        whole = mptcp.dss_checksum(dsn, second.send_next, len(capsule), capsule)
        connection.send_mapping(
            capsule[:len(capsule) // 2], subflow=second, dsn=dsn, length=len(capsule),
            checksum=whole if connection.checksum else False)
        connection.wait("ACK", lambda: second.send_unacked == second.send_next, SETTLE)
        second.reset()
        send_again(connection, dsn, capsule)
        check_completed(queue.host, CID)
        queue.works_by(first)


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("which", [0, 1], ids=["first subflow", "second subflow"])
def test_data_without_a_mapping(joinable_port: Target, which: int) -> None:
    """Bytes that no mapping covers don't get into the byte stream.

    Sent: an Admin Queue with two subflows; on one of them, which has brought data before, a Keep
    Alive capsule without a mapping; then Keep Alive by the other one.
    Expected: the former isn't completed, the latter is. The subflow with the capsule may be reset
    (RFC 8684, section 3.3.1).
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        join(connection)
        both = list(connection.alive)
        queue.works_by(*both)
        both[which].send("PA", keep_alives(queue.host, FORGED), connection.ack_options())
        stays_quiet(connection)
        queue.works_by(both[1 - which])


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.usefixtures("raw", "serves_afterwards")
def test_options_get_lost_after_data(mptcp_port: Target) -> None:
    """Bytes that no mapping covers don't get into the byte stream of an only subflow.

    Sent: a Keep Alive capsule without MPTCP options on an Admin Queue with one subflow, without
    MP_FAIL or an infinite mapping.
    Expected: a reset, or nothing (RFC 8684, section 3.7). A target that takes it for a fallback,
    and completes the command without MPTCP options, is as safe.
    """
    with raw_admin_queue(mptcp_port) as queue:
        connection, subflow = queue.connection, queue.connection.subflows[0]
        since = connection.mark()
        subflow.send("PA", keep_alives(queue.host, FORGED))
        with suppress(TimeoutError):
            connection.wait("an answer", lambda: subflow.ended or any(
                segment.payload for segment in connection.received(since)), SETTLE)
        answers = [segment for segment in connection.received(since) if segment.payload]
        check(not any(segment.mptcp_options for segment in answers),
              "an answer came, and the connection is still MPTCP")
        if answers:
            raise ConceptualPass("the command is completed over TCP, without MP_FAIL")


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("distance", [FAR, -1], ids=["ahead of the window", "behind it"])
def test_mapping_outside_the_window(mptcp_port: Target, distance: int) -> None:
    """Mappings outside the window are dropped.

    Sent: a Keep Alive capsule with a DSN 2^30 ahead, or with that of a capsule that was completed;
    then another one with the next DSN.
    Expected: the former isn't completed, the latter is.
    """
    with raw_admin_queue(mptcp_port) as queue:
        connection = queue.connection
        before = connection.next_dsn
        queue.host.keep_alive()
        dsn = before if distance < 0 else (connection.next_dsn + distance) % (1 << 64)
        connection.send_mapping(keep_alives(queue.host, FORGED), dsn=dsn)
        stays_quiet(connection)
        queue.works_by(connection.subflows[0])


@pytest.mark.requirement("TCPV-CONN-013")
@pytest.mark.parametrize("where", ["before", "behind"])
def test_mapping_apart_from_its_data(joinable_port: Target, where: str) -> None:
    """A mapping may come before its data, or with the last of them.

    Sent: an Admin Queue with two subflows; by the second one a Keep Alive capsule in two segments
    without DSS, after an ACK with its mapping; or in two segments of which the last one has it;
    where the target doesn't take that, the capsule by the first subflow.
    Expected: the command is completed. The subflow may be reset by a target that can't do so.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection, capsule = queue.connection, keep_alives(queue.host, CID)
        first, second = connection.subflows[0], join(connection)
        queue.send_by(first)
        dsn = next_dsn(connection, capsule, second)
        option, half = mapping(connection, second.send_next, dsn, capsule), len(capsule) // 2
        if where == "before":
            second.send("A", options=[option])
        second.send("A", capsule[:half])
        second.send("PA", capsule[half:], [option] if where == "behind" else [])
        check_completed(queue.host, CID)
        queue.works_by(first)
        if second.ended:
            raise ConceptualPass(f"the mapping comes {where} its data: the subflow is reset, and"
                                 " the data are taken from another one")


class Disorder(Steered):
    """Once there is a `kind`, a path that swaps segments with data, doubles each, or loses some."""

    kind: str | None = None
    count = 0
    held: raw.Segment | None = None

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if not segment.payload:
            return [segment]
        self.count += 1
        match self.kind:
            case "doubled":
                return [segment, segment]
            case "lost":
                return [segment] if self.count % EACH else []
            case "swapped" if not self.held:
                self.held = segment
                return []
        held, self.held = self.held, None
        return [segment, held] if held else [segment]


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("kind", ["swapped", "doubled", "lost"])
def test_disorder_on_a_path(mptcp_port: Target, scratch: Scratch, kind: str) -> None:
    """Segments may be swapped, doubled or lost on their way.

    Sent: Write and Read over a path that swaps each two segments with data, doubles them, or loses
    each third one; what is missing is sent again.
    Expected: both commands succeed, and what is read is what was written.
    """
    behaviour = Disorder()
    with raw_io_queue(mptcp_port, behaviour) as queue:
        queue.connection.settimeout(RECOVERY)
        behaviour.kind = kind
        write_and_read(queue, scratch)


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.usefixtures("raw")
def test_closed_window(mptcp_port: Target, scratch: Scratch) -> None:
    """PDUs wait while the host's window is closed.

    Sent: Write, then Read on a connection whose window, of 4,096 bytes, the host closes with the
    Read command and opens some seconds later.
    Expected: no more than the window lets through while it is closed, but for probes; both commands
    succeed, and what is read is what was written.
    """
    with raw_io_queue(mptcp_port, Steered(receive_window=SMALL_WINDOW)) as queue:
        connection, disk, data = queue.connection, Disk.on(queue, scratch), scratch.pattern()
        disk.write(data)
        connection.behaviour.receive_window = 0
        cid = disk.begin_read()
        stays_quiet(connection, CLOSED)
        came = len(connection.receiver.buffer)
        check(came <= SMALL_WINDOW + PROBES,
              f"{came} bytes came, the window had {SMALL_WINDOW}")
        connection.behaviour.receive_window = WINDOW
        connection.subflows[0].acknowledge()
        connection.settimeout(RECOVERY)
        check(disk.finish_read(cid) == data, "what is read isn't what was written")


@pytest.mark.requirement("TCPV-CONN-013")
@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize(("extra", "first"), [
    pytest.param(mptcp.MPPrio(), True, id="MP_PRIO before"),
    pytest.param(mptcp.MPPrio(), False, id="MP_PRIO behind"),
    pytest.param(UNKNOWN_SUBTYPE, True, id="unknown subtype before"),
])
def test_options_beside_the_mapping(mptcp_port: Target, extra: mptcp.MPTCPOption | bytes,
                                    first: bool) -> None:
    """A segment with data may have another MPTCP option beside DSS.

    Sent: a Keep Alive capsule in a segment with DSS and, before or behind it, MP_PRIO or an option
    of a subtype that nobody knows.
    Expected: the command is completed.
    """
    with raw_admin_queue(mptcp_port) as queue:
        connection, capsule = queue.connection, keep_alives(queue.host, CID)
        subflow = connection.subflows[0]
        dsn = next_dsn(connection, capsule, subflow)
        option = mapping(connection, subflow.send_next, dsn, capsule)
        subflow.send("PA", capsule, [extra, option] if first else [option, extra])
        check_completed(queue.host, CID)
        check(connection.mptcp and not subflow.ended, f"the subflow was lost: {subflow.ended}")
