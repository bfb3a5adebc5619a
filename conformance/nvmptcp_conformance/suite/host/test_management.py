# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Management visibility: what the host shows its administrator, and lets set."""

import pytest

from ...endpoints import mptcp_socket
from ...host_under_test import HostUnderTest, Stage, read_status
from ..verdict import check
from .test_paths import announced, subflows


@pytest.mark.requirement("TCPV-MGMT-001")
@pytest.mark.parametrize("variant", ["tcp", "mptcp"])
def test_variant_asked_for(mptcp_host: HostUnderTest, stage: Stage, variant: str) -> None:
    """The host shows which variant was asked for.

    Sent: SYN/ACKs without MP_CAPABLE, so that the protocol in effect is TCP in both cases.
    Expected: the state that the host shows names the variant in the name of the test.
    """
    stage.listen(mptcp=False)
    stage.trigger(variant)
    stage.queues()
    requested, _ = read_status(mptcp_host)
    check(requested == variant, f"told to use {variant}, the host shows {requested!r}")


@pytest.mark.requirement("TCPV-MGMT-002")
@pytest.mark.parametrize("mptcp", [True, False], ids=["mptcp", "fallback"])
def test_protocol_in_effect(mptcp_host: HostUnderTest, stage: Stage, mptcp: bool) -> None:
    """The host shows the protocol in effect of each queue.

    Sent: SYN/ACKs with or without MP_CAPABLE to a host that is told to use MPTCP.
    Expected: the state that the host shows has each queue, with the protocol that is in effect.
    """
    stage.listen(mptcp=mptcp)
    stage.trigger()
    admin, io = stage.queues()
    _, shown = read_status(mptcp_host)
    expected = {seen.qid: "mptcp" if seen.mptcp else "tcp" for seen in (admin, *io)}
    found = {qid: protocol for qid, (protocol, _) in shown.items()}
    check(found == expected, f"the host shows {found}; in effect is {expected}")


@pytest.mark.requirement("TCPV-MGMT-003")
def test_number_of_subflows(mptcp_host: HostUnderTest, stage: Stage) -> None:
    """The host shows the number of subflows of each queue.

    Sent: announcements of addresses.
    Expected: the state that the host shows has the number of established subflows of each queue.
    """
    stage.listen(mptcp_host.listen, *mptcp_host.further)
    stage.trigger()
    admin, io = stage.queues()
    announced([admin, *io])
    expected = {seen.qid: mptcp_socket.established(seen.queue.transport) for seen in (admin, *io)}
    _, shown = read_status(mptcp_host)
    found = {qid: number for qid, (_, number) in shown.items()}
    check(found == expected, f"the host shows {found}; established are {expected}")


@pytest.mark.requirement("TCPV-MGMT-005")
def test_limit_of_subflows(mptcp_host: HostUnderTest, stage: Stage) -> None:
    """The administrator limits the number of subflows, down to one.

    Sent: announcements of addresses to a host that is told to have one subflow a connection.
    Expected: each connection has one subflow.
    """
    stage.listen(mptcp_host.listen, *mptcp_host.further)
    stage.trigger(max_subflows=1)
    admin, io = stage.queues()
    announced([admin, *io])
    number = len(subflows(stage, [admin, *io]))
    check(number == len(io) + 1, f"{len(io) + 1} connections have {number} subflows")
