# SPDX-License-Identifier: GPL-2.0-or-later
"""Peers that divide what they send at every byte: each byte is a mapping and a segment of its own.
"""

import socket
import time

from .proxy import Connection, Proxy
from .user_host import UserHost

PAUSE = 0.001  # seconds: the byte before has been acknowledged, so nothing is joined to it
DIVIDED = 1400  # bytes at the start of a connection that are sent one by one


class BytewiseHost(UserHost):
    """A host whose ICReq, Connect and further commands arrive byte by byte."""

    def send(self, data: bytes) -> None:
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            self.socket.sendall(bytes([byte]))
            time.sleep(PAUSE)


class _Bytewise:
    """As much of a socket as Connection uses."""

    def __init__(self, front: socket.socket) -> None:
        self._front = front
        self._front.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent = 0
        self.fileno, self.recv = front.fileno, front.recv

    def sendall(self, data: bytes) -> None:
        single = data[:max(0, DIVIDED - self._sent)]
        for byte in single:
            self._front.sendall(bytes([byte]))
            time.sleep(PAUSE)
        self._front.sendall(data[len(single):])
        self._sent += len(data)


class BytewiseTarget(Proxy):
    """A target whose answers arrive byte by byte, those that set up a queue."""

    def _accept(self) -> None:
        while True:
            front, _ = self._listener.accept()
            self.connections.append(Connection(_Bytewise(front)))  # type: ignore[arg-type]
