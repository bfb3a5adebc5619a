# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Transport Specific Address Subtype: how the host reads an entry."""

from collections.abc import Iterable

import pytest

from ...endpoints.subsystem import DISCOVERY_NQN
from ...host_under_test import NQN, TLS_REQUIRED, HostUnderTest, Stage
from ...layers.registry import Mpattr, Sectype
from ..verdict import NotApplicable, check

pytestmark = pytest.mark.usefixtures("discovering_host")
TREQ_NOT_REQUIRED = 2
RESERVED_BITS = 0xFF & ~sum(Mpattr)


@pytest.mark.requirement("TCPV-TSAS-004")
@pytest.mark.parametrize("tcpv", [0x02, 0x80, 0xFF], ids=["02h", "80h", "FFh"])
def test_reserved_variants_are_tcp(stage: Stage, tcpv: int) -> None:
    """A reserved TCPV is read as 0h.

    Sent: a Discovery log page with an entry with the TCPV in the name of the test, of a port that
    accepts MPTCP and TCP.
    Expected: the host opens an association over TCP.
    """
    stage.listen()
    stage.discover(stage.entry(tcpv=tcpv))
    admin, io = stage.queues()
    check(not any(seen.mptcp for seen in (admin, *io)), stage.describe())


@pytest.mark.requirement("TCPV-TSAS-005")
@pytest.mark.parametrize("where", ["mpattr", "bytes"])
def test_reserved_bits_are_ignored(stage: Stage, where: str) -> None:
    """Reserved bits of MPATTR and reserved bytes of TSAS are ignored.

    Sent: a Discovery log page with an entry with TCPV 1h and those bits or bytes set.
    Expected: the host opens an association over MPTCP.
    """
    stage.listen()
    stage.discover(stage.entry(mpattr=RESERVED_BITS) if where == "mpattr" else
                   stage.entry(reserved6=b"\xFF" * 250))
    admin, io = stage.queues()
    check(all(seen.mptcp for seen in (admin, *io)), stage.describe())


@pytest.mark.requirement("TCPV-TSAS-006")
def test_mpattr_needs_the_variant(stage: Stage) -> None:
    """MPATTR and MAXSF are ignored where TCPV is 0h.

    Sent: a Discovery log page with an entry with TCPV 0h, all attributes set, MAXSF 1.
    Expected: the host opens an association over TCP.
    """
    stage.listen()
    stage.discover(stage.entry(tcpv=0, mpattr=sum(Mpattr), maxsf=1))
    admin, io = stage.queues()
    check(not any(seen.mptcp for seen in (admin, *io)), stage.describe())


@pytest.mark.requirement("TCPV-TSAS-006")
def test_group_needs_the_variant(discovering_host: HostUnderTest) -> None:
    """SFGID is ignored where TCPV is 0h.

    Sent: a Discovery log page with entries for two addresses with TCPV 0h and SFGID 0h; then the
    same with SFGID 1h.
    Expected: the host opens as many associations as the first time.
    """
    addresses = discovering_host.listen, discovering_host.second_address()
    found = [associations(discovering_host, addresses, sfgid) for sfgid in (0, 1)]
    if found[0] < 2:
        raise NotApplicable(f"the host opens {found[0]} association for two entries with SFGID 0h")
    check(found[1] == found[0], f"associations: {found[0]} with SFGID 0h, {found[1]} with 1h")


def associations(dut: HostUnderTest, addresses: Iterable[str], sfgid: int) -> int:
    """How many a host opens for entries with TCPV 0h and an SFGID."""
    with dut.stage() as stage:
        stage.listen(*addresses)
        stage.discover(*(stage.entry(traddr=each, tcpv=0, sfgid=sfgid) for each in addresses))
        return len(stage.instrument.of(NQN, 0))


def reaction(dut: HostUnderTest, tcpv: int, treq: int) -> set[str]:
    """What a host does with an entry with SECTYPE 2h: the protocols of its connections."""
    with dut.stage() as stage:
        stage.listen()
        stage.discover(stage.entry(tcpv=tcpv, sectype=int(Sectype.TLS13), treq=treq))
        discovery = stage.instrument.of(DISCOVERY_NQN)
        return {"TLS" if seen.tls else "no TLS" for seen in stage.instrument.seen
                if seen not in discovery} or {"no connection"}


@pytest.mark.requirement("TCPV-TSAS-007")
@pytest.mark.parametrize("treq", [TLS_REQUIRED, TREQ_NOT_REQUIRED],
                         ids=["required", "not_required"])
def test_security_does_not_depend_on_the_variant(discovering_host: HostUnderTest,
                                                 treq: int) -> None:
    """SECTYPE and TREQ mean the same whatever TCPV is.

    Sent: a Discovery log page with an entry with SECTYPE 2h (TLS 1.3), TREQ as in the name of the
    test, and TCPV 0h; then the same with TCPV 1h.
    Expected: the host uses TLS both times, or doesn't both times; instead of TLS over MPTCP it may
    open no connection.
    """
    tcp, mptcp = (reaction(discovering_host, tcpv, treq) for tcpv in (0, 1))
    check(mptcp == tcp or (tcp == {"TLS"} and mptcp == {"no connection"}),
          f"with TCPV 0h: {', '.join(sorted(tcp))}; with TCPV 1h: {', '.join(sorted(mptcp))}")
