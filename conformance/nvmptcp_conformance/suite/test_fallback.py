# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Fallback to TCP: what a port does with hosts that come by TCP."""

import pytest

from ..endpoints import mptcp_socket
from ..endpoints.host import EndError
from ..layers.registry import Mpattr
from ..target import Target
from .verdict import NotApplicable, check

EXCHANGES = 10


@pytest.fixture
def open_port(mptcp_port: Target) -> Target:
    """An MPTCP port that accepts TCP, too."""
    if mptcp_port.attribute(Mpattr.MPREQ):
        raise NotApplicable("MPATTR has MPREQ set")
    return mptcp_port


@pytest.fixture
def strict_port(mptcp_port: Target) -> Target:
    """An MPTCP port that refuses TCP."""
    if not mptcp_port.attribute(Mpattr.MPREQ):
        raise NotApplicable("MPATTR has MPREQ cleared")
    return mptcp_port


@pytest.mark.requirement("TCPV-FALL-002")
def test_tcp_is_accepted(open_port: Target) -> None:
    """Without MPREQ, a host that comes by TCP is served.

    Sent: a SYN without MP_CAPABLE, then ICReq, Connect, and the commands that enable the
    controller.
    Expected: each command succeeds.
    """
    with open_port.admin_queue(mptcp=False) as (host, _):
        host.identify_controller()


@pytest.mark.requirement("TCPV-FALL-004")
@pytest.mark.usefixtures("serves_afterwards")
def test_tcp_is_refused(strict_port: Target) -> None:
    """With MPREQ, a connection over TCP is closed.

    Sent: a SYN without MP_CAPABLE, then ICReq.
    Expected: the connection is closed or reset and no PDU comes; a fresh association over MPTCP is
    served.
    """
    try:
        with strict_port.connection(mptcp=False) as host:
            answer = host.initialize()
    except TimeoutError:
        check(False, f"nothing came within {strict_port.address.timeout:g} s")
    except (EndError, ConnectionError):
        return
    check(False, f"{answer.name} came")


@pytest.mark.requirement("TCPV-FALL-006")
def test_decision_is_taken_once(strict_port: Target) -> None:
    """With MPREQ, a connection that has its ICResp stays.

    Sent: ICReq, Connect and ten Keep Alive commands over MPTCP.
    Expected: each command succeeds.
    """
    with strict_port.admin_queue() as (host, _):
        for _ in range(EXCHANGES):
            host.keep_alive()


@pytest.mark.requirement("TCPV-FALL-010")
def test_other_connections_stay(open_port: Target) -> None:
    """A connection stays when another one of the association is TCP.

    Sent: an Admin Queue over MPTCP, I/O queue 1 over TCP, and ten Keep Alive commands; the I/O
    queue is closed after five of them.
    Expected: each Keep Alive command succeeds, and the Admin Queue stays MPTCP.
    """
    with open_port.admin_queue() as (host, cntlid):
        host.allow_io_queues()
        with open_port.io_queue(cntlid, mptcp=False):
            for _ in range(EXCHANGES // 2):
                host.keep_alive()
        for _ in range(EXCHANGES // 2):
            host.keep_alive()
        check(mptcp_socket.info(host.socket) is not None, "the Admin Queue fell back to TCP")
