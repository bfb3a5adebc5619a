# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures of the tests of a target."""

from collections.abc import Iterator

import pytest

from ..endpoints.host import ProtocolError
from ..target import Target
from .plugin import DEVICE
from .verdict import Failed


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """The target under test."""
    found = request.config.stash[DEVICE]
    assert isinstance(found, Target)
    return found


@pytest.fixture
def mptcp_port(target: Target) -> Target:
    """The target, if its port reports TCPV 1h."""
    target.require("mptcp")
    return target


@pytest.fixture
def serves_afterwards(target: Target) -> Iterator[None]:
    """After the test, the target has to serve a fresh association."""
    yield
    try:
        with target.admin_queue() as (host, _):
            host.keep_alive()
    except (OSError, ProtocolError) as error:
        raise Failed(f"no fresh association afterwards: {error}") from error
