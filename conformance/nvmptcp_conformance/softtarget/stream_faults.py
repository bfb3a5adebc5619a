# SPDX-License-Identifier: GPL-2.0-or-later
"""Targets on the raw stack with one fault each: in mappings, in how connections end, in checksums
and digests, timers, and what the logs say. See faults.py.
"""

import struct
from dataclasses import replace

from ..endpoints import raw
from ..endpoints.controller import HDGST, Closing, Queue
from ..endpoints.server import Server
from ..endpoints.subsystem import GENERIC, TRANSIENT, Rejected, Subsystem
from ..layers import discovery, mptcp, nvme, nvme_tcp
from ..layers.registry import Mpattr
from .raw_target import RawTarget, TargetBehaviour
from .target import TargetOptions

_ANA_LOG, _DISCOVERY_LOG = 0x0C, 0x70
_ANA_STATE, _INACCESSIBLE = 32, 3  # byte of the log page of one group, and a state
_TERM_REQ = 0x03
_TLS = 2  # SECTYPE
_SFGID = 7


class _Faulty(RawTarget):
    """What the faults of this file have in common."""


def _with_option(segment: raw.Segment, old: mptcp.MPTCPOption,
                 new: mptcp.MPTCPOption) -> raw.Segment:
    return replace(segment, options=tuple(
        (name, new if value is old else value) for name, value in segment.options))


# Mappings


class _UpperHalfStays(TargetBehaviour):
    """Takes a DSN of 4 octets for one whose upper half is that of the initial one."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = segment.find(mptcp.DSS)
        if not option or not option.flags.M or option.flags.m:
            return [segment]
        whole = option.copy()
        whole.flags = int(option.flags) | int(mptcp.DSS(flags="m").flags)
        whole.dsn = mptcp.idsn(subflow.connection.peer_key) >> 32 << 32 | option.dsn
        return [_with_option(segment, option, whole)]


class NoWrap(_Faulty):
    """Loses the stream when the lower half of the DSN wraps."""

    breaks = ("TCPV-CONN-012",)
    behaviour = _UpperHalfStays


class _MapsWhatIsNot(TargetBehaviour):
    """Takes data without a mapping for the next ones."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = segment.find(mptcp.DSS)
        if not segment.payload or not option or option.flags.M:
            return [segment]
        ssn = (segment.seq - subflow.peer_isn) % (1 << 32)
        added = mptcp.DSS(flags="Mm", dsn=subflow.connection.data_ack, ssn=ssn,
                          data_len=len(segment.payload))
        return [_with_option(segment, option, added)]


class TakesUnmapped(_Faulty):
    """Processes data without a mapping."""

    breaks = ("TCPV-CONN-012",)
    behaviour = _MapsWhatIsNot


class _WholeMappings(TargetBehaviour):
    """Resets a subflow that brings less than its mapping says."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = segment.find(mptcp.DSS)
        if option and option.flags.M and 0 < len(segment.payload) < (
                option.data_len - bool(option.flags.F)):
            subflow.reset(mptcp.MPTCPReset(reason=1))
            return []
        return [segment]


class MappingIsASegment(_Faulty):
    """Takes no mapping that is longer than a segment."""

    breaks = ("TCPV-CONN-013",)
    behaviour = _WholeMappings


# Ends of connections


class _FinBesides(TargetBehaviour):
    """Sends FIN with DATA_FIN."""

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = segment.find(mptcp.DSS)
        if option and option.flags.F:
            subflow.finish()
        return [segment]


class ClosesSubflowsAtOnce(_Faulty):
    """Closes the subflows before the DATA_ACK for its DATA_FIN."""

    breaks = ("TCPV-CLOS-001",)
    behaviour = _FinBesides


class _FinIsDataFin(TargetBehaviour):
    """Ends the stream with FIN."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if "F" in segment.flags:
            subflow.connection.receiver.end()
        return [segment]


class FinIsTheEnd(_Faulty):
    """Takes a FIN on a subflow for the end of the connection."""

    breaks = ("TCPV-CLOS-002",)
    behaviour = _FinIsDataFin


class _NoLateFin(TargetBehaviour):
    """Overlooks DATA_FIN on a mapping with data, and on other subflows than the first."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = segment.find(mptcp.DSS)
        if option and option.flags.F and (segment.payload or subflow.index):
            return []
        return [segment]


class DataFinAloneOnly(_Faulty):
    """Knows DATA_FIN without data only."""

    breaks = ("TCPV-CLOS-004",)
    behaviour = _NoLateFin


class _ResetsOnly(TargetBehaviour):
    """Sends a RST without option instead of MP_FASTCLOSE."""

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if not segment.find(mptcp.MPFastclose):
            return [segment]
        return [replace(segment.without_mptcp(), flags="RA")]


class ResetsSubflows(_Faulty):
    """Aborts a connection by resets of its subflows."""

    breaks = ("TCPV-CLOS-005",)
    behaviour = _ResetsOnly


class _OneSubflow(TargetBehaviour):
    """Resets the subflow that brings MP_FASTCLOSE."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if segment.find(mptcp.MPFastclose):
            subflow.reset()
            return []
        return [segment]


class FastcloseIsAReset(_Faulty):
    """Takes MP_FASTCLOSE for the loss of a subflow."""

    breaks = ("TCPV-CLOS-006",)
    behaviour = _OneSubflow


class _Hasty(Server):
    """Aborts as soon as a termination request is sent."""

    async def send(self, queue: Queue, data: bytes) -> None:
        await super().send(queue, data)
        if queue.closing is Closing.TERMINATED:
            queue.transport.fastclose()


class AbortsAtOnce(_Faulty):
    """Sends MP_FASTCLOSE right behind C2HTermReq."""

    breaks = ("TCPV-CLOS-007",)
    server = _Hasty


# Checksums and digests


class _ChecksumsAreOptional(TargetBehaviour):
    """Takes mappings without a checksum."""

    def checksum_fits(self, expected: int, received: int | None) -> bool:
        return received is None or super().checksum_fits(expected, received)


class TakesNoChecksum(_Faulty):
    """Accepts mappings without a checksum where checksums are in use."""

    breaks = ("TCPV-INTG-004",)
    behaviour = _ChecksumsAreOptional


class _Tells(TargetBehaviour):
    """Tells the target of a checksum that is wrong."""

    def checksum_failed(self, connection: raw.Connection, subflow: raw.Subflow, dsn: int) -> None:
        assert isinstance(self.target, ChecksumFailureIsAnError)
        self.target.failed = True
        super().checksum_failed(connection, subflow, dsn)


class ChecksumFailureIsAnError(_Faulty):
    """Completes a command with an error after a DSS checksum was wrong."""

    breaks = ("TCPV-INTG-005",)
    behaviour = _Tells
    failed = False

    def command(self, queue: Queue, command: nvme.Command) -> None:
        if self.failed:
            raise Rejected(GENERIC, TRANSIENT)


class _Believes(TargetBehaviour):
    """Takes every checksum for right."""

    def checksum_fits(self, expected: int, received: int | None) -> bool:
        return True


class BelievesChecksums(_Faulty):
    """Doesn't look at DSS checksums."""

    breaks = ("TCPV-INTG-005",)
    behaviour = _Believes


class HeaderDigestIgnored(_Faulty):
    """Takes PDUs with a wrong header digest."""

    breaks = ("TCPV-INTG-006",)

    def took(self, queue: Queue, pdu: nvme_tcp.NVMeTCP) -> None:
        if int(pdu.flags) & HDGST and isinstance(pdu, nvme_tcp.CapsuleCmd):
            pdu.hdgst = pdu.header_digest()


class ChecksumsInsteadOfDigests(_Faulty):
    """Grants no digests where DSS checksums are in use."""

    breaks = ("TCPV-INTG-001",)

    def icresp(self, queue: Queue, response: nvme_tcp.ICResp) -> None:
        if queue.transport.checksum:
            response.dgst = 0


class _NoFlag(TargetBehaviour):
    """Requires no checksums."""

    def __init__(self, target: RawTarget, **attributes: object) -> None:
        super().__init__(target, **attributes | {"checksum_required": False})


class FlagOnDemand(_Faulty):
    """Sets the flag A, in spite of DCSR, only if the host does."""

    breaks = ("TCPV-INTG-002",)
    needs = Mpattr.DCSR
    behaviour = _NoFlag


class TLSOnPaper(_Faulty):
    """Reports a SECTYPE, and has no TLS."""

    breaks = ("TCPV-TLS-003",)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        for entry in entries:
            entry.tsas.sectype = _TLS


# Timers


class _Restarts(TargetBehaviour):
    """Restarts the Keep Alive Timers with each segment."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        self.restart()
        return [segment]

    def restart(self) -> None:
        nvm = self.target.nvm
        for controller in list(nvm.controllers.values()):
            controller.kept_alive = nvm.clock()


class AnySegmentCounts(_Faulty):
    """Restarts the Keep Alive Timer for whatever comes."""

    breaks = ("TCPV-TIME-002",)
    behaviour = _Restarts


class _JoinsRestart(_Restarts):
    """Restarts the Keep Alive Timers with each join."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return [segment]

    def accept_join(self, connection: raw.Connection,
                    syn: raw.Segment) -> mptcp.MPTCPReset | None:
        self.restart()
        return super().accept_join(connection, syn)


class JoinsCount(_Faulty):
    """Restarts the Keep Alive Timer when a subflow joins."""

    breaks = ("TCPV-TIME-002",)
    behaviour = _JoinsRestart


class _Patient(Subsystem):
    """Doesn't let an association expire that has a connection without subflows."""

    def expire(self) -> None:
        for controller in self.controllers.values():
            if not all(queue.transport.alive for queue in controller.queues.values()):
                controller.kept_alive = self.clock()
        super().expire()


class WaitsForEver(_Faulty):
    """Keeps connections without subflows, whatever the Keep Alive Timer says."""

    breaks = ("TCPV-LOSS-007",)

    def __init__(self, options: TargetOptions) -> None:
        super().__init__(options)
        self.nvm = self.subsystems[options.nqn] = _Patient(options.nqn, size=options.size)


# What the logs say, and ICResp


class WholeLogOnly(_Faulty):
    """Brings zeros for a part of the Discovery log page."""

    breaks = ("TCPV-DISC-001",)

    def data(self, queue: Queue, command: nvme.Command, data: bytes) -> bytes:
        part = isinstance(command, nvme.GetLogPage) and command.lpo
        return bytes(len(data)) if part else data


class LogByVariant(_Faulty):
    """Has another RECFMT over TCP."""

    breaks = ("TCPV-COMP-001", "TCPV-DISC-001")

    def data(self, queue: Queue, command: nvme.Command, data: bytes) -> bytes:
        if queue.mptcp or not isinstance(command, nvme.GetLogPage) or (
                command.lid != _DISCOVERY_LOG):
            return data
        return data[:16] + b"\1" + data[17:]


class DeadEntry(_Faulty):
    """Has an entry with TCPV 1h for a port where nobody listens."""

    breaks = ("TCPV-TSAS-001",)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        dead = entries[-1].copy()
        dead.trsvcid = str(self.options.trsvcid + 1).encode()
        entries.append(dead)


class AnaBySubflows(_Faulty):
    """Reports other ANA states to a connection that has had several subflows."""

    breaks = ("TCPV-MPIO-002",)

    def data(self, queue: Queue, command: nvme.Command, data: bytes) -> bytes:
        if (isinstance(command, nvme.GetLogPage) and command.lid == _ANA_LOG
                and len(queue.transport.subflows) > 1):
            changed = bytearray(data)
            struct.pack_into("B", changed, _ANA_STATE, _INACCESSIBLE)
            return bytes(changed)
        return data


class _OneWay(TargetBehaviour):
    """Accepts joins only to connections to the first port."""

    def may_lead_to(self, connection: raw.Connection, syn: raw.Segment) -> bool:
        first = connection.subflows[0].local.address == self.target.options.traddr
        return first and super().may_lead_to(connection, syn)


class OneWayGroup(_Faulty):
    """Has a subflow group of which one member only has its connections joined at the others."""

    breaks = ("TCPV-MPIO-004",)
    behaviour = _OneWay

    def changed(self, options: TargetOptions) -> TargetOptions:
        return replace(options, mpattr=options.mpattr & ~Mpattr.ADDA, sfgid=_SFGID)


class AnyVersion(_Faulty):
    """Answers an ICReq with any PFV."""

    breaks = ("TCPV-COMP-002",)

    def took(self, queue: Queue, pdu: nvme_tcp.NVMeTCP) -> None:
        if isinstance(pdu, nvme_tcp.ICReq):
            pdu.pfv = 0


class LimitByVariant(_Faulty):
    """Has another MAXH2CDATA over MPTCP."""

    breaks = ("TCPV-COMP-002",)

    def icresp(self, queue: Queue, response: nvme_tcp.ICResp) -> None:
        if queue.mptcp:
            response.maxh2cdata //= 2


STREAM_FAULTS: dict[str, type[RawTarget]] = {
    fault.__name__: fault for fault in _Faulty.__subclasses__()}
