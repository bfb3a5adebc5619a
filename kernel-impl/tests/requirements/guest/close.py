# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Closing a connection. KATO is two minutes: no timer helps."""

import time
from typing import Any

from nvmptcp_lab.guest import fabrics

from .proxy import Proxy
from .situation import (
    SETTLE,
    connect,
    ip,
    main,
    mark,
    mptcp_sockets,
    subflow_ends,
    target,
    transfer,
    wait_until,
)
from .user_host import UserHost

KATO = 120  # seconds
BAD_PDU = b"\xee" + bytes(127)  # of no known type


def controller() -> dict[str, Any]:
    """The kernel's controller: its host closes, ends the stream, aborts, errs, loses a subflow."""
    target()
    ip("host", "address", "add", "10.0.1.11/24", "dev", "path1")
    ip("host", "mptcp", "endpoint", "add", "10.0.1.11", "id", "9", "subflow")
    steps: dict[str, Any] = {}
    listeners = mptcp_sockets("target")

    begin = mark()
    kernel_host = connect(f"keep_alive_tmo={KATO}")
    kernel_host.disconnect()
    time.sleep(SETTLE)
    steps["disconnect"] = {"begin": begin, "end": mark(),
                           "left": mptcp_sockets("target") - listeners}

    for name in ("end_stream", "abort", "err"):
        begin = mark()
        host = UserHost(KATO * 1000)
        time.sleep(SETTLE)
        before = mptcp_sockets("target") - listeners
        match name:
            case "end_stream":
                host.end_stream()
            case "abort":
                host.abort()
            case "err":
                host.send(BAD_PDU)
        step: dict[str, Any] = {"before": before, "released": wait_until(
            lambda: mptcp_sockets("target") == listeners, 10)}
        if name == "err":
            time.sleep(40)  # longer than a controller may wait for the host to close
            step["host"] = host.wait_for_end(1)
        steps[name] = {"begin": begin, "end": mark(), **step}

    host = UserHost(KATO * 1000)
    time.sleep(SETTLE)
    before = len(subflow_ends("target"))
    at = mark()
    ip("host", "mptcp", "endpoint", "delete", "id", "9")
    time.sleep(SETTLE)
    host.keep_alive()  # raises an error if the connection is gone
    steps["subflow"] = {"at": at, "before": before, "after": len(subflow_ends("target")),
                        "end": mark()}
    time.sleep(SETTLE)  # `host` is closed at the end of this function
    return steps


def host() -> dict[str, Any]:
    """The kernel's host: its controller ends the stream, aborts, errs, closes a subflow."""
    proxy = Proxy()
    steps: dict[str, Any] = {}
    for name in ("subflow", "end_stream", "abort", "inject"):
        begin = mark()
        first = len(proxy.connections)
        controller = connect(f"keep_alive_tmo={KATO},reconnect_delay=60")
        subflows = controller.queues()
        at = mark()
        admin_queue = proxy.connections[first]
        match name:
            case "subflow":
                ip("target", "mptcp", "endpoint", "delete", "id", "2")
                time.sleep(SETTLE)
                steps[name] = {"before": subflows, "after": controller.queues(),
                               "whole": transfer(), "state": controller.attribute("state")}
                ip("target", "mptcp", "endpoint", "add", "10.0.2.2", "id", "2", "signal")
            case "end_stream":
                admin_queue.end_stream()
            case "abort":
                admin_queue.abort()
            case "inject":
                admin_queue.inject(BAD_PDU)
        if name != "subflow":
            steps[name] = {"noticed": _time_until_down(controller)}
        time.sleep(SETTLE)
        steps[name] |= {"begin": begin, "at": at, "end": mark()}
        controller.disconnect()
        time.sleep(SETTLE)
    return steps


def _time_until_down(controller: fabrics.Controller) -> float | None:
    return wait_until(lambda: controller.attribute("state") != "live", 10)


if __name__ == "__main__":
    main((controller, host))
