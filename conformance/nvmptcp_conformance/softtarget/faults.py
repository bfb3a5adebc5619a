# SPDX-License-Identifier: GPL-2.0-or-later
"""Targets with one fault each, which the suite has to find by a test of what the fault breaks."""

from dataclasses import replace

from ..endpoints.controller import DDGST, HDGST, Queue
from ..layers import discovery, nvme, nvme_tcp
from ..layers.registry import Mpattr
from .target import SoftTarget, TargetOptions

_CNTLID = 78  # byte of the Identify Controller data structure
_COMMANDS = 10  # that LateRefusal takes
_TLS = 2  # SECTYPE


class FalseVariant(SoftTarget):
    """Reports TCPV 1h, and listens with TCP."""

    breaks = ("TCPV-TSAS-001", "TCPV-CONN-006")
    listens_with_mptcp = False


class DependentFields(SoftTarget):
    """Reports MPATTR and MAXSF with TCPV 0h."""

    breaks = ("TCPV-TSAS-002",)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        for entry in entries:
            entry.tsas.tcpv = 0


class ReservedByte(SoftTarget):
    """Sets a reserved byte of TSAS."""

    breaks = ("TCPV-TSAS-003",)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        entries[-1].tsas.reserved6 = bytes(11) + b"\1" + bytes(238)


class ReservedBit(SoftTarget):
    """Sets a reserved bit of MPATTR."""

    breaks = ("TCPV-TSAS-003",)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        for entry in entries:
            entry.tsas.mpattr = int(entry.tsas.mpattr) | 0x80


class EntriesDisagree(SoftTarget):
    """Reports another MAXSF in the Discovery subsystem's entry."""

    breaks = ("TCPV-TSAS-008",)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        entries[0].tsas.maxsf += 1


class TwoEntries(SoftTarget):
    """Reports an entry for each variant."""

    breaks = ("TCPV-DISC-001", "TCPV-TSAS-008")

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        plain = entries[-1].copy()
        plain.tsas = discovery.TCPTSAS()
        entries.append(plain)


class RecordFormat(SoftTarget):
    """Changes RECFMT."""

    breaks = ("TCPV-COMP-001",)

    def log(self, log: discovery.DiscoveryLog) -> None:
        log.recfmt = 1


class FormatVersion(SoftTarget):
    """Has a PFV of its own on MPTCP."""

    breaks = ("TCPV-COMP-002",)

    def icresp(self, queue: Queue, response: nvme_tcp.ICResp) -> None:
        response.pfv = int(queue.mptcp)


class WholePDUsOnly(SoftTarget):
    """Gives up where a PDU is cut."""

    breaks = ("TCPV-CONN-013",)

    def received(self, queue: Queue, data: bytes) -> bool:
        try:
            return not nvme_tcp.split_pdus(data)[1]
        except ValueError:
            return False


class NoTCP(SoftTarget):
    """Refuses TCP, without MPREQ."""

    breaks = ("TCPV-FALL-002", "TCPV-CONN-002", "TCPV-FALL-010")

    def refuses_tcp(self, queue: Queue) -> bool:
        return not queue.mptcp


class NoRefusal(SoftTarget):
    """Serves TCP, with MPREQ."""

    breaks = ("TCPV-FALL-004",)
    needs = Mpattr.MPREQ

    def refuses_tcp(self, queue: Queue) -> bool:
        return False


class LateRefusal(SoftTarget):
    """Closes a connection for MPREQ after it has been served."""

    breaks = ("TCPV-FALL-006",)
    needs = Mpattr.MPREQ

    def command(self, queue: Queue, command: nvme.Command) -> None:
        if queue.commands > _COMMANDS:
            queue.end()


class FallbackSpreads(SoftTarget):
    """Closes all connections when one that fell back ends."""

    breaks = ("TCPV-FALL-010",)

    def ended(self, queue: Queue, error: OSError | None) -> bool:
        if not queue.mptcp and queue.controller:
            queue.controller.end()
        return super().ended(queue, error)


class NoJoins(SoftTarget):
    """Doesn't accept joins at the addresses that it announces."""

    breaks = ("TCPV-PATH-001",)

    def changed(self, options: TargetOptions) -> TargetOptions:
        return replace(options, joins_at=())


class AnnouncesAnyway(SoftTarget):
    """Announces addresses, without ADDA."""

    breaks = ("TCPV-PATH-002",)

    def changed(self, options: TargetOptions) -> TargetOptions:
        return replace(options, mpattr=options.mpattr & ~Mpattr.ADDA)


class OtherController(SoftTarget):
    """Has another CNTLID in Identify than in Connect."""

    breaks = ("TCPV-PATH-008",)

    def data(self, queue: Queue, command: nvme.Command, data: bytes) -> bytes:
        if isinstance(command, nvme.Identify) and command.cns == 1:
            return data[:_CNTLID] + bytes([data[_CNTLID] ^ 0xFF]) + data[_CNTLID + 1:]
        return data


class EndIgnored(SoftTarget):
    """Keeps connection and association when the host ends or resets the connection."""

    breaks = ("TCPV-CLOS-004", "TCPV-CLOS-006")

    def ended(self, queue: Queue, error: OSError | None) -> bool:
        return False


class DigestsOverTCPOnly(SoftTarget):
    """Grants no digest on MPTCP."""

    breaks = ("TCPV-INTG-001",)

    def icresp(self, queue: Queue, response: nvme_tcp.ICResp) -> None:
        if queue.mptcp:
            response.dgst = int(response.dgst) & ~(HDGST | DDGST)


class NoChecksums(SoftTarget):
    """Reports DCSR, and asks for no DSS checksums."""

    breaks = ("TCPV-INTG-002",)
    needs = Mpattr.DCSR

    def checksums_are_on(self) -> bool:
        return True


class MixedGroup(SoftTarget):
    """Has entries in a subflow group that differ in SECTYPE."""

    breaks = ("TCPV-MPIO-005",)

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        entries.append(entries[-1].copy())
        for sectype, entry in enumerate(entries[1:]):
            entry.tsas.sectype, entry.tsas.sfgid = sectype * _TLS, 1


FAULTS: dict[str, type[SoftTarget]] = {
    fault.__name__: fault for fault in SoftTarget.__subclasses__() if fault.breaks}
