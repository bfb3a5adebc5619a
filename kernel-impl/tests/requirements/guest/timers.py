# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Keep alive and error recovery timing."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .situation import (
    SETTLE,
    block,
    connect,
    counters,
    ip,
    main,
    mark,
    target,
    transfer,
    unblock,
    wait_until,
)
from .user_host import UserHost

KATO = 5  # seconds
IDLE = 60  # seconds


def idle() -> dict[str, Any]:
    """The host, idle for a minute: with one subflow a connection, then with two."""
    target()
    spans = []
    for subflows in (0, 8):
        ip("host", "mptcp", "limits", "set", "subflows", str(subflows))
        controller = connect()
        time.sleep(IDLE)
        spans.append({"queues": controller.queues(), "kato": int(controller.attribute("kato"))})
        controller.disconnect()
        time.sleep(SETTLE)
    return {"spans": spans}


def only_signals() -> dict[str, Any]:
    """A host that sends no commands, while subflows come and go; then one that does send them."""
    target()
    ip("host", "address", "add", "10.0.1.11/24", "dev", "path1")
    before = counters("target")
    host = UserHost(KATO * 1000)
    begin = time.monotonic()

    def wait_for_end() -> tuple[str, float]:
        return host.wait_for_end(10 * KATO), round(time.monotonic() - begin, 2)

    with ThreadPoolExecutor() as pool:
        end = pool.submit(wait_for_end)
        signals = 0
        while not end.done():
            # a join, an announcement and their withdrawal, all of them acknowledged
            ip("host", "mptcp", "endpoint", "add", "10.0.1.11", "id", "9", "subflow")
            ip("target", "mptcp", "endpoint", "add", "10.0.9.2", "id", "9", "signal")
            time.sleep(0.5)
            ip("host", "mptcp", "endpoint", "delete", "id", "9")
            ip("target", "mptcp", "endpoint", "delete", "id", "9")
            time.sleep(0.5)
            signals += 1
        ended, seconds = end.result()
    joins = counters("target")["MPJoinAckRx"] - before["MPJoinAckRx"]
    host = UserHost(KATO * 1000)
    for _ in range(10):
        time.sleep(KATO / 2)
        host.keep_alive()  # raises an error if the association is gone
    return {"ended": ended, "seconds": seconds, "signals": signals, "joins": joins,
            "with_commands": host.wait_for_end(0.1)}


def recovery() -> dict[str, Any]:
    """Both paths drop everything while the host writes, until after its error recovery began."""
    target()
    controller = connect(f"keep_alive_tmo={KATO},reconnect_delay=2")
    block("target", "i drop", "o drop")
    cut_at = mark()
    with ThreadPoolExecutor() as pool:
        whole = pool.submit(transfer, 1 << 20)
        waited = wait_until(lambda: controller.attribute("state") != "live", 60, 0.01)
        recovery_at = mark()
        time.sleep(KATO)
        unblock("target")
        restored_at = mark()
        wait_until(lambda: controller.attribute("state") == "live", 60)
        result = whole.result()
    time.sleep(20)  # longer than the retransmission timers of what was sent before
    return {"cut_at": cut_at, "recovery_at": recovery_at, "restored_at": restored_at,
            "waited": waited, "whole": result, "state": controller.attribute("state")}


if __name__ == "__main__":
    main((idle, only_signals, recovery))
