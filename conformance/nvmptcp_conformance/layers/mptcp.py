# SPDX-License-Identifier: GPL-2.0-or-later
# This file is fit for Scapy (https://scapy.net/), see its licence.
#
# scapy.contrib.description = Multipath TCP version 1 options (RFC 8684)
# scapy.contrib.status = loads
"""Multipath TCP version 1: the options of RFC 8684 in Scapy's TCP layer.

Importing the module teaches TCP the option of kind 30::

    >>> TCP(flags="S", options=[("MPTCP", MPCapableSYN())])
    >>> TCP(wire).options
    [('MPTCP', <MPCapableSYN ...>)]

An option is a packet without kind and length, which the TCP layer adds. Each form that RFC 8684
gives a length of its own is a class of its own; a value that is none of them (an unknown subtype, a
length that the subtype has not) is left as bytes, as Scapy does with other options. Bytes may be
given as well, to build what is malformed.

Keys, DSNs and HMACs are integers where RFC 8684 has a number, bytes where it has a string of bits.
"""

import hashlib
import hmac
import ipaddress
import struct
from collections.abc import Iterator
from typing import Any, TypeVar

from scapy.compat import raw
from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    FieldListField,
    FlagsField,
    IntField,
    IP6Field,
    IPField,
    MultipleTypeField,
    ShortField,
    StrFixedLenField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import TCP, TCPOptions, TCPOptionsField
from scapy.packet import Packet

KIND = 30  # RFC 8684 §8.1
VERSION = 1

SUBTYPES = {  # RFC 8684 §8.2
    0x0: "MP_CAPABLE", 0x1: "MP_JOIN", 0x2: "DSS", 0x3: "ADD_ADDR", 0x4: "REMOVE_ADDR",
    0x5: "MP_PRIO", 0x6: "MP_FAIL", 0x7: "MP_FASTCLOSE", 0x8: "MP_TCPRST", 0xF: "MP_EXPERIMENTAL",
}
RESET_REASONS = {  # RFC 8684 §3.6
    0x00: "Unspecified error", 0x01: "MPTCP-specific error", 0x02: "Lack of resources",
    0x03: "Administratively prohibited", 0x04: "Too much outstanding data",
    0x05: "Unacceptable performance", 0x06: "Middlebox interference",
}


def _subtype(number: int) -> BitEnumField:
    return BitEnumField("subtype", number, 4, SUBTYPES)


class MPTCPOption(Packet):
    """Any MPTCP option; the first four bits are its subtype (RFC 8684 §3)."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


_CAPABLE: list[Any] = [
    _subtype(0x0),
    BitField("version", VERSION, 4),
    # A: DSS checksums; B: an extension follows; C: no subflows to this address; H: HMAC-SHA256
    FlagsField("flags", 0x01, 8, "HGFEDCBA"),
]


class MPCapableSYN(MPTCPOption):
    """MP_CAPABLE of a SYN, 4 bytes (RFC 8684 §3.1)."""

    name = "MP_CAPABLE (SYN)"
    fields_desc = [*_CAPABLE]


class MPCapableSYNACK(MPTCPOption):
    """MP_CAPABLE of a SYN/ACK, 12 bytes (RFC 8684 §3.1)."""

    name = "MP_CAPABLE (SYN/ACK)"
    fields_desc = [*_CAPABLE, XLongField("sender_key", 0)]


class MPCapableACK(MPTCPOption):
    """MP_CAPABLE of the third packet, without data, 20 bytes (RFC 8684 §3.1)."""

    name = "MP_CAPABLE (ACK)"
    fields_desc = [*_CAPABLE, XLongField("sender_key", 0), XLongField("receiver_key", 0)]


class MPCapableData(MPTCPOption):
    """MP_CAPABLE with the first data, 22 bytes; stands for their DSS mapping (RFC 8684 §3.1)."""

    name = "MP_CAPABLE (data)"
    fields_desc = [*MPCapableACK.fields_desc, ShortField("data_len", 0)]


class MPCapableDataChecksum(MPTCPOption):
    """MP_CAPABLE with the first data and their checksum, 24 bytes (RFC 8684 §3.1)."""

    name = "MP_CAPABLE (data, checksum)"
    fields_desc = [*MPCapableData.fields_desc, XShortField("checksum", 0)]


_JOIN: list[Any] = [
    _subtype(0x1),
    BitField("reserved", 0, 3),
    BitField("backup", 0, 1),
    ByteField("address_id", 0),
]


class MPJoinSYN(MPTCPOption):
    """MP_JOIN of a SYN, 12 bytes (RFC 8684 §3.2)."""

    name = "MP_JOIN (SYN)"
    fields_desc = [*_JOIN, XIntField("token", 0), XIntField("nonce", 0)]


class MPJoinSYNACK(MPTCPOption):
    """MP_JOIN of a SYN/ACK, 16 bytes (RFC 8684 §3.2)."""

    name = "MP_JOIN (SYN/ACK)"
    fields_desc = [*_JOIN, StrFixedLenField("hmac", bytes(8), 8), XIntField("nonce", 0)]


class MPJoinACK(MPTCPOption):
    """MP_JOIN of the third packet, 24 bytes (RFC 8684 §3.2)."""

    name = "MP_JOIN (ACK)"
    fields_desc = [_subtype(0x1), BitField("reserved", 0, 12),
                   StrFixedLenField("hmac", bytes(20), 20)]


_A, _A8, _M, _M8, _F = 1, 2, 4, 8, 16


class DSS(MPTCPOption):
    """Data Sequence Signal without checksum (RFC 8684 §3.3).

    The flags say which fields are there. A: `data_ack`, of 8 bytes with a, else 4. M: `dsn`, of 8
    bytes with m, else 4, `ssn` and `data_len`. F: DATA_FIN, which takes the last number of the
    mapping. `data_len` 0 is an infinite mapping (RFC 8684 §3.7).
    """

    name = "DSS"
    fields_desc = [
        _subtype(0x2),
        BitField("reserved", 0, 7),
        FlagsField("flags", 0, 5, "AaMmF"),
        ConditionalField(
            MultipleTypeField([(XLongField("data_ack", 0), lambda pkt: pkt.flags & _A8)],
                              XIntField("data_ack", 0)),
            lambda pkt: pkt.flags & _A),
        ConditionalField(
            MultipleTypeField([(XLongField("dsn", 0), lambda pkt: pkt.flags & _M8)],
                              XIntField("dsn", 0)),
            lambda pkt: pkt.flags & _M),
        ConditionalField(IntField("ssn", 0), lambda pkt: pkt.flags & _M),
        ConditionalField(ShortField("data_len", 0), lambda pkt: pkt.flags & _M),
    ]


class DSSChecksum(DSS):
    """Data Sequence Signal with the checksum of its mapping (RFC 8684 §3.3)."""

    name = "DSS (checksum)"
    fields_desc = [*DSS.fields_desc,
                   ConditionalField(XShortField("checksum", 0), lambda pkt: pkt.flags & _M)]


class _AddAddr(MPTCPOption):
    """What the forms of ADD_ADDR have in common."""


def _add_addr(address: Any, port: bool) -> list[Any]:
    return [
        _subtype(0x3),
        BitField("reserved", 0, 3),
        BitField("echo", 0, 1),
        ByteField("address_id", 0),
        address,
        *([ShortField("port", 0)] if port else []),
        ConditionalField(StrFixedLenField("hmac", bytes(8), 8), lambda pkt: not pkt.echo),
    ]


class AddAddr(_AddAddr):
    """ADD_ADDR of an IPv4 address, 16 bytes, as echo 8 (RFC 8684 §3.4.1)."""

    name = "ADD_ADDR (IPv4)"
    fields_desc = _add_addr(IPField("address", "0.0.0.0"), False)


class AddAddrPort(_AddAddr):
    """ADD_ADDR of an IPv4 address and a port, 18 bytes, as echo 10 (RFC 8684 §3.4.1)."""

    name = "ADD_ADDR (IPv4, port)"
    fields_desc = _add_addr(IPField("address", "0.0.0.0"), True)


class AddAddr6(_AddAddr):
    """ADD_ADDR of an IPv6 address, 28 bytes, as echo 20 (RFC 8684 §3.4.1)."""

    name = "ADD_ADDR (IPv6)"
    fields_desc = _add_addr(IP6Field("address", "::"), False)


class AddAddr6Port(_AddAddr):
    """ADD_ADDR of an IPv6 address and a port, 30 bytes, as echo 22 (RFC 8684 §3.4.1)."""

    name = "ADD_ADDR (IPv6, port)"
    fields_desc = _add_addr(IP6Field("address", "::"), True)


class RemoveAddr(MPTCPOption):
    """REMOVE_ADDR, 3 bytes and one for each address ID (RFC 8684 §3.4.2)."""

    name = "REMOVE_ADDR"
    fields_desc = [_subtype(0x4), BitField("reserved", 0, 4),
                   FieldListField("address_ids", [], ByteField("address_id", 0))]


class MPPrio(MPTCPOption):
    """MP_PRIO, 3 bytes (RFC 8684 §3.3.8)."""

    name = "MP_PRIO"
    fields_desc = [_subtype(0x5), BitField("reserved", 0, 3), BitField("backup", 0, 1)]


class MPFail(MPTCPOption):
    """MP_FAIL, 12 bytes (RFC 8684 §3.7)."""

    name = "MP_FAIL"
    fields_desc = [_subtype(0x6), BitField("reserved", 0, 12), XLongField("dsn", 0)]


class MPFastclose(MPTCPOption):
    """MP_FASTCLOSE, 12 bytes; the key is the receiver's (RFC 8684 §3.5)."""

    name = "MP_FASTCLOSE"
    fields_desc = [_subtype(0x7), BitField("reserved", 0, 12), XLongField("receiver_key", 0)]


class MPTCPReset(MPTCPOption):
    """MP_TCPRST, 4 bytes; T: the condition is transient (RFC 8684 §3.6)."""

    name = "MP_TCPRST"
    fields_desc = [_subtype(0x8), FlagsField("flags", 0, 4, "TWVU"),
                   ByteEnumField("reason", 0, RESET_REASONS)]


# Length of the value (kind and length not counted) of subtypes whose length tells the form.
_BY_LENGTH: dict[int, dict[int, type[MPTCPOption]]] = {
    0x0: {2: MPCapableSYN, 10: MPCapableSYNACK, 18: MPCapableACK, 20: MPCapableData,
          22: MPCapableDataChecksum},
    0x1: {10: MPJoinSYN, 14: MPJoinSYNACK, 22: MPJoinACK},
    0x5: {1: MPPrio},
    0x6: {10: MPFail},
    0x7: {10: MPFastclose},
    0x8: {2: MPTCPReset},
}
_ADD_ADDR = {  # by echo flag
    0: {14: AddAddr, 16: AddAddrPort, 26: AddAddr6, 28: AddAddr6Port},
    1: {6: AddAddr, 8: AddAddrPort, 18: AddAddr6, 20: AddAddr6Port},
}


def _dss_form(value: bytes) -> type[DSS] | None:
    if len(value) < 2:
        return None
    flags = value[1] & 0x1F
    length = 2
    if flags & _A:
        length += 8 if flags & _A8 else 4
    if flags & _M:
        length += 14 if flags & _M8 else 10
        if len(value) == length + 2:
            return DSSChecksum
    return DSS if len(value) == length else None


def _form(value: bytes) -> type[MPTCPOption] | None:
    if not value:
        return None
    subtype = value[0] >> 4
    if subtype == 0x2:
        return _dss_form(value)
    if subtype == 0x3:
        return _ADD_ADDR[value[0] & 1].get(len(value))
    if subtype == 0x4:
        return RemoveAddr if len(value) > 1 else None
    return _BY_LENGTH.get(subtype, {}).get(len(value))


def dissect_option(value: bytes) -> MPTCPOption | bytes:
    """The option whose bytes after kind and length are `value`; `value` itself if none fits."""
    form = _form(value)
    return form(value) if form else value


class MPTCPOptionsField(TCPOptionsField):
    """The options field of Scapy's TCP layer that knows kind 30."""

    def m2i(self, pkt: Packet | None, x: bytes) -> Any:
        return [(name, dissect_option(value) if name == "MPTCP" else value)
                for name, value in super().m2i(pkt, x)]  # type: ignore[no-untyped-call]

    def i2m(self, pkt: Packet | None, x: Any) -> bytes:
        options = [(name, raw(value) if isinstance(value, MPTCPOption) else value)
                   for name, value in x]
        built: bytes = super().i2m(pkt, options)  # type: ignore[no-untyped-call]
        return built


TCPOptions[0][KIND] = ("MPTCP", None)
TCPOptions[1]["MPTCP"] = KIND
# The field object is shared by TCP and TCPerror, and kept in Scapy's caches: change it in place.
next(field for field in TCP.fields_desc if field.name == "options").__class__ = MPTCPOptionsField

_Option = TypeVar("_Option", bound=MPTCPOption)


def mptcp_options(tcp: Packet) -> list[MPTCPOption | bytes]:
    """The MPTCP options of a TCP segment, in order; bytes for those that fit no form."""
    layer = tcp if isinstance(tcp, TCP) else tcp[TCP]
    return [value for name, value in layer.options if name == "MPTCP"]


def find_option(tcp: Packet, form: type[_Option]) -> _Option | None:
    """The first option of this form in a TCP segment, if there is one."""
    options: Iterator[_Option] = (
        option for option in mptcp_options(tcp) if isinstance(option, form))
    return next(options, None)


def key_bytes(key: int) -> bytes:
    """A 64-bit key as it stands on the wire."""
    return struct.pack("!Q", key)


def token(key: int) -> int:
    """The token of a key: the first 32 bits of its SHA-256 (RFC 8684 §3.2)."""
    return int.from_bytes(hashlib.sha256(key_bytes(key)).digest()[:4], "big")


def idsn(key: int) -> int:
    """The initial DSN of a key: the last 64 bits of its SHA-256 (RFC 8684 §3.1)."""
    return int.from_bytes(hashlib.sha256(key_bytes(key)).digest()[-8:], "big")


def join_hmac(own_key: int, peer_key: int, own_nonce: int, peer_nonce: int) -> bytes:
    """The 32-byte HMAC by which a side proves in MP_JOIN that it knows the keys (RFC 8684 §3.2).

    The SYN/ACK carries the first 8 bytes of the listener's, the ACK the first 20 of the other's.
    """
    key = key_bytes(own_key) + key_bytes(peer_key)
    return hmac.digest(key, struct.pack("!II", own_nonce, peer_nonce), "sha256")


def add_addr_hmac(sender_key: int, receiver_key: int, address_id: int, address: str,
                  port: int = 0) -> bytes:
    """The last 8 bytes of the HMAC over ADD_ADDR; port 0 if it has none (RFC 8684 §3.4.1)."""
    key = key_bytes(sender_key) + key_bytes(receiver_key)
    message = (bytes([address_id]) + ipaddress.ip_address(address).packed
               + struct.pack("!H", port))
    return hmac.digest(key, message, "sha256")[-8:]


def dss_checksum(dsn: int, ssn: int, data_len: int, data: bytes) -> int:
    """The checksum of a mapping (RFC 8684 §3.3.1).

    `dsn` has all its 64 bits, also where the option carries 32; `ssn` is relative; `data_len`
    counts a DATA_FIN, `data` doesn't hold one.
    """
    covered = struct.pack("!QIHH", dsn, ssn, data_len, 0) + data
    covered += bytes(len(covered) % 2)
    total: int = sum(struct.unpack(f"!{len(covered) // 2}H", covered))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
