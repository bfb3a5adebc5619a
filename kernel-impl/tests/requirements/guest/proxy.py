# SPDX-License-Identifier: GPL-2.0-or-later
"""A target that closes its connections as a situation wants it: it passes bytes between an MPTCP
socket and nvmet, which listens with TCP behind it.
"""

import contextlib
import select
import socket
import struct
import threading

from nvmptcp_lab.guest.netns import inside
from nvmptcp_lab.guest.nvmet import Port

from .situation import target

IPPROTO_MPTCP = 262
BEHIND = Port(1, "127.0.0.1", trsvcid=4421)


class Proxy:
    """Listens on all addresses of the target, port 4420. `connections` are in the order in which
    they were accepted: the host opens that of the Admin Queue first.
    """

    def __init__(self) -> None:
        target(BEHIND)
        with inside("target"):
            self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("0.0.0.0", 4420))
        self._listener.listen()
        self.connections: list[Connection] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            front, _ = self._listener.accept()
            self.connections.append(Connection(front))


class Connection:
    """One connection of the host, and nvmet's behind it."""

    def __init__(self, front: socket.socket) -> None:
        self.front = front
        with inside("target"):
            self._behind = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._behind.connect((BEHIND.traddr, BEHIND.trsvcid))
        self._cut = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def end_stream(self) -> None:
        """Have the kernel send DATA_FIN, and nothing else; read no more."""
        self._stop()
        self.front.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Have the kernel send MP_FASTCLOSE."""
        self._stop()
        self.front.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.front.close()

    def inject(self, data: bytes) -> None:
        """Send something of our own to the host."""
        self._stop()
        self.front.sendall(data)

    def _stop(self) -> None:
        self._cut.set()
        self._thread.join()

    def _pass_on(self) -> None:
        other = {self.front: self._behind, self._behind: self.front}
        with contextlib.suppress(OSError):  # either side may go at any time
            while not self._cut.is_set():
                for ready in select.select(list(other), [], [], 0.05)[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    other[ready].sendall(data)
