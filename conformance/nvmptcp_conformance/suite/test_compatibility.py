# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Compatibility: formats that the variant leaves alone."""

import pytest

from ..layers.registry import Mpattr
from ..target import Target
from .verdict import NotApplicable, check


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
    if mptcp_port.attribute(Mpattr.MPREQ):
        raise NotApplicable("MPATTR has MPREQ set: there is no TCP connection to compare with")
    for name, mptcp in (("MPTCP", True), ("TCP", False)):
        with mptcp_port.connection(mptcp=mptcp) as host:
            version = host.initialize().pfv
        check(version == 0, f"ICResp over {name} has PFV {version:X}h")
