# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Keep alive and error recovery timing."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from ...endpoints import raw
from ...layers import mptcp
from ...target import Target
from ..verdict import check
from .associations import (
    host_on,
    join,
    outcome,
    raw_admin_queue,
    raw_connection,
    start_join,
)
from .endings import check_forgotten, ended, until_ended
from .test_connection import keep_alives

SHORT_KATO = 2_000  # milliseconds
EXPIRY = 4 * SHORT_KATO / 1000  # seconds, some time after it
STEP = 0.5  # seconds between two signals
UNUSED_ADDRESS, ADDRESS_ID = "192.0.2.1", 9  # of RFC 5737: nobody has it
CID = 0x7200


def join_and_leave(connection: raw.Connection) -> None:
    """A subflow that comes and goes; it may be refused at the end of the association."""
    subflow = start_join(connection)
    outcome(connection, subflow, STEP)
    subflow.reset(mptcp.MPTCPReset())


def announce_and_withdraw(connection: raw.Connection) -> None:
    connection.announce(UNUSED_ADDRESS, ADDRESS_ID)
    connection.withdraw(ADDRESS_ID)


def probe(connection: raw.Connection) -> None:
    """TCP's keep-alive: a sequence number that was acknowledged."""
    subflow = connection.subflows[0]
    subflow.send("A", seq=(subflow.isn + subflow.send_next - 1) % (1 << 32))


SIGNALS: dict[str, Callable[[raw.Connection], None]] = {
    "joins": join_and_leave,
    "DATA_ACKs": lambda connection: connection.send_option(),
    "ADD_ADDR and REMOVE_ADDR": announce_and_withdraw,
    "MP_PRIO": lambda connection: connection.send_option(mptcp.MPPrio()),
    "TCP keep-alive": probe,
}


def check_expires(connection: raw.Connection, signal: Callable[[raw.Connection], None]) -> None:
    """The association ends though there are signals all the time."""
    begin = time.monotonic()
    while not ended(connection) and time.monotonic() - begin < EXPIRY:
        with suppress(IndexError, OSError):  # the connection is just ending
            signal(connection)
        until_ended(connection, STEP)
    check(ended(connection), f"the association is still there {EXPIRY:g} s after the last command,"
                             f" with a Keep Alive Timeout of {SHORT_KATO / 1000:g} s")


@pytest.mark.requirement("TCPV-TIME-002")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("signal", SIGNALS)
def test_signals_do_not_restart_the_timer(joinable_port: Target, signal: str) -> None:
    """The Keep Alive Timer expires while there are MPTCP signals, but no commands.

    Sent: an Admin Queue with a Keep Alive Timeout of 2 s; then, twice a second, what the name of
    the test says.
    Expected: the connection ends within 8 s.
    """
    with raw_admin_queue(joinable_port, kato=SHORT_KATO) as queue:
        check_expires(queue.connection, SIGNALS[signal])


@pytest.mark.requirement("TCPV-TIME-002")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("subflows", [1, 2], ids=["same subflow", "other subflow"])
def test_a_command_that_comes_again_does_not_restart_the_timer(joinable_port: Target,
                                                               subflows: int) -> None:
    """A Keep Alive command restarts the timer once, however often its mapping comes.

    Sent: an Admin Queue with a Keep Alive Timeout of 2 s; a Keep Alive command; then, twice a
    second, the same mapping once more, by the subflow that the name of the test says.
    Expected: the connection ends within 8 s.
    """
    with raw_admin_queue(joinable_port, kato=SHORT_KATO) as queue:
        connection = queue.connection
        if subflows > 1:
            join(connection)
        capsule, dsn = keep_alives(queue.host, CID), connection.next_dsn
        connection.send_mapping(capsule)
        queue.host.receive()
        check_expires(connection, lambda connection: connection.send_mapping(
            capsule, dsn=dsn, subflow=connection.alive[-1]))


@pytest.mark.requirement("TCPV-TIME-002")
@pytest.mark.parametrize("situation", ["in turn", "by the second after the first was lost"])
def test_keep_alive_by_any_subflow(joinable_port: Target, situation: str) -> None:
    """Keep Alive commands restart the timer, whatever subflow they come by.

    Sent: an Admin Queue with two subflows and a Keep Alive Timeout of 2 s; for 8 s a Keep Alive
    command each second, by the subflows that the name of the test says.
    Expected: each command succeeds.
    """
    with raw_admin_queue(joinable_port, kato=SHORT_KATO) as queue:
        join(queue.connection)
        if situation != "in turn":
            queue.works_by(*queue.connection.alive)
            queue.connection.subflows[0].reset()
        for _ in range(4):
            for subflow in queue.connection.alive * 2 if situation != "in turn" else (
                    queue.connection.alive):
                time.sleep(SHORT_KATO / 2000)
                queue.works_by(subflow)


@pytest.mark.requirement("TCPV-LOSS-007")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("which", ["Admin Queue", "I/O queue"])
def test_connection_without_subflows_is_released(joinable_port: Target, which: str) -> None:
    """A connection without subflows is released when the Keep Alive Timer expires.

    Sent: an Admin Queue with a Keep Alive Timeout of 2 s, and I/O queue 1; resets of all subflows
    of the queue in the name of the test; no more commands; 8 s later a join to its connection.
    Expected: the join is refused.
    """
    with raw_admin_queue(joinable_port, kato=SHORT_KATO) as admin:
        admin.host.allow_io_queues()
        with raw_connection(joinable_port) as connection:
            host = host_on(connection)
            host.initialize()
            host.connect(joinable_port.nqn, joinable_port.address.hostnqn, qid=1,
                         cntlid=admin.cntlid)
            lost = admin.connection if which == "Admin Queue" else connection
            for subflow in lost.alive:
                subflow.reset()
            time.sleep(EXPIRY)
            check_forgotten(lost)
