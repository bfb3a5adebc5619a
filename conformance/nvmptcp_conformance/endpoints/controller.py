# SPDX-License-Identifier: GPL-2.0-or-later
"""The controller's side of NVMe/TCP, sans-IO: what a `Queue` receives are bytes, what it sends are
bytes, and whoever owns the connection moves them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from scapy.compat import raw

from ..layers import nvme, nvme_tcp
from .subsystem import (
    GENERIC,
    INVALID_FIELD,
    INVALID_PARAMETERS,
    SEQUENCE_ERROR,
    SPECIFIC,
    TRANSIENT,
    Rejected,
    Reply,
    Subsystem,
)

if TYPE_CHECKING:
    from .subsystem import Controller

HDGST, DDGST = 1, 2  # bits of DGST in ICReq and ICResp, and of the flags of a PDU
LAST_PDU = 4
INVALID_HEADER, SEQUENCE, HEADER_DIGEST, OUT_OF_RANGE, LIMIT, UNSUPPORTED = range(1, 7)  # FES
MAX_H2C_DATA = 0x20000  # bytes
_NO_FLOW_CONTROL = 4  # CATTR of Connect
_IN_CAPSULE = (0, 1)  # SGL type and subtype
_TERMINATED_HEADER = 128  # bytes of a header that a termination request repeats at most
_LONGEST_PDU = MAX_H2C_DATA + 1024  # bytes, with header, padding and digests


class Closing(Enum):
    """How a connection is to be closed, once all output is sent."""

    NO = auto()
    END = auto()  # DATA_FIN
    TERMINATED = auto()  # after a termination request: the host closes, or 30 s pass
    ABORT = auto()  # MP_FASTCLOSE


class Fatal(Exception):
    """A fatal transport error: Fatal Error Status and Information of the termination request."""

    def __init__(self, fes: int, fei: int = 0) -> None:
        super().__init__(nvme_tcp.FATAL_ERRORS[fes])
        self.fes, self.fei = fes, fei


class Service:
    """NVM subsystems behind ports. What a subclass may decide otherwise are its methods; each gets
    the queue that it is about.
    """

    digests = HDGST | DDGST  # that it grants
    max_c2h_data = 0x10000  # bytes of a C2HData PDU
    ends_when_asked = True  # ends a connection after a termination request of the host

    def __init__(self, *subsystems: Subsystem) -> None:
        self.subsystems = {subsystem.nqn: subsystem for subsystem in subsystems}

    def received(self, queue: "Queue", data: bytes) -> bool:
        """Whether what came from the host is looked at; if not, the connection is ended."""
        return True

    def took(self, queue: "Queue", pdu: nvme_tcp.NVMeTCP) -> None:
        """A PDU that came, before it is looked at."""

    def icreq(self, queue: "Queue", request: nvme_tcp.ICReq) -> bool:
        """Whether an ICReq is answered; if not, the connection is ended."""
        return True

    def icresp(self, queue: "Queue", response: nvme_tcp.ICResp) -> None:
        """An ICResp that is about to be sent."""

    def command(self, queue: "Queue", command: nvme.Command) -> None:
        """A command that came, before it is done. May raise Rejected."""

    def data(self, queue: "Queue", command: nvme.Command, data: bytes) -> bytes:
        """The data for the host that a command brings."""
        return data

    def pdu(self, queue: "Queue", built: bytes) -> bytes:
        """A PDU as it goes out."""
        return built

    def accepts(self, queue: "Queue") -> bool:
        """Whether a connection is kept that has just been accepted; if not, it is reset."""
        return True

    def ended(self, queue: "Queue", error: OSError | None) -> bool:
        """The host has ended a connection, or it was lost: an association ends with that of its
        Admin Queue; an I/O queue is deleted. Returns whether to close our side, too.
        """
        if queue.controller:
            if queue.qid == 0:
                queue.controller.end(but=queue)
            else:
                queue.controller.queues.pop(queue.qid, None)
        return True


@dataclass
class _Transfer:
    """Data of a command that an R2T has asked for."""

    command: nvme.Command
    size: int
    data: bytes = b""


class Queue:
    """One connection. `mptcp`: the protocol in effect at its beginning; `local`, `peer`: addresses
    and ports; `transport`: what the owner moves the bytes with.

    Owners call `receive` with what came, send `take()`, close as `closing` says, and set `wake`,
    which is called when there is something to do that no `receive` has brought about.
    """

    def __init__(self, service: Service, *, mptcp: bool, local: tuple[str, int] = ("", 0),
                 peer: tuple[str, int] = ("", 0), transport: Any = None) -> None:
        self.service, self.mptcp, self.local, self.peer = service, mptcp, local, peer
        self.transport = transport
        self.closing = Closing.NO
        self.wake: Callable[[], None] = lambda: None
        self.controller: Controller | None = None
        self.qid = -1  # before Connect
        self.commands = self.sent = 0  # commands that were done; bytes that the owner has sent
        self._stream, self._output = b"", bytearray()
        self._initialized = False
        self._flags = self._alignment = 0  # negotiated digests; HPDA
        self._sqsize = self._sqhd = 0
        self._flow_control = True
        self._transfers: dict[int, _Transfer] = {}  # by CID, which is the TTAG, too

    def take(self) -> bytes:
        """What is to be sent, once."""
        output, self._output = bytes(self._output), bytearray()
        return output

    def end(self) -> None:
        """End the byte stream when the output is sent."""
        self._close(Closing.END)

    def abort(self) -> None:
        """Reset the connection."""
        self._close(Closing.ABORT)

    def _close(self, how: Closing) -> None:
        self.closing = how
        self.wake()

    def send(self, pdu: nvme_tcp.NVMeTCP) -> None:
        """Send a PDU."""
        self._output += self.service.pdu(self, raw(pdu))
        self.wake()

    def complete(self, cid: int, reply: Reply, sct: int = 0, sc: int = 0) -> None:
        """Send the completion of a command."""
        if self._flow_control and self._sqsize:
            self._sqhd = (self._sqhd + 1) % self._sqsize
        self.send(nvme_tcp.CapsuleResp(
            flags=self._flags & HDGST, rccqe=nvme.Completion(
                cid=cid, dw0=reply.dw0, dw1=reply.dw1, sct=sct, sc=sc, dnr=int(bool(sc)),
                sqhd=self._sqhd if self._flow_control else 0xFFFF)))

    def receive(self, data: bytes) -> None:
        """Take what the host has sent."""
        if not self.service.received(self, data):
            self.end()
        self._stream += data
        while self.closing is Closing.NO and len(self._stream) >= nvme_tcp.COMMON_HEADER_SIZE:
            size = max(nvme_tcp.COMMON_HEADER_SIZE, int.from_bytes(self._stream[4:8], "little"))
            whole = self._stream[:size]
            try:
                if size > _LONGEST_PDU:
                    raise Fatal(INVALID_HEADER, 4)
                pdus, _ = nvme_tcp.split_pdus(whole)
                if not pdus:
                    return  # not all of it is there yet
                self._stream = self._stream[size:]
                self._take_pdu(pdus[0])
            except ValueError:
                self._terminate(Fatal(INVALID_HEADER), whole)
            except Fatal as error:
                self._terminate(error, whole)

    def _terminate(self, error: Fatal, pdu: bytes) -> None:
        header = pdu[:pdu[2]][:_TERMINATED_HEADER]
        self.send(nvme_tcp.C2HTermReq(fes=error.fes, fei=error.fei, pdu_header=header))
        self._close(Closing.TERMINATED)

    def _take_pdu(self, pdu: nvme_tcp.NVMeTCP) -> None:
        self.service.took(self, pdu)
        if isinstance(pdu, nvme_tcp.ICReq):
            self._initialize(pdu)
        elif isinstance(pdu, nvme_tcp.H2CTermReq):
            if self.service.ends_when_asked:
                self.end()
        elif not self._initialized:
            raise Fatal(SEQUENCE)
        elif isinstance(pdu, nvme_tcp.CapsuleCmd):
            self._check_header(pdu)
            self._command(pdu)
        elif isinstance(pdu, nvme_tcp.H2CData):
            self._check_header(pdu)
            self._host_data(pdu)
        else:
            raise Fatal(INVALID_HEADER)  # a PDU that controllers send

    def _initialize(self, request: nvme_tcp.ICReq) -> None:
        if self._initialized:
            raise Fatal(SEQUENCE)
        if request.pfv:
            raise Fatal(UNSUPPORTED, 8)
        if not self.service.icreq(self, request):
            self.end()
            return
        self._initialized = True
        response = nvme_tcp.ICResp(dgst=int(request.dgst) & self.service.digests,
                                   maxh2cdata=MAX_H2C_DATA)
        self.service.icresp(self, response)
        self._flags, self._alignment = int(response.dgst), request.hpda
        self.send(response)

    def _check_header(self, pdu: nvme_tcp.NVMeTCP) -> None:
        if self._flags & HDGST and (not int(pdu.flags) & HDGST
                                    or pdu.hdgst != pdu.header_digest()):
            raise Fatal(HEADER_DIGEST, pdu.hdgst or 0)

    def _data_is_whole(self, pdu: nvme_tcp.NVMeTCP) -> bool:
        return not pdu.data or not self._flags & DDGST or (
            bool(int(pdu.flags) & DDGST) and pdu.ddgst == pdu.data_digest())

    def _command(self, pdu: nvme_tcp.CapsuleCmd) -> None:
        dissect = nvme.io_command if self.qid > 0 else nvme.admin_command
        command = dissect(raw(pdu.ccsqe))
        if not self._data_is_whole(pdu):
            self.complete(command.cid, Reply(), GENERIC, TRANSIENT)
            return
        size = _from_host(command)
        if size and not pdu.data:
            if (command.sgl1.type, command.sgl1.subtype) == _IN_CAPSULE:
                self.complete(command.cid, Reply(), GENERIC, INVALID_FIELD)
                return
            self._transfers[command.cid] = _Transfer(command, size)
            self.send(nvme_tcp.R2T(flags=self._flags & HDGST, cccid=command.cid, ttag=command.cid,
                                   r2tl=size))
        else:
            self._do(command, pdu.data)

    def _host_data(self, pdu: nvme_tcp.H2CData) -> None:
        transfer = self._transfers.get(pdu.ttag)
        if transfer is None or pdu.cccid != pdu.ttag:
            raise Fatal(INVALID_HEADER, 10 if transfer is None else 8)
        if pdu.datal > MAX_H2C_DATA:
            raise Fatal(LIMIT)
        if pdu.datao != len(transfer.data) or pdu.datao + len(pdu.data) > transfer.size:
            raise Fatal(OUT_OF_RANGE)
        if not self._data_is_whole(pdu):
            del self._transfers[pdu.ttag]
            self.complete(pdu.cccid, Reply(), GENERIC, TRANSIENT)
            return
        transfer.data += pdu.data
        if len(transfer.data) == transfer.size:
            del self._transfers[pdu.ttag]
            self._do(transfer.command, transfer.data)

    def _do(self, command: nvme.Command, data: bytes) -> None:
        self.commands += 1
        try:
            self.service.command(self, command)
            if isinstance(command, nvme.Connect):
                reply: Reply | None = self._connect(command, nvme.ConnectData(data))
            elif self.controller is None:
                raise Rejected(GENERIC, SEQUENCE_ERROR)
            elif self.qid:
                reply = self.controller.io(command, data)
            else:
                reply = self.controller.admin(command, data)
        except Rejected as error:
            self.complete(command.cid, Reply(error.dw0), error.sct, error.sc)
            return
        if reply is not None:
            if reply.data:
                self._send_data(command.cid, self.service.data(self, command, reply.data))
            self.complete(command.cid, reply)

    def _connect(self, command: nvme.Connect, data: nvme.ConnectData) -> Reply:
        if self.controller is not None:
            raise Rejected(GENERIC, SEQUENCE_ERROR)
        subsystem = self.service.subsystems.get(nqn_of(data))
        if subsystem is None:
            raise Rejected(SPECIFIC, INVALID_PARAMETERS, 1 << 16 | 256)  # SUBNQN in the data
        self.controller, self.qid = subsystem.connect(self, command, data), command.qid
        self._sqsize = command.sqsize + 1
        self._flow_control = not command.cattr & _NO_FLOW_CONTROL
        return Reply(self.controller.cntlid)

    def _send_data(self, cid: int, data: bytes) -> None:
        offset = nvme_tcp.data_offset(24, bool(self._flags & HDGST), self._alignment)
        for start in range(0, len(data), self.service.max_c2h_data):
            part = data[start:start + self.service.max_c2h_data]
            last = LAST_PDU if start + len(part) == len(data) else 0
            self.send(nvme_tcp.C2HData(flags=self._flags | last, cccid=cid, pdo=offset,
                                       datao=start, data=part))


def nqn_of(data: nvme.ConnectData) -> str:
    """SUBNQN of the data of a Connect command."""
    return bytes(data.subnqn).rstrip(b"\0").decode(errors="replace")


def _from_host(command: nvme.Command) -> int:
    """How many bytes a command brings to the controller (bits 1:0 of the opcode are 01b)."""
    kind = command.fctype if command.opcode == nvme.FABRICS_OPCODE else command.opcode
    return int(command.sgl1.length) if kind & 3 == 1 and "sgl1" in command.fieldtype else 0
