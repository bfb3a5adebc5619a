# SPDX-License-Identifier: GPL-2.0-or-later
"""The soft target on the raw stack: every decision of TCP and MPTCP is ours, so that a fault may be
in any of them. Needs CAP_NET_RAW.
"""

from ..endpoints import raw
from ..endpoints.controller import Queue
from ..endpoints.server import Server
from ..layers import discovery, mptcp
from ..layers.registry import Mpattr
from .target import SoftTarget

DEFAULT_LIMIT = 8  # subflows of a connection
_LACK_OF_RESOURCES, _PROHIBITED = 2, 3  # reasons in MP_TCPRST (RFC 8684 §3.6)


class TargetBehaviour(raw.Behaviour):
    """What the MPTCP variant asks of a target's stack. A subclass may have a fault."""

    waits_for_subflow = True

    def __init__(self, target: "RawTarget", **attributes: object) -> None:
        super().__init__(**attributes)
        self.target = target

    def answer_capable(self, syn: raw.Segment) -> bool:
        """On an MPTCP port."""
        return self.target.options.mptcp and super().answer_capable(syn)

    def established(self, connection: raw.Connection) -> None:
        """With ADDA, announce the further addresses."""
        options = self.target.options
        if options.mpattr & Mpattr.ADDA:
            for number, address in enumerate(options.joins_at, 1):
                connection.announce(address, number)

    def accept_join(self, connection: raw.Connection, syn: raw.Segment) -> mptcp.MPTCPReset | None:
        """Joins lead to the address of the first subflow and to announced ones, up to a limit."""
        if not self.may_lead_to(connection, syn):
            return mptcp.MPTCPReset(reason=_PROHIBITED)
        if self.subflows(connection) >= (self.target.options.maxsf or DEFAULT_LIMIT):
            return mptcp.MPTCPReset(reason=_LACK_OF_RESOURCES)
        return None

    def may_lead_to(self, connection: raw.Connection, syn: raw.Segment) -> bool:
        """Whether a join may have this destination."""
        first, options = connection.subflows[0].local, self.target.options
        return syn.destination == first or (
            syn.destination.port == first.port
            and syn.destination.address in (options.traddr, *options.joins_at)
            and bool(options.mpattr & Mpattr.ADDA or options.sfgid))

    def subflows(self, connection: raw.Connection) -> int:
        """How many a connection has, those being established included."""
        return sum(subflow.ended is None for subflow in connection.subflows)


class RawTarget(SoftTarget):
    """A soft target whose connections are on the raw stack. `joins_at` of the options: addresses
    that are announced with ADDA, or that are those of the other entries of the subflow group.
    """

    behaviour: type[TargetBehaviour] = TargetBehaviour
    server: type[Server] = Server

    def start(self) -> None:
        """Listen, in the network namespace of the calling thread. RawUnavailable, OSError."""
        options = self.options
        behaviour = self.behaviour(self, checksum_required=bool(options.mpattr & Mpattr.DCSR))
        self.stack = raw.Stack()
        self.stack.closes_itself = True  # with the last listener or connection
        self._server = self.server(self)
        joins_at = [address for address in options.joins_at if address not in self.connects_at()]
        try:
            for address in self.connects_at():
                listener = self.stack.listen(address, options.trsvcid, behaviour=behaviour,
                                             joins_at=joins_at)
                self.listens(listener)
                self._server.add(listener)
                joins_at = []
        except OSError:
            self.stop()
            raise

    def listens(self, listener: raw.Listener) -> None:
        """A listener has been made."""

    def connects_at(self) -> tuple[str, ...]:
        """The addresses that are ports: with SFGID all, else the first one."""
        options = self.options
        return (options.traddr, *(options.joins_at if options.sfgid else ()))

    def accepts(self, queue: Queue) -> bool:
        return queue.local[0] in self.connects_at() and not self.refuses_tcp(queue)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        """An entry for each address of the subflow group."""
        for address in self.connects_at()[1:]:
            entry = entries[1].copy()
            entry.traddr, entry.portid = address.encode(), len(entries)
            entries.append(entry)

    def refuses_tcp(self, queue: Queue) -> bool:
        """By the protocol in effect now: the first data may have changed it."""
        return bool(self.options.mpattr & Mpattr.MPREQ) and not queue.transport.mptcp
