# SPDX-License-Identifier: GPL-2.0-or-later
"""A small NVMe/TCP host in user space, on a socket of the kernel: one queue, on which the caller
decides what is sent, and when and how it is closed.
"""

import socket
import struct
import time
from dataclasses import dataclass
from typing import TypeVar

from scapy.compat import raw

from ..layers import discovery, nvme, nvme_tcp

DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"
HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:6e766d70-7463-4000-8000-000000000002"
HOST_ID = bytes.fromhex("6e766d70746340008000000000000002")
MAX_ENTRIES = 1 << 16  # of a log that is believed
ANY_CONTROLLER = 0xFFFF  # CNTLID of Connect: the dynamic controller model

_CC, _CSTS = 0x14, 0x1C
_ENABLE = 0x460001  # CC: EN, IOSQES 6, IOCQES 4
_NUMBER_OF_QUEUES = 0x07  # feature
_HDGSTF, _DDGSTF, _LAST_PDU, _SUCCESS = 1, 2, 4, 8
_HDGST_ENABLE, _DDGST_ENABLE = 1, 2

P = TypeVar("P", bound=nvme_tcp.NVMeTCP)


class ProtocolError(Exception):
    """The controller sent something else than the protocol asks for."""


class StatusError(ProtocolError):
    """A command was completed with an error."""

    def __init__(self, command: nvme.Command, completion: nvme.Completion) -> None:
        super().__init__(f"{command.name} was completed with SCT {completion.sct:X}h,"
                         f" SC {completion.sc:02X}h")


class EndError(ConnectionError):
    """The controller ended the byte stream."""


@dataclass(frozen=True)
class Reply:
    """What a command brought: DW0 and DW1 of its completion, and its data."""

    dw0: int
    dw1: int
    data: bytes


class Host:
    """One queue. Raises OSError where the connection is lost or the controller silent for longer
    than the socket's time-out, and ProtocolError where it says something wrong.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._stream = b""
        self._received: list[nvme_tcp.NVMeTCP] = []
        self._cid = 0
        self._flags = 0  # HDGSTF, DDGSTF as negotiated
        self._max_data = 0  # MAXH2CDATA, in bytes

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def initialize(self, digests: int = 0) -> nvme_tcp.ICResp:
        """Exchange ICReq and ICResp. `digests`: the bits of DGST to ask for."""
        self.send(raw(nvme_tcp.ICReq(dgst=digests)))
        response = self._expect(nvme_tcp.ICResp)
        granted, self._max_data = int(response.dgst), response.maxh2cdata
        self._flags = (_HDGSTF * bool(granted & _HDGST_ENABLE)
                       | _DDGSTF * bool(granted & _DDGST_ENABLE))
        return response

    def connect(self, nqn: str, hostnqn: str = HOST_NQN, *, qid: int = 0,
                cntlid: int = ANY_CONTROLLER, kato: int = 0) -> int:
        """Send Connect; `kato` in milliseconds. Returns the CNTLID."""
        data = raw(nvme.ConnectData(hostid=HOST_ID, cntlid=cntlid, subnqn=nqn.encode(),
                                    hostnqn=hostnqn.encode()))
        command = nvme.Connect(qid=qid, kato=kato)
        command.sgl1 = nvme.SGLDescriptor(length=len(data), type=0, subtype=1)
        return self.command(command, data).dw0 & 0xFFFF

    def enable(self) -> None:
        """Set CC.EN."""
        self.command(nvme.PropertySet(ofst=_CC, value=_ENABLE))

    def wait_ready(self) -> None:
        """Wait for CSTS.RDY, for as long as the socket's time-out."""
        end = time.monotonic() + (self.socket.gettimeout() or 0)
        while not self.command(nvme.PropertyGet(ofst=_CSTS)).dw0 & 1:
            if time.monotonic() > end:
                raise ProtocolError("CSTS.RDY stays 0 after CC.EN was set")
            time.sleep(0.01)

    def allow_io_queues(self, number: int = 1) -> None:
        """Ask for I/O queues, on an Admin Queue."""
        features = nvme.SetFeatures(fid=_NUMBER_OF_QUEUES)
        features.cdw11 = (number - 1) << 16 | (number - 1)
        self.command(features)

    def keep_alive(self) -> None:
        """Send a Keep Alive command and wait for its completion."""
        self.command(nvme.KeepAlive())

    def identify_controller(self) -> bytes:
        """The 4,096 bytes of the Identify Controller data structure."""
        return self.read(nvme.Identify(cns=1), 4096)

    def discovery_log(self) -> discovery.DiscoveryLog:
        """The whole Discovery log page."""
        count = discovery.DiscoveryLog(self._log_page(discovery.HEADER_SIZE)).numrec
        if count > MAX_ENTRIES:
            raise ProtocolError(f"the Discovery log page has NUMREC {count}")
        size = discovery.HEADER_SIZE + count * discovery.ENTRY_SIZE
        log = discovery.DiscoveryLog(self._log_page(size))
        if log.numrec != count:
            raise ProtocolError(f"NUMREC changed from {count} to {log.numrec} between two reads")
        return log

    def _log_page(self, size: int) -> bytes:
        dwords = size // 4 - 1
        return self.read(nvme.GetLogPage(numdl=dwords & 0xFFFF, numdu=dwords >> 16), size)

    def read(self, command: nvme.Command, size: int) -> bytes:
        """Send a command that brings `size` bytes of data."""
        command.sgl1 = nvme.SGLDescriptor(length=size)
        data = self.command(command).data
        if len(data) != size:
            raise ProtocolError(f"{command.name} brought {len(data)} bytes instead of {size}")
        return data

    def write(self, command: nvme.Command, data: bytes) -> Reply:
        """Send a command whose data the controller asks for by R2T."""
        command.sgl1 = nvme.SGLDescriptor(length=len(data))
        return self.command(command, on_request=data)

    def command(self, command: nvme.Command, data: bytes = b"", *,
                on_request: bytes = b"") -> Reply:
        """Send a command, with in-capsule data or such that R2Ts ask for, and wait for its
        completion.
        """
        self._cid += 1
        command.cid = self._cid
        self.send(raw(self.capsule(command, data)))
        received = b""
        while True:
            pdu = self.receive()
            if isinstance(pdu, nvme_tcp.C2HData) and pdu.cccid == self._cid:
                if pdu.datao != len(received):
                    raise ProtocolError(f"C2HData at offset {pdu.datao}, after {len(received)}"
                                        " bytes")
                received += pdu.data
                if int(pdu.flags) & _SUCCESS:
                    return Reply(0, 0, received)
            elif isinstance(pdu, nvme_tcp.R2T) and pdu.cccid == self._cid:
                self._send_data(pdu, on_request)
            elif isinstance(pdu, nvme_tcp.CapsuleResp) and pdu.rccqe.cid == self._cid:
                completion = pdu.rccqe
                if completion.sct or completion.sc:
                    raise StatusError(command, completion)
                return Reply(completion.dw0, completion.dw1, received)
            else:
                raise ProtocolError(f"{pdu.name} instead of the answer to {command.name}")

    def _send_data(self, request: nvme_tcp.R2T, data: bytes) -> None:
        start, end = request.r2to, request.r2to + request.r2tl
        if not start < end <= len(data) or not self._max_data:
            raise ProtocolError(f"R2T for bytes {start} to {end} of {len(data)}, MAXH2CDATA"
                                f" {self._max_data}")
        for offset in range(start, end, self._max_data):
            part = data[offset:min(end, offset + self._max_data)]
            last = _LAST_PDU if offset + len(part) == end else 0
            self.send(raw(nvme_tcp.H2CData(flags=self._flags | last, cccid=request.cccid,
                                           ttag=request.ttag, datao=offset, data=part)))

    def capsule(self, command: nvme.Command, data: bytes = b"") -> nvme_tcp.CapsuleCmd:
        """A command capsule with the digests that were negotiated."""
        flags = self._flags if data else self._flags & _HDGSTF
        return nvme_tcp.CapsuleCmd(flags=flags, ccsqe=command, data=data)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> nvme_tcp.NVMeTCP:
        """The next PDU; its digests are checked."""
        while not self._received:
            received = self.socket.recv(65536)
            if not received:
                raise EndError("the controller closed the connection")
            try:
                self._received, self._stream = nvme_tcp.split_pdus(self._stream + received)
            except ValueError as error:
                raise ProtocolError(str(error)) from error
        pdu = self._received.pop(0)
        self._check_digests(pdu)
        return pdu

    def _check_digests(self, pdu: nvme_tcp.NVMeTCP) -> None:
        flags = int(pdu.flags)
        if isinstance(pdu, (nvme_tcp.CapsuleResp, nvme_tcp.C2HData)):
            if bool(flags & _HDGSTF) != bool(self._flags & _HDGSTF):
                raise ProtocolError(f"{pdu.name} has HDGSTF {flags & _HDGSTF}, against ICResp")
            if flags & _HDGSTF and pdu.hdgst != pdu.header_digest():
                raise ProtocolError(f"{pdu.name} has a wrong header digest")
        if isinstance(pdu, nvme_tcp.C2HData):
            if bool(flags & _DDGSTF) != bool(self._flags & _DDGSTF):
                raise ProtocolError(f"{pdu.name} has DDGSTF {flags & _DDGSTF}, against ICResp")
            if flags & _DDGSTF and pdu.ddgst != pdu.data_digest():
                raise ProtocolError(f"{pdu.name} has a wrong data digest")

    def _expect(self, form: type[P]) -> P:
        pdu = self.receive()
        if not isinstance(pdu, form):
            raise ProtocolError(f"{pdu.name} instead of {form.__name__}")
        return pdu

    def end_stream(self) -> None:
        """Have the kernel send DATA_FIN (on TCP: FIN), and nothing else."""
        self.socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Have the kernel send MP_FASTCLOSE (on TCP: RST)."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        """Close the connection in an orderly way."""
        self.socket.close()

    def wait_for_end(self, seconds: float) -> str:
        """What the controller does within some time: "ends" or "aborts" the connection, "nothing";
        PDUs that it sends are read and dropped.
        """
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(4096):
                pass
        except TimeoutError:
            return "nothing"
        except ConnectionError:
            return "aborts"
        return "ends"
