# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Compatibility: formats that the variant leaves alone."""

import pytest

from ...host_under_test import HostUnderTest
from ..verdict import check


@pytest.mark.requirement("TCPV-COMP-002")
def test_pdu_format_version(mptcp_host: HostUnderTest) -> None:
    """PFV is the same over MPTCP and TCP.

    Sent: answers to what the host sends when it connects over TCP, and over MPTCP.
    Expected: PFV of each ICReq is 0h.
    """
    for variant in ("tcp", "mptcp"):
        with mptcp_host.stage() as stage:
            stage.listen()
            stage.trigger(variant)
            check(bool(stage.instrument.seen), f"{variant}: {stage.describe()}")
            wrong = [seen.first[8:10].hex() for seen in stage.instrument.seen
                     if seen.first[8:10] != b"\0\0"]
        check(not wrong, f"ICReq over {variant} has PFV {wrong}")
