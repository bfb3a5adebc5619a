# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests of a host share that need the raw stack."""

from collections.abc import Iterator

import pytest

from ...host_under_test import HostUnderTest
from .raw_stage import RawStage, opened


@pytest.fixture
def raw_stage(raw: None, mptcp_host: HostUnderTest) -> Iterator[RawStage]:
    """The instrument of this test, on the raw stack."""
    with opened(mptcp_host) as stage:
        yield stage
