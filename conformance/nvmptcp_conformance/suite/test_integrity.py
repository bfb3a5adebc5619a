# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Integrity and TLS: digests and DSS checksums."""

import pytest

from ..endpoints import mptcp_socket
from ..layers.registry import Mpattr
from ..target import Target
from .verdict import NotApplicable, check

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
    if not mptcp_port.attribute(Mpattr.DCSR):
        raise NotApplicable("MPATTR has DCSR cleared")
    with mptcp_port.admin_queue() as (host, _):
        state = mptcp_socket.info(host.socket)
        check(state is not None and state.checksums, "DSS checksums are not in use")
