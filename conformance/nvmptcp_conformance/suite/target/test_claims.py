# SPDX-License-Identifier: GPL-2.0-or-later
"""The claims of the profile against what the target shows."""

from dataclasses import fields

import pytest

from ...feature import claim
from ...profile import HOST_CLAIMS, Claims
from ...target import Target

NAMES = [key.name for key in fields(Claims) if key.name not in HOST_CLAIMS]


@pytest.mark.parametrize("name", NAMES)
def test_claim(target: Target, name: str) -> None:
    """A claim of the profile is true.

    Sent: Get Log Page for the Discovery log page; for the claims of digests an ICReq that asks for
    both, for the one of in-capsule data Identify Controller.
    Expected: the target shows what the profile claims, no more and no less.
    """
    claim(target.claims, name)
    target.feature(name).check(target.claims)
