# SPDX-License-Identifier: GPL-2.0-or-later
"""NVM subsystems and Discovery subsystems in memory: what commands do, whatever carries them.

Byte offsets are those of NVM Express Base 2.0: Identify Controller §5.17.2.1, Identify Namespace
§5.17.2.2 and NVM Command Set 1.0 §4.1.5.1, properties §3.1.3, log pages §5.16.
"""

import struct
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..layers import discovery, nvme

if TYPE_CHECKING:
    from .controller import Queue

DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"
ANY_CONTROLLER = 0xFFFF
BLOCK = 512  # bytes
QUEUE_ENTRIES = 128
IN_CAPSULE = 8192  # bytes of data in a command capsule
IDENTIFY_SIZE = 4096
NSID = 1
LOG_CHANGED = 0x70F002  # DW0 of the event: notice, Discovery Log Page Change, page 70h
MAX_EVENTS = 4

GENERIC, SPECIFIC, PATH = 0, 1, 3  # status code types
INVALID_OPCODE, INVALID_FIELD, SEQUENCE_ERROR = 0x01, 0x02, 0x0C
INVALID_NAMESPACE, SGL_LENGTH, TRANSIENT, LBA_RANGE = 0x0B, 0x0F, 0x22, 0x80
INCOMPATIBLE_FORMAT, BUSY, INVALID_PARAMETERS, INVALID_HOST = 0x80, 0x81, 0x82, 0x84
TOO_MANY_EVENTS = 0x05

_CAP, _VS, _CC, _CSTS = 0x00, 0x08, 0x14, 0x1C
_CAPABILITIES = (QUEUE_ENTRIES - 1) | 1 << 16 | 15 << 24 | 1 << 37  # MQES, CQR, TO 7.5 s, NVM set
_VERSION = 0x10400
_QUEUES, _EVENTS, _KEEP_ALIVE = 0x07, 0x0B, 0x0F  # features
_SMART, _EFFECTS, _ANA, _DISCOVERY = 0x02, 0x05, 0x0C, 0x70  # log pages
_ACCESSIBLE = 1  # ANA state: optimized
_CDC = 2  # DCTYPE


class Rejected(Exception):
    """A command is completed with this status; DW0 says more."""

    def __init__(self, sct: int, sc: int, dw0: int = 0) -> None:
        super().__init__(f"SCT {sct:X}h, SC {sc:02X}h")
        self.sct, self.sc, self.dw0 = sct, sc, dw0


@dataclass(frozen=True)
class Reply:
    """DW0 and DW1 of the completion, and the data for the host."""

    dw0: int = 0
    dw1: int = 0
    data: bytes = b""


class Subsystem:
    """An NVM subsystem with one namespace of `size` bytes; with `log` a Discovery subsystem, whose
    log page that function returns.
    """

    def __init__(self, nqn: str, *, size: int = 16 << 20,
                 log: Callable[[], discovery.DiscoveryLog] | None = None) -> None:
        self.nqn, self.log = nqn, log
        self.storage = bytearray(0 if log else size)
        self.uuid = uuid.uuid5(uuid.NAMESPACE_URL, nqn)
        self.controllers: dict[int, Controller] = {}
        self.registrations: list[discovery.DIMData] = []  # what hosts said of themselves
        self.clock = time.monotonic
        self._last_cntlid = 0

    def connect(self, queue: "Queue", command: nvme.Connect,
                data: nvme.ConnectData) -> "Controller":
        """The controller that a Connect leads to. Raises Rejected."""
        if command.recfmt:
            raise Rejected(SPECIFIC, INCOMPATIBLE_FORMAT)
        hostnqn = discovery.text(data.hostnqn)
        if not command.qid:
            if data.cntlid != ANY_CONTROLLER:
                raise Rejected(SPECIFIC, INVALID_PARAMETERS, 1 << 16 | 16)  # CNTLID in the data
            self._last_cntlid = self._last_cntlid % 0xFFEF + 1
            controller = Controller(self, self._last_cntlid, hostnqn, command.kato)
            self.controllers[controller.cntlid] = controller
        elif (found := self.controllers.get(data.cntlid)) is None or found.hostnqn != hostnqn:
            raise Rejected(SPECIFIC, INVALID_PARAMETERS, 1 << 16 | 16)
        elif not found.ready or command.qid > found.io_queues or command.qid in found.queues:
            raise Rejected(GENERIC, SEQUENCE_ERROR)
        else:
            controller = found
        controller.queues[command.qid] = queue
        return controller

    def expire(self) -> None:
        """End the associations whose Keep Alive Timer has expired."""
        for controller in list(self.controllers.values()):
            if controller.kato and self.clock() - controller.kept_alive > controller.kato / 1000:
                controller.end()

    def log_changed(self) -> None:
        """Tell the hosts that asked for it that the Discovery log page has changed."""
        for controller in self.controllers.values():
            controller.event(LOG_CHANGED)


class Controller:
    """One association. `queues`: by queue ID; `kato` in milliseconds, 0: no timer."""

    def __init__(self, subsystem: Subsystem, cntlid: int, hostnqn: str, kato: int) -> None:
        self.subsystem, self.cntlid, self.hostnqn, self.kato = subsystem, cntlid, hostnqn, kato
        self.queues: dict[int, Queue] = {}
        self.io_queues = 0
        self.kept_alive = subsystem.clock()
        self._cc = self._shutdown = 0
        self._features: dict[int, int] = {}
        self._waiting_events: list[int] = []  # their CIDs

    @property
    def ready(self) -> bool:
        """CC.EN, and so CSTS.RDY."""
        return bool(self._cc & 1)

    @property
    def was_shut_down(self) -> bool:
        """The host has set CC.SHN."""
        return bool(self._shutdown)

    def end(self, but: "Queue | None" = None) -> None:
        """End the association, and its connections, except for one that has ended already."""
        self.subsystem.controllers.pop(self.cntlid, None)
        for queue in list(self.queues.values()):
            if queue is not but:
                queue.end()
        self.queues.clear()

    def event(self, dw0: int) -> None:
        """Complete an Asynchronous Event Request, if there is one."""
        if self._waiting_events and 0 in self.queues:
            self.queues[0].complete(self._waiting_events.pop(0), Reply(dw0))

    def admin(self, command: nvme.Command, data: bytes) -> Reply | None:
        """Do a command of the Admin Queue; None: it is completed later. Raises Rejected."""
        handlers: dict[type[nvme.Command], Callable[..., Reply | None]] = {
            nvme.PropertyGet: self._property_get, nvme.PropertySet: self._property_set,
            nvme.Identify: self._identify, nvme.GetLogPage: self._log_page,
            nvme.SetFeatures: self._set_features, nvme.GetFeatures: self._get_features,
            nvme.KeepAlive: self._keep_alive, nvme.AsyncEventRequest: self._async_event,
        }
        if isinstance(command, nvme.DiscoveryInformationManagement) and self.subsystem.log:
            self.subsystem.registrations.append(discovery.DIMData(data))
            return Reply()
        if command.opcode == 0x08:  # Abort
            return Reply(1)  # not aborted: commands are done at once
        handler = handlers.get(type(command))
        if handler is None:
            raise Rejected(GENERIC, INVALID_OPCODE)
        return handler(command)

    def io(self, command: nvme.Command, data: bytes) -> Reply:
        """Do a command of an I/O Queue. Raises Rejected."""
        if command.nsid != NSID:
            raise Rejected(GENERIC, INVALID_NAMESPACE)
        if isinstance(command, nvme.Flush):
            return Reply()
        if not isinstance(command, (nvme.Read, nvme.Write)):
            raise Rejected(GENERIC, INVALID_OPCODE)
        storage = self.subsystem.storage
        start, size = command.slba * BLOCK, (command.nlb + 1) * BLOCK
        if start + size > len(storage):
            raise Rejected(GENERIC, LBA_RANGE)
        if command.sgl1.length != size:
            raise Rejected(GENERIC, SGL_LENGTH)
        if isinstance(command, nvme.Read):
            return Reply(data=bytes(storage[start:start + size]))
        storage[start:start + size] = data
        return Reply()

    # Admin commands

    def _property_get(self, command: nvme.PropertyGet) -> Reply:
        status = int(self.ready) | (2 << 2 if self._shutdown else 0)
        values = {_CAP: _CAPABILITIES, _VS: _VERSION, _CC: self._cc, _CSTS: status}
        if command.ofst not in values:
            raise Rejected(GENERIC, INVALID_FIELD)
        value = values[command.ofst]
        return Reply(value & 0xFFFFFFFF, value >> 32)

    def _property_set(self, command: nvme.PropertySet) -> Reply:
        if command.ofst != _CC:
            raise Rejected(GENERIC, INVALID_FIELD)
        if command.value & 1 and not self.ready:
            self._shutdown = 0
        self._cc = command.value & 0xFFFFFFFF
        if self._cc >> 14 & 3:  # SHN
            self._shutdown = self._cc >> 14 & 3
        return Reply()

    def _identify(self, command: nvme.Identify) -> Reply:
        data = bytearray(IDENTIFY_SIZE)
        subsystem = self.subsystem
        if command.cns == 1:
            self._identify_controller(data)
        elif subsystem.log:
            raise Rejected(GENERIC, INVALID_FIELD)
        elif command.cns in (0, 3) and command.nsid != NSID:
            raise Rejected(GENERIC, INVALID_NAMESPACE)
        elif command.cns == 0:
            blocks = len(subsystem.storage) // BLOCK
            struct.pack_into("<3Q", data, 0, blocks, blocks, blocks)
            data[30] = 1  # NMIC: shared
            struct.pack_into("<I", data, 92, 1)  # ANAGRPID
            data[104:120] = subsystem.uuid.bytes  # NGUID
            data[130] = BLOCK.bit_length() - 1  # LBAF0
        elif command.cns == 2:
            struct.pack_into("<I", data, 0, NSID if command.nsid < NSID else 0)
        elif command.cns == 3:
            data[0:20] = bytes([3, 16, 0, 0]) + subsystem.uuid.bytes  # a UUID
        else:
            raise Rejected(GENERIC, INVALID_FIELD)
        return Reply(data=bytes(data))

    def _identify_controller(self, data: bytearray) -> None:
        subsystem = self.subsystem
        texts = ((4, 20, subsystem.uuid.hex[:20]), (24, 40, "nvmptcp softtarget"), (64, 8, "1"))
        for offset, size, value in texts:  # SN, MN, FR
            data[offset:offset + size] = value.encode().ljust(size)
        struct.pack_into("<BBHI", data, 76, 3, 5, self.cntlid, _VERSION)  # CMIC, MDTS (128 KiB)
        data[111] = 2 if subsystem.log else 1  # CNTRLTYPE
        data[259] = MAX_EVENTS - 1  # AERL
        struct.pack_into("<H", data, 320, 1)  # KAS: 100 ms
        struct.pack_into("<BBH", data, 512, 0x66, 0x44, QUEUE_ENTRIES)  # SQES, CQES, MAXCMD
        struct.pack_into("<I", data, 536, 1 | 1 << 20)  # SGLS, with offsets in the capsule
        data[768:1024] = subsystem.nqn.encode().ljust(256, b"\0")
        if subsystem.log:
            struct.pack_into("<I", data, 92, 1 << 31)  # OAES: Discovery Log Page Change
            data[1806] = _CDC  # so that hosts register, if they can
            return
        data[76] |= 8  # CMIC: ANA
        data[342:344] = bytes([10, 1])  # ANATT, ANACAP
        struct.pack_into("<II", data, 344, 1, 1)  # ANAGRPMAX, NANAGRPID
        struct.pack_into("<I", data, 516, NSID)  # NN
        struct.pack_into("<I", data, 540, NSID)  # MNAN
        struct.pack_into("<II", data, 1792, (nvme.SQE_SIZE + IN_CAPSULE) // 16, 1)  # IOCCSZ, IORCSZ
        data[1803] = 1  # MSDBD

    def _log_page(self, command: nvme.GetLogPage) -> Reply:
        size = ((command.numdu << 16 | command.numdl) + 1) * 4
        subsystem = self.subsystem
        if subsystem.log and command.lid == _DISCOVERY:
            page = bytes(subsystem.log())
        elif subsystem.log:
            raise Rejected(SPECIFIC, 0x09)  # Invalid Log Page
        elif command.lid == _ANA:
            page = struct.pack("<QHH4xIIQB15xI", 1, 1, 0, 1, 1, 1, _ACCESSIBLE, NSID)
        elif command.lid in (1, _SMART, 3, _EFFECTS):
            page = b""  # nothing to report
        else:
            raise Rejected(SPECIFIC, 0x09)
        return Reply(data=page[command.lpo:command.lpo + size].ljust(size, b"\0"))

    def _set_features(self, command: nvme.SetFeatures) -> Reply:
        value = command.cdw11
        if command.fid == _QUEUES and not self.subsystem.log:
            self.io_queues = min(QUEUE_ENTRIES, (value & 0xFFFF) + 1, (value >> 16) + 1)
            value = (self.io_queues - 1) << 16 | (self.io_queues - 1)
        elif command.fid == _KEEP_ALIVE:
            self.kato = value
        elif command.fid != _EVENTS:
            raise Rejected(GENERIC, INVALID_FIELD)
        self._features[command.fid] = value
        return Reply(value)

    def _get_features(self, command: nvme.GetFeatures) -> Reply:
        if command.fid == _KEEP_ALIVE:
            return Reply(self.kato)
        if command.fid not in self._features:
            raise Rejected(GENERIC, INVALID_FIELD)
        return Reply(self._features[command.fid])

    def _keep_alive(self, command: nvme.KeepAlive) -> Reply:
        self.kept_alive = self.subsystem.clock()
        return Reply()

    def _async_event(self, command: nvme.AsyncEventRequest) -> None:
        if len(self._waiting_events) == MAX_EVENTS:
            raise Rejected(SPECIFIC, TOO_MANY_EVENTS)
        self._waiting_events.append(command.cid)
