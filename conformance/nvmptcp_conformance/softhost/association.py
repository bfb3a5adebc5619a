# SPDX-License-Identifier: GPL-2.0-or-later
"""An association of the soft host: an Admin Queue and I/O queues, each a connection of its own."""

import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from scapy.compat import raw

from ..endpoints import mptcp_socket
from ..endpoints.host import DISCOVERY_NQN, Host, ProtocolError
from ..layers import nvme, nvme_tcp

if TYPE_CHECKING:
    from .host import SoftHost

BLOCK = 512  # bytes
TRANSFER = 64 << 10  # bytes of a Read or Write
_CC = 0x14
_SHUTDOWN = 0x464001  # CC with SHN 01b
_HEADER_DIGEST_ERROR = 3  # FES
_TERMINATION = 30.0  # seconds that a termination request has to arrive
_CLOSE = 5.0  # seconds that the controller has to close after a termination request
_MPTCP_LINGER = 2.0  # seconds to wait for the acknowledgement of the last data


class Variant(StrEnum):
    """How an association is opened."""

    TCP = "tcp"
    MPTCP = "mptcp"
    MPTCP_ONLY = "mptcp-only"


@dataclass(frozen=True)
class Place:
    """Where an association leads to, and what the entry of the log says of it."""

    traddr: str
    trsvcid: int
    nqn: str
    variant: Variant
    checksums_required: bool = False  # DCSR
    maxsf: int = 0


class Refused(Exception):
    """The host doesn't use this connection."""


class Association:
    """Raises OSError, ProtocolError and Refused where it can't be opened."""

    def __init__(self, owner: "SoftHost", place: Place) -> None:
        self.owner, self.place = owner, place
        self.queues: list[Host] = []
        self._next_keep_alive = 0.0
        try:
            self._open()
        except BaseException:
            self.reset()
            raise

    @property
    def admin(self) -> Host:
        """The Admin Queue."""
        return self.queues[0]

    def _open(self) -> None:
        owner, options = self.owner, self.owner.options
        admin = self._queue(0)
        kato = owner.kato(self.place)
        self.cntlid = admin.connect(self.place.nqn, options.hostnqn, kato=kato)
        self._next_keep_alive = time.monotonic() + owner.keep_alive_interval(self, kato)
        admin.enable()
        admin.wait_ready()
        if self.place.nqn == DISCOVERY_NQN:
            return
        admin.allow_io_queues(options.io_queues)
        for qid in range(1, options.io_queues + 1):
            owner.open_io_queue(self, qid)

    def _queue(self, qid: int) -> Host:
        """A connection, initialized. It is one of `queues` from the beginning."""
        owner = self.owner
        host = owner.connect(self.place, qid)
        self.queues.append(host)
        host.initialize(owner.digests(owner.state(host) is not None))
        owner.check_protocol(self.place, owner.state(host))
        return host

    def open_io_queue(self, qid: int) -> None:
        """Open an I/O queue on a connection of its own."""
        self._queue(qid).connect(self.place.nqn, self.owner.options.hostnqn, qid=qid,
                                 cntlid=self.cntlid)

    def copy(self, size: int) -> None:
        """Copy `size` bytes from the start of the namespace to what follows them."""
        queue = self.queues[1]
        for start in range(0, size, TRANSFER):
            part = min(TRANSFER, size - start)
            blocks = part // BLOCK - 1
            data = queue.read(nvme.Read(nsid=1, slba=start // BLOCK, nlb=blocks), part)
            queue.write(nvme.Write(nsid=1, slba=(size + start) // BLOCK, nlb=blocks), data)

    def keep_alive(self) -> None:
        """Send a Keep Alive command if it is time. Raises OSError, ProtocolError."""
        owner = self.owner
        if self.queues and time.monotonic() >= self._next_keep_alive:
            self.admin.keep_alive()
            self._next_keep_alive = (
                time.monotonic() + owner.keep_alive_interval(self, owner.kato(self.place)))

    def hear(self, queue: Host) -> None:
        """Take what came unasked. Raises EndError, OSError and ProtocolError."""
        raise ProtocolError(f"{queue.receive().name} came unasked")

    def shut_down(self) -> None:
        """Shut the controller down, and end each connection with DATA_FIN."""
        with suppress(OSError, ProtocolError):
            self.admin.command(nvme.PropertySet(ofst=_CC, value=_SHUTDOWN))
        for queue in reversed(self.queues):
            self.owner.end(queue)
        self.queues.clear()

    def terminate(self, error: Exception) -> None:
        """After a fatal transport error or the loss of a connection: reset what is left."""
        if isinstance(error, ProtocolError) and self.queues:
            request = nvme_tcp.H2CTermReq(fes=_HEADER_DIGEST_ERROR)
            for queue in self.queues:
                with suppress(OSError):
                    queue.send(raw(request))
                    self.owner.wait_acknowledged(queue, _TERMINATION)
                    queue.wait_for_end(_CLOSE)
        self.reset()

    def reset(self) -> None:
        """Reset all connections."""
        for queue in self.queues:
            with suppress(OSError):
                self.owner.abort(queue)
        self.queues.clear()


def end(owner: "SoftHost", queue: Host) -> None:
    """End a byte stream with DATA_FIN, and close when it is acknowledged."""
    with suppress(OSError):
        queue.end_stream()
        owner.wait_acknowledged(queue, _MPTCP_LINGER)
        queue.wait_for_end(_MPTCP_LINGER)
    queue.close()


def subflows(queue: Host) -> int:
    """How many subflows a connection has; 1 on TCP."""
    if mptcp_socket.info(queue.socket) is None:
        return 1
    return mptcp_socket.established(queue.socket)
