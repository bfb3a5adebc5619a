# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Addresses, joins and path loss: what becomes of commands when subflows are lost.

A subflow is lost by a reset, by a FIN without DATA_FIN, by silence (its path goes dead, and nobody
says so), or by REMOVE_ADDR for its address.
"""

import pytest

from ...endpoints import raw
from ...target import Target
from ..verdict import check
from .associations import (
    RECOVERY,
    SETTLE,
    Disk,
    RawQueue,
    Scratch,
    Steered,
    join,
    raw_admin_queue,
    raw_io_queue,
    stays_quiet,
)

CHAPTER = "paths"
WAYS = ("reset", "FIN", "silent", "REMOVE_ADDR")
SECOND = 7  # address identifier of the second subflow, though its address may be the first one's


class LosesWhatBrings(Steered):
    """Once armed, loses the subflow that brings data first, and those data with it."""

    armed: str | None = None  # how
    victim: raw.Subflow | None = None

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        how, self.armed = (self.armed, None) if segment.payload else (None, self.armed)
        if how is None:
            return [segment]
        self.victim = subflow
        if subflow.index == self.on:
            self.on = next(s.index for s in subflow.connection.alive if s is not subflow)
        lose(subflow, how)
        return []


def lose(subflow: raw.Subflow, how: str) -> None:
    """Lose a subflow in one of the WAYS; the others go on."""
    match how:
        case "reset":
            subflow.reset()
        case "FIN":
            subflow.finish()
        case "silent":
            subflow.silent = True
        case "REMOVE_ADDR":
            connection = subflow.connection
            others = [other for other in connection.alive if other is not subflow]
            connection.withdraw(subflow.address_id, subflow=others[0])
        case _:
            raise ValueError(how)


def change_over(queue: RawQueue, lost: raw.Subflow, how: str) -> None:
    """Lose a subflow, and send by another one from now on. Give the target the time to recover."""
    queue.send_by(next(subflow for subflow in queue.connection.alive if subflow is not lost))
    lose(lost, how)
    queue.connection.settimeout(RECOVERY)


@pytest.mark.requirement("TCPV-LOSS-001")
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("which", [0, 1], ids=["first", "second"])
def test_loss_while_idle(joinable_port: Target, which: int, how: str) -> None:
    """An association goes on when one of two subflows is lost while nothing is sent.

    Sent: an Admin Queue with two subflows, one of which is lost as the name of the test says; some
    seconds later Keep Alive and Identify Controller by the other one.
    Expected: both commands succeed.
    """
    with raw_admin_queue(joinable_port) as queue:
        join(queue.connection, address_id=SECOND)
        queue.works_by(*queue.connection.alive)
        change_over(queue, queue.connection.subflows[which], how)
        stays_quiet(queue.connection)
        queue.host.keep_alive()
        queue.host.identify_controller()


@pytest.mark.requirement("TCPV-LOSS-001", "TCPV-LOSS-002", "TCPV-LOSS-003")
@pytest.mark.parametrize("how", WAYS)
def test_loss_between_r2t_and_data(joinable_port: Target, scratch: Scratch, how: str) -> None:
    """A Write command outlives the subflow that carried it, between R2T and data.

    Sent: a Write command by the first subflow; when the R2T has come, this subflow is lost; the
    data by the second one; then Read.
    Expected: both commands succeed, and what is read is what was written.
    """
    with raw_io_queue(joinable_port) as queue:
        join(queue.connection, address_id=SECOND)
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        cid = disk.begin_write()
        r2t = disk.take_r2t(cid)
        change_over(queue, queue.connection.subflows[0], how)
        queue.host.send(b"".join(disk.host_data(r2t, data)))
        disk.finish_write(cid, data)
        check(disk.read() == data, "what is read isn't what was written")


@pytest.mark.requirement("TCPV-LOSS-001", "TCPV-LOSS-002")
@pytest.mark.parametrize("how", WAYS)
def test_loss_within_written_data(joinable_port: Target, scratch: Scratch, how: str) -> None:
    """A Write command outlives the subflow that carried a part of its data.

    Sent: a Write command; the second quarter of its data by the second subflow, which is lost
    before any of that arrives, and the rest by the first one; the lost part is sent again by the
    first one at last; then Read.
    Expected: both commands succeed, and what is read is what was written.
    """
    with raw_io_queue(joinable_port) as queue:
        connection = queue.connection
        first, second = connection.subflows[0], join(connection, address_id=SECOND)
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        cid = disk.begin_write()
        stream = b"".join(disk.host_data(disk.take_r2t(cid), data))
        quarter = len(stream) // 4
        second.muted = True
        connection.send_mapping(stream[:quarter], subflow=first)
        connection.send_mapping(stream[quarter:2 * quarter], subflow=second)
        second.muted = False
        change_over(queue, second, how)
        queue.host.send(stream[2 * quarter:])
        disk.finish_write(cid, data)
        check(disk.read() == data, "what is read isn't what was written")


@pytest.mark.requirement("TCPV-LOSS-001", "TCPV-LOSS-002", "TCPV-LOSS-003")
@pytest.mark.parametrize("how", ["reset", "FIN", "silent"])
def test_loss_within_read_data(joinable_port: Target, scratch: Scratch, how: str) -> None:
    """A Read command outlives the subflow by which its data come; they come by another one.

    Sent: Write, then Read on an I/O queue with two subflows; the subflow that brings the first data
    is lost, and those data with it.
    Expected: the commands succeed, and what is read is what was written.
    """
    behaviour = LosesWhatBrings()
    with raw_io_queue(joinable_port, behaviour) as queue:
        connection = queue.connection
        join(connection)
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        disk.write(data)
        connection.wait_acknowledged(joinable_port.address.timeout)
        connection.settimeout(RECOVERY)
        behaviour.armed = how
        check(disk.read() == data, "what is read isn't what was written")
        check(behaviour.victim is not None and bool(connection.alive), "no subflow was lost")


@pytest.mark.requirement("TCPV-LOSS-001")
@pytest.mark.usefixtures("serves_afterwards")
def test_removal_of_an_unknown_address(joinable_port: Target) -> None:
    """REMOVE_ADDR for address identifiers that nobody uses changes nothing.

    Sent: REMOVE_ADDR for ten identifiers that the connection doesn't have; then Keep Alive by each
    of two subflows.
    Expected: each command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue:
        join(queue.connection)
        both = list(queue.connection.alive)
        queue.connection.withdraw(*range(100, 110))
        stays_quiet(queue.connection)
        queue.works_by(*both)


@pytest.mark.requirement("TCPV-LOSS-006")
@pytest.mark.parametrize("times", [1, 3], ids=["once", "three times"])
def test_rejoin(joinable_port: Target, times: int) -> None:
    """A connection whose only subflow was lost can be joined.

    Sent: an Admin Queue; its only subflow is reset, and two seconds later there is a join; as often
    as the name of the test says; then Keep Alive.
    Expected: the join becomes an established subflow; the command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue:
        for _ in range(times):
            lose_all(queue)
            join(queue.connection)
            queue.host.keep_alive()


def lose_all(queue: RawQueue) -> None:
    """Reset all subflows; the connection is without one for some seconds."""
    for subflow in queue.connection.alive:
        subflow.reset()
    # The stack's thread goes on; nothing is going to come.
    with pytest.raises(TimeoutError):
        queue.connection.wait("something", lambda: queue.connection.alive, SETTLE)


@pytest.mark.requirement("TCPV-LOSS-006", "TCPV-LOSS-003", "TCPV-LOSS-002")
@pytest.mark.parametrize("kind", ["write", "read"])
def test_rejoin_during_a_command(joinable_port: Target, scratch: Scratch, kind: str) -> None:
    """A command outlives the loss of all subflows, if there is a join in time.

    Sent: Write and Read; during one of them (behind the R2T, or with the first data) all subflows
    are reset; two seconds later there is a join, and what is missing is sent.
    Expected: both commands succeed, and what is read is what was written.
    """
    behaviour = LosesWhatBrings()
    with raw_io_queue(joinable_port, behaviour) as queue:
        connection = queue.connection
        join(connection)
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        if kind == "write":
            cid = disk.begin_write()
            r2t = disk.take_r2t(cid)
            lose_all(queue)
            rejoin_slowly(queue)
            queue.host.send(b"".join(disk.host_data(r2t, data)))
            disk.finish_write(cid, data)
            check(disk.read() == data, "what is read isn't what was written")
            return
        disk.write(data)
        behaviour.armed = "reset"
        cid = disk.begin_read()
        connection.wait("data", lambda: behaviour.victim, RECOVERY)
        lose_all(queue)
        rejoin_slowly(queue)
        check(disk.finish_read(cid) == data, "what is read isn't what was written")


def rejoin_slowly(queue: RawQueue) -> None:
    """Join, and give the target the time to recover."""
    queue.connection.settimeout(RECOVERY)
    join(queue.connection)
