# SPDX-License-Identifier: GPL-2.0-or-later
"""Targets on the raw stack with one fault each, most of them in TCP or MPTCP: see faults.py."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ..endpoints import raw
from ..endpoints.controller import Queue
from ..endpoints.server import Server
from ..endpoints.subsystem import GENERIC, TRANSIENT, Rejected
from ..layers import discovery, mptcp, nvme
from ..layers.registry import Mpattr
from .raw_target import RawTarget, TargetBehaviour
from .target import TargetOptions

_SFGID = 7
_FEW = 2  # subflows
_MANY_HALF_OPEN = 100
_MUCH = 1 << 16  # bytes
_STEP = 0.05  # seconds
_REFUSED = mptcp.MPTCPReset(reason=1)


class _LosesCapable(TargetBehaviour):
    """Doesn't look for MP_CAPABLE in the first data."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        capable = segment.find(mptcp.MPCapableData) or segment.find(mptcp.MPCapableDataChecksum)
        return [segment.without_mptcp() if capable else segment]


class ThirdPacketOnly(RawTarget):
    """Falls back when the third packet of the handshake gets lost."""

    breaks = ("TCPV-CONN-006",)
    behaviour = _LosesCapable


class _AfterJoins(Server):
    """Sends nothing on a connection with one subflow."""

    async def send(self, queue: Queue, data: bytes) -> None:
        while len(queue.transport.subflows) < _FEW:
            await asyncio.sleep(_STEP)
        await super().send(queue, data)


class WaitsForJoins(RawTarget):
    """Sends the ICResp when a second subflow is there."""

    breaks = ("TCPV-CONN-009",)
    server = _AfterJoins


class _OrderOfArrival(TargetBehaviour):
    """Takes mappings for the next ones, whatever their DSN."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = segment.find(mptcp.DSS)
        position = (segment.seq - subflow.peer_isn) % (1 << 32)
        if not (option and option.flags.M and option.data_len and segment.payload
                and position == subflow.receive_next):
            return [segment]
        bits = 64 if option.flags.m else 32
        moved = option.copy()
        moved.dsn = (subflow.connection.data_ack - (position - option.ssn)) % (1 << bits)
        return [replace(segment, options=tuple(
            ("MPTCP", moved) if value is option else (name, value)
            for name, value in segment.options))]


class OrderOfArrival(RawTarget):
    """Processes data in the order in which the subflows bring them."""

    breaks = ("TCPV-CONN-012",)
    behaviour = _OrderOfArrival


class _AnswersAny(TargetBehaviour):
    """Answers any MP_CAPABLE."""

    def answer_capable(self, syn: raw.Segment) -> bool:
        return True


class AnswersAnyCapable(RawTarget):
    """Answers MP_CAPABLE by MP_CAPABLE also where it offers something unknown."""

    breaks = ("TCPV-FALL-002",)
    behaviour = _AnswersAny


class RefusesBySyn(RawTarget):
    """Refuses TCP, with MPREQ, only where the SYN had no MP_CAPABLE."""

    breaks = ("TCPV-FALL-004",)
    needs = Mpattr.MPREQ

    def refuses_tcp(self, queue: Queue) -> bool:
        why: str | None = queue.transport.fell_back
        return why == "no MP_CAPABLE in the SYN, or not answered"


class RefusesLate(RawTarget):
    """Refuses TCP, with MPREQ, when the ICReq has come."""

    breaks = ("TCPV-FALL-005",)
    needs = Mpattr.MPREQ

    def accepts(self, queue: Queue) -> bool:
        return True


class _EndsAfterFallback(TargetBehaviour):
    """Resets a connection that falls back after data."""

    def fallback(self, connection: raw.Connection) -> None:
        if connection.confirmed:
            connection.abort()


class FallbackIsFatal(RawTarget):
    """Closes a connection that falls back after data."""

    breaks = ("TCPV-FALL-012",)
    behaviour = _EndsAfterFallback


class _NeedsDataAcks(TargetBehaviour):
    """Sends no more after a fallback once DATA_ACKs for much are missing, which won't come."""

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        connection = subflow.connection
        missing = connection.sender.next - connection.sender.unacked
        stands = connection.fell_back and connection.confirmed and missing > _MUCH
        return [] if stands and segment.payload else [segment]


class FallbackStands(RawTarget):
    """Waits for DATA_ACKs when a connection has fallen back, with data in its send buffer."""

    breaks = ("TCPV-FALL-012",)
    behaviour = _NeedsDataAcks


class FallbackIsRefused(RawTarget):
    """Closes a connection, with MPREQ, that falls back after data."""

    breaks = ("TCPV-FALL-006",)
    needs = Mpattr.MPREQ
    behaviour = _EndsAfterFallback


class _JoinsElsewhere(TargetBehaviour):
    """Refuses joins to the destination of the first subflow."""

    def may_lead_to(self, connection: raw.Connection, syn: raw.Segment) -> bool:
        return syn.destination != connection.subflows[0].local


class NoJoinsAtOwnAddress(RawTarget):
    """Refuses joins to the port's own address."""

    breaks = ("TCPV-PATH-015",)
    behaviour = _JoinsElsewhere


class _JoinsHere(TargetBehaviour):
    """Refuses joins to other destinations than the first subflow's."""

    def may_lead_to(self, connection: raw.Connection, syn: raw.Segment) -> bool:
        return syn.destination == connection.subflows[0].local


class AnnouncedRefuse(RawTarget):
    """Refuses joins to the addresses that it announces."""

    breaks = ("TCPV-PATH-001",)
    behaviour = _JoinsHere


class NoGroup(RawTarget):
    """Refuses joins to other entries of the subflow group."""

    breaks = ("TCPV-PATH-007",)
    behaviour = _JoinsHere

    def changed(self, options: TargetOptions) -> TargetOptions:
        return replace(options, mpattr=options.mpattr & ~Mpattr.ADDA, sfgid=_SFGID)


class AnnouncedArePorts(RawTarget):
    """Accepts any connection at the addresses that it announces."""

    breaks = ("TCPV-PATH-005",)

    def connects_at(self) -> tuple[str, ...]:
        return (self.options.traddr, *self.options.joins_at)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        """No more than there were."""


class _LeadsAnywhere(TargetBehaviour):
    """Accepts joins wherever they go."""

    def may_lead_to(self, connection: raw.Connection, syn: raw.Segment) -> bool:
        return True


class JoinsAnywhere(RawTarget):
    """Accepts joins also at the next port number."""

    breaks = ("TCPV-PATH-006",)
    behaviour = _LeadsAnywhere

    def listens(self, listener: raw.Listener) -> None:
        self.stack.hold(self.options.traddr, self.options.trsvcid + 1, listener)


class _TakesStrangers(TargetBehaviour):
    """Answers MP_JOIN with an unknown token as a SYN without it."""

    def unknown_token(self, syn: raw.Segment) -> None:
        self.target.stack.send(raw.Segment(
            syn.destination, syn.source, "SA", self.isn(), (syn.seq + 1) % (1 << 32),
            options=(("MSS", self.mss),)))


class UnknownTokensAnswered(RawTarget):
    """Answers joins with an unknown token by SYN/ACK."""

    breaks = ("TCPV-PATH-009",)
    behaviour = _TakesStrangers


class _JoinsBack(TargetBehaviour):
    """Joins what the host announces."""

    def announced(self, connection: raw.Connection, address: raw.Announcement) -> None:
        connection.join(remote=address.address, port=address.port, wait=False)


class OpensSubflows(RawTarget):
    """Opens subflows to addresses that the host announces."""

    breaks = ("TCPV-PATH-010",)
    behaviour = _JoinsBack


class _TwoOnly(TargetBehaviour):
    """Refuses a third subflow."""

    def accept_join(self, connection: raw.Connection, syn: raw.Segment) -> mptcp.MPTCPReset | None:
        return _REFUSED if self.subflows(connection) >= _FEW else None


class FewerThanMaxsf(RawTarget):
    """Refuses joins to a connection with fewer than MAXSF subflows."""

    breaks = ("TCPV-PATH-012",)
    behaviour = _TwoOnly


class _TakesFirstAlong(TargetBehaviour):
    """Resets the first subflow when a join is reset."""

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if subflow.join and "R" in segment.flags:
            subflow.connection.subflows[0].reset()
        return [segment]


class FailedJoinsHarm(RawTarget):
    """Closes the first subflow when a join fails."""

    breaks = ("TCPV-PATH-013",)
    behaviour = _TakesFirstAlong


class _AllAlike(TargetBehaviour):
    """Uses all subflows in turn."""

    turn = 0

    def schedule(self, connection: raw.Connection, usable: Sequence[raw.Subflow]) -> raw.Subflow:
        roomy = [subflow for subflow in connection.alive if subflow.room] or usable
        self.turn += 1
        return roomy[self.turn % len(roomy)]


class BackupIgnored(RawTarget):
    """Sends on backup subflows."""

    breaks = ("TCPV-PATH-014",)
    behaviour = _AllAlike


class _AllOrNothing(TargetBehaviour):
    """Closes all subflows when the peer closes one."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        connection = subflow.connection
        if {"R", "F"} & set(segment.flags) and len(connection.alive) >= _FEW:
            connection.abort()
        return [segment]


class LossIsFatal(RawTarget):
    """Takes the loss of a subflow for that of the connection."""

    breaks = ("TCPV-LOSS-001",)
    behaviour = _AllOrNothing


class LossFailsCommands(RawTarget):
    """Completes I/O commands with an error once a subflow was lost."""

    breaks = ("TCPV-LOSS-002",)

    def command(self, queue: Queue, command: nvme.Command) -> None:
        if queue.qid > 0 and any(subflow.ended for subflow in queue.transport.subflows):
            raise Rejected(GENERIC, TRANSIENT)


class _NoReinjection(TargetBehaviour):
    """Sends each mapping on one subflow only."""

    def __init__(self, target: RawTarget, **attributes: object) -> None:
        super().__init__(target, **attributes)
        self._first: dict[tuple[int, int], raw.Subflow] = {}

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = segment.find(mptcp.DSS)
        if not (segment.payload and option and option.flags.M):
            return [segment]
        place = (subflow.connection.token, option.dsn)
        return [segment] if self._first.setdefault(place, subflow) is subflow else []


class NothingIsSentAgain(RawTarget):
    """Doesn't send on another subflow what a lost one has taken with it."""

    breaks = ("TCPV-LOSS-003",)
    behaviour = _NoReinjection


class _NoRejoin(TargetBehaviour):
    """Refuses joins to a connection without subflows."""

    def accept_join(self, connection: raw.Connection, syn: raw.Segment) -> mptcp.MPTCPReset | None:
        return super().accept_join(connection, syn) if connection.alive else _REFUSED


class NoRejoin(RawTarget):
    """Forgets a connection that has no subflow."""

    breaks = ("TCPV-LOSS-006",)
    behaviour = _NoRejoin


class _AnyHmac(TargetBehaviour):
    """Takes any HMAC."""

    def join_hmac_fits(self, expected: bytes, received: bytes) -> bool:
        return True


class AnyHmac(RawTarget):
    """Accepts joins whatever their HMAC."""

    breaks = ("TCPV-SEC-001", "TCPV-SEC-002")
    behaviour = _AnyHmac


class _AnyKey(TargetBehaviour):
    """Takes any key of MP_FASTCLOSE."""

    def fastclose_fits(self, own: int, received: int) -> bool:
        return True


class AnyFastclose(RawTarget):
    """Closes a connection for MP_FASTCLOSE, whatever its key."""

    breaks = ("TCPV-SEC-003",)
    behaviour = _AnyKey


class _NoLimit(TargetBehaviour):
    """Accepts any number of subflows."""

    def subflows(self, connection: raw.Connection) -> int:
        return 0


class NoLimit(RawTarget):
    """Accepts joins without end."""

    breaks = ("TCPV-SEC-007",)
    behaviour = _NoLimit


class _Starves(_NoLimit):
    """Gives the connection up when too many joins are half open."""

    def accept_join(self, connection: raw.Connection, syn: raw.Segment) -> mptcp.MPTCPReset | None:
        half_open = sum(s.state == raw.State.SYN_RECEIVED for s in connection.subflows)
        if half_open > _MANY_HALF_OPEN:
            connection.abort()
        return super().accept_join(connection, syn)


class HalfOpenJoinsStarve(RawTarget):
    """Has no room for commands when many joins are half open."""

    breaks = ("TCPV-SEC-008",)
    behaviour = _Starves


RAW_FAULTS: dict[str, type[RawTarget]] = {
    fault.__name__: fault for fault in RawTarget.__subclasses__() if fault.breaks}
