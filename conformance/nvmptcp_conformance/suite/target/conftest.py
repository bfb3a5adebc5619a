# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests of a target share that need the raw stack, or write."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ...target import Target
from ..verdict import NotApplicable
from .associations import Disk, Scratch


@pytest.fixture
def joinable_port(raw: None, mptcp_port: Target) -> Target:
    """An MPTCP port whose connections may have a second subflow."""
    if mptcp_port.feature("maxsf").value == 1:
        raise NotApplicable("MAXSF is 1: a connection has one subflow")
    return mptcp_port


@pytest.fixture(scope="session")
def scratch(target: Target) -> Iterator[Scratch]:
    """An area of the lowest namespace; it is given back as it was."""
    with target.admin_queue() as (host, _):
        area = Scratch.find(host)
    with _disk(target, area) as disk:
        before = disk.read()
    yield area
    with _disk(target, area) as disk:
        disk.write(before)


@contextmanager
def _disk(target: Target, area: Scratch) -> Iterator[Disk]:
    with target.admin_queue() as (host, cntlid):
        host.allow_io_queues()
        with target.connection() as queue:
            most = queue.initialize().maxh2cdata
            queue.connect(target.nqn, target.address.hostnqn, qid=1, cntlid=cntlid)
            yield Disk(queue, area, most)
