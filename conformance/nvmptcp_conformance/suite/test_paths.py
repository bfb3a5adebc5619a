# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Addresses, joins and path loss: the subflows that the local path manager opens.

It joins announced addresses as far as `ip mptcp limits` allows.
"""

import time

import pytest

from ..endpoints import mptcp_socket
from ..endpoints.host import Host
from ..layers.registry import Mpattr
from ..target import Target
from .verdict import Inconclusive, NotApplicable, check

SETTLE = 2.0  # seconds for ADD_ADDR, its retransmission, and the joins
STEP = 0.05
CNTLID = 78  # byte of the Identify Controller data structure


def joined(host: Host, seconds: float = SETTLE) -> mptcp_socket.Info:
    """The state of a connection after the time for joins. Inconclusive if none could be made."""
    time.sleep(seconds)
    state = mptcp_socket.info(host.socket)
    check(state is not None, "the connection fell back to TCP")
    assert state
    if not (state.addresses_accepted_max and state.joined_max):
        raise Inconclusive("this machine joins no address: `ip mptcp limits set"
                           " add_addr_accepted 8 subflows 8`")
    return state


@pytest.fixture
def adda_port(mptcp_port: Target) -> Target:
    """A port that accepts subflows to further addresses."""
    if not mptcp_port.attribute(Mpattr.ADDA):
        raise NotApplicable("MPATTR has ADDA cleared")
    return mptcp_port


@pytest.mark.requirement("TCPV-PATH-001")
def test_announced_addresses_accept_joins(adda_port: Target) -> None:
    """With ADDA, each announced address can be joined.

    Sent: an Admin Queue over MPTCP, and a join to each address that the target announces.
    Expected: each join becomes an established subflow, and the connection goes on.
    """
    with adda_port.admin_queue() as (host, _):
        state = joined(host)
        if not state.addresses_accepted:
            raise NotApplicable(f"no address was announced within {SETTLE:g} s")
        expected = 1 + min(state.addresses_accepted, state.joined_max)
        number = mptcp_socket.established(host.socket)
        check(number >= expected, f"announced addresses that were tried:"
                                  f" {state.addresses_accepted}; established subflows, the first"
                                  f" included: {number}")
        host.keep_alive()


@pytest.mark.requirement("TCPV-PATH-002")
def test_no_announcements_without_adda(mptcp_port: Target) -> None:
    """Without ADDA, no address is announced.

    Sent: an Admin Queue over MPTCP.
    Expected: no ADD_ADDR within 2 s.
    """
    if mptcp_port.attribute(Mpattr.ADDA):
        raise NotApplicable("MPATTR has ADDA set")
    with mptcp_port.admin_queue() as (host, _):
        accepted = joined(host).addresses_accepted
        check(not accepted, f"announced addresses: {accepted}")


@pytest.mark.requirement("TCPV-PATH-008")
def test_joins_lead_to_the_same_controller(adda_port: Target) -> None:
    """The CNTLID doesn't change when subflows join.

    Sent: Identify Controller, ten times once the subflows have joined.
    Expected: CNTLID is that of the completion of Connect.
    """
    with adda_port.admin_queue() as (host, cntlid):
        joined(host)
        if mptcp_socket.established(host.socket) < 2:
            raise NotApplicable("no subflow has joined")
        for _ in range(10):
            found = int.from_bytes(host.identify_controller()[CNTLID:CNTLID + 2], "little")
            check(found == cntlid, f"CNTLID {found:X}h, and {cntlid:X}h at Connect")
