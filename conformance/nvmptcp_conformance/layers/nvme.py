# SPDX-License-Identifier: GPL-2.0-or-later
# This file is fit for Scapy (https://scapy.net/), see its licence.
#
# scapy.contrib.description = NVM Express commands and completions, NVMe over Fabrics
# scapy.contrib.status = loads
"""NVM Express: submission and completion queue entries, as a fabrics capsule carries them.

Field names are those of the NVM Express Base Specification in lower case. A submission queue entry
has always 64 bytes, a completion 16. What an opcode means depends on the queue: `Command` is the
form that fits all, `admin_command` and `io_command` name the fields of the known ones. Fabrics
commands (opcode 7Fh) carry their own type, and are always told apart.
"""

from typing import Any

from scapy.fields import (
    BitField,
    ByteEnumField,
    ByteField,
    LEIntField,
    LELongField,
    LEShortField,
    PacketLenField,
    StrFixedLenField,
    XLEIntField,
    XLELongField,
    XLEShortField,
    XStrFixedLenField,
)
from scapy.packet import Packet

SQE_SIZE = 64
CQE_SIZE = 16
CONNECT_DATA_SIZE = 1024

FABRICS_OPCODE = 0x7F
FCTYPES = {0x00: "Property Set", 0x01: "Connect", 0x04: "Property Get",
           0x05: "Authentication Send", 0x06: "Authentication Receive", 0x08: "Disconnect"}
ADMIN_OPCODES = {0x02: "Get Log Page", 0x06: "Identify", 0x09: "Set Features",
                 0x0A: "Get Features", 0x0C: "Asynchronous Event Request", 0x18: "Keep Alive",
                 0x21: "Discovery Information Management", FABRICS_OPCODE: "Fabrics"}
IO_OPCODES = {0x00: "Flush", 0x01: "Write", 0x02: "Read", FABRICS_OPCODE: "Fabrics"}
LOG_PAGES = {0x70: "Discovery", 0x71: "Host Discovery"}
PROPERTIES = {0x00: "CAP", 0x08: "VS", 0x14: "CC", 0x1C: "CSTS", 0x20: "NSSR"}


class SGLDescriptor(Packet):
    """A 16-byte SGL descriptor.

    Type 0h, subtype 1h: data in the capsule at offset `address`. Type 5h, subtype Ah: data that the
    transport carries.
    """

    name = "SGL descriptor"
    fields_desc = [
        XLELongField("address", 0),
        LEIntField("length", 0),
        StrFixedLenField("reserved", bytes(3), 3),
        BitField("type", 0x5, 4),
        BitField("subtype", 0xA, 4),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


def _sgl() -> PacketLenField:
    return PacketLenField("sgl1", SGLDescriptor(), SGLDescriptor, length_from=lambda pkt: 16)


def _dword0(opcode: int, names: dict[int, str] | None = None) -> list[Any]:
    return [
        ByteEnumField("opcode", opcode, names or {}),
        BitField("psdt", 1, 2),  # 01b: SGLs, as fabrics require
        BitField("reserved0", 0, 4),
        BitField("fuse", 0, 2),
        LEShortField("cid", 0),
    ]


def _head(opcode: int, names: dict[int, str]) -> list[Any]:
    """Bytes 39:0 of commands other than fabrics ones."""
    return [
        *_dword0(opcode, names),
        XLEIntField("nsid", 0),
        XLEIntField("cdw2", 0),
        XLEIntField("cdw3", 0),
        XLELongField("mptr", 0),
        _sgl(),
    ]


def _dwords(first: int) -> list[Any]:
    return [XLEIntField(f"cdw{number}", 0) for number in range(first, 16)]


class Command(Packet):
    """A submission queue entry, 64 bytes."""

    name = "NVMe command"
    fields_desc = [*_head(0, {}), *_dwords(10)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


# --- Fabrics -------------------------------------------------------------------------------------


def _fabrics(fctype: int, *, sgl: bool) -> list[Any]:
    return [
        *_dword0(FABRICS_OPCODE, ADMIN_OPCODES),
        ByteEnumField("fctype", fctype, FCTYPES),
        *([StrFixedLenField("reserved5", bytes(19), 19), _sgl()] if sgl
          else [StrFixedLenField("reserved5", bytes(35), 35)]),
    ]


class FabricsCommand(Command):
    """A fabrics command of a type that has no class of its own."""

    name = "Fabrics command"
    fields_desc = [*_fabrics(0, sgl=True), StrFixedLenField("specific", bytes(24), 24)]


class Connect(FabricsCommand):
    """Connect. `sqsize` is 0's based, `kato` in milliseconds."""

    name = "Connect"
    fields_desc = [
        *_fabrics(0x01, sgl=True),
        LEShortField("recfmt", 0),
        LEShortField("qid", 0),
        LEShortField("sqsize", 31),
        ByteField("cattr", 0),
        ByteField("reserved47", 0),
        LEIntField("kato", 0),
        StrFixedLenField("reserved52", bytes(12), 12),
    ]


class PropertySet(FabricsCommand):
    """Property Set. `attrib` 1: eight bytes, else four."""

    name = "Property Set"
    fields_desc = [
        *_fabrics(0x00, sgl=False),
        ByteField("attrib", 0),
        StrFixedLenField("reserved41", bytes(3), 3),
        XLEIntField("ofst", 0),
        XLELongField("value", 0),
        StrFixedLenField("reserved56", bytes(8), 8),
    ]


class PropertyGet(FabricsCommand):
    """Property Get. The value comes in bytes 7:0 of the completion."""

    name = "Property Get"
    fields_desc = [
        *_fabrics(0x04, sgl=False),
        ByteField("attrib", 0),
        StrFixedLenField("reserved41", bytes(3), 3),
        XLEIntField("ofst", 0),
        StrFixedLenField("reserved48", bytes(16), 16),
    ]


def _security(fctype: int, length: str) -> list[Any]:
    return [
        *_fabrics(fctype, sgl=True),
        ByteField("reserved40", 0),
        ByteField("spsp0", 1),
        ByteField("spsp1", 1),
        ByteField("secp", 0xE9),  # assigned to NVMe for in-band authentication
        LEIntField(length, 0),
        StrFixedLenField("reserved48", bytes(16), 16),
    ]


class AuthenticationSend(FabricsCommand):
    """Authentication Send. `tl`: transfer length in bytes."""

    name = "Authentication Send"
    fields_desc = _security(0x05, "tl")


class AuthenticationReceive(FabricsCommand):
    """Authentication Receive. `al`: allocation length in bytes."""

    name = "Authentication Receive"
    fields_desc = _security(0x06, "al")


class Disconnect(FabricsCommand):
    """Disconnect: ends an I/O queue."""

    name = "Disconnect"
    fields_desc = [
        *_fabrics(0x08, sgl=False),
        LEShortField("recfmt", 0),
        StrFixedLenField("reserved42", bytes(22), 22),
    ]


class ConnectData(Packet):
    """The 1024 bytes of data of a Connect command. NQNs are UTF-8, filled with zeroes."""

    name = "Connect data"
    fields_desc = [
        XStrFixedLenField("hostid", bytes(16), 16),
        XLEShortField("cntlid", 0xFFFF),
        StrFixedLenField("reserved18", bytes(238), 238),
        StrFixedLenField("subnqn", b"", 256),
        StrFixedLenField("hostnqn", b"", 256),
        StrFixedLenField("reserved768", bytes(256), 256),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


# --- Admin ---------------------------------------------------------------------------------------


class Identify(Command):
    """Identify. `cns` 1: the controller."""

    name = "Identify"
    fields_desc = [
        *_head(0x06, ADMIN_OPCODES),
        ByteField("cns", 1),
        ByteField("reserved41", 0),
        LEShortField("cntid", 0),
        LEShortField("cnssid", 0),
        ByteField("reserved46", 0),
        ByteField("csi", 0),
        *_dwords(12),
    ]


class GetLogPage(Command):
    """Get Log Page. `numdl` and `numdu`: 0's based number of dwords; `lpo`: offset in bytes."""

    name = "Get Log Page"
    fields_desc = [
        *_head(0x02, ADMIN_OPCODES),
        ByteEnumField("lid", 0x70, LOG_PAGES),
        BitField("rae", 0, 1),
        BitField("lsp", 0, 7),
        LEShortField("numdl", 0),
        LEShortField("numdu", 0),
        LEShortField("lsi", 0),
        LELongField("lpo", 0),
        *_dwords(14),
    ]


class _Features(Command):
    fields_desc = [
        *_head(0x09, ADMIN_OPCODES),
        ByteField("fid", 0),
        StrFixedLenField("cdw10_rest", bytes(3), 3),  # SEL of Get Features; SV of Set Features
        *_dwords(11),
    ]


class SetFeatures(_Features):
    """Set Features."""

    name = "Set Features"


class GetFeatures(_Features):
    """Get Features."""

    name = "Get Features"
    fields_desc = [*_head(0x0A, ADMIN_OPCODES), *_Features.fields_desc[len(_head(0, {})):]]


class AsyncEventRequest(Command):
    """Asynchronous Event Request."""

    name = "Asynchronous Event Request"
    fields_desc = [*_head(0x0C, ADMIN_OPCODES), *_dwords(10)]


class KeepAlive(Command):
    """Keep Alive."""

    name = "Keep Alive"
    fields_desc = [*_head(0x18, ADMIN_OPCODES), *_dwords(10)]


class DiscoveryInformationManagement(Command):
    """Discovery Information Management. `tas`: 0 register, 1 deregister, 2 update."""

    name = "Discovery Information Management"
    fields_desc = [
        *_head(0x21, ADMIN_OPCODES),
        BitField("reserved40", 0, 4),
        BitField("tas", 0, 4),
        StrFixedLenField("reserved41", bytes(3), 3),
        *_dwords(11),
    ]


# --- NVM command set -----------------------------------------------------------------------------


class Flush(Command):
    """Flush."""

    name = "Flush"
    fields_desc = [*_head(0x00, IO_OPCODES), *_dwords(10)]


def _transfer(opcode: int) -> list[Any]:
    return [
        *_head(opcode, IO_OPCODES),
        LELongField("slba", 0),
        LEShortField("nlb", 0),
        XLEShortField("control", 0),
        *_dwords(13),
    ]


class Write(Command):
    """Write. `slba`: first logical block; `nlb`: number of blocks, 0's based."""

    name = "Write"
    fields_desc = _transfer(0x01)


class Read(Command):
    """Read. `slba`: first logical block; `nlb`: number of blocks, 0's based."""

    name = "Read"
    fields_desc = _transfer(0x02)


_FABRICS: dict[int, type[Command]] = {
    0x00: PropertySet, 0x01: Connect, 0x04: PropertyGet, 0x05: AuthenticationSend,
    0x06: AuthenticationReceive, 0x08: Disconnect,
}
_ADMIN: dict[int, type[Command]] = {
    0x02: GetLogPage, 0x06: Identify, 0x09: SetFeatures, 0x0A: GetFeatures,
    0x0C: AsyncEventRequest, 0x18: KeepAlive, 0x21: DiscoveryInformationManagement,
}
_IO: dict[int, type[Command]] = {0x00: Flush, 0x01: Write, 0x02: Read}


def _dissect(sqe: bytes, by_opcode: dict[int, type[Command]]) -> Command:
    if sqe[:1] == bytes([FABRICS_OPCODE]) and len(sqe) > 4:
        return _FABRICS.get(sqe[4], FabricsCommand)(sqe)
    return by_opcode.get(sqe[0] if sqe else -1, Command)(sqe)


def command(sqe: bytes) -> Command:
    """A submission queue entry of an unknown queue: a fabrics command, or the common form."""
    return _dissect(sqe, {})


def admin_command(sqe: bytes) -> Command:
    """A submission queue entry of an Admin Queue."""
    return _dissect(sqe, _ADMIN)


def io_command(sqe: bytes) -> Command:
    """A submission queue entry of an I/O Queue (NVM Command Set)."""
    return _dissect(sqe, _IO)


STATUS_CODE_TYPES = {0: "Generic", 1: "Command Specific", 2: "Media and Data Integrity",
                     3: "Path Related", 7: "Vendor Specific"}


class Completion(Packet):
    """A completion queue entry, 16 bytes.

    `dw0` and `dw1` are specific to the command: the controller ID of Connect in bits 15:0, the
    eight bytes of Property Get. `sqid` and `phase` are reserved on fabrics.
    """

    name = "NVMe completion"
    fields_desc = [
        XLEIntField("dw0", 0),
        XLEIntField("dw1", 0),
        LEShortField("sqhd", 0),
        LEShortField("sqid", 0),
        LEShortField("cid", 0),
        BitField("dnr", 0, 1, tot_size=-2),
        BitField("more", 0, 1),
        BitField("crd", 0, 2),
        BitField("sct", 0, 3),
        BitField("sc", 0, 8),
        BitField("phase", 0, 1, end_tot_size=-2),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s
