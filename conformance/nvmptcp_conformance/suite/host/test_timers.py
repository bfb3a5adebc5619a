# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Keep alive and error recovery timing."""

from itertools import pairwise
from statistics import median

import pytest

from ...host_under_test import HostUnderTest
from ..verdict import NotApplicable, check

ENOUGH = 5000  # milliseconds of KATO
LONGEST = 30  # seconds of KATO that the test waits for
INTERVALS = 3
TOLERANCE = 0.25  # of an interval: traffic may delay a command


def keep_alive(dut: HostUnderTest, variant: str) -> tuple[int, float]:
    """KATO in milliseconds, and the time between two Keep Alive commands in seconds."""
    with dut.stage() as stage:
        stage.listen(dut.listen, *dut.further)
        stage.trigger(variant)
        admin, _ = stage.queues()
        kato = admin.connects()[0].kato
        if not 0 < kato <= LONGEST * 1000:
            raise NotApplicable(f"the Keep Alive Timeout is {kato / 1000:g} s")
        stage.wait(lambda: len(admin.keep_alives()) > INTERVALS or bool(admin.end),
                   (INTERVALS + 1) * kato / 1000)
        times = admin.keep_alives()
        check(len(times) > INTERVALS and not admin.end,
              f"{len(times)} Keep Alive commands in {(INTERVALS + 1) * kato / 1000:g} s, with a"
              f" timeout of {kato / 1000:g} s: {stage.describe()}")
        return kato, median(later - earlier for earlier, later in pairwise(times))


@pytest.mark.requirement("TCPV-TIME-001")
def test_keep_alive_does_not_multiply(mptcp_host: HostUnderTest) -> None:
    """The interval of Keep Alive commands doesn't depend on the number of subflows.

    Sent: answers to Keep Alive commands over TCP, then over MPTCP with announced addresses.
    Expected: the interval over MPTCP, in parts of KATO, is that over TCP.
    """
    (tcp_kato, tcp), (kato, mptcp) = (keep_alive(mptcp_host, each) for each in ("tcp", "mptcp"))
    check(abs(mptcp / kato - tcp / tcp_kato) <= TOLERANCE * tcp / tcp_kato,
          f"over TCP {tcp:.2f} s with KATO {tcp_kato / 1000:g} s,"
          f" over MPTCP {mptcp:.2f} s with KATO {kato / 1000:g} s")


@pytest.mark.requirement("TCPV-TIME-003")
def test_kato_is_long_enough(mptcp_host: HostUnderTest) -> None:
    """KATO leaves time to change the subflow.

    Sent: answers to what the host sends when it connects over MPTCP, with no setting of KATO.
    Expected: KATO of Connect is at least 5 s, or 0 (no timer).
    """
    with mptcp_host.stage() as stage:
        stage.listen()
        stage.trigger()
        kato = stage.queues()[0].connects()[0].kato
    check(kato == 0 or kato >= ENOUGH, f"KATO is {kato} ms")
