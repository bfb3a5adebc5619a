# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Compatibility: formats that the variant leaves alone."""

import pytest
from scapy.compat import raw as build

from ...endpoints.host import Host
from ...layers import nvme_tcp
from ...target import Target
from ..verdict import check

WITHIN = 40.0  # seconds: longer than the sender of a termination request waits
CNTLID = slice(78, 80)  # bytes of the Identify Controller data structure


@pytest.mark.requirement("TCPV-COMP-001")
def test_record_format(target: Target) -> None:
    """The record format of the log doesn't depend on TCPV.

    Sent: Get Log Page for the Discovery log page.
    Expected: RECFMT is 0h, as in a log without the variant.
    """
    check(target.log.recfmt == 0, f"RECFMT is {target.log.recfmt:X}h")


@pytest.mark.requirement("TCPV-COMP-002")
def test_pdu_format_version(mptcp_port: Target) -> None:
    """PFV is the same over MPTCP and TCP.

    Sent: ICReq with PFV 0h on an MPTCP connection, and on a TCP connection.
    Expected: both are answered by ICResp with PFV 0h.
    """
    mptcp_port.exclude("mpreq")
    for name, mptcp in (("MPTCP", True), ("TCP", False)):
        with mptcp_port.connection(mptcp=mptcp) as host:
            version = host.initialize().pfv
        check(version == 0, f"ICResp over {name} has PFV {version:X}h")


@pytest.mark.requirement("TCPV-COMP-002")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("mptcp", [True, False], ids=["MPTCP", "TCP"])
def test_unknown_pdu_format_version(mptcp_port: Target, mptcp: bool) -> None:
    """An ICReq with an unknown PFV is refused over MPTCP as over TCP.

    Sent: ICReq with PFV 1h, over the protocol in the name of the test.
    Expected: no ICResp but a termination request or none, and within 40 s the end of the
    connection.
    """
    if not mptcp:
        mptcp_port.exclude("mpreq")
    with mptcp_port.connection(mptcp=mptcp) as host:
        host.send(build(nvme_tcp.ICReq(pfv=1)))
        answer = first_pdu(host)
        check(not isinstance(answer, nvme_tcp.ICResp), "ICResp came")
        check(host.wait_for_end(WITHIN) != "nothing", "the connection isn't ended")


def first_pdu(host: Host) -> nvme_tcp.NVMeTCP | None:
    """The first PDU, None if none comes."""
    try:
        return host.receive()
    except OSError:
        return None


@pytest.mark.requirement("TCPV-COMP-002")
def test_icresp_is_the_same(mptcp_port: Target) -> None:
    """A host over TCP finds what one over MPTCP finds.

    Sent: ICReq, Connect and Identify Controller over MPTCP and over TCP.
    Expected: the same ICResp and, but for CNTLID, the same Identify Controller data structure.
    """
    mptcp_port.exclude("mpreq")
    responses, identities = [], []
    for mptcp in (True, False):
        with mptcp_port.connection(mptcp=mptcp) as host:
            responses.append(build(host.initialize()))
        with mptcp_port.admin_queue(mptcp=mptcp) as (host, _):
            data = host.identify_controller()
            identities.append(data[:CNTLID.start] + data[CNTLID.stop:])
    check(responses[0] == responses[1], "ICResp differs")
    check(identities[0] == identities[1], "Identify Controller differs")
