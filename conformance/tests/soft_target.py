# SPDX-License-Identifier: GPL-2.0-or-later
"""An MPTCP port in user space, before a TCP port of the kernel's target; and the same with one
fault each, which the suite has to find.

It passes PDUs on, and makes the entries of the discovery log its own.
"""

import contextlib
import socket
import threading

from nvmptcp_conformance.endpoints.mptcp_socket import IPPROTO_MPTCP, info
from nvmptcp_conformance.layers import nvme_tcp
from nvmptcp_conformance.layers.registry import DISCOVERY_ENTRY, DISCOVERY_HEADER, TSAS, Mpattr
from scapy.compat import raw

ENTRY = 1024  # bytes, the header of the log, too
IDENTIFY = 4096
TSAS_START = DISCOVERY_ENTRY["TSAS"][0]
MPATTR, MAXSF = TSAS_START + TSAS["MPATTR"][0], TSAS_START + TSAS["MAXSF"][0]
TCPV, SFGID = TSAS_START + TSAS["TCPV"][0], TSAS_START + TSAS["SFGID"][0]
SECTYPE, RESERVED = TSAS_START, TSAS_START + 17
CNTLID = 78  # byte of the Identify Controller data structure

Address = tuple[str, int]


class SoftTarget:
    """Without a fault. A subclass has one, and says which requirements it breaks."""

    breaks: tuple[str, ...] = ()
    protocol = IPPROTO_MPTCP
    everywhere = True  # listens on all addresses, so that they can be joined
    tcpv, mpattr, maxsf = 1, int(Mpattr.ADDA), 8

    def __init__(self, front: Address, back: Address) -> None:
        """Listen on `front` for what goes to `back`, in the namespace of the calling thread."""
        self._back = back
        self.address = front
        self.connections: list[Connection] = []
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, self.protocol)
        self._listener.bind(("", front[1]) if self.everywhere else front)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                front, _ = self._listener.accept()
                self.connections.append(
                    Connection(self, front, socket.create_connection(self._back)))

    # What a fault changes.

    def entries(self, entries: list[bytearray]) -> None:
        """Entries of the log."""

    def header(self, header: bytearray) -> None:
        """Header of the log."""

    def identify(self, data: bytearray) -> None:
        """An Identify data structure."""

    def icresp(self, response: nvme_tcp.ICResp, mptcp: bool) -> None:
        """An ICResp."""

    def accepts(self, connection: "Connection", received: bytes) -> bool:
        """Whether what came from the host is passed on. False closes the connection."""
        return connection.mptcp or not self.mpattr & Mpattr.MPREQ

    def ended(self, connection: "Connection") -> None:
        """The host ended a connection."""
        connection.close()

    def own_log(self, data: bytearray) -> None:
        """Make a log of the kernel's target this port's."""
        entries = [data[at:at + ENTRY] for at in range(ENTRY, len(data), ENTRY)]
        for entry in entries:
            for name, value in (("TRSVCID", str(self.address[1])), ("TRADDR", self.address[0])):
                start, size = DISCOVERY_ENTRY[name]
                entry[start:start + size] = value.encode().ljust(size, b"\0")
            entry[TCPV], entry[MPATTR], entry[MAXSF] = self.tcpv, self.mpattr, self.maxsf
        header = data[:ENTRY]
        self.header(header)
        if entries:
            self.entries(entries)
        data[:] = b"".join([header, *entries])


class Connection:
    """A connection of a host, and the one to the kernel's target that serves it."""

    def __init__(self, target: SoftTarget, front: socket.socket, back: socket.socket) -> None:
        self._target, self._front, self._back = target, front, back
        self.mptcp = info(front) is not None
        self.commands = 0
        front.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for direction in (self._to_target, self._to_host):
            threading.Thread(target=direction, daemon=True).start()

    def close(self) -> None:
        for end in (self._front, self._back):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _to_target(self) -> None:
        with contextlib.suppress(OSError):
            while received := self._front.recv(65536):
                if not self._target.accepts(self, received):
                    self.close()
                    return
                self.commands += 1
                self._back.sendall(received)
        self._target.ended(self)

    def _to_host(self) -> None:
        stream = b""
        with contextlib.suppress(OSError):
            while received := self._back.recv(65536):
                pdus, stream = nvme_tcp.split_pdus(stream + received)
                self._front.sendall(b"".join(map(self._changed, pdus)))
        self.close()

    def _changed(self, pdu: nvme_tcp.NVMeTCP) -> bytes:
        if isinstance(pdu, nvme_tcp.ICResp):
            self._target.icresp(pdu, self.mptcp)
        elif isinstance(pdu, nvme_tcp.C2HData) and not int(pdu.flags) & 3:  # no digests
            data = bytearray(pdu.data)
            if len(data) == IDENTIFY:
                self._target.identify(data)
            else:
                self._target.own_log(data)
            pdu.data = bytes(data)
        return raw(pdu)


class FalseVariant(SoftTarget):
    breaks = ("TCPV-TSAS-001", "TCPV-CONN-006")
    protocol = socket.IPPROTO_TCP


class DependentFields(SoftTarget):
    breaks = ("TCPV-TSAS-002",)
    tcpv = 0


class ReservedByte(SoftTarget):
    breaks = ("TCPV-TSAS-003",)

    def entries(self, entries: list[bytearray]) -> None:
        entries[-1][RESERVED] = 1


class ReservedBit(SoftTarget):
    breaks = ("TCPV-TSAS-003",)
    mpattr = Mpattr.ADDA | 0x80


class EntriesDisagree(SoftTarget):
    breaks = ("TCPV-TSAS-008",)

    def entries(self, entries: list[bytearray]) -> None:
        entries[0][MAXSF] += 1


class TwoEntries(SoftTarget):
    breaks = ("TCPV-DISC-001", "TCPV-TSAS-008")

    def entries(self, entries: list[bytearray]) -> None:
        entries[0][:] = entries[-1]
        entries[0][TCPV] = entries[0][MPATTR] = entries[0][MAXSF] = 0
        entries.reverse()


class RecordFormat(SoftTarget):
    breaks = ("TCPV-COMP-001",)

    def header(self, header: bytearray) -> None:
        header[DISCOVERY_HEADER["RECFMT"][0]] = 1


class FormatVersion(SoftTarget):
    breaks = ("TCPV-COMP-002",)

    def icresp(self, response: nvme_tcp.ICResp, mptcp: bool) -> None:
        response.pfv = int(mptcp)


class WholePDUsOnly(SoftTarget):
    breaks = ("TCPV-CONN-013",)

    def accepts(self, connection: Connection, received: bytes) -> bool:
        try:
            return not nvme_tcp.split_pdus(received)[1]
        except ValueError:
            return False


class NoTCP(SoftTarget):
    breaks = ("TCPV-FALL-002", "TCPV-CONN-002", "TCPV-FALL-010")

    def accepts(self, connection: Connection, received: bytes) -> bool:
        return connection.mptcp


class NoRefusal(SoftTarget):
    breaks = ("TCPV-FALL-004",)
    mpattr = Mpattr.ADDA | Mpattr.MPREQ

    def accepts(self, connection: Connection, received: bytes) -> bool:
        return True


class LateRefusal(SoftTarget):
    breaks = ("TCPV-FALL-006",)
    mpattr = Mpattr.ADDA | Mpattr.MPREQ

    def accepts(self, connection: Connection, received: bytes) -> bool:
        return connection.mptcp and connection.commands < 10


class FallbackSpreads(SoftTarget):
    breaks = ("TCPV-FALL-010",)

    def ended(self, connection: Connection) -> None:
        for other in [connection] if connection.mptcp else self.connections:
            other.close()


class NoJoins(SoftTarget):
    breaks = ("TCPV-PATH-001",)
    everywhere = False


class AnnouncesAnyway(SoftTarget):
    breaks = ("TCPV-PATH-002",)
    mpattr = 0


class OtherController(SoftTarget):
    breaks = ("TCPV-PATH-008",)

    def identify(self, data: bytearray) -> None:
        data[CNTLID] ^= 0xFF


class EndIgnored(SoftTarget):
    breaks = ("TCPV-CLOS-004", "TCPV-CLOS-006")

    def ended(self, connection: Connection) -> None:
        pass


class DigestsOverTCPOnly(SoftTarget):
    breaks = ("TCPV-INTG-001",)

    def icresp(self, response: nvme_tcp.ICResp, mptcp: bool) -> None:
        if mptcp:
            response.dgst = 0


class NoChecksums(SoftTarget):
    breaks = ("TCPV-INTG-002",)
    mpattr = Mpattr.ADDA | Mpattr.DCSR


class MixedGroup(SoftTarget):
    breaks = ("TCPV-MPIO-005",)

    def entries(self, entries: list[bytearray]) -> None:
        entries[0][:] = entries[-1]
        entries[0][SECTYPE] = 2
        for entry in entries:
            entry[SFGID] = 1


FAULTS: dict[str, type[SoftTarget]] = {
    fault.__name__: fault for fault in SoftTarget.__subclasses__()}
