# SPDX-License-Identifier: GPL-2.0-or-later
"""Golden vectors of the model's MPTCP options, from the Scapy layers of the conformance suite.

`python -m nvmptcp_model.option_vectors` writes `test/mptcp-option-vectors.h`, which the model's
test suite compiles: two implementations of RFC 8684, which share no code, have to agree.
"""

import hashlib
import hmac
import ipaddress
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nvmptcp_conformance.layers import mptcp
from scapy.compat import raw
from scapy.layers.inet import TCP

HEADER = Path(__file__).parents[1] / "test" / "mptcp-option-vectors.h"
_HEAD = 20  # bytes of a TCP header without options
_SAMPLES = 4  # options of each form
_FLAGS = {"checksumRequired": "A", "denyJoinToSource": "C"}  # of MP_CAPABLE, RFC 8684 §3.1


_TEMPLATE = """\
/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Made by `python -m nvmptcp_model.option_vectors` from the Scapy layers; don't edit.
// clang-format off

#ifndef MPTCP_OPTION_VECTORS_H
#define MPTCP_OPTION_VECTORS_H

#include "ns3/mptcp-option.h"

#include <cstdint>
#include <vector>

namespace ns3::vectors
{

/// An option and the bytes it has in a TCP header
struct OptionVector
{
    MptcpOption option;         //!< the option
    std::vector<uint8_t> bytes; //!< beginning with its kind
};

/// A digest
struct DigestVector
{
    std::vector<uint8_t> key;     //!< of an HMAC; empty: none
    std::vector<uint8_t> message; //!< the message
    std::vector<uint8_t> digest;  //!< its digest
};

/// What RFC 8684 derives from keys
struct KeyVector
{
    uint64_t ownKey;               //!< one side's key
    uint64_t peerKey;              //!< the other's
    uint32_t ownNonce;             //!< one side's nonce
    uint32_t peerNonce;            //!< the other's
    uint8_t addressId;             //!< ID of an announced address
    std::vector<uint8_t> address;  //!< the address
    uint16_t port;                 //!< its port; 0: none
    uint32_t token;                //!< of ownKey
    uint64_t idsn;                 //!< of ownKey
    std::vector<uint8_t> joinHmac; //!< of MP_JOIN
    uint64_t addAddrHmac;          //!< of ADD_ADDR
};

/// The checksum of a mapping
struct ChecksumVector
{
    uint64_t dsn;              //!< data sequence number
    uint32_t ssn;              //!< subflow sequence number
    uint16_t length;           //!< data-level length
    std::vector<uint8_t> data; //!< the data
    uint16_t checksum;         //!< the checksum
};

%s
} // namespace ns3::vectors

#endif // MPTCP_OPTION_VECTORS_H
"""


def text() -> str:
    """The header file."""
    source = random.Random(8684)
    return _TEMPLATE % "\n".join([
        _table("OptionVector", "OPTIONS", _option_rows(source)),
        _table("DigestVector", "DIGESTS", _digest_rows(source)),
        _table("KeyVector", "KEYS", _key_rows(source)),
        _table("ChecksumVector", "CHECKSUMS", _checksum_rows(source)),
    ])


def _table(kind: str, name: str, rows: Iterator[str]) -> str:
    return (f"inline const std::vector<{kind}> {name}{{\n"
            + "".join(f"    {{{row}}},\n" for row in rows) + "};\n")


def _bytes(value: bytes) -> str:
    return "{" + ", ".join(f"0x{byte:02x}" for byte in value) + "}"


def _flag(value: object) -> str:
    return "true" if value else "false"


def _option_rows(source: random.Random) -> Iterator[str]:
    for _ in range(_SAMPLES):
        for option in _options(source):
            wire = raw(TCP(options=[("MPTCP", option)]))[_HEAD:]
            yield f"{_value(option)}, {_bytes(wire[:wire[1]])}"


def _options(source: random.Random) -> Iterator[mptcp.MPTCPOption]:
    """One option of each form, with random values."""
    def number(bits: int) -> int:
        return source.getrandbits(bits)

    flags = source.choice(["H", "HA", "HC", "HCA"])
    keys: dict[str, Any] = {"flags": flags, "sender_key": number(64), "receiver_key": number(64)}
    yield mptcp.MPCapableSYN(flags=flags)
    yield mptcp.MPCapableSYNACK(flags=flags, sender_key=number(64))
    yield mptcp.MPCapableACK(**keys)
    yield mptcp.MPCapableData(**keys, data_len=number(16))
    yield mptcp.MPCapableDataChecksum(**keys, data_len=number(16), checksum=number(16))
    joined: dict[str, Any] = {"backup": number(1), "address_id": number(8)}
    yield mptcp.MPJoinSYN(**joined, token=number(32), nonce=number(32))
    yield mptcp.MPJoinSYNACK(**joined, hmac=source.randbytes(8), nonce=number(32))
    yield mptcp.MPJoinACK(hmac=source.randbytes(20))
    for acknowledgment in ("", "A", "Aa"):
        for mapping in ("", "M", "Mm"):
            for form in (mptcp.DSS, mptcp.DSSChecksum) if mapping else (mptcp.DSS,):
                fields: dict[str, Any] = {"data_ack": number(64 if "a" in acknowledgment else 32),
                          "dsn": number(64 if "m" in mapping else 32), "ssn": number(32),
                          "data_len": number(16)}
                if form is mptcp.DSSChecksum:
                    fields["checksum"] = number(16)
                yield form(flags=acknowledgment + mapping + source.choice(["", "F"]), **fields)
    for echo in (0, 1):
        address: dict[str, Any] = {"echo": echo, "address_id": number(8),
                                   "hmac": source.randbytes(8)}
        ipv4 = str(ipaddress.IPv4Address(number(32)))
        ipv6 = str(ipaddress.IPv6Address(number(128)))
        yield mptcp.AddAddr(**address, address=ipv4)
        yield mptcp.AddAddrPort(**address, address=ipv4, port=number(16))
        yield mptcp.AddAddr6(**address, address=ipv6)
        yield mptcp.AddAddr6Port(**address, address=ipv6, port=number(16))
    yield mptcp.RemoveAddr(address_ids=list(source.randbytes(source.randint(1, 8))))
    yield mptcp.MPPrio(backup=number(1))
    yield mptcp.MPFail(dsn=number(64))
    yield mptcp.MPFastclose(receiver_key=number(64))
    yield mptcp.MPTCPReset(flags=source.choice(["", "T"]), reason=number(8))


def _value(option: mptcp.MPTCPOption) -> str:
    """The option as the model's C++ writes it."""
    match option:
        case mptcp.MPJoinSYN():
            kind, fields = "MptcpJoinSyn", {**_joined(option), "token": hex(option.token),
                                            "nonce": hex(option.nonce)}
        case mptcp.MPJoinSYNACK():
            kind, fields = "MptcpJoinSynAck", {**_joined(option),
                                               "hmac": "{" + _bytes(option.hmac) + "}",
                                               "nonce": hex(option.nonce)}
        case mptcp.MPJoinACK():
            kind, fields = "MptcpJoinAck", {"hmac": "{" + _bytes(option.hmac) + "}"}
        case mptcp.DSS():
            kind, fields = "MptcpDss", _dss(option)
        case mptcp.RemoveAddr():
            kind, fields = "MptcpRemoveAddr", {"addressIds": _bytes(bytes(option.address_ids))}
        case mptcp.MPPrio():
            kind, fields = "MptcpPrio", {"backup": _flag(option.backup)}
        case mptcp.MPFail():
            kind, fields = "MptcpFail", {"dsn": hex(option.dsn)}
        case mptcp.MPFastclose():
            kind, fields = "MptcpFastclose", {"receiverKey": hex(option.receiver_key)}
        case mptcp.MPTCPReset():
            kind, fields = "MptcpReset", {"transient": _flag(option.flags.T),
                                          "reason": hex(option.reason)}
        case mptcp._AddAddr():
            kind, fields = "MptcpAddAddr", _add_addr(option)
        case _:
            kind, fields = "MptcpCapable", _capable(option)
    return f"{kind}{{" + ", ".join(f".{name} = {value}" for name, value in fields.items()) + "}"


def _capable(option: mptcp.MPTCPOption) -> dict[str, str]:
    fields = {"version": str(option.version)}
    for name, flag in _FLAGS.items():
        fields[name] = _flag(flag in str(option.flags))
    for name, field in (("senderKey", "sender_key"), ("receiverKey", "receiver_key"),
                        ("length", "data_len"), ("checksum", "checksum")):
        if field in option.fields:
            fields[name] = hex(option.fields[field])
    return fields


def _joined(option: mptcp.MPTCPOption) -> dict[str, str]:
    return {"backup": _flag(option.backup), "addressId": str(option.address_id)}


def _dss(option: mptcp.DSS) -> dict[str, str]:
    flags = str(option.flags)
    fields = {}
    if "A" in flags:
        fields["dataAck"] = hex(option.data_ack)
    if "M" in flags:
        fields |= {"dsn": hex(option.dsn), "ssn": hex(option.ssn), "length": hex(option.data_len)}
        if isinstance(option, mptcp.DSSChecksum):
            fields["checksum"] = hex(option.checksum)
    return fields | {"dataFin": _flag("F" in flags), "ack8": _flag("a" in flags),
                     "dsn8": _flag("m" in flags)}


def _add_addr(option: mptcp.MPTCPOption) -> dict[str, str]:
    version = ipaddress.ip_address(option.address).version
    fields = {"echo": _flag(option.echo), "addressId": str(option.address_id),
              "address": f'Ipv{version}Address("{option.address}")'}
    if "port" in option.fields:
        fields["port"] = str(option.port)
    if not option.echo:
        fields["hmac"] = f"0x{option.hmac.hex()}"
    return fields


def _digest_rows(source: random.Random) -> Iterator[str]:
    """Messages around the ends of SHA-256's blocks, keys up to more than a block."""
    for length in (0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 128, 1000):
        message = source.randbytes(length)
        yield f"{{}}, {_bytes(message)}, {_bytes(hashlib.sha256(message).digest())}"
    for length in (16, 64, 65, 131):
        key, message = source.randbytes(length), source.randbytes(50)
        yield f"{_bytes(key)}, {_bytes(message)}, {_bytes(hmac.digest(key, message, 'sha256'))}"


def _key_rows(source: random.Random) -> Iterator[str]:
    for sample in range(2 * _SAMPLES):
        own, peer = source.getrandbits(64), source.getrandbits(64)
        nonces = source.getrandbits(32), source.getrandbits(32)
        identifier = source.getrandbits(8)
        address = ipaddress.ip_address(source.randbytes(16 if sample % 2 else 4))
        port = source.getrandbits(16) if sample % 4 < 2 else 0
        yield ", ".join([
            hex(own), hex(peer), hex(nonces[0]), hex(nonces[1]), str(identifier),
            _bytes(address.packed), str(port), hex(mptcp.token(own)), hex(mptcp.idsn(own)),
            _bytes(mptcp.join_hmac(own, peer, *nonces)),
            "0x" + mptcp.add_addr_hmac(own, peer, identifier, str(address), port).hex()])


def _checksum_rows(source: random.Random) -> Iterator[str]:
    for length in (0, 1, 2, 3, 72, 1001):
        dsn, ssn = source.getrandbits(64), source.getrandbits(32)
        data = source.randbytes(length)
        counted = length + (length == 0)  # nothing but a DATA_FIN
        yield (f"{hex(dsn)}, {hex(ssn)}, {counted}, {_bytes(data)}, "
               f"{hex(mptcp.dss_checksum(dsn, ssn, counted, data))}")


if __name__ == "__main__":
    HEADER.write_text(text())
