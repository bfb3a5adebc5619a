# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes an object wait, or not, like a socket."""

from __future__ import annotations

import os


class Signal:
    """A descriptor that select() and asyncio find readable while it is set; at first it isn't."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._set = False

    def fileno(self) -> int:
        return self._descriptor

    def set(self, value: bool) -> None:
        """Set or clear; after `close` nothing happens."""
        if value == self._set or self._descriptor < 0:
            return
        self._set = value
        if value:
            os.eventfd_write(self._descriptor, 1)
        else:
            os.eventfd_read(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Waits:
    """Time-outs and the descriptor of a socket."""

    def __init__(self) -> None:
        self.readable = Signal()
        self._timeout: float | None = None

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def gettimeout(self) -> float | None:
        return self._timeout

    def setblocking(self, blocking: bool) -> None:
        self._timeout = None if blocking else 0

    def fileno(self) -> int:
        """A descriptor that is readable when `recv`, or `accept`, would not block."""
        return self.readable.fileno()
