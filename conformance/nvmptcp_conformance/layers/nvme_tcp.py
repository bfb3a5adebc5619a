# SPDX-License-Identifier: GPL-2.0-or-later
# This file is fit for Scapy (https://scapy.net/), see its licence.
#
# scapy.contrib.description = NVMe over TCP PDUs
# scapy.contrib.status = loads
"""NVMe/TCP: the PDUs of the NVM Express TCP Transport Specification.

Importing the module binds `NVMeTCP` to TCP ports 4420 and 8009. Where a segment begins with a whole
PDU, that one is dissected and what follows is padding; other segments stay raw. For streams there
are `split_pdus`, Scapy's StreamSocket and TCPSession (by `tcp_reassemble`), and for MPTCP
connections `mptcp_stream`. (Scapy 2.8's TCPSession loses its place where a segment ends several
PDUs and begins another; StreamSocket and `split_pdus` don't.)

Lengths, PDO, padding and digests are filled in where they are None. Field names are those of the
specification in lower case; all numbers are little-endian.
"""

import struct
from typing import Any, NamedTuple, cast

import crc32c
from scapy.compat import raw
from scapy.config import conf
from scapy.fields import (
    ByteEnumField,
    ByteField,
    ConditionalField,
    FlagsField,
    LEIntField,
    LEShortEnumField,
    LEShortField,
    PacketLenField,
    StrFixedLenField,
    StrLenField,
    XLEIntField,
    XLEShortField,
)
from scapy.layers.inet import TCP
from scapy.packet import Packet, bind_layers

from .nvme import CQE_SIZE, SQE_SIZE, Command, Completion, command

PORT = 4420
DISCOVERY_PORT = 8009
COMMON_HEADER_SIZE = 8
DIGEST_SIZE = 4
MAX_TERM_REQ_SIZE = 152  # bytes

PDU_TYPES = {0x00: "ICReq", 0x01: "ICResp", 0x02: "H2CTermReq", 0x03: "C2HTermReq",
             0x04: "CapsuleCmd", 0x05: "CapsuleResp", 0x06: "H2CData", 0x07: "C2HData", 0x09: "R2T"}
FATAL_ERRORS = {
    0x01: "Invalid PDU header field", 0x02: "PDU sequence error", 0x03: "Header digest error",
    0x04: "Data transfer out of range", 0x05: "Limit exceeded", 0x06: "Unsupported parameter",
}
FLAGS = ["HDGSTF", "DDGSTF", "LAST_PDU", "SUCCESS", "b4", "b5", "b6", "b7"]
_HDGSTF, _DDGSTF = 1, 2


def digest(data: bytes) -> int:
    """The digest of a header or of data: CRC-32C."""
    return int(crc32c.crc32c(data))


def data_offset(hlen: int, hdgst: bool, alignment: int) -> int:
    """PDO of a PDU with data. `alignment`: HPDA or CPDA, the 0's based number of dwords."""
    unit = 4 * (alignment + 1)
    start = hlen + (DIGEST_SIZE if hdgst else 0)
    return -(-start // unit) * unit


def _has_header_digest(pdu: Packet) -> bool:
    return bool(pdu.flags & _HDGSTF)


def _has_data(pdu: Packet) -> bool:
    return bool(pdu.data) if pdu.pdo is None else pdu.pdo > 0


def _has_data_digest(pdu: Packet) -> bool:
    return bool(pdu.flags & _DDGSTF) and _has_data(pdu)


def _pad_length(pdu: Packet) -> int:
    digest_size = DIGEST_SIZE if _has_header_digest(pdu) else 0
    return max(0, pdu.pdo - pdu.hlen - digest_size) if pdu.pdo else 0


def _data_length(pdu: Packet) -> int:
    digest_size = DIGEST_SIZE if _has_data_digest(pdu) else 0
    return max(0, pdu.plen - pdu.pdo - digest_size) if pdu.pdo else 0


def _common(pdu_type: int) -> list[Any]:
    return [
        ByteEnumField("type", pdu_type, PDU_TYPES),
        FlagsField("flags", 0, 8, FLAGS),
        ByteField("hlen", None),
        ByteField("pdo", None),
        LEIntField("plen", None),
    ]


_HEADER_DIGEST = [ConditionalField(XLEIntField("hdgst", None), _has_header_digest)]
_DATA = [
    StrLenField("pad", cast(bytes, None), length_from=_pad_length),
    StrLenField("data", b"", length_from=_data_length),
    ConditionalField(XLEIntField("ddgst", None), _has_data_digest),
]


class NVMeTCP(Packet):
    """Any PDU; as a constructor of bytes it gives the class of their type, or Raw if none fits."""

    name = "NVMe/TCP"
    fields_desc = _common(0)
    header_size = COMMON_HEADER_SIZE  # HLEN of the type

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
        if cls is not NVMeTCP or _pkt is None:
            return cls
        found = _find_pdu(_pkt)
        return found.form if found and found.size <= len(_pkt) else conf.raw_layer

    @classmethod
    def tcp_reassemble(cls, data: bytes, metadata: dict[str, Any],
                       session: dict[str, Any]) -> Packet | None:
        """The first PDU of a stream, with what follows as padding; None if it isn't whole yet."""
        found = _find_pdu(data)
        if len(data) < (found.size if found else COMMON_HEADER_SIZE):
            return None
        return NVMeTCP(data)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s

    def header_digest(self) -> int:
        """The header digest that the PDU ought to carry."""
        return digest(raw(self)[:self.header_size])

    def data_digest(self) -> int:
        """The data digest that the PDU ought to carry."""
        return digest(self.data)

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        header, rest = bytearray(p[:self.header_size]), p[self.header_size:]
        if self.hlen is None:
            header[2] = self.header_size
        hdgst, tail = b"", rest
        if "hdgst" in self.fieldtype:
            size = DIGEST_SIZE if _has_header_digest(self) else 0
            hdgst, tail = rest[:size], rest[size:]
        if "data" in self.fieldtype:
            if self.pdo is None:
                header[3] = self.header_size + len(hdgst) if self.data else 0
            if self.pad is None and self.data:
                tail = bytes(max(0, header[3] - self.header_size - len(hdgst))) + tail
            if _has_data_digest(self) and self.ddgst is None:
                tail = tail[:-DIGEST_SIZE] + struct.pack("<I", digest(self.data))
        if self.plen is None:
            header[4:8] = struct.pack("<I", len(header) + len(hdgst) + len(tail))
        if hdgst and self.hdgst is None:
            hdgst = struct.pack("<I", digest(bytes(header)))
        return bytes(header) + hdgst + tail + pay


class ICReq(NVMeTCP):
    """Initialize Connection Request. `hpda`: alignment, 0's based dwords; `maxr2t`: 0's based."""

    name = "ICReq"
    header_size = 128
    fields_desc = [
        *_common(0x00),
        XLEShortField("pfv", 0),
        ByteField("hpda", 0),
        FlagsField("dgst", 0, 8, ["HDGST_ENABLE", "DDGST_ENABLE", *FLAGS[2:]]),
        LEIntField("maxr2t", 0),
        StrFixedLenField("reserved16", bytes(112), 112),
    ]


class ICResp(NVMeTCP):
    """Initialize Connection Response. `maxh2cdata`: bytes of data in an H2CData PDU at most."""

    name = "ICResp"
    header_size = 128
    fields_desc = [
        *_common(0x01),
        XLEShortField("pfv", 0),
        ByteField("cpda", 0),
        FlagsField("dgst", 0, 8, ["HDGST_ENABLE", "DDGST_ENABLE", *FLAGS[2:]]),
        LEIntField("maxh2cdata", 0x20000),
        StrFixedLenField("reserved16", bytes(112), 112),
    ]


class _TermReq(NVMeTCP):
    header_size = 24


def _term_req(pdu_type: int) -> list[Any]:
    return [
        *_common(pdu_type),
        LEShortEnumField("fes", 0, FATAL_ERRORS),
        XLEIntField("fei", 0),
        StrFixedLenField("reserved14", bytes(10), 10),
        # the header of the PDU that was in error; here PDO is reserved, and there are no digests
        StrLenField("pdu_header", b"", length_from=lambda pkt: max(0, pkt.plen - 24)),
    ]


class H2CTermReq(_TermReq):
    """Host to controller Terminate Connection Request."""

    name = "H2CTermReq"
    fields_desc = _term_req(0x02)


class C2HTermReq(_TermReq):
    """Controller to host Terminate Connection Request."""

    name = "C2HTermReq"
    fields_desc = _term_req(0x03)


class CapsuleCmd(NVMeTCP):
    """Command capsule. `ccsqe`: the submission queue entry, `data`: in-capsule data."""

    name = "CapsuleCmd"
    header_size = 72
    fields_desc = [
        *_common(0x04),
        PacketLenField("ccsqe", Command(), command, length_from=lambda pkt: SQE_SIZE),
        *_HEADER_DIGEST,
        *_DATA,
    ]


class CapsuleResp(NVMeTCP):
    """Response capsule. `rccqe`: the completion queue entry."""

    name = "CapsuleResp"
    header_size = 24
    fields_desc = [
        *_common(0x05),
        PacketLenField("rccqe", Completion(), Completion, length_from=lambda pkt: CQE_SIZE),
        *_HEADER_DIGEST,
    ]


class H2CData(NVMeTCP):
    """Host to controller data. `datao`, `datal`: offset and length in bytes."""

    name = "H2CData"
    header_size = 24
    fields_desc = [
        *_common(0x06),
        LEShortField("cccid", 0),
        LEShortField("ttag", 0),
        LEIntField("datao", 0),
        LEIntField("datal", None),
        StrFixedLenField("reserved20", bytes(4), 4),
        *_HEADER_DIGEST,
        *_DATA,
    ]

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        return super().post_build(_fill_data_length(self, p), pay)


class C2HData(NVMeTCP):
    """Controller to host data. `datao`, `datal`: offset and length in bytes."""

    name = "C2HData"
    header_size = 24
    fields_desc = [
        *_common(0x07),
        LEShortField("cccid", 0),
        LEShortField("reserved10", 0),
        LEIntField("datao", 0),
        LEIntField("datal", None),
        StrFixedLenField("reserved20", bytes(4), 4),
        *_HEADER_DIGEST,
        *_DATA,
    ]

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        return super().post_build(_fill_data_length(self, p), pay)


def _fill_data_length(pdu: Packet, built: bytes) -> bytes:
    if pdu.datal is not None:
        return built
    return built[:16] + struct.pack("<I", len(pdu.data)) + built[20:]


class R2T(NVMeTCP):
    """Ready to Transfer. `r2to`, `r2tl`: offset and length in bytes of the data asked for."""

    name = "R2T"
    header_size = 24
    fields_desc = [
        *_common(0x09),
        LEShortField("cccid", 0),
        LEShortField("ttag", 0),
        LEIntField("r2to", 0),
        LEIntField("r2tl", 0),
        StrFixedLenField("reserved20", bytes(4), 4),
        *_HEADER_DIGEST,
    ]


_CLASSES: dict[int, type[NVMeTCP]] = {
    0x00: ICReq, 0x01: ICResp, 0x02: H2CTermReq, 0x03: C2HTermReq, 0x04: CapsuleCmd,
    0x05: CapsuleResp, 0x06: H2CData, 0x07: C2HData, 0x09: R2T,
}


class _Found(NamedTuple):
    form: type[NVMeTCP]
    size: int  # PLEN, in bytes


def _find_pdu(buffer: bytes, offset: int = 0) -> _Found | None:
    """Class and PLEN of the PDU at `offset`; None if there is no valid common header."""
    header = buffer[offset:offset + COMMON_HEADER_SIZE]
    if len(header) < COMMON_HEADER_SIZE:
        return None
    form, size = _CLASSES.get(header[0]), int.from_bytes(header[4:8], "little")
    if form is None or header[2] != form.header_size or size < form.header_size:
        return None
    return _Found(form, size)


def split_pdus(stream: bytes) -> tuple[list[NVMeTCP], bytes]:
    """The whole PDUs at the start of a byte stream, and the bytes that remain.

    Raises ValueError, with the offset, where the stream holds no PDU header.
    """
    pdus: list[NVMeTCP] = []
    offset = 0
    while len(stream) - offset >= COMMON_HEADER_SIZE:
        found = _find_pdu(stream, offset)
        if found is None:
            header = stream[offset:offset + COMMON_HEADER_SIZE].hex()
            raise ValueError(f"no PDU header at byte {offset} of the stream: {header}")
        if offset + found.size > len(stream):
            break
        pdus.append(found.form(stream[offset:offset + found.size]))
        offset += found.size
    return pdus, stream[offset:]


for _port in (PORT, DISCOVERY_PORT):
    bind_layers(TCP, NVMeTCP, dport=_port)
    bind_layers(TCP, NVMeTCP, sport=_port)
