# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Closing a connection."""

import time

import pytest

from ..endpoints.host import StatusError
from ..target import Target
from .verdict import Failed, check

WITHIN = 2.0  # seconds


def controller_is_gone(target: Target, cntlid: int) -> None:
    """Failed unless the controller refuses an I/O queue after a while.

    One attempt only: a second one could be refused for the queue ID of the first.
    """
    time.sleep(WITHIN)
    try:
        with target.io_queue(cntlid):
            pass
    except StatusError:
        return
    raise Failed(f"controller {cntlid:X}h still accepts an I/O queue after {WITHIN:g} s")


@pytest.mark.requirement("TCPV-CLOS-004")
@pytest.mark.usefixtures("serves_afterwards")
def test_data_fin_ends_the_association(mptcp_port: Target) -> None:
    """DATA_FIN from the host ends the association.

    Sent: DATA_FIN on an Admin Queue with a Keep Alive Timeout of 60 s; then Connect for I/O queue
    1 of the same controller.
    Expected: the connection ends within 2 s, Connect is refused, and a fresh association is served.
    """
    with mptcp_port.admin_queue() as (host, cntlid):
        host.allow_io_queues()
        host.end_stream()
        end = host.wait_for_end(WITHIN)
        check(end != "nothing", f"the connection is still there after {WITHIN:g} s")
        controller_is_gone(mptcp_port, cntlid)


@pytest.mark.requirement("TCPV-CLOS-006")
@pytest.mark.usefixtures("serves_afterwards")
def test_fastclose_ends_the_association(mptcp_port: Target) -> None:
    """MP_FASTCLOSE from the host ends the association.

    Sent: MP_FASTCLOSE on an Admin Queue with a Keep Alive Timeout of 60 s; then Connect for I/O
    queue 1 of the same controller.
    Expected: Connect is refused after 2 s, and a fresh association is served.
    """
    with mptcp_port.admin_queue() as (host, cntlid):
        host.allow_io_queues()
        host.abort()
        controller_is_gone(mptcp_port, cntlid)
