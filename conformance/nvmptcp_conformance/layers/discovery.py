# SPDX-License-Identifier: GPL-2.0-or-later
# This file is fit for Scapy (https://scapy.net/), see its licence.
#
# scapy.contrib.description = NVMe discovery log pages and registrations
# scapy.contrib.status = loads
"""NVMe discovery information: log pages 70h and 71h, and Discovery Information Management.

The four structures that carry a TSAS share its forms: `TCPTSAS` (with the TCP variant), `RDMATSAS`,
and `NoTSAS` for transports that leave it reserved; TRTYPE says which. Sources: the discovery
chapters of the NVM Express Base Specification, as libnvme's structures have them, and for the TSAS
of TCP this project's spec/registry.toml, by the module `registry`.
"""

from typing import Any

from scapy.fields import (
    ByteEnumField,
    ByteField,
    FlagsField,
    LEIntField,
    LELongField,
    LEShortEnumField,
    LEShortField,
    PacketLenField,
    PacketListField,
    StrFixedLenField,
    StrLenField,
    XByteField,
    XLEShortField,
)
from scapy.packet import Packet

from . import registry

ENTRY_SIZE = 1024
HEADER_SIZE = 1024
TSAS_SIZE = 256
EXTENDED_HEAD_SIZE = 1032  # of an extended entry, before its attributes

TRTYPES = {1: "RDMA", 2: "Fibre Channel", 3: "TCP", 254: "Intra-host"}
ADRFAMS = {0: "PCI", 1: "IPv4", 2: "IPv6", 3: "InfiniBand", 4: "Fibre Channel", 254: "Intra-host"}
SUBTYPES = {1: "Referral", 2: "NVM subsystem", 3: "Current Discovery subsystem"}
TREQS = {0: "Not specified", 1: "Required", 2: "Not required", 4: "SQ flow control optional"}
EFLAGS = ["DUPRETINFO", "EPCSD", "NCC", *(f"b{bit}" for bit in range(3, 16))]
RDMA, TCP = 1, 3


def text(field: bytes) -> str:
    """A text field of a discovery structure, without the zeroes or spaces that fill it."""
    return field.rstrip(b"\0 ").decode(errors="replace")


class _Part(Packet):
    """A structure inside another one."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class NoTSAS(_Part):
    """TSAS of a transport that doesn't use it."""

    name = "TSAS"
    fields_desc = [StrFixedLenField("reserved", bytes(TSAS_SIZE), TSAS_SIZE)]


class RDMATSAS(_Part):
    """TSAS of RDMA: the precedent of a transport type with several protocols below it."""

    name = "TSAS (RDMA)"
    fields_desc = [
        ByteEnumField("qptype", 1, {1: "Connected", 2: "Datagram"}),
        ByteEnumField("prtype", 1, {1: "Not specified", 2: "InfiniBand", 3: "RoCE", 4: "RoCEv2",
                                    5: "iWARP"}),
        ByteEnumField("cms", 1, {1: "RDMA_CM"}),
        StrFixedLenField("reserved3", bytes(5), 5),
        XLEShortField("pkey", 0),
        StrFixedLenField("reserved10", bytes(246), 246),
    ]


_MPATTR = {bit.value: str(bit.name) for bit in registry.Mpattr}


class TCPTSAS(_Part):
    """TSAS of TCP, with the TCP variant. All zero: TCP without TLS, as older entries have it."""

    name = "TSAS (TCP)"
    fields_desc = [
        ByteEnumField("sectype", 0, {code.value: code.name for code in registry.Sectype}),
        ByteEnumField("tcpv", 0, {code.value: code.name for code in registry.Tcpv}),
        FlagsField("mpattr", 0, 8, [_MPATTR.get(1 << bit, f"b{bit}") for bit in range(8)]),
        ByteField("maxsf", 0),
        LEShortField("sfgid", 0),
        StrFixedLenField("reserved6", bytes(250), 250),
    ]


_TSAS: dict[int, type[Packet]] = {RDMA: RDMATSAS, TCP: TCPTSAS}


class _TSASField(PacketLenField):
    """TSAS by the TRTYPE of the entry."""

    def __init__(self) -> None:
        super().__init__("tsas", NoTSAS(), NoTSAS, length_from=lambda pkt: TSAS_SIZE)

    def m2i(self, pkt: Any, m: bytes) -> Packet:
        return _TSAS.get(pkt.trtype, NoTSAS)(m)


def _entry_head(subtype: int) -> list[Any]:
    """Bytes 9:0, alike in basic and extended entries."""
    return [
        ByteEnumField("trtype", TCP, TRTYPES),
        ByteEnumField("adrfam", 1, ADRFAMS),
        ByteEnumField("subtype", subtype, SUBTYPES),
        ByteEnumField("treq", 0, TREQS),
        LEShortField("portid", 0),
        XLEShortField("cntlid", 0xFFFF),
        LEShortField("asqsz", 32),
    ]


class DiscoveryLogEntry(_Part):
    """Discovery Log Page Entry, 1024 bytes."""

    name = "Discovery Log Page Entry"
    fields_desc = [
        *_entry_head(2),
        FlagsField("eflags", 0, -16, EFLAGS),
        StrFixedLenField("reserved12", bytes(20), 20),
        StrFixedLenField("trsvcid", b"4420", 32),
        StrFixedLenField("reserved64", bytes(192), 192),
        StrFixedLenField("subnqn", b"", 256),
        StrFixedLenField("traddr", b"", 256),
        _TSASField(),
    ]


class DiscoveryLog(Packet):
    """Discovery Log Page (70h): a header of 1024 bytes and its entries."""

    name = "Discovery Log Page"
    fields_desc = [
        LELongField("genctr", 0),
        LELongField("numrec", None),
        LEShortField("recfmt", 0),
        StrFixedLenField("reserved18", bytes(1006), 1006),
        PacketListField("entries", [], DiscoveryLogEntry, count_from=lambda pkt: pkt.numrec),
    ]

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        if self.numrec is None:
            p = p[:8] + len(self.entries).to_bytes(8, "little") + p[16:]
        return p + pay


class ExtendedAttribute(_Part):
    """Extended attribute of an entry. `exatlen` counts the zeroes that fill up to four bytes."""

    name = "Extended attribute"
    fields_desc = [
        LEShortEnumField("exattype", 1, {1: "Host Identifier", 2: "Symbolic Name"}),
        LEShortField("exatlen", None),
        StrLenField("exatval", b"", length_from=lambda pkt: pkt.exatlen),
    ]

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        if self.exatlen is None:
            p += bytes(-len(p) % 4)
            p = p[:2] + (len(p) - 4).to_bytes(2, "little") + p[4:]
        return p + pay


def _extended_tail() -> list[Any]:
    """Bytes from 1024 on: total entry length, number of attributes, attributes."""
    return [
        LEIntField("tel", None),
        LEShortField("numexat", None),
        StrFixedLenField("reserved1030", bytes(2), 2),
        PacketListField("exat", [], ExtendedAttribute, count_from=lambda pkt: pkt.numexat),
    ]


class _Extended(_Part):
    def post_build(self, p: bytes, pay: bytes) -> bytes:
        if self.tel is None:
            p = p[:1024] + len(p).to_bytes(4, "little") + p[1028:]
        if self.numexat is None:
            p = p[:1028] + len(self.exat).to_bytes(2, "little") + p[1030:]
        return p + pay


class ExtendedDiscoveryInformationEntry(_Extended):
    """Extended Discovery Information Entry: 1032 bytes and its attributes; TEL bytes in all."""

    name = "Extended Discovery Information Entry"
    fields_desc = [
        *_entry_head(2),
        StrFixedLenField("reserved10", bytes(22), 22),
        StrFixedLenField("trsvcid", b"4420", 32),
        StrFixedLenField("reserved64", bytes(192), 192),
        StrFixedLenField("nqn", b"", 256),
        StrFixedLenField("traddr", b"", 256),
        _TSASField(),
        *_extended_tail(),
    ]


class HostDiscoveryLogEntry(_Extended):
    """Host Extended Discovery Log Page Entry: 1032 bytes and its attributes; TEL bytes in all."""

    name = "Host Extended Discovery Log Page Entry"
    fields_desc = [
        ByteEnumField("trtype", TCP, TRTYPES),
        ByteEnumField("adrfam", 1, ADRFAMS),
        StrFixedLenField("reserved2", bytes(8), 8),
        XLEShortField("eflags", 0),
        StrFixedLenField("reserved12", bytes(244), 244),
        StrFixedLenField("hostnqn", b"", 256),
        StrFixedLenField("traddr", b"", 256),
        _TSASField(),
        *_extended_tail(),
    ]


class HostDiscoveryLog(Packet):
    """Host Discovery Log Page (71h). `thdlpl`: length of the whole page in bytes."""

    name = "Host Discovery Log Page"
    fields_desc = [
        LELongField("genctr", 0),
        LELongField("numrec", None),
        LEShortField("recfmt", 0),
        XByteField("hdlpf", 0),
        ByteField("reserved19", 0),
        LEIntField("thdlpl", None),
        StrFixedLenField("reserved24", bytes(1000), 1000),
        PacketListField("entries", [], HostDiscoveryLogEntry, count_from=lambda pkt: pkt.numrec),
    ]

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        if self.numrec is None:
            p = p[:8] + len(self.entries).to_bytes(8, "little") + p[16:]
        if self.thdlpl is None:
            p = p[:20] + len(p).to_bytes(4, "little") + p[24:]
        return p + pay


BASIC, EXTENDED = 1, 2


class DIMData(Packet):
    """Data of Discovery Information Management. `tdl`: bytes in all; EKTYPE 5Fh as in libnvme.

    The entries are `DiscoveryLogEntry` where `entfmt` is 1, else extended ones.
    """

    name = "DIM data"
    fields_desc = [
        LEIntField("tdl", None),
        StrFixedLenField("reserved4", bytes(4), 4),
        LELongField("nument", None),
        LEShortEnumField("entfmt", EXTENDED, {BASIC: "Basic", EXTENDED: "Extended"}),
        LEShortEnumField("etype", 1, {1: "Host", 2: "DDC", 3: "CDC"}),
        ByteField("portlcl", 0),
        ByteField("reserved21", 0),
        XLEShortField("ektype", 0x5F),
        StrFixedLenField("eid", b"", 256),
        StrFixedLenField("ename", b"", 256),
        StrFixedLenField("ever", b"", 64),
        StrFixedLenField("reserved600", bytes(424), 424),
        PacketListField(
            "entries", [], count_from=lambda pkt: pkt.nument,
            next_cls_cb=lambda pkt, done, last, rest: (
                DiscoveryLogEntry if pkt.entfmt == BASIC else ExtendedDiscoveryInformationEntry)),
    ]

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        if self.tdl is None:
            p = len(p).to_bytes(4, "little") + p[4:]
        if self.nument is None:
            p = p[:8] + len(self.entries).to_bytes(8, "little") + p[16:]
        return p + pay
