# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Connections: MP_CAPABLE, queues, and the byte stream."""

import time
from contextlib import ExitStack

import pytest
from scapy.compat import raw

from ...endpoints import mptcp_socket
from ...endpoints.host import HOST_ID, Host
from ...endpoints.raw import Segment, Subflow
from ...layers import mptcp, nvme, nvme_tcp
from ...layers.registry import Mpattr
from ...target import Target
from ..verdict import NotApplicable, check
from .associations import (
    Alternating,
    Disk,
    Middlebox,
    RawQueue,
    Scratch,
    Steered,
    host_on,
    join,
    overtaken,
    raw_admin_queue,
    raw_connection,
    raw_io_queue,
    start_join,
)

CONNECTIONS = 8
CID = 0x7000  # of the capsule that is cut
CUTS = (*range(1, 10), 24, 39, 40, 64, 71)  # bytes of a capsule's beginning: each of its header,
# and some of the submission queue entry
MANY = 8  # PDUs in one mapping
SEGMENT = 700  # bytes
LONG = 40_000  # bytes of a mapping, less than the smallest usual window


def first_namespace(host: Host) -> int:
    """The lowest active NSID. NotApplicable if there is none."""
    first = int.from_bytes(host.read(nvme.Identify(cns=2), 4096)[:4], "little")
    if not first:
        raise NotApplicable("the active namespace ID list is empty: no I/O command to send")
    return first


@pytest.mark.requirement("TCPV-CONN-006")
def test_mp_capable_is_answered(mptcp_port: Target) -> None:
    """MP_CAPABLE in a SYN is answered by MP_CAPABLE.

    Sent: eight SYNs with MP_CAPABLE, while the connections before stay open.
    Expected: each SYN/ACK has MP_CAPABLE; each ICReq is answered by ICResp.
    """
    with ExitStack() as stack:
        for number in range(1, CONNECTIONS + 1):
            host = stack.enter_context(mptcp_port.connection())
            check(mptcp_socket.info(host.socket) is not None,
                  f"connection {number} of {CONNECTIONS} fell back to TCP in the handshake")
            host.initialize()


@pytest.mark.requirement("TCPV-CONN-002")
@pytest.mark.parametrize(("admin", "io"), [(True, True), (True, False), (False, True)],
                         ids=["mptcp-mptcp", "mptcp-tcp", "tcp-mptcp"])
def test_queues_differ(mptcp_port: Target, admin: bool, io: bool) -> None:
    """Admin Queue and I/O Queue may differ in the protocol in effect.

    Sent: Connect for an Admin Queue and for I/O queue 1, each over the protocol that the name of
    the test says; then Identify and Flush.
    Expected: each command succeeds.
    """
    if mptcp_port.attribute(Mpattr.MPREQ) and not (admin and io):
        raise NotApplicable("MPATTR has MPREQ set: connections over TCP are refused")
    with mptcp_port.admin_queue(mptcp=admin) as (host, cntlid):
        host.allow_io_queues()
        with mptcp_port.io_queue(cntlid, mptcp=io) as queue:
            host.identify_controller()
            queue.command(nvme.Flush(nsid=first_namespace(host)))


@pytest.mark.requirement("TCPV-CONN-006")
@pytest.mark.usefixtures("raw")
def test_repeated_syn(mptcp_port: Target) -> None:
    """MP_CAPABLE in a SYN that is sent again is answered, too.

    Sent: a SYN with MP_CAPABLE; its SYN/ACK gets lost, and the SYN is sent once more; then ICReq.
    Expected: a SYN/ACK with MP_CAPABLE, and ICResp with a DSS.
    """
    lost: list[Segment] = []

    def lose_first(_: Subflow, segment: Segment) -> Segment | None:
        if "S" in segment.flags and not lost:
            lost.append(segment)
            return None
        return segment

    with raw_connection(mptcp_port, Middlebox(into=lose_first)) as connection:
        host_on(connection).initialize()
        check(connection.mptcp, f"the connection is TCP: {connection.fell_back}")


@pytest.mark.requirement("TCPV-CONN-006")
@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("checksum", [False, True], ids=["22 octets", "24 octets"])
def test_third_packet_is_lost(mptcp_port: Target, checksum: bool) -> None:
    """The third packet of the handshake may get lost: the first data have MP_CAPABLE, too.

    Sent: SYN, no third packet, and ICReq with MP_CAPABLE of 22 octets, or of 24 with the DSS
    checksum.
    Expected: ICResp with a DSS: the connection is MPTCP.
    """
    def lose(_: Subflow, segment: Segment) -> Segment | None:
        return None if segment.find(mptcp.MPCapableACK) else segment

    with raw_connection(mptcp_port, Middlebox(lose, checksum_required=checksum)) as connection:
        if connection.checksum != checksum:
            raise NotApplicable("the SYN/ACK has the flag A set: MP_CAPABLE has 24 octets")
        host_on(connection).initialize()
        check(connection.mptcp, f"the connection is TCP: {connection.fell_back}")


@pytest.mark.requirement("TCPV-CONN-009")
@pytest.mark.parametrize("joining", [False, True], ids=["no join", "half-open join"])
def test_icresp_does_not_wait_for_joins(joinable_port: Target, joining: bool) -> None:
    """ICResp comes on a connection with one subflow.

    Sent: ICReq on the first subflow; no join, or one whose third packet doesn't come, before the
    last byte of the ICReq.
    Expected: ICResp.
    """
    def stop(subflow: Subflow, segment: Segment) -> Segment | None:
        return None if subflow.join and "S" not in segment.flags else segment

    with raw_connection(joinable_port, Middlebox(stop)) as connection:
        host = host_on(connection)
        request = raw(nvme_tcp.ICReq())
        host.send(request[:-1])
        connection.wait_acknowledged(joinable_port.address.timeout)
        if joining:
            start_join(connection)
        host.send(request[-1:])
        response = host.receive()
        check(isinstance(response, nvme_tcp.ICResp), f"{response.name} came")


@pytest.mark.requirement("TCPV-CONN-002")
@pytest.mark.parametrize(("admin", "io"), [(2, 1), (1, 2)], ids=["2-1", "1-2"])
def test_queues_differ_in_subflows(joinable_port: Target, admin: int, io: int) -> None:
    """Admin Queue and I/O Queue may differ in the number of subflows.

    Sent: an Admin Queue and I/O queue 1 with as many subflows as the name of the test says; Keep
    Alive or Flush by each subflow.
    Expected: each command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue:
        queue.host.allow_io_queues()
        nsid = first_namespace(queue.host)
        if admin > 1:
            join(queue.connection)
        with raw_connection(joinable_port) as connection:
            host = host_on(connection)
            icresp = host.initialize()
            host.connect(joinable_port.nqn, joinable_port.address.hostnqn, qid=1,
                         cntlid=queue.cntlid)
            if io > 1:
                join(connection)
            flusher = RawQueue(joinable_port, connection, host, queue.cntlid, icresp)
            for subflow in connection.alive:
                flusher.send_by(subflow)
                host.command(nvme.Flush(nsid=nsid))
            queue.works_by(*queue.connection.alive)


@pytest.mark.requirement("TCPV-CONN-013")
def test_pdus_are_cut_anywhere(mptcp_port: Target) -> None:
    """A PDU may be cut at any byte.

    Sent: a Keep Alive capsule cut in two, once at each of its bytes; the second part leaves when
    the first is acknowledged, so that they are two mappings.
    Expected: each Keep Alive command is completed.
    """
    timeout = mptcp_port.address.timeout
    with mptcp_port.admin_queue() as (host, _):
        capsule = raw(host.capsule(nvme.KeepAlive(cid=CID)))
        for cut in range(1, len(capsule)):
            host.send(capsule[:cut])
            mptcp_socket.wait_acknowledged(host.socket, timeout)
            host.send(capsule[cut:])
            response = host.receive()
            check(isinstance(response, nvme_tcp.CapsuleResp), f"cut at byte {cut}: {response.name}")
            cqe = response.rccqe
            check((cqe.cid, cqe.sct, cqe.sc) == (CID, 0, 0),
                  f"cut at byte {cut}: CID {cqe.cid:X}h, SCT {cqe.sct:X}h, SC {cqe.sc:02X}h")


@pytest.mark.requirement("TCPV-CONN-013")
def test_icreq_byte_by_byte(mptcp_port: Target) -> None:
    """An ICReq may come byte by byte.

    Sent: the 128 bytes of an ICReq, each when the one before is acknowledged.
    Expected: ICResp.
    """
    with mptcp_port.connection() as host:
        request = raw(nvme_tcp.ICReq())
        begin = time.monotonic()
        for byte in request[:-1]:
            host.send(bytes([byte]))
            mptcp_socket.wait_acknowledged(host.socket, mptcp_port.address.timeout)
        host.send(request[-1:])
        response = host.receive()
        check(isinstance(response, nvme_tcp.ICResp),
              f"{response.name} after {time.monotonic() - begin:.1f} s")


def keep_alives(host: Host, *cids: int) -> bytes:
    """Keep Alive capsules, one behind the other."""
    return b"".join(raw(host.capsule(nvme.KeepAlive(cid=cid))) for cid in cids)


def check_completed(host: Host, *cids: int) -> None:
    """Each of these commands is completed once and without an error; in any order."""
    missing = set(cids)
    for _ in cids:
        response = host.receive()
        check(isinstance(response, nvme_tcp.CapsuleResp), f"{response.name} came")
        cqe = response.rccqe
        check(cqe.cid in missing and not (cqe.sct or cqe.sc),
              f"CID {cqe.cid:X}h, SCT {cqe.sct:X}h, SC {cqe.sc:02X}h; waiting for"
              f" {', '.join(f'{cid:X}h' for cid in sorted(missing))}")
        missing.remove(cqe.cid)


@pytest.mark.requirement("TCPV-CONN-012", "TCPV-CONN-013")
def test_pdus_are_cut_between_subflows(joinable_port: Target) -> None:
    """A PDU may be cut between subflows, and its second part may come first.

    Sent: a Keep Alive capsule cut in two at each byte of its header and some behind it; the second
    part arrives on another subflow before the first.
    Expected: each Keep Alive command is completed.
    """
    with raw_admin_queue(joinable_port) as queue:
        first, connection = queue.connection.subflows[0], queue.connection
        second = join(connection)
        for cut in CUTS:
            capsule = keep_alives(queue.host, CID)
            with overtaken(first, by=second):
                connection.send_mapping(capsule[:cut], subflow=first)
                connection.send_mapping(capsule[cut:], subflow=second)
            check_completed(queue.host, CID)


@pytest.mark.requirement("TCPV-CONN-012")
def test_connect_arrives_before_the_icreq_ends(joinable_port: Target) -> None:
    """PDUs are processed in the order of the byte stream, not of arrival: ICReq and Connect.

    Sent: half of an ICReq; a join; then the rest of the ICReq on the first subflow, and a Connect
    command on the second one, which arrives first.
    Expected: ICResp, then the completion of Connect.
    """
    with raw_connection(joinable_port, Steered()) as connection:
        host = host_on(connection)
        request = raw(nvme_tcp.ICReq())
        half = len(request) // 2
        host.send(request[:half])
        connection.wait_acknowledged(joinable_port.address.timeout)
        first, second = connection.subflows[0], join(connection)
        with overtaken(first, by=second):
            connection.send_mapping(request[half:], subflow=first)
            connection.send_mapping(connect_capsule(host, joinable_port), subflow=second)
        response = host.receive()
        check(isinstance(response, nvme_tcp.ICResp), f"{response.name} came first")
        check_completed(host, CID)


def connect_capsule(host: Host, target: Target) -> bytes:
    """A Connect command for an Admin Queue."""
    data = nvme.ConnectData(hostid=HOST_ID, subnqn=target.nqn.encode(),
                            hostnqn=target.address.hostnqn.encode())
    command = nvme.Connect(cid=CID)
    command.sgl1 = nvme.SGLDescriptor(length=len(data), type=0, subtype=1)
    return raw(host.capsule(command, raw(data)))


@pytest.mark.requirement("TCPV-CONN-012")
def test_data_arrive_out_of_order(joinable_port: Target, scratch: Scratch) -> None:
    """The data of a command are put in the order of the byte stream.

    Sent: a Write command; the first half of its H2CData PDUs on the first subflow, the second half
    on another one, where it arrives first; then a Read command.
    Expected: both commands succeed, and what is read is what was written.
    """
    with raw_io_queue(joinable_port) as queue:
        first, connection = queue.connection.subflows[0], queue.connection
        second = join(connection)
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        cid = disk.begin_write()
        stream = b"".join(disk.host_data(disk.take_r2t(cid), data))
        half = len(stream) // 2
        with overtaken(first, by=second):
            connection.send_mapping(stream[:half], subflow=first)
            connection.send_mapping(stream[half:], subflow=second)
        disk.finish_write(cid, data)
        check(disk.read() == data, "what is read isn't what was written")


@pytest.mark.requirement("TCPV-CONN-013")
def test_mappings_of_one_byte(joinable_port: Target) -> None:
    """Each byte may be a mapping of its own, on changing subflows.

    Sent: a Keep Alive capsule as 72 mappings of one byte, on two subflows in turn.
    Expected: the command is completed.
    """
    with raw_admin_queue(joinable_port, Alternating()) as queue:
        join(queue.connection)
        queue.connection.behaviour.mapping_size = 1
        queue.host.send(keep_alives(queue.host, CID))
        check_completed(queue.host, CID)


@pytest.mark.requirement("TCPV-CONN-013")
@pytest.mark.usefixtures("raw")
def test_many_pdus_in_a_mapping(mptcp_port: Target) -> None:
    """A mapping may hold many PDUs, and end within one.

    Sent: eight Keep Alive capsules and half of a ninth as one mapping; then the other half.
    Expected: all nine commands are completed.
    """
    with raw_admin_queue(mptcp_port) as queue:
        cids = range(CID, CID + MANY + 1)
        stream = keep_alives(queue.host, *cids)
        cut = len(stream) - len(stream) // len(cids) // 2
        queue.connection.send_mapping(stream[:cut])
        check_completed(queue.host, *cids[:-1])
        queue.connection.send_mapping(stream[cut:])
        check_completed(queue.host, cids[-1])


@pytest.mark.requirement("TCPV-CONN-013")
@pytest.mark.usefixtures("raw")
def test_mapping_over_many_segments(mptcp_port: Target, scratch: Scratch) -> None:
    """A mapping may span many segments, of which the first one has the DSS option.

    Sent: the data of a Write command in mappings of 40,000 bytes and segments of 700; then a Read
    command.
    Expected: both commands succeed, and what is read is what was written.
    """
    with raw_io_queue(mptcp_port) as queue:
        disk, data = Disk.on(queue, scratch), scratch.pattern()
        cid = disk.begin_write()
        stream = b"".join(disk.host_data(disk.take_r2t(cid), data))
        for start in range(0, len(stream), LONG):
            queue.connection.send_mapping(stream[start:start + LONG], segment_size=SEGMENT,
                                          on_each=False)
            queue.connection.wait_acknowledged(mptcp_port.address.timeout)
        disk.finish_write(cid, data)
        check(disk.read() == data, "what is read isn't what was written")
