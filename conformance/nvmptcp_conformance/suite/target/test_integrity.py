# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Integrity and TLS: digests and DSS checksums.

The first tests use sockets of the kernel, the others the raw stack.
"""

import socket
import ssl
from contextlib import suppress
from dataclasses import replace

import pytest
from scapy.compat import raw as build

from ...endpoints import mptcp_socket, raw
from ...endpoints.host import Host
from ...layers import mptcp, nvme, nvme_tcp
from ...layers.registry import Mpattr
from ...target import DDGST, HDGST, Target, entries_of, place
from ..verdict import ConceptualPass, Inconclusive, NotApplicable, check
from .associations import Steered, host_on, join, raw_admin_queue, raw_connection
from .endings import PATIENCE, ended, until_ended
from .test_connection import check_completed, connect_capsule, keep_alives

CID = 0x7400
TRANSIENT = 0x22  # Transient Transport Error, a generic status
HANDSHAKE, ALERT = 22, 21  # types of TLS records
DIGESTS = {0: "no digest", 1: "HDGST", 2: "DDGST", 3: "HDGST and DDGST"}


def granted(target: Target, digests: int, mptcp: bool) -> int:
    """DGST of ICResp, after the association has proved to work with these digests."""
    with target.connection(mptcp=mptcp) as host:
        bits = int(host.initialize(digests).dgst)
    with target.admin_queue(mptcp=mptcp, digests=digests) as (host, _):
        host.identify_controller()
    return bits


@pytest.mark.requirement("TCPV-INTG-001")
@pytest.mark.parametrize("digests", DIGESTS, ids=["none", "hdgst", "ddgst", "both"])
def test_digests_are_independent(mptcp_port: Target, digests: int) -> None:
    """Digests are granted over MPTCP as over TCP, whatever the DSS checksums are.

    Sent: ICReq that asks for the digests in the name of the test, over MPTCP and (without MPREQ)
    over TCP; then Connect and Identify with those that were granted.
    Expected: ICResp grants the same over both, none that wasn't asked for, and the digests that
    come are right.
    """
    over_mptcp = granted(mptcp_port, digests, True)
    check(not over_mptcp & ~digests, f"{DIGESTS[digests]} asked for, DGST {over_mptcp:02X}h")
    if not mptcp_port.attribute(Mpattr.MPREQ):
        over_tcp = granted(mptcp_port, digests, False)
        check(over_mptcp == over_tcp, f"{DIGESTS[digests]} asked for: DGST {over_mptcp:02X}h over"
                                      f" MPTCP, {over_tcp:02X}h over TCP")


@pytest.mark.requirement("TCPV-INTG-002")
def test_dcsr_sets_the_flag(mptcp_port: Target) -> None:
    """With DCSR, DSS checksums are in use.

    Sent: a SYN with MP_CAPABLE.
    Expected: the flag A in MP_CAPABLE of the SYN/ACK, so that the connection uses DSS checksums.
    """
    mptcp_port.require("dcsr")
    with mptcp_port.admin_queue() as (host, _):
        state = mptcp_socket.info(host.socket)
        check(state is not None and state.checksums, "DSS checksums are not in use")


@pytest.mark.requirement("TCPV-INTG-001")
@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("digests", DIGESTS, ids=["none", "hdgst", "ddgst", "both"])
def test_digests_do_not_depend_on_checksums(mptcp_port: Target, digests: int) -> None:
    """Digests are granted with DSS checksums as without.

    Sent: ICReq that asks for the digests in the name of the test, on a connection whose host sets
    the flag A of MP_CAPABLE, and on one whose host doesn't; then Connect.
    Expected: DSS checksums on the former, and they are right; both ICResps grant the same; Connect
    succeeds.
    """
    found = []
    for checksum in (True, False):
        behaviour = Steered(checksum_required=checksum)
        with raw_connection(mptcp_port, behaviour) as connection:
            host = host_on(connection)
            found.append(int(host.initialize(digests).dgst))
            host.connect(mptcp_port.nqn, mptcp_port.address.hostnqn)
            check(connection.mptcp, f"the connection is TCP: {connection.fell_back}")
            bare = [segment for segment in connection.received() if segment.payload
                    and not segment.find(mptcp.DSSChecksum)]
            check(not (checksum and bare), f"{len(bare)} segments with data have no DSS checksum")
    check(found[0] == found[1], f"DGST {found[0]:02X}h with DSS checksums, {found[1]:02X}h without")


@pytest.mark.requirement("TCPV-INTG-002")
@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("checksum", [False, True], ids=["flag A cleared", "flag A set"])
def test_dcsr_whatever_the_host_says(mptcp_port: Target, checksum: bool) -> None:
    """With DCSR the flag A is set, whether the host sets it or not.

    Sent: SYNs with MP_CAPABLE, whose flag A is as the name of the test says.
    Expected: the flag A in MP_CAPABLE of each SYN/ACK.
    """
    mptcp_port.require("dcsr")
    for _ in range(2):
        with raw_connection(mptcp_port, Steered(checksum_required=checksum)) as connection:
            options = [segment.find(mptcp.MPCapableSYNACK) for segment in connection.received()]
            check(all(option.flags.A for option in options if option) and any(options),
                  "MP_CAPABLE of the SYN/ACK has the flag A cleared")


class Corrupting(Steered):
    """A box that changes a byte of the next segment with data on subflow `on_way_out`, or of the
    next that comes in by whatever subflow.
    """

    on_way_out: raw.Subflow | None = None
    on_way_in = False

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if not segment.payload or subflow is not self.on_way_out:
            return [segment]
        self.on_way_out = None
        return [corrupted(segment)]

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if not segment.payload or not self.on_way_in:
            return [segment]
        self.on_way_in = False
        return [corrupted(segment)]


def corrupted(segment: raw.Segment) -> raw.Segment:
    """With another CID, if it is a capsule: a target that takes it completes a command that the
    host doesn't know.
    """
    at = min(10, len(segment.payload) - 1)
    changed = bytes([segment.payload[at] ^ 0x0F])
    return replace(segment, payload=segment.payload[:at] + changed + segment.payload[at + 1:])


@pytest.mark.requirement("TCPV-INTG-005")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("direction", ["to the controller", "to the host"])
def test_checksum_failure_is_no_error(joinable_port: Target, direction: str) -> None:
    """Data that a DSS checksum doesn't fit are sent by another subflow; no command fails.

    Sent: Keep Alive and Identify Controller on an Admin Queue with DSS checksums and two subflows;
    a box on the second one's path, or on the way back, changes a byte; the data are sent again by
    the first one when the target resets the second one. The host does so, too, with MP_FAIL.
    Expected: the commands succeed, and the connection remains MPTCP.
    """
    behaviour = Corrupting(checksum_required=True)
    with raw_admin_queue(joinable_port, behaviour) as queue:
        connection = queue.connection
        second = join(connection)
        whole = queue.host.identify_controller()
        if direction == "to the host":
            behaviour.on_way_in = True
        else:
            behaviour.on_way_out = second
            connection.send_mapping(keep_alives(queue.host, CID), subflow=second)
            check_completed(queue.host, CID)
        check(queue.host.identify_controller() == whole, "Identify Controller brings other data")
        queue.host.keep_alive()
        check(connection.mptcp, f"the connection is TCP: {connection.fell_back}")


@pytest.mark.requirement("TCPV-INTG-004")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("where", ["MP_CAPABLE with data", "later DSS"])
def test_mapping_without_checksum(mptcp_port: Target, where: str) -> None:
    """A mapping without a checksum has its subflow reset, if checksums are in use.

    Sent: ICReq, or Connect behind it, without DSS checksum, on a connection whose MP_CAPABLE
    options have the flag A.
    Expected: a reset, and no ICResp or completion.
    """
    with raw_connection(mptcp_port, Steered(checksum_required=True)) as connection:
        host = host_on(connection)
        if where == "later DSS":
            host.initialize()
            connection.send_mapping(connect_capsule(host, mptcp_port), checksum=False)
        else:
            connection.send_mapping(build(nvme_tcp.ICReq()), checksum=False)
        until_ended(connection, mptcp_port.address.timeout)
        check(not connection.receiver.buffer, "the data were taken, and a PDU came in answer")
        check(not connection.fell_back, f"the connection falls back: {connection.fell_back}")
        check(bool(connection.subflows[0].ended), "the subflow isn't reset")


@pytest.mark.requirement("TCPV-INTG-004")
@pytest.mark.usefixtures("serves_afterwards")
def test_mapping_without_checksum_on_a_join(joinable_port: Target) -> None:
    """A mapping without a checksum has its subflow reset, and the connection goes on.

    Sent: a Keep Alive capsule without DSS checksum by the second subflow of an Admin Queue with
    checksums in use; then by the first one, with a checksum.
    Expected: a reset of the second subflow, and one completion.
    """
    with raw_admin_queue(joinable_port, Steered(checksum_required=True)) as queue:
        connection = queue.connection
        first, second = connection.subflows[0], join(connection)
        queue.works_by(first, second)
        queue.send_by(first)
        connection.send_mapping(keep_alives(queue.host, CID), subflow=second, checksum=False)
        check_completed(queue.host, CID)
        check(bool(second.ended), "the subflow isn't reset")
        queue.works_by(first)


WAYS = ("by the first subflow", "by the second subflow", "by both")


def send_by(connection: raw.Connection, data: bytes, way: str) -> None:
    """Send a PDU by the first subflow, another one, or half by each."""
    first, second = connection.subflows[0], join(connection)
    match way:
        case "by both":
            connection.send_mapping(data[:len(data) // 2], subflow=first)
            connection.send_mapping(data[len(data) // 2:], subflow=second)
        case _:
            connection.send_mapping(data, subflow=first if way == WAYS[0] else second)


@pytest.mark.requirement("TCPV-INTG-006")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("way", WAYS)
def test_header_digest_error(joinable_port: Target, way: str) -> None:
    """A wrong header digest is fatal for the connection, whatever subflow brought it.

    Sent: Connect, and a Keep Alive capsule whose header digest is wrong, on a connection with two
    subflows.
    Expected: no completion; a termination request or none; within 40 s the whole connection ends.
    """
    joinable_port.require("hdgst")
    with raw_connection(joinable_port) as connection:
        host = host_on(connection)
        host.initialize(HDGST)
        host.connect(joinable_port.nqn, joinable_port.address.hostnqn)
        capsule = keep_alives(host, CID)
        send_by(connection, capsule[:-1] + bytes([capsule[-1] ^ 1]), way)
        with_error = completion(host)
        check(with_error is None, "the command is completed")
        until_ended(connection, PATIENCE)
        check(ended(connection), f"the connection goes on: {connection.subflows}")


def completion(host: Host) -> nvme.Completion | None:
    """The next completion; None if the target sends something else, ends, or is silent."""
    try:
        pdu = host.receive()
    except OSError:
        return None
    return pdu.rccqe if isinstance(pdu, nvme_tcp.CapsuleResp) else None


@pytest.mark.requirement("TCPV-INTG-006")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("way", WAYS[1:])
def test_data_digest_error(joinable_port: Target, way: str) -> None:
    """A wrong data digest concerns its command, and no subflow.

    Sent: Connect with a wrong data digest on a connection with two subflows; then Connect with the
    right one.
    Expected: the former is completed with Transient Transport Error, the latter succeeds, and both
    subflows remain. A target that takes it for a fatal error and ends the whole connection is as
    safe.
    """
    joinable_port.require("ddgst")
    with raw_connection(joinable_port) as connection:
        host = host_on(connection)
        host.initialize(DDGST)
        capsule = connect_capsule(host, joinable_port)
        send_by(connection, capsule[:-1] + bytes([capsule[-1] ^ 1]), way)
        status = completion(host)
        if status is None:
            until_ended(connection, PATIENCE)
            check(ended(connection), "neither a completion nor the end of the connection")
            raise ConceptualPass("the target takes a wrong data digest for a fatal error")
        check((status.sct, status.sc) == (0, TRANSIENT),
              f"Connect is completed with SCT {status.sct:X}h, SC {status.sc:02X}h")
        host.connect(joinable_port.nqn, joinable_port.address.hostnqn)
        check(len(connection.alive) == 2, f"a subflow was closed: {connection.subflows}")


@pytest.mark.requirement("TCPV-TLS-003")
def test_tls_where_it_is_reported(target: Target) -> None:
    """A port that reports TCPV 1h and a SECTYPE other than 0h has TLS on MPTCP connections.

    Sent: to each port with such an entry, a ClientHello on an MPTCP connection.
    Expected: a TLS record: the handshake, or an alert as there is no key in common.
    """
    ports = {place(entry) for entry in entries_of(target.log)
             if entry.tsas.tcpv == 1 and int(entry.tsas.sectype)}
    if not ports:
        raise NotApplicable("no entry of the log has TCPV 1h and a SECTYPE other than 0h")
    for traddr, trsvcid in sorted(ports):
        try:
            sock = mptcp_socket.open_socket(traddr, int(trsvcid), target.address.timeout)
        except OSError as error:
            raise Inconclusive(f"{traddr} {trsvcid}: {error.strerror or error}") from error
        with sock:
            answer = answer_to_hello(sock)
        check(answer[:1] in (bytes([HANDSHAKE]), bytes([ALERT])) and answer[1:2] == b"\3",
              f"{traddr} {trsvcid}: no TLS record, but {answer[:8].hex() or 'nothing'}")


def answer_to_hello(sock: socket.socket) -> bytes:
    """What comes on a connection after a ClientHello."""
    context, into, out = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname="nvme")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    try:
        sock.sendall(out.read())
        return sock.recv(1024)
    except OSError:
        return b""
