# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Security considerations: what a stranger sends, and floods.

The stranger knows addresses, ports and token of a connection, but not what a test gets wrong.
"""

import random
import resource
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import pytest
from scapy.compat import raw

from ...endpoints.raw import Connection, Segment, Subflow
from ...endpoints.raw.packets import Guard
from ...layers import mptcp, nvme, nvme_tcp
from ...layers.mptcp_stream import End
from ...target import Target
from ..verdict import Failed, check
from .associations import (
    SETTLE,
    Middlebox,
    join,
    outcome,
    raw_admin_queue,
    start_join,
    stays_quiet,
)

FORGED_CID = 0x6666
MOST_SUBFLOWS = 255
FLOOD = 1_000  # SYNs, as many as TCPV-SEC-008 has
BURST = 50  # SYNs, between which Keep Alive is sent
MSS = 1400  # bytes
FILES = 4_096  # open files of this process, as each held port takes one


def forge_data(subflow: Subflow, dsn: int) -> None:
    """Send a Keep Alive command that isn't in the host's stream, as the first data of a subflow."""
    connection = subflow.connection
    capsule = raw(nvme_tcp.CapsuleCmd(ccsqe=nvme.KeepAlive(cid=FORGED_CID)))
    mapping = mptcp.DSS(flags="MmAa", data_ack=connection.data_ack, dsn=dsn, ssn=1,
                        data_len=len(capsule))
    if connection.checksum:
        mapping = mptcp.DSSChecksum(**mapping.fields, checksum=mptcp.dss_checksum(
            dsn, 1, len(capsule), capsule))
    subflow.send("PA", capsule, [mapping])


@pytest.mark.requirement("TCPV-SEC-001")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("third", ["missing", "wrong HMAC", "without MP_JOIN"])
def test_data_without_hmac(joinable_port: Target, third: str) -> None:
    """Data from a subflow whose HMAC wasn't verified don't reach NVMe/TCP.

    Sent: a join whose third packet doesn't come, or has a wrong HMAC, or none; right behind it, by
    this subflow, a Keep Alive capsule with the next DSN; then, by the first subflow, another Keep
    Alive capsule with this DSN.
    Expected: no DATA_ACK for the former and no completion; the latter is completed.
    """
    def out(subflow: Subflow, segment: Segment) -> Segment | None:
        return None if (third == "missing" and segment.find(mptcp.MPJoinACK)) else segment

    with raw_admin_queue(joinable_port, Middlebox(out)) as queue:
        connection = queue.connection
        queue.host.keep_alive()
        connection.wait_acknowledged(joinable_port.address.timeout)
        dsn = connection.next_dsn
        stranger = start_join(
            connection, hmac=bytes(20) if third == "wrong HMAC" else None,
            third=mptcp.MPPrio() if third == "without MP_JOIN" else None)
        connection.wait("SYN/ACK", lambda: stranger.send_unacked or stranger.ended,
                        joinable_port.address.timeout)
        forge_data(stranger, dsn)
        stays_quiet(connection)
        check(connection.acknowledged_dsn == dsn, "DATA_ACK covers data without HMAC")
        queue.works_by(connection.subflows[0])


def wrong_hmac(connection: Connection, subflow: Subflow, kind: str) -> bytes:
    """An HMAC for the third packet that isn't the right one."""
    keys = (connection.local_key, connection.peer_key)
    nonces = (subflow.nonce, subflow.peer_nonce)
    right = mptcp.join_hmac(*keys, *nonces)[:20]
    match kind:
        case "last bit wrong":
            return right[:-1] + bytes([right[-1] ^ 1])
        case "keys exchanged":
            return mptcp.join_hmac(*keys[::-1], *nonces)[:20]
        case "nonces exchanged":
            return mptcp.join_hmac(*keys, *nonces[::-1])[:20]
        case "the target's own":
            return mptcp.join_hmac(*keys[::-1], *nonces[::-1])[:20]
        case _:
            raise ValueError(kind)


@pytest.mark.requirement("TCPV-SEC-002")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("kind", ["last bit wrong", "keys exchanged", "nonces exchanged",
                                  "the target's own"])
def test_wrong_hmac(joinable_port: Target, kind: str) -> None:
    """A join with a wrong HMAC in its third packet is reset.

    Sent: a join whose HMAC is wrong as the name of the test says; then Keep Alive by the first
    subflow.
    Expected: the subflow is reset; the command succeeds.
    """
    def out(subflow: Subflow, segment: Segment) -> Segment | None:
        if not segment.find(mptcp.MPJoinACK):
            return segment
        option = mptcp.MPJoinACK(hmac=wrong_hmac(subflow.connection, subflow, kind))
        return Segment(segment.source, segment.destination, segment.flags, segment.seq, segment.ack,
                       segment.window, (("MPTCP", option),), segment.payload)

    with raw_admin_queue(joinable_port, Middlebox(out)) as queue:
        result = outcome(queue.connection, start_join(queue.connection))
        check(result == "reset by the peer", f"the subflow isn't reset: {result}")
        queue.works_by(queue.connection.subflows[0])


@pytest.mark.requirement("TCPV-SEC-003")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("form", ["ack", "reset"], ids=["on an ACK", "on a RST"])
@pytest.mark.parametrize("key", ["one bit wrong", "of the host"])
def test_forged_fastclose(joinable_port: Target, key: str, form: str) -> None:
    """MP_FASTCLOSE with a wrong key doesn't close the connection.

    Sent: an Admin Queue with two subflows; on the second one MP_FASTCLOSE with a key that isn't the
    controller's; then Keep Alive by the first one.
    Expected: the command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        second = join(connection)
        connection.fastclose(form=form, subflow=second, key=(
            connection.local_key if key == "of the host" else connection.peer_key ^ 1))
        stays_quiet(connection)
        queue.works_by(connection.subflows[0])


@pytest.mark.requirement("TCPV-SEC-003")
@pytest.mark.usefixtures("raw", "serves_afterwards")
def test_forged_fastclose_on_the_only_subflow(mptcp_port: Target) -> None:
    """MP_FASTCLOSE with a wrong key on the only subflow, by an ACK, doesn't close the connection.

    Sent: MP_FASTCLOSE with key 0 on an Admin Queue; then Keep Alive.
    Expected: the command succeeds.
    """
    with raw_admin_queue(mptcp_port) as queue:
        queue.connection.fastclose(key=0)
        stays_quiet(queue.connection)
        queue.host.keep_alive()


@pytest.mark.requirement("TCPV-SEC-007")
@pytest.mark.usefixtures("serves_afterwards", "many_files")
def test_number_of_subflows_is_limited(joinable_port: Target) -> None:
    """Joins beyond a limit are refused, which is 255 at most.

    Sent: an Admin Queue over MPTCP, and joins until one is refused, or there are 256 subflows; then
    Keep Alive by the first and the last subflow.
    Expected: one of the joins is refused; each command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        while len(connection.alive) <= MOST_SUBFLOWS:
            if outcome(connection, start_join(connection)) != "established":
                break
        else:
            raise Failed(f"the connection has {len(connection.alive)} subflows")
        queue.works_by(connection.alive[0], connection.alive[-1])


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for as many open files as floods need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def flood(connection: Connection, ports: Iterable[int], token: int | None = None) -> None:
    """Send a SYN with MP_JOIN from each of these local ports; without `token` a random one."""
    first = connection.subflows[0]
    for port in ports:
        guess = random.getrandbits(32) if token is None else token
        if token is None and guess == connection.peer_token:
            continue
        option = mptcp.MPJoinSYN(address_id=9, token=guess, nonce=random.getrandbits(32))
        connection.stack.send(Segment(End(first.local.address, port), first.remote, "S",
                                      random.getrandbits(32),
                                      options=(("MSS", MSS), ("MPTCP", option))))


@pytest.mark.destructive
@pytest.mark.requirement("TCPV-SEC-008")
@pytest.mark.usefixtures("serves_afterwards", "many_files")
def test_half_open_joins(joinable_port: Target) -> None:
    """1,000 joins that are never completed don't keep a connection from its commands.

    Sent: 1,000 SYNs with MP_JOIN and the token of an Admin Queue, from ports of their own, whose
    SYN/ACKs get no answer; Keep Alive after each fifty, and three seconds later.
    Expected: each command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue, ExitStack() as held:
        connection = queue.connection
        for _ in range(FLOOD // BURST):
            guards = [Guard(connection.subflows[0].local.address, 0) for _ in range(BURST)]
            for guard in guards:
                held.callback(guard.close)
            flood(connection, [guard.port for guard in guards], connection.peer_token)
            queue.host.keep_alive()
        stays_quiet(connection, SETTLE + 1)
        queue.host.keep_alive()


@pytest.mark.destructive
@pytest.mark.requirement("TCPV-PATH-009", "TCPV-PATH-013")
@pytest.mark.usefixtures("serves_afterwards")
def test_guessed_tokens(joinable_port: Target) -> None:
    """1,000 joins with random tokens have no effect.

    Sent: 1,000 SYNs with MP_JOIN and random tokens, while an Admin Queue is open; Keep Alive after
    each fifty.
    Expected: no SYN/ACK; each command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        port = connection.stack.hold(connection.subflows[0].local.address, 0, connection)
        since = connection.mark()
        for _ in range(FLOOD // BURST):
            flood(connection, [port] * BURST)
            queue.host.keep_alive()
        stays_quiet(connection)
        answered = sum({"S", "A"} <= set(passed.segment.flags)
                       for passed in connection.stack.log.since(since) if not passed.sent)
        check(not answered, f"{answered} SYN/ACKs came")
        queue.host.keep_alive()
