# SPDX-License-Identifier: GPL-2.0-or-later
"""MPTCP options: built, dissected, malformed; tokens, HMACs and checksums."""

import hashlib
import hmac

import pytest
from mptcp_vectors import KEY_A, KEY_B, V6, VECTORS
from nvmptcp_conformance.layers.mptcp import (
    MPCapableSYN,
    MPCapableSYNACK,
    MPFastclose,
    MPTCPOption,
    MPTCPReset,
    add_addr_hmac,
    dissect_option,
    dss_checksum,
    find_option,
    idsn,
    join_hmac,
    mptcp_options,
    token,
)
from scapy.layers.inet import ICMP, IP, TCP, TCPerror

IDS = [f"{option.name}, {wire[2:4]}h bytes" for option, wire in VECTORS]


def segment(option: object) -> bytes:
    """A TCP header with one MPTCP option."""
    return bytes(TCP(flags="A", options=[("MPTCP", option)]))


@pytest.mark.parametrize(("option", "wire"), VECTORS, ids=IDS)
def test_option_is_built(option: MPTCPOption, wire: str) -> None:
    expected = bytes.fromhex(wire)
    built = segment(option)
    assert built[20:20 + len(expected)] == expected
    assert built[20 + len(expected):] == bytes(-len(expected) % 4)
    assert (built[12] >> 4) * 4 == len(built)


@pytest.mark.parametrize(("option", "wire"), VECTORS, ids=IDS)
def test_option_is_dissected(option: MPTCPOption, wire: str) -> None:
    expected = bytes.fromhex(wire)
    found = TCP(segment(expected[2:])).options[0][1]
    assert type(found) is type(option)
    for field in option.fields_desc:
        assert found.getfieldval(field.name) == option.getfieldval(field.name), field.name


@pytest.mark.parametrize("subtype", range(16))
def test_every_length_of_every_subtype_round_trips(subtype: int) -> None:
    """What fits no form stays bytes; what does is the same after building it anew."""
    known = {(wire[5], len(bytes.fromhex(wire))) for _, wire in VECTORS}
    for flags in (0x00, 0x01, 0x05, 0x0F, 0x1F, 0xE5):
        for length in range(39):
            value = (bytes([subtype << 4 | flags & 1, flags]) + bytes(range(0xA0, 0xD0)))[:length]
            option = dissect_option(value)
            packet = TCP(segment(value))
            packet.clear_cache()
            assert bytes(packet) == segment(value)
            if isinstance(option, bytes):
                assert option == value
            elif subtype not in (2, 4):  # whose lengths depend on flags, or are many
                assert (f"{subtype:x}", length + 2) in known, option


def test_other_options_are_as_before() -> None:
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 2)), ("NOP", None),
               ("WScale", 7), (200, b"ab")]
    wire = bytes(TCP(options=[*options, ("MPTCP", MPCapableSYN())]))
    assert TCP(wire).options[:6] == options
    assert find_option(TCP(wire), MPCapableSYN) is not None
    assert find_option(TCP(wire), MPCapableSYNACK) is None


def test_several_options_in_a_segment() -> None:
    tcp = TCP(flags="RA", options=[("MPTCP", MPFastclose(receiver_key=KEY_A)),
                                   ("MPTCP", MPTCPReset(reason=1)), ("MPTCP", b"\xf0\x01")])
    fastclose, reset, unknown = mptcp_options(TCP(bytes(tcp)))
    assert isinstance(fastclose, MPFastclose)
    assert fastclose.receiver_key == KEY_A
    assert isinstance(reset, MPTCPReset)
    assert reset.reason == 1
    assert unknown == b"\xf0\x01"


def test_option_cut_short_by_the_header_round_trips() -> None:
    wire = bytes(TCP(dataofs=6)) + bytes.fromhex("1e0c0101")  # says 12 bytes, has 4
    assert mptcp_options(TCP(wire)) == [MPCapableSYN()]
    assert bytes(TCP(wire)) == wire


def test_option_in_an_icmp_error() -> None:
    error = IP() / ICMP(type=3) / bytes(IP() / TCP(options=[("MPTCP", MPCapableSYN())]))
    assert find_option(IP(bytes(error))[TCPerror], MPCapableSYN) is not None


def test_token_and_idsn_are_the_ends_of_the_hash() -> None:
    # sha256sum of the eight bytes 11 22 33 44 55 66 77 88
    whole = hashlib.sha256(bytes.fromhex("1122334455667788")).hexdigest()
    assert f"{token(KEY_A):08x}" == whole[:8]
    assert f"{idsn(KEY_A):016x}" == whole[-16:]


def test_hmacs_take_keys_and_nonces_own_first() -> None:
    message = bytes.fromhex("0102030405060708")
    expected = hmac.new(bytes.fromhex("112233445566778899aabbccddeeff00"), message, "sha256")
    assert join_hmac(KEY_A, KEY_B, 0x01020304, 0x05060708) == expected.digest()
    assert join_hmac(KEY_B, KEY_A, 0x01020304, 0x05060708) != expected.digest()


@pytest.mark.parametrize(("address", "port", "message"), [
    ("10.0.2.2", 0, "02 0a000202 0000"), ("10.0.2.2", 4420, "02 0a000202 1144"),
    ("2001:db8::2", 0, f"02 {V6} 0000"),
])
def test_add_addr_hmac_has_a_port_always(address: str, port: int, message: str) -> None:
    expected = hmac.new(bytes.fromhex("99aabbccddeeff001122334455667788"),
                        bytes.fromhex(message), "sha256").digest()[-8:]
    assert add_addr_hmac(KEY_B, KEY_A, 2, address, port) == expected


@pytest.mark.parametrize(("dsn", "ssn", "length", "data", "expected"), [
    (0, 0, 0, b"", 0xFFFF),
    (0x0001_0002_0003_0004, 0x0005_0006, 7, b"", 0xFFFF - 28),
    (0, 0, 3, b"\x12\x34\x56", 0xFFFF - 0x1234 - 0x5600 - 3),  # odd length: a zero is added
    (0, 0, 4, b"\xff\xff\x00\x02", 0xFFFF - 2 - 4),  # the carry goes round
])
def test_dss_checksum(dsn: int, ssn: int, length: int, data: bytes, expected: int) -> None:
    assert dss_checksum(dsn, ssn, length, data) == expected
