# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures of the tests of a host."""

from collections.abc import Iterator

import pytest

from ..host_under_test import HostUnderTest, Stage
from .plugin import DEVICE


@pytest.fixture(scope="session")
def dut(request: pytest.FixtureRequest) -> HostUnderTest:
    """The host under test."""
    found = request.config.stash[DEVICE]
    assert isinstance(found, HostUnderTest)
    return found


@pytest.fixture
def mptcp_host(dut: HostUnderTest) -> HostUnderTest:
    """The host, if it uses MPTCP where it is told to."""
    dut.require("mptcp")
    return dut


@pytest.fixture
def discovering_host(dut: HostUnderTest) -> HostUnderTest:
    """The host, if it reads discovery logs and has MPTCP."""
    dut.require("discovery")
    dut.require("mptcp")
    return dut


@pytest.fixture
def connects_afterwards(dut: HostUnderTest) -> Iterator[None]:
    """After the test, the host has to connect again when it is triggered."""
    yield
    with dut.stage() as stage:
        stage.listen()
        stage.trigger("")
        stage.queues()


@pytest.fixture
def stage(dut: HostUnderTest, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The instrument of this test. What it needs of the host is found out before."""
    for name in ("mptcp_host", "discovering_host"):
        if name in request.fixturenames:
            request.getfixturevalue(name)
    with dut.stage() as stage:
        yield stage
