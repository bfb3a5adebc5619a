# SPDX-License-Identifier: GPL-2.0-or-later
"""Hosts with one fault each, which the suite has to find by a test of what the fault breaks."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from scapy.compat import raw

from ..endpoints import mptcp_socket
from ..endpoints.host import Host, StatusError
from ..layers import discovery, nvme_tcp
from ..layers.registry import Mpattr, Tcpv
from .association import Association, Place, Refused, Variant, subflows
from .host import Entry, SoftHost

_JOINS = 1.0  # seconds for the joins
_SHORT = 2000  # milliseconds
_PFV = 8  # byte of ICReq
_RESERVED_BITS = 0xFF & ~sum(Mpattr)


class _WithHost(SoftHost):
    """Uses another kind of queue."""

    kind = Host

    def connect(self, place: Place, qid: int) -> Host:
        return self.kind(super().connect(place, qid).socket)


class SharedConnection(SoftHost):
    """Sends Connect for an I/O queue on the Admin Queue's connection."""

    breaks = ("TCPV-CONN-001",)

    def open_io_queue(self, each: Association, qid: int) -> None:
        with suppress(StatusError):
            each.admin.connect(each.place.nqn, self.options.hostnqn, qid=qid, cntlid=each.cntlid)
        super().open_io_queue(each, qid)


class MixedVariants(SoftHost):
    """Opens I/O queues with TCP."""

    breaks = ("TCPV-CONN-003", "TCPV-CONN-004")

    def connect(self, place: Place, qid: int) -> Host:
        return super().connect(replace(place, variant=Variant.TCP) if qid else place, qid)


class OtherAddress(SoftHost):
    """Opens I/O queues to an address that was announced."""

    breaks = ("TCPV-CONN-005",)

    def connect(self, place: Place, qid: int) -> Host:
        if not qid:
            host = super().connect(place, qid)
            time.sleep(_JOINS)
            self.remote = [remote[0] for _, remote in mptcp_socket.subflow_addresses(host.socket)]
            return host
        return super().connect(replace(place, traddr=self.remote[-1]), qid)


class SecondICReq(SoftHost):
    """Sends a second ICReq."""

    breaks = ("TCPV-CONN-008",)

    def open_io_queue(self, each: Association, qid: int) -> None:
        super().open_io_queue(each, qid)
        each.queues[-1].send(raw(nvme_tcp.ICReq()))


class _UnorderedQueue(Host):
    def receive(self) -> nvme_tcp.NVMeTCP:
        first = super().receive()
        second = self._received[0] if self._received else None
        if isinstance(first, nvme_tcp.C2HData) and isinstance(second, nvme_tcp.C2HData):
            first.data, second.data = second.data, first.data
        return first


class Unordered(_WithHost):
    """Takes data in another order than they come."""

    breaks = ("TCPV-CONN-012",)
    kind = _UnorderedQueue


class _WholeSegments:
    """A socket whose user takes each segment for whole PDUs."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def recv(self, size: int) -> bytes:
        data: bytes = self._inner.recv(size)
        try:
            whole = not nvme_tcp.split_pdus(data)[1]
        except ValueError:
            whole = False
        if not whole:
            raise ConnectionError("no whole PDU")
        return data


class WholePDUsOnly(SoftHost):
    """Gives up where a PDU is cut."""

    breaks = ("TCPV-CONN-013",)

    def connect(self, place: Place, qid: int) -> Host:
        return Host(_WholeSegments(super().connect(place, qid).socket))  # type: ignore[arg-type]


class EntriesIgnored(SoftHost):
    """Doesn't read TCPV."""

    breaks = ("TCPV-DISC-004",)

    def multipath(self, entry: Entry) -> bool:
        return False


class SettingIgnored(SoftHost):
    """Uses MPTCP, whatever the administrator says."""

    breaks = ("TCPV-DISC-008",)

    def variant(self) -> Variant:
        return Variant.MPTCP


class MultipathByDefault(SoftHost):
    """Uses MPTCP where it was told nothing."""

    breaks = ("TCPV-DISC-009",)

    def variant(self) -> Variant:
        return self.options.variant or Variant.MPTCP


class RegistersReservedVariant(SoftHost):
    """Registers a reserved TCPV."""

    breaks = ("TCPV-DISC-013",)

    def tsas(self) -> discovery.TCPTSAS:
        return discovery.TCPTSAS(tcpv=2)


class RegistersAttributes(SoftHost):
    """Registers MPATTR and MAXSF."""

    breaks = ("TCPV-DISC-014",)

    def tsas(self) -> discovery.TCPTSAS:
        return discovery.TCPTSAS(tcpv=int(Tcpv.MPTCP), mpattr=int(Mpattr.ADDA), maxsf=8)


class ReservedVariantIsMultipath(SoftHost):
    """Reads each TCPV other than 0h as 1h."""

    breaks = ("TCPV-TSAS-004",)

    def multipath(self, entry: Entry) -> bool:
        return int(entry.tsas.tcpv) != Tcpv.TCP


class ReservedVariantIsSkipped(SoftHost):
    """Leaves out entries with a reserved TCPV."""

    breaks = ("TCPV-TSAS-004",)

    def places(self, entries: list[Entry]) -> Iterator[list[Place]]:
        return super().places([entry for entry in entries if int(entry.tsas.tcpv) in tuple(Tcpv)])


class ReservedBitsRefused(SoftHost):
    """Leaves out entries with reserved bits or bytes set."""

    breaks = ("TCPV-TSAS-005",)

    def places(self, entries: list[Entry]) -> Iterator[list[Place]]:
        return super().places([
            entry for entry in entries
            if not (int(entry.tsas.mpattr) & _RESERVED_BITS or any(entry.tsas.reserved6))])


class RequiredWithoutVariant(SoftHost):
    """Believes MPREQ with TCPV 0h."""

    breaks = ("TCPV-TSAS-006",)

    def place(self, entry: Entry) -> Place:
        place = super().place(entry)
        required = int(entry.tsas.mpattr) & Mpattr.MPREQ
        return replace(place, variant=Variant.MPTCP_ONLY) if required else place


class GroupWithoutVariant(SoftHost):
    """Believes SFGID with TCPV 0h."""

    breaks = ("TCPV-TSAS-006",)

    def group(self, entry: Entry) -> object:
        return (discovery.text(entry.subnqn), entry.tsas.sfgid) if entry.tsas.sfgid else None

    def enough(self, opened: Association) -> bool:
        return True


class SecurityIgnored(SoftHost):
    """Doesn't read SECTYPE with TCPV 1h."""

    breaks = ("TCPV-TSAS-007",)

    def needs_tls(self, entry: Entry) -> bool:
        return super().needs_tls(entry) and not self.multipath(entry)


class NoFallback(SoftHost):
    """Doesn't go on as TCP."""

    breaks = ("TCPV-FALL-001",)

    def check_protocol(self, place: Place, state: mptcp_socket.Info | None) -> None:
        if state is None and place.variant != Variant.TCP:
            raise Refused("fell back")


class TcpWhereRefused(SoftHost):
    """Uses TCP with a port that has MPREQ."""

    breaks = ("TCPV-FALL-007",)

    def place(self, entry: Entry) -> Place:
        place = super().place(entry)
        required = place.variant == Variant.MPTCP_ONLY
        return replace(place, variant=Variant.TCP) if required else place


class RequirementIgnored(SoftHost):
    """Goes on as TCP where MPTCP is required."""

    breaks = ("TCPV-FALL-009",)

    def check_protocol(self, place: Place, state: mptcp_socket.Info | None) -> None:
        pass


class FallbackSpreads(SoftHost):
    """Closes all connections where one fell back."""

    breaks = ("TCPV-FALL-010",)

    def open_io_queue(self, each: Association, qid: int) -> None:
        super().open_io_queue(each, qid)
        both = [mptcp_socket.info(queue.socket) for queue in (each.admin, each.queues[-1])]
        if both[0] and not both[1]:
            raise Refused("an I/O queue fell back")


class NoSecondTry(SoftHost):
    """Reconnects with TCP."""

    breaks = ("TCPV-FALL-011",)

    def again(self, place: Place) -> Place:
        return replace(place, variant=Variant.TCP)


class Unlimited(SoftHost):
    """Has as many subflows as it gets."""

    breaks = ("TCPV-PATH-011", "TCPV-MGMT-005")

    def limit(self, place: Place) -> None:
        pass


class FailedJoinsHarm(SoftHost):
    """Resets a connection when a join to it failed."""

    breaks = ("TCPV-PATH-013",)

    def show(self) -> None:
        super().show()
        for each in self.associations:
            for queue in each.queues:
                state = mptcp_socket.info(queue.socket)
                if state and state.addresses_accepted >= subflows(queue):
                    queue.socket.shutdown(2)


class KeepAlivesMultiply(SoftHost):
    """Sends Keep Alive commands for each subflow."""

    breaks = ("TCPV-TIME-001",)

    def keep_alive_interval(self, each: Association, kato: int) -> float:
        return super().keep_alive_interval(each, kato) / subflows(each.admin)


class ShortTimeout(SoftHost):
    """Has a KATO that a change of subflow outlasts."""

    breaks = ("TCPV-TIME-003",)

    def kato(self, place: Place) -> int:
        return min(_SHORT, super().kato(place))


class EndsByReset(SoftHost):
    """Disconnects with MP_FASTCLOSE."""

    breaks = ("TCPV-CLOS-001",)

    def end(self, queue: Host) -> None:
        queue.abort()


class EndIgnored(SoftHost):
    """Doesn't notice that a connection has ended or was reset."""

    breaks = ("TCPV-CLOS-003", "TCPV-CLOS-006")

    def hears(self, each: Association) -> list[Host]:
        return []

    def lost(self, each: Association, error: Exception) -> None:
        pass


class ResetByDataFin(SoftHost):
    """Closes a connection where it has to reset it."""

    breaks = ("TCPV-CLOS-005",)

    def abort(self, queue: Host) -> None:
        queue.end_stream()
        queue.close()


class DigestsOverTcpOnly(SoftHost):
    """Asks for no digests over MPTCP."""

    breaks = ("TCPV-INTG-001",)

    def digests(self, mptcp: bool) -> int:
        return 0 if mptcp else super().digests(mptcp)


class _CarelessQueue(Host):
    def _check_digests(self, pdu: nvme_tcp.NVMeTCP) -> None:
        pass


class DigestErrorIgnored(_WithHost):
    """Doesn't check digests."""

    breaks = ("TCPV-INTG-006",)
    kind = _CarelessQueue


class GroupAcrossSubsystems(SoftHost):
    """Takes entries of different NVM subsystems for one group."""

    breaks = ("TCPV-MPIO-006",)

    def group(self, entry: Entry) -> object:
        return int(entry.tsas.sfgid) or None


class NoGroups(SoftHost):
    """Opens an association for each entry of a group."""

    breaks = ("TCPV-MPIO-007",)

    def group(self, entry: Entry) -> object:
        return None


class FirstEntryOnly(SoftHost):
    """Tries one entry of a group only."""

    breaks = ("TCPV-MPIO-008",)

    def places(self, entries: list[Entry]) -> Iterator[list[Place]]:
        return (group[:1] for group in super().places(entries))


class GroupDespiteFallback(SoftHost):
    """Has one association for a group, though it fell back."""

    breaks = ("TCPV-MPIO-009",)

    def enough(self, opened: Association) -> bool:
        return True


class FalseState(SoftHost):
    """Shows its administrator one MPTCP subflow a queue, whatever there is."""

    breaks = ("TCPV-MGMT-001", "TCPV-MGMT-002", "TCPV-MGMT-003")

    def show(self) -> None:
        if self.options.status:
            queues = range(len(self.associations[0].queues))
            self.options.status.write_text(
                "requested mptcp\n" + "".join(f"{qid} mptcp 1\n" for qid in queues))


class _OtherVersion(Host):
    def send(self, data: bytes) -> None:
        if data[0] == 0 and mptcp_socket.info(self.socket):  # ICReq
            data = data[:_PFV] + b"\1" + data[_PFV + 1:]
        super().send(data)


class FormatVersion(_WithHost):
    """Has a PFV of its own on MPTCP."""

    breaks = ("TCPV-COMP-002",)
    kind = _OtherVersion


class ChecksumsTakenAway(SoftHost):
    """Goes on without DSS checksums with a port that has DCSR."""

    breaks = ("TCPV-SEC-010",)

    def check_protocol(self, place: Place, state: mptcp_socket.Info | None) -> None:
        super().check_protocol(replace(place, checksums_required=False), state)


def _all(kind: type[SoftHost]) -> Iterator[type[SoftHost]]:
    for fault in kind.__subclasses__():
        if fault.breaks:
            yield fault
        yield from _all(fault)


FAULTS: dict[str, type[SoftHost]] = {fault.__name__: fault for fault in _all(SoftHost)}
