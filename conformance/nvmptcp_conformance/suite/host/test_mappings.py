# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Connections: mappings as no socket would send them (RFC 8684 §3.3)."""

from collections.abc import Callable, Collection

import pytest

from ...endpoints import raw
from ...endpoints.controller import Queue
from ...layers import mptcp
from ..verdict import NotApplicable, check
from .raw_stage import C2H_DATA, WAYS, InstrumentBehaviour, RawStage, Strips, further

CHAPTER = "connection"
PIECE, OVERLAP = 1_000, 300  # bytes
NEAR = 1 << 15  # bytes before a number wraps
EACH = 5  # of so many segments with data one gets lost

Send = Callable[[raw.Connection, int, bytes], None]


class NearTheWrap(InstrumentBehaviour):
    """Numbers wrap soon."""

    wraps = ""

    def key(self) -> int:
        while True:
            key = super().key()
            if self.wraps != "DSN" or mptcp.idsn(key) % (1 << 32) >= (1 << 32) - NEAR:
                return key

    def isn(self) -> int:
        return (1 << 32) - NEAR if self.wraps == "sequence number" else super().isn()


@pytest.mark.requirement("TCPV-CONN-013")
@pytest.mark.parametrize("size", [40, 500, 16_000])
def test_size_of_mappings(raw_stage: RawStage, size: int) -> None:
    """Mappings and PDUs don't depend on each other.

    Sent: the controller's byte stream in mappings of as many bytes as the name of the test says.
    Expected: the host opens its queues, and (but for the smallest) copies data unchanged.
    """
    raw_stage.listen_raw(InstrumentBehaviour(mapping_size=size))
    raw_stage.trigger(copy=size > PIECE // 10)
    raw_stage.check_unharmed()


def overlapping(connection: raw.Connection, dsn: int, data: bytes) -> None:
    for start in range(0, len(data), PIECE):
        early = max(0, start - OVERLAP)
        connection.send_mapping(data[early:start + PIECE], dsn=(dsn + early) % (1 << 64))


def twice(connection: raw.Connection, dsn: int, data: bytes) -> None:
    for start in [at for at in range(0, len(data), PIECE) for _ in range(2)]:
        connection.send_mapping(data[start:start + PIECE], dsn=(dsn + start) % (1 << 64))


def reversed_order(connection: raw.Connection, dsn: int, data: bytes) -> None:
    for start in reversed(range(0, len(data), PIECE)):
        connection.send_mapping(data[start:start + PIECE], dsn=(dsn + start) % (1 << 64))


def on_all(connection: raw.Connection, dsn: int, data: bytes) -> None:
    for start in range(0, len(data), PIECE):
        for subflow in connection.alive:
            connection.send_mapping(data[start:start + PIECE], subflow=subflow,
                                    dsn=(dsn + start) % (1 << 64))


def in_turn(connection: raw.Connection, dsn: int, data: bytes) -> None:
    subflows = connection.alive
    for number, start in enumerate(range(0, len(data), PIECE)):
        connection.send_mapping(data[start:start + PIECE], dsn=(dsn + start) % (1 << 64),
                                subflow=subflows[number % len(subflows)])


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.parametrize(("send", "subflows"), [
    (overlapping, 1), (twice, 1), (reversed_order, 1), (on_all, 2), (in_turn, 2)],
    ids=["overlapping", "twice", "reversed", "on all subflows", "subflows in turn"])
def test_order_of_mappings(raw_stage: RawStage, send: Send, subflows: int) -> None:
    """The byte stream is that of the DSNs, whatever way the mappings come.

    Sent: data of Read commands in mappings of 1,000 bytes: overlapping by 300 bytes, each one
    twice, the last one first, each on all subflows, or on the subflows in turn, as the name of the
    test says.
    Expected: the host copies data unchanged.
    """
    def maps(queue: Queue, data: bytes) -> None:
        connection = queue.transport
        if queue.qid <= 0 or not (raw_stage.acted or raw_stage.may_act(queue, subflows)):
            connection.sendall(data)
            return
        with connection.stack.lock:
            send(connection, connection.sender.skip(data, connection.alive[0], False), data)

    joins_at = further(raw_stage.dut) if subflows > 1 else ()
    raw_stage.listen_raw(joins_at=joins_at, maps=maps)
    raw_stage.trigger(copy=True)
    raw_stage.check_acted()
    raw_stage.check_unharmed()


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.parametrize(("wraps", "octets"), [("DSN", 8), ("DSN", 4), ("sequence number", 8)],
                         ids=["DSN of 8 octets", "DSN of 4 octets", "sequence number"])
def test_numbers_wrap(raw_stage: RawStage, wraps: str, octets: int) -> None:
    """The lower half of the DSN, and sequence numbers, may wrap.

    Sent: a connection on which the number in the name of the test wraps within the first 32 KiB of
    the controller's byte stream.
    Expected: the host copies data unchanged.
    """
    behaviour = NearTheWrap(wraps=wraps, dsn_octets=octets)
    raw_stage.listen_raw(behaviour)
    raw_stage.trigger(copy=True)
    raw_stage.check_unharmed()


class Loses(InstrumentBehaviour):
    """A path that loses some segments with data, once it is armed, but none of them twice: without
    SACK, which the instrument doesn't offer, each loss may cost a time-out.
    """

    directions: Collection[str] = ()
    armed = False

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self.seen: dict[str, set[int]] = {direction: set() for direction in self.directions}

    def arm(self, connection: raw.Connection) -> None:
        self.armed = True

    def _passes(self, direction: str, segment: raw.Segment) -> list[raw.Segment]:
        seen = self.seen.get(direction)
        if not self.armed or not segment.payload or seen is None or segment.seq in seen:
            return [segment]
        seen.add(segment.seq)
        return [segment] if len(seen) % EACH else []

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return self._passes("in", segment)

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return self._passes("out", segment)


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.parametrize("directions", WAYS.values(), ids=WAYS)
def test_segments_get_lost(raw_stage: RawStage, directions: Collection[str]) -> None:
    """Segments may get lost on their way.

    Sent: answers to Read and Write commands over a path that loses each fifth segment with data, in
    the directions in the name of the test; what is missing is sent again.
    Expected: the host copies data unchanged.
    """
    behaviour = Loses(directions=directions)
    raw_stage.once(C2H_DATA, behaviour.arm)
    raw_stage.listen_raw(behaviour)
    raw_stage.trigger(copy=True)
    raw_stage.check_acted()
    raw_stage.check_unharmed()


@pytest.mark.requirement("TCPV-CONN-012")
@pytest.mark.parametrize("directions", WAYS.values(), ids=WAYS)
@pytest.mark.usefixtures("connects_afterwards")
def test_options_get_lost(raw_stage: RawStage, directions: Collection[str]) -> None:
    """Data without a mapping do no harm.

    Sent: data of Read commands on a connection with one subflow; from then on its MPTCP options are
    missing, in the direction in the name of the test, without MP_FAIL or an infinite mapping;
    MP_FASTCLOSE when data come without a mapping.
    Expected: the host copies data unchanged, on this connection or in another association. (Where
    it opens none in place of one that was lost, the test is not applicable.)
    """
    behaviour = Strips(directions=directions)
    raw_stage.once(C2H_DATA, behaviour.arm)
    raw_stage.listen_raw(behaviour)
    raw_stage.trigger(copy=True)
    connection, timeout = raw_stage.check_acted(), raw_stage.dut.timeout
    raw_stage.wait(raw_stage.copy_is_right, timeout)
    if connection.lost and len(raw_stage.instrument.of(qid=0)) == 1:
        raise NotApplicable(f"the host doesn't reconnect within {timeout:g} s after a reset")
    check(raw_stage.copy_is_right(), f"what the host copied differs: {raw_stage.describe()}")
