# SPDX-License-Identifier: GPL-2.0-or-later
"""The claims of the profile against what the host shows."""

from dataclasses import fields

import pytest

from ...feature import claim
from ...host_under_test import HostUnderTest
from ...profile import TARGET_CLAIMS, Claims

NAMES = [key.name for key in fields(Claims) if key.name not in TARGET_CLAIMS]


@pytest.mark.parametrize("name", NAMES)
def test_claim(dut: HostUnderTest, name: str) -> None:
    """A claim of the profile is true.

    Sent: answers to what the host sends, told to use MPTCP, both digests, or to read the discovery
    log, as the claim in the name of the test asks for; for the one of TLS, a Discovery log page
    with an entry with SECTYPE 2h (TLS 1.3) and TREQ 1h (required).
    Expected: the host does what the profile claims, and doesn't where the profile denies it.
    """
    claim(dut.claims, name)
    dut.feature(name).check(dut.claims)
