# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Connections: mappings as no socket would send them (RFC 8684 §3.3)."""

from collections.abc import Callable

import pytest

from ...endpoints import raw
from ...endpoints.controller import Queue
from ...layers import mptcp
from .raw_stage import InstrumentBehaviour, RawStage, further

CHAPTER = "connection"
PIECE, OVERLAP = 1_000, 300  # bytes
NEAR = 1 << 15  # bytes before a number wraps

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
