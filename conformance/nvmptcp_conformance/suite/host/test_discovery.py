# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Discovery: which variant the host uses, and what it registers."""

import pytest

from ...endpoints.subsystem import DISCOVERY_NQN
from ...host_under_test import HostUnderTest, Stage
from ...layers import discovery
from ..verdict import NotApplicable, check


@pytest.mark.requirement("TCPV-DISC-004")
@pytest.mark.usefixtures("discovering_host")
def test_mptcp_where_the_entry_has_it(stage: Stage) -> None:
    """The MPTCP variant is used with a port whose entry has TCPV 1h.

    Sent: a Discovery log page with an entry with TCPV 1h.
    Expected: the host opens the queues of the association over MPTCP.
    """
    stage.listen()
    stage.discover(stage.entry())
    admin, io = stage.queues()
    check(all(seen.mptcp for seen in (admin, *io)), stage.describe())


@pytest.mark.requirement("TCPV-DISC-008")
@pytest.mark.parametrize("variant", ["tcp", "mptcp"])
@pytest.mark.usefixtures("mptcp_host")
def test_variant_is_selected(stage: Stage, variant: str) -> None:
    """The administrator selects the variant of an association without an entry.

    Sent: answers at an MPTCP port to what the host sends, told to use the variant in the name of
    the test.
    Expected: all connections are of that variant.
    """
    stage.listen()
    stage.trigger(variant)
    stage.queues()
    check(all(seen.mptcp == (variant == "mptcp") for seen in stage.instrument.seen),
          f"told to use {variant}: {stage.describe()}")


@pytest.mark.requirement("TCPV-DISC-009")
def test_default_is_tcp(stage: Stage) -> None:
    """Without an entry and without a setting, the host uses TCP.

    Sent: answers at an MPTCP port to what the host sends, told nothing of a variant.
    Expected: all connections are TCP.
    """
    stage.listen()
    stage.trigger("")
    stage.queues()
    check(not any(seen.mptcp for seen in stage.instrument.seen), stage.describe())


@pytest.fixture
def registration(discovering_host: HostUnderTest, stage: Stage) -> list[discovery.TCPTSAS]:
    """TSAS of each TCP entry that the host registers with a Centralized Discovery controller."""
    stage.listen()
    stage.discover(stage.entry())
    found = stage.instrument.subsystems[DISCOVERY_NQN].registrations
    entries = [entry.tsas for data in found for entry in data.entries
               if entry.trtype == discovery.TCP]
    if not entries:
        raise NotApplicable("the host registered no TCP entry with a Discovery controller whose"
                            " DCTYPE is CDC")
    return entries


@pytest.mark.requirement("TCPV-DISC-013")
def test_registered_variant(registration: list[discovery.TCPTSAS]) -> None:
    """A host registers a TCPV that it supports.

    Sent: Identify Controller data with DCTYPE 2h, a Centralized Discovery controller.
    Expected: TCPV is 0h or 1h in each entry of the host's registration.
    """
    for tsas in registration:
        check(int(tsas.tcpv) in (0, 1), f"TCPV is {int(tsas.tcpv):X}h")


@pytest.mark.requirement("TCPV-DISC-014")
def test_registered_dependent_fields(registration: list[discovery.TCPTSAS]) -> None:
    """A host registers MPATTR, MAXSF and SFGID as zero.

    Sent: Identify Controller data with DCTYPE 2h, a Centralized Discovery controller.
    Expected: these fields are 0h in each entry of the host's registration.
    """
    for tsas in registration:
        check(not (int(tsas.mpattr) or tsas.maxsf or tsas.sfgid),
              f"MPATTR {int(tsas.mpattr):02X}h, MAXSF {tsas.maxsf}, SFGID {tsas.sfgid:X}h")
