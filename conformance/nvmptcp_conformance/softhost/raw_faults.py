# SPDX-License-Identifier: GPL-2.0-or-later
"""Hosts on the raw stack with one fault each, most of them in TCP or MPTCP: see faults.py."""

from collections.abc import Sequence
from typing import Any

from ..endpoints import raw
from ..endpoints.host import Host, ProtocolError, Reply
from ..layers import mptcp, nvme, nvme_tcp
from .association import Place
from .raw_host import HostBehaviour, RawHost

_HEADER = 8  # bytes
_FEW = 2  # subflows


class _GivesUpMptcp(HostBehaviour):
    """Offers MPTCP in the first SYN only."""

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        again = subflow.stalled and not subflow.join
        return [segment.without_mptcp() if again and "S" in segment.flags else segment]


class LostSynIsProof(RawHost):
    """Takes an unanswered SYN for the work of a middlebox."""

    breaks = ("TCPV-CONN-007",)
    behaviour = _GivesUpMptcp


def _mapping(segment: raw.Segment) -> mptcp.DSS | None:
    option = segment.find(mptcp.DSS)
    return option if segment.payload and option and option.flags.M else None


class _NothingTwice(HostBehaviour):
    """Resets a connection that brings data twice."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = _mapping(segment)
        connection = subflow.connection
        if option and 0 < (connection.data_ack - option.dsn) % (1 << 32) < 1 << 31:
            connection.abort()
        return [segment]


class DataTwiceAreFatal(RawHost):
    """Takes data that come again for an attack."""

    breaks = ("TCPV-CONN-012",)
    behaviour = _NothingTwice


class _NothingOutOfOrder(HostBehaviour):
    """Resets a connection when a segment comes before the one that it follows."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        ahead = (segment.seq - subflow.peer_isn - subflow.receive_next) % (1 << 32)
        if segment.payload and 0 < ahead < 1 << 31:
            subflow.connection.abort()
        return [segment]


class GapsAreFatal(RawHost):
    """Takes a segment that is missing for the end."""

    breaks = ("TCPV-CONN-012",)
    behaviour = _NothingOutOfOrder


class _WholeHeaders(HostBehaviour):
    """Resets a connection whose first mapping on a subflow isn't a PDU."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = _mapping(segment)
        size = int.from_bytes(segment.payload[4:_HEADER], "little")
        if option and option.ssn == 1 and option.data_len < size:
            subflow.connection.abort()
        return [segment]


class MappingsArePdus(RawHost):
    """Gives up where the first PDU is cut by mappings."""

    breaks = ("TCPV-CONN-013",)
    behaviour = _WholeHeaders


class _NoTcp(HostBehaviour):
    """Resets a connection that isn't MPTCP from the beginning."""

    def fallback(self, connection: raw.Connection) -> None:
        if self.offer_mptcp and not connection.confirmed:
            connection.abort()


class NoFallback(RawHost):
    """Doesn't go on as TCP."""

    breaks = ("TCPV-FALL-001",)
    behaviour = _NoTcp


class _NoTcpLater(HostBehaviour):
    """Resets a connection that falls back after data."""

    def fallback(self, connection: raw.Connection) -> None:
        if connection.confirmed:
            connection.abort()


class FallbackIsFatal(RawHost):
    """Takes a fallback after data for a fatal error."""

    breaks = ("TCPV-FALL-012",)
    behaviour = _NoTcpLater


class _FinEndsAll(HostBehaviour):
    """Takes the FIN of a subflow for the end of the connection."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if "F" in segment.flags and not subflow.connection.receiver.ended:
            subflow.connection.abort()
        return [segment]


class FinIsTheEnd(RawHost):
    """Takes a FIN without DATA_FIN for the end of the connection."""

    breaks = ("TCPV-CLOS-002",)
    behaviour = _FinEndsAll


class EndsWithoutDataFin(RawHost):
    """Closes the subflows only."""

    breaks = ("TCPV-CLOS-001",)

    def end(self, queue: Host) -> None:
        connection: Any = queue.socket
        for subflow in connection.alive:
            subflow.finish()
        queue.close()


class EndsAtOnce(RawHost):
    """Sends MP_FASTCLOSE right after DATA_FIN."""

    breaks = ("TCPV-CLOS-001",)

    def end(self, queue: Host) -> None:
        queue.end_stream()
        queue.abort()


class ImpatientReset(RawHost):
    """Doesn't wait for the acknowledgement of its termination request."""

    breaks = ("TCPV-CLOS-007",)

    def wait_acknowledged(self, queue: Host, seconds: float) -> None:
        """It doesn't."""


class _AllOrNothing(HostBehaviour):
    """Resets a connection when one of its subflows is reset."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if "R" in segment.flags and len(subflow.connection.alive) >= _FEW:
            subflow.connection.abort()
        return [segment]


class LossIsFatal(RawHost):
    """Takes the loss of a subflow for that of the connection."""

    breaks = ("TCPV-LOSS-001",)
    behaviour = _AllOrNothing


class _RetryingHost(Host):
    def write(self, command: nvme.Command, data: bytes) -> Reply:
        reply = super().write(command, data)
        connection: Any = self.socket
        lost = any(subflow.ended for subflow in connection.subflows)
        return super().write(command, data) if lost else reply


class LossRetriesCommands(RawHost):
    """Sends a command again when a subflow was lost."""

    breaks = ("TCPV-LOSS-002",)

    def connect(self, place: Place, qid: int) -> Host:
        return _RetryingHost(super().connect(place, qid).socket)


class _NoReinjection(HostBehaviour):
    """Sends data on the subflow only that had them first."""

    def __init__(self, host: RawHost, **attributes: object) -> None:
        super().__init__(host, **attributes)
        self._carrier: dict[int, raw.Subflow] = {}  # by DSN

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = _mapping(segment)
        if option and self._carrier.setdefault(option.dsn, subflow) is not subflow:
            return []
        return [segment]


class NothingIsSentAgain(RawHost):
    """Doesn't send on another subflow what a lost one has taken with it."""

    breaks = ("TCPV-LOSS-003",)
    behaviour = _NoReinjection


class NoRejoin(RawHost):
    """Opens no subflow in place of a lost one."""

    breaks = ("TCPV-LOSS-008",)
    rejoin = float("inf")


class OtherPort(RawHost):
    """Joins at the next port."""

    breaks = ("TCPV-PATH-004",)

    def port(self, connection: raw.Connection, address: raw.Announcement) -> int:
        return super().port(connection, address) + 1


class _RefusalIsFatal(HostBehaviour):
    """Resets a connection when a join is refused."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if subflow.join and "R" in segment.flags:
            subflow.connection.abort()
        return [segment]


class RefusedJoinsHarm(RawHost):
    """Closes a connection when a join to it is refused."""

    breaks = ("TCPV-PATH-013",)
    behaviour = _RefusalIsFatal


class _AllAlike(HostBehaviour):
    """Uses the newest subflow, backup or not."""

    def schedule(self, connection: raw.Connection, usable: Sequence[raw.Subflow]) -> raw.Subflow:
        newest = connection.alive[-1]
        return newest if newest.room and newest.confirmed else usable[0]


class BackupIgnored(RawHost):
    """Sends on backup subflows."""

    breaks = ("TCPV-PATH-014",)
    behaviour = _AllAlike


class _Credulous(HostBehaviour):
    """Takes any HMAC of a join."""

    def join_hmac_fits(self, expected: bytes, received: bytes) -> bool:
        return True


class AnyHmac(RawHost):
    """Goes on with a join whatever the HMAC of the answer."""

    breaks = ("TCPV-SEC-002",)
    behaviour = _Credulous


class _AnyKey(HostBehaviour):
    """Takes any key of MP_FASTCLOSE."""

    def fastclose_fits(self, own: int, received: int) -> bool:
        return True


class AnyFastclose(RawHost):
    """Closes a connection for MP_FASTCLOSE, whatever its key."""

    breaks = ("TCPV-SEC-003",)
    behaviour = _AnyKey


class _AnyAnnouncement(HostBehaviour):
    """Takes any HMAC of ADD_ADDR."""

    def add_addr_fits(self, expected: bytes, received: bytes) -> bool:
        return True


class AnyAnnouncement(RawHost):
    """Joins whatever is announced."""

    breaks = ("TCPV-SEC-004",)
    behaviour = _AnyAnnouncement


class CannotDecline(RawHost):
    """Joins announced addresses, whatever the administrator says."""

    breaks = ("TCPV-SEC-005",)

    def limit(self, place: Place) -> None:
        """There is none."""


class RepeatsJoins(RawHost):
    """Repeats joins that fail at once."""

    breaks = ("TCPV-SEC-009",)
    rejoin = 0.0


class _SamePath(HostBehaviour):
    """Joins what is announced, even if there is a subflow."""

    def wants(self, connection: raw.Connection, local: str, remote: str) -> bool:
        return True


class SamePathTwice(RawHost):
    """Opens several subflows with the same addresses."""

    breaks = ("TCPV-FAIR-002",)
    behaviour = _SamePath
    rejoin = float("inf")


class _ChecksumMayLack(HostBehaviour):
    """Takes mappings without checksum."""

    def checksum_fits(self, expected: int, received: int | None) -> bool:
        return received is None or super().checksum_fits(expected, received)


class ChecksumMayLack(RawHost):
    """Takes mappings without the checksum that was negotiated."""

    breaks = ("TCPV-INTG-004",)
    behaviour = _ChecksumMayLack


class _ChecksumIsFatal(HostBehaviour):
    """Resets a connection after a checksum failure."""

    def checksum_failed(self, connection: raw.Connection, subflow: raw.Subflow, dsn: int) -> None:
        connection.abort()


class ChecksumFailureIsFatal(RawHost):
    """Takes a checksum failure for a fatal transport error."""

    breaks = ("TCPV-INTG-005",)
    behaviour = _ChecksumIsFatal


class _ForgivingQueue(Host):
    def _check_digests(self, pdu: nvme_tcp.NVMeTCP) -> None:
        try:
            super()._check_digests(pdu)
        except ProtocolError:
            connection: Any = self.socket
            connection.alive[-1].reset()


class DigestErrorCostsASubflow(RawHost):
    """Takes a wrong digest for the fault of a subflow."""

    breaks = ("TCPV-INTG-006",)

    def connect(self, place: Place, qid: int) -> Host:
        return _ForgivingQueue(super().connect(place, qid).socket)


RAW_FAULTS: dict[str, type[RawHost]] = {
    fault.__name__: fault for fault in RawHost.__subclasses__() if fault.breaks}
