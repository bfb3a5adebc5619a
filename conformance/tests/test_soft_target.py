# SPDX-License-Identifier: GPL-2.0-or-later
"""The soft target works with the host of the Linux kernel."""

from typing import Any

import pytest
from in_guest import in_guest

WRITTEN = 4 << 20


@pytest.fixture(scope="module")
def seen() -> Any:
    """What soft_in_guest.py prints."""
    return in_guest("soft_in_guest", "kernel")


@pytest.mark.parametrize("digests", ["none", "hdgst", "ddgst", "both"])
@pytest.mark.parametrize(("variant", "subflows"), [("mptcp", 4), ("tcp", 1)])
def test_io(seen: Any, variant: str, subflows: int, digests: str) -> None:
    """Fails if fio reads back something else than it wrote, or a queue has another protocol."""
    found = seen[f"{variant}, {digests}"]
    assert found["queues"] == [[0, variant, subflows], [1, variant, subflows]]
    assert (found["written"], found["verified"]) == (WRITTEN, WRITTEN)
    assert found["state"] == "live"


def test_log(seen: Any) -> None:
    """Fails if the kernel reads another log than was configured."""
    assert [entry["subtype"] for entry in seen["log"]] == [3, 2]
    for entry in seen["log"]:
        assert bytes.fromhex(entry["tsas"]) == bytes([0, 1, 1, 8]) + bytes(252)


def test_keep_alive(seen: Any) -> None:
    """Fails if an association doesn't outlive ten times its Keep Alive Timeout, or its end."""
    assert seen["after 20 s"]["state"] == "live"
    assert seen["controllers left"] == 0
