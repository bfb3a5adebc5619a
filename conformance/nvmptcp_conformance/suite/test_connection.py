# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Connections: MP_CAPABLE, queues, and the byte stream."""

import time
from contextlib import ExitStack

import pytest
from scapy.compat import raw

from ..endpoints import mptcp_socket
from ..endpoints.host import Host
from ..layers import nvme, nvme_tcp
from ..layers.registry import Mpattr
from ..target import Target
from .verdict import NotApplicable, check

CONNECTIONS = 8
CID = 0x7000  # of the capsule that is cut


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
