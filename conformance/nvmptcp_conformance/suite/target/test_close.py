# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Closing a connection: DATA_FIN, FIN, MP_FASTCLOSE, fatal errors.

The first tests use sockets of the kernel, the others the raw stack.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from scapy.compat import raw as build

from ...endpoints import raw
from ...endpoints.host import Host, StatusError
from ...layers import nvme, nvme_tcp
from ...target import Target
from ..verdict import ConceptualPass, Failed, NotApplicable, check
from .associations import (
    SETTLE,
    Disk,
    Middlebox,
    Scratch,
    host_on,
    join,
    raw_admin_queue,
    raw_connection,
    raw_io_queue,
)
from .endings import (
    TERMINATION,
    Ending,
    check_ends,
    check_forgotten,
    ending,
    fastclosed,
    until_ended,
)
from .test_connection import check_completed, keep_alives
from .test_mappings import mapping, next_dsn

WITHIN, QUIET = 2.0, 0.5  # seconds
CID = 0x7300
CC, CSTS, ENABLED = 0x14, 0x1C, 0x460001
SHUTDOWN = 1 << 14  # SHN 01b of CC
DONE = 2  # SHST of CSTS
UNKNOWN_TYPE = b"\xee\x00\x08\x00\x08\x00\x00\x00"


def controller_is_gone(target: Target, cntlid: int) -> None:
    """Failed unless the controller refuses an I/O queue after a while.

    One attempt only: a second one could be refused for the queue ID of the first.
    """
    time.sleep(WITHIN)
    try:
        with target.io_queue(cntlid):
            pass
    except StatusError:
        return
    raise Failed(f"controller {cntlid:X}h still accepts an I/O queue after {WITHIN:g} s")


@pytest.mark.requirement("TCPV-CLOS-004")
@pytest.mark.usefixtures("serves_afterwards")
def test_data_fin_ends_the_association(mptcp_port: Target) -> None:
    """DATA_FIN from the host ends the association.

    Sent: DATA_FIN on an Admin Queue with a Keep Alive Timeout of 60 s; then Connect for I/O queue
    1 of the same controller.
    Expected: the connection ends within 2 s, Connect is refused, and a fresh association is served.
    """
    with mptcp_port.admin_queue() as (host, cntlid):
        host.allow_io_queues()
        host.end_stream()
        end = host.wait_for_end(WITHIN)
        check(end != "nothing", f"the connection is still there after {WITHIN:g} s")
        controller_is_gone(mptcp_port, cntlid)


@pytest.mark.requirement("TCPV-CLOS-006")
@pytest.mark.usefixtures("serves_afterwards")
def test_fastclose_ends_the_association(mptcp_port: Target) -> None:
    """MP_FASTCLOSE from the host ends the association.

    Sent: MP_FASTCLOSE on an Admin Queue with a Keep Alive Timeout of 60 s; then Connect for I/O
    queue 1 of the same controller.
    Expected: Connect is refused after 2 s, and a fresh association is served.
    """
    with mptcp_port.admin_queue() as (host, cntlid):
        host.allow_io_queues()
        host.abort()
        controller_is_gone(mptcp_port, cntlid)


@contextmanager
def at_state(target: Target, scratch: Scratch, state: str) -> Iterator[raw.Connection]:
    """A connection that has come so far."""
    if state == "between R2T and data":
        with raw_io_queue(target) as queue:
            disk = Disk.on(queue, scratch)
            disk.take_r2t(disk.begin_write())
            yield queue.connection
        return
    with raw_connection(target) as connection:
        host = host_on(connection)
        request = build(nvme_tcp.ICReq())
        match state:
            case "before the ICReq":
                # The target has to know that the host has its key.
                time.sleep(SETTLE)
            case "within the ICReq":
                host.send(request[:len(request) // 2])
            case "behind the ICResp":
                host.initialize()
            case "within a capsule":
                host.initialize()
                host.send(keep_alives(host, CID)[:40])
        connection.wait_acknowledged(target.address.timeout)
        yield connection


STATES = ("before the ICReq", "within the ICReq", "behind the ICResp", "within a capsule",
          "between R2T and data")
FORMS = ("alone", "with data", "of 4 octets", "by the second subflow", "lost once")


@pytest.mark.requirement("TCPV-CLOS-004")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_data_fin(joinable_port: Target, form: str) -> None:
    """DATA_FIN ends the association, whatever it comes with.

    Sent: DATA_FIN on an Admin Queue with a Keep Alive Timeout of 60 s: alone, with a Keep Alive
    capsule before it, with a DSN of 4 octets, by a second subflow, or once more after it was lost;
    then Connect for I/O queue 1 of the same controller.
    Expected: the connection ends within 2 s, and Connect is refused.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        queue.host.allow_io_queues()
        match form:
            case "with data":
                connection.send_mapping(keep_alives(queue.host, CID), fin=True)
            case "of 4 octets":
                connection.behaviour.dsn_octets = 4
            case "by the second subflow":
                queue.send_by(join(connection))
            case "lost once":
                connection.subflows[0].muted = True
        if form != "with data":
            connection.shutdown(socket.SHUT_WR)
        connection.subflows[0].muted = False
        check_ends(connection, WITHIN)
        controller_is_gone(joinable_port, queue.cntlid)


@pytest.mark.requirement("TCPV-CLOS-004")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("state", STATES)
def test_data_fin_at_any_state(mptcp_port: Target, scratch: Scratch, state: str) -> None:
    """DATA_FIN ends the connection at any state.

    Sent: DATA_FIN at the state in the name of the test.
    Expected: the connection ends within 2 s.
    """
    with at_state(mptcp_port, scratch, state) as connection:
        connection.shutdown(socket.SHUT_WR)
        check_ends(connection, WITHIN)


@pytest.mark.requirement("TCPV-CLOS-002")
@pytest.mark.parametrize("which", ["first of two", "second of two", "only one"])
def test_fin_closes_a_subflow_only(joinable_port: Target, which: str) -> None:
    """FIN without DATA_FIN isn't the end of the connection.

    Sent: FIN on a subflow of an Admin Queue, on the only one or one of two; some seconds later Keep
    Alive by the other one, or by one that joins then.
    Expected: the command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        if which != "only one":
            join(connection)
            queue.works_by(*connection.alive)
        connection.subflows[1 if which == "second of two" else 0].finish()
        until_ended(connection, SETTLE)
        check(not connection.receiver.ended, "the target ends the connection, too")
        if which == "only one":
            join(connection)
        queue.works_by(*connection.alive)


@pytest.mark.requirement("TCPV-CLOS-002")
def test_fin_with_data(joinable_port: Target) -> None:
    """Data in the segment with FIN are a part of the stream, which goes on.

    Sent: a Keep Alive capsule by one of two subflows, in a segment with FIN; Keep Alive by the
    other one.
    Expected: both commands are completed.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        first, second = connection.subflows[0], join(connection)
        queue.works_by(first, second)
        queue.send_by(first)
        capsule = keep_alives(queue.host, CID)
        dsn = next_dsn(connection, capsule, second)
        second.send("FPA", capsule, [mapping(connection, second.send_next, dsn, capsule)])
        second.finished = True
        check_completed(queue.host, CID)
        queue.works_by(first)


@pytest.mark.requirement("TCPV-CLOS-006")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("form", ["ack", "reset"])
@pytest.mark.parametrize("state", STATES)
def test_fastclose_at_any_state(joinable_port: Target, scratch: Scratch, state: str,
                                form: str) -> None:
    """MP_FASTCLOSE ends the connection at any state.

    Sent: MP_FASTCLOSE, on an ACK or on a RST, at the state in the name of the test; then a join.
    Expected: the ACK is answered by a RST (RFC 8684, section 3.5); the join is refused.
    """
    with at_state(joinable_port, scratch, state) as connection:
        check_fastclose(connection, form, connection.subflows[0])


def check_fastclose(connection: raw.Connection, form: str, subflow: raw.Subflow) -> None:
    """Send MP_FASTCLOSE by a subflow; the target forgets the connection."""
    connection.fastclose(form=form, subflow=subflow)
    try:
        connection.wait("RST", lambda: subflow.ended, WITHIN)
    except TimeoutError:
        raise Failed(f"no RST within {WITHIN:g} s") from None
    time.sleep(WITHIN)
    check_forgotten(connection)


@pytest.mark.requirement("TCPV-CLOS-006")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("which", [0, 1], ids=["first", "second"])
def test_fastclose_by_one_of_two_subflows(joinable_port: Target, which: int) -> None:
    """MP_FASTCLOSE ends the connection by whatever subflow it comes.

    Sent: MP_FASTCLOSE on an ACK by one of two subflows of an Admin Queue, and nothing on the other;
    then a join, and Connect for I/O queue 1 of the same controller.
    Expected: a RST on each subflow; the join and Connect are refused.
    """
    with raw_admin_queue(joinable_port) as queue:
        queue.host.allow_io_queues()
        connection = queue.connection
        join(connection)
        both = list(connection.alive)
        queue.works_by(*both)
        quiet = both[1 - which]
        quiet.muted = True  # the RST of `fastclose` gets lost, the target's is to come
        mark = connection.mark()
        check_fastclose(connection, "ack", both[which])
        resets = [segment for segment in connection.received(mark) if "R" in segment.flags]
        check(any(segment.destination == quiet.local for segment in resets),
              "no RST on the other subflow")
        controller_is_gone(joinable_port, queue.cntlid)


ERRORS = ("unknown PDU type", "wrong HLEN", "capsule before the ICReq", "data nobody asked for",
          "H2CTermReq")


def provoke(target: Target, connection: raw.Connection, error: str) -> None:
    """Send what is a fatal transport error, or ends the connection, on a new one."""
    host = host_on(connection)
    if error != "capsule before the ICReq":
        host.initialize()
        host.connect(target.nqn, target.address.hostnqn)
    host.send({
        "unknown PDU type": lambda: UNKNOWN_TYPE,
        "wrong HLEN": lambda: build(nvme_tcp.CapsuleCmd(hlen=73, ccsqe=nvme.KeepAlive())),
        "capsule before the ICReq": lambda: keep_alives(host, CID),
        "data nobody asked for": lambda: build(nvme_tcp.H2CData(
            cccid=CID, ttag=CID, data=bytes(512))),
        "H2CTermReq": lambda: build(nvme_tcp.H2CTermReq(fes=1)),
    }[error]())


@pytest.mark.requirement("TCPV-CLOS-005")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("error", ERRORS)
def test_abort_is_mp_fastclose(mptcp_port: Target, error: str) -> None:
    """A connection with a fatal transport error is aborted by MP_FASTCLOSE.

    Sent: what the name of the test says; the host doesn't close the connection.
    Expected: a termination request or none, and within 40 s MP_FASTCLOSE. It is as safe if the
    target ends the byte stream instead. A RST without MP_FASTCLOSE leaves the host waiting.
    """
    with raw_connection(mptcp_port) as connection:
        provoke(mptcp_port, connection, error)
        how = ending(connection)
        if how is Ending.DATA_FIN:
            raise ConceptualPass("the target ends the byte stream by DATA_FIN, and sends no"
                                 " MP_FASTCLOSE")
        check(how is Ending.FASTCLOSE, f"what came within 40 s: {how}")


@pytest.mark.requirement("TCPV-CLOS-007")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("error", ERRORS[:4])
def test_termination_request_has_time_to_arrive(mptcp_port: Target, error: str) -> None:
    """MP_FASTCLOSE doesn't overtake a termination request.

    Sent: what the name of the test says, on a connection whose host sends no DATA_ACK from then on.
    Expected: if the target sends C2HTermReq, no MP_FASTCLOSE and no RST in the 25 s after it.
    """
    with raw_connection(mptcp_port) as connection:
        provoke(mptcp_port, connection, error)
        connection.behaviour.acknowledge_data = False
        if not said_why(host_on(connection)):
            raise NotApplicable(f"the target sends no C2HTermReq after: {error}")
        begin, quiet = time.monotonic(), TERMINATION - 5
        try:
            connection.wait("an abort", lambda: fastclosed(connection) or connection.lost, quiet)
        except TimeoutError:
            return
        raise Failed(f"MP_FASTCLOSE or RST {time.monotonic() - begin:.1f} s after C2HTermReq,"
                     " without DATA_ACK for it")


def said_why(host: Host) -> bool:
    """C2HTermReq comes, behind what else there is."""
    try:
        while not isinstance(host.receive(), nvme_tcp.C2HTermReq):
            pass
    except OSError:
        return False
    return True


@pytest.mark.requirement("TCPV-CLOS-001")
@pytest.mark.usefixtures("raw", "serves_afterwards")
def test_orderly_close(mptcp_port: Target) -> None:
    """After a shutdown the target ends its byte stream, and waits for the DATA_ACK.

    Sent: CC.SHN 01b on an Admin Queue; when CSTS.SHST is 10b, DATA_FIN, and then no DATA_ACK and no
    FIN.
    Expected: DATA_FIN, and no FIN in the half second after it. MP_FASTCLOSE is as safe, for the
    host has nothing to wait for.
    """
    def keep_fin(_: raw.Subflow, segment: raw.Segment) -> raw.Segment | None:
        return None if "F" in segment.flags else segment

    with raw_admin_queue(mptcp_port, Middlebox(keep_fin)) as queue:
        connection, host = queue.connection, queue.host
        host.command(nvme.PropertySet(ofst=CC, value=ENABLED | SHUTDOWN))
        end = time.monotonic() + mptcp_port.address.timeout
        while host.command(nvme.PropertyGet(ofst=CSTS)).dw0 >> 2 & 3 != DONE:
            check(time.monotonic() < end, "CSTS.SHST isn't 10b in time after CC.SHN was set")
            time.sleep(0.05)
        connection.behaviour.acknowledge_data = False
        connection.shutdown(socket.SHUT_WR)
        until_ended(connection, SETTLE)
        if fastclosed(connection):
            raise ConceptualPass("MP_FASTCLOSE comes instead of DATA_FIN and its DATA_ACK")
        check(connection.receiver.ended, "no DATA_FIN, or a subflow was closed before it:"
                                         f" {connection.subflows}")
        time.sleep(QUIET)
        with_fin = [segment for segment in connection.received() if "F" in segment.flags]
        check(not with_fin, "FIN before the DATA_ACK for DATA_FIN")
