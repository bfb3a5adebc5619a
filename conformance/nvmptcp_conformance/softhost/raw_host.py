# SPDX-License-Identifier: GPL-2.0-or-later
"""The soft host on the raw stack: every decision of TCP and MPTCP is ours, so that a fault may be
in any of them. Needs CAP_NET_RAW.
"""

import time
from typing import Any

from ..endpoints import mptcp_socket, raw
from ..endpoints.host import Host
from ..endpoints.raw.packets import local_address
from .association import Place, Variant
from .host import HostOptions, SoftHost

TIMEOUT = 5.0  # seconds that a controller may be silent
REJOIN = 2.0  # seconds between two joins to the same address
DEFAULT_LIMIT = 8  # subflows of a connection


class HostBehaviour(raw.Behaviour):
    """What the MPTCP variant asks of a host's stack. A subclass may have a fault."""

    def __init__(self, host: "RawHost", **attributes: object) -> None:
        super().__init__(**attributes)
        self.host = host

    def announced(self, connection: raw.Connection, address: raw.Announcement) -> None:
        """Join what is announced, at the port of the first subflow if no other is said."""
        self.host.join(connection, address)

    def wants(self, connection: raw.Connection, local: str, remote: str) -> bool:
        """Whether to join: below the limit, and where there is no subflow yet."""
        there = [subflow for subflow in connection.subflows if subflow.ended is None]
        return len(there) < self.host.most and not any(
            (subflow.local.address, subflow.remote.address) == (local, remote)
            for subflow in there)


class RawHost(SoftHost):
    """A soft host whose connections are on the raw stack."""

    behaviour: type[HostBehaviour] = HostBehaviour
    rejoin = REJOIN

    def __init__(self, options: HostOptions) -> None:
        super().__init__(options)
        self.most = DEFAULT_LIMIT
        self._joined: dict[tuple[raw.Connection, str], float] = {}  # when it was last tried

    def run(self) -> None:
        with raw.Stack() as self._stack:
            super().run()

    def connect(self, place: Place, qid: int) -> Host:
        self.limit(place)
        connection: Any = self._stack.connect(
            place.traddr, place.trsvcid, timeout=TIMEOUT, behaviour=self.behaviour(
                self, offer_mptcp=place.variant != Variant.TCP,
                checksum_required=place.checksums_required))
        return Host(connection)

    def limit(self, place: Place) -> None:
        self.most = min([DEFAULT_LIMIT, *(
            each for each in (self.options.max_subflows, place.maxsf) if each)])

    def state(self, queue: Host) -> mptcp_socket.Info | None:
        connection: Any = queue.socket
        if not connection.mptcp:
            return None
        return mptcp_socket.Info(
            joined=len(connection.alive) - 1, joined_max=self.most - 1,
            addresses_accepted=len(connection.announced), addresses_accepted_max=self.most - 1,
            checksums=connection.checksum, announced=0)

    def subflows(self, queue: Host) -> int:
        connection: Any = queue.socket
        return len(connection.alive)

    def wait_acknowledged(self, queue: Host, seconds: float) -> None:
        connection: Any = queue.socket
        connection.wait_acknowledged(seconds)

    def join(self, connection: raw.Connection, address: raw.Announcement) -> None:
        """Open a subflow, if it is wanted. Called by the stack, or without its lock."""
        local = local_address(address.address)
        with connection.stack.lock:
            if not connection.mptcp or not connection.behaviour.wants(  # type: ignore[attr-defined]
                    connection, local, address.address):
                return
            self._joined[connection, address.address] = time.monotonic()
        connection.join(local, address.address, port=self.port(connection, address), wait=False)

    def port(self, connection: raw.Connection, address: raw.Announcement) -> int:
        """The port of a join."""
        return address.port or connection.subflows[0].remote.port

    def _serve(self) -> None:
        super()._serve()
        for each in self.associations:
            for queue in each.queues:
                connection: Any = queue.socket
                self._join_again(connection)

    def _join_again(self, connection: raw.Connection) -> None:
        """Open subflows in place of those that were lost or refused."""
        if not connection.alive or connection.lost:
            return
        first = connection.subflows[0].remote
        for address in (raw.Announcement(0, *first), *connection.announced):
            last = self._joined.get((connection, address.address), float("-inf"))
            if time.monotonic() - last >= self.rejoin:
                self.join(connection, address)
