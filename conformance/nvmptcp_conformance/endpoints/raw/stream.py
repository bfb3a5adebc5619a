# SPDX-License-Identifier: GPL-2.0-or-later
"""The byte stream of a raw connection, used like a socket. Errors are those of sockets."""

from __future__ import annotations

import socket
import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ...layers.mptcp_stream import End
from .readiness import Waits
from .receiver import Receiver
from .sender import Sender
from .subflow import Subflow

if TYPE_CHECKING:
    from .behaviour import Behaviour
    from .stack import Stack

_LINGER = 1.0  # seconds that `close` waits for the peer to end its stream, then its subflows


class Stream(Waits, ABC):
    """What a connection has in common with a socket."""

    stack: Stack
    behaviour: Behaviour
    mptcp: bool
    sender: Sender
    receiver: Receiver

    def __init__(self) -> None:
        super().__init__()
        self.subflows: list[Subflow] = []  # all there ever were; the first one is [0]
        self.closed = False
        self.error = ""  # why the whole connection is lost
        self._lingers = True  # SO_LINGER with time 0 clears it
        self._closing_until: float | None = None
        self._released = False

    @property
    def alive(self) -> list[Subflow]:
        """The established subflows."""
        return [subflow for subflow in self.subflows if subflow.alive]

    def getsockname(self) -> End:
        return self.subflows[0].local

    def getpeername(self) -> End:
        return self.subflows[0].remote

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """SO_LINGER with time 0 makes `close` abort; TCP_NODELAY is always on."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER) and isinstance(value, bytes):
            self._lingers = struct.unpack("ii", value) != (1, 0)
        elif (level, option) != (socket.IPPROTO_TCP, socket.TCP_NODELAY):
            raise OSError(f"a raw connection has no socket option {level}, {option}")

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Bytes of the stream, b"" at its end. `flags` has to be 0."""
        if flags:
            raise ValueError("a raw connection takes no flags")
        with self.stack.lock:
            self.readable.set(self._may_read)
            if self._timeout == 0 and not self._may_read:
                raise BlockingIOError
            self.stack.wait(lambda: self._may_read, self._timeout)
            if not self.receiver.buffer and not self.receiver.ended:
                raise ConnectionResetError(self.lost)
            data = bytes(self.receiver.buffer[:size])
            del self.receiver.buffer[:size]
            self.readable.set(self._may_read)
            return data

    @property
    def _may_read(self) -> bool:
        return bool(self.receiver.buffer or self.receiver.ended or self.lost)

    @property
    def lost(self) -> str:
        """Why nothing can be sent or received any more, "" if it can."""
        if self.error or self.closed:
            return self.error or "closed"
        waits = self.mptcp and self.behaviour.waits_for_subflow
        if not waits and all(subflow.ended for subflow in self.subflows):
            return f"no subflow is left: {self.subflows[-1].ended}"
        return ""

    def send(self, data: bytes) -> int:
        """Queue all of the data, and send what the windows let through."""
        with self.stack.lock:
            if self.lost:
                raise ConnectionResetError(self.lost)
            self.sender.add(bytes(data))
        return len(data)

    def sendall(self, data: bytes) -> None:
        """As `send`; doesn't wait for acknowledgement: see `wait_acknowledged`."""
        self.send(data)

    def wait_acknowledged(self, timeout: float) -> None:
        """Wait until the peer has acknowledged all that was sent. Raises TimeoutError."""
        with self.stack.lock:
            self.stack.wait(lambda: self.sender.done or self.lost, timeout, what="acknowledgement")
            if not self.sender.done:
                raise ConnectionResetError(self.lost)

    def shutdown(self, how: int) -> None:
        """SHUT_WR or SHUT_RDWR: end our stream, by DATA_FIN, or FIN where it is TCP."""
        if how != socket.SHUT_RD:
            with self.stack.lock:
                self.sender.end()

    def close(self) -> None:
        """End our stream, wait a second for the peer to end its own, close the subflows. Where the
        time-out is 0, the stack's thread does it, and this doesn't wait.
        """
        with self.stack.lock:
            if self.closed:
                return
            if self._lingers and not self.lost:
                self.sender.end()
                self._closing_until = self.stack.now() + _LINGER
            elif not self._lingers:
                self.stop()
            self.closed = True
            self.tick_closing(self.stack.now())
            self.stack.wake()
            if self._timeout != 0:
                self.stack.wait(lambda: self._released, None, quiet=True)
        self.stack.join_thread()

    @abstractmethod
    def stop(self) -> None:
        """End the connection at once."""

    @property
    def closing_deadline(self) -> float | None:
        """When `tick_closing` has something to do, at the latest."""
        return None if self._released else self._closing_until

    def tick_closing(self, now: float) -> None:
        """Go on with an orderly close."""
        if not self.closed or self._released:
            return
        late = self._closing_until is None or now >= self._closing_until
        if self.alive and (late or (self.sender.done and self.receiver.ended)):
            for subflow in self.alive:
                subflow.finish()
            self._closing_until = now + _LINGER
        elif late or all(subflow.ended for subflow in self.subflows):
            self._released = True
            self.readable.close()
            self.stack.release(self)

    def changed(self) -> None:
        """Something came: tell those who wait."""
        self.readable.set(self._may_read)
        self.stack.changed.notify_all()
