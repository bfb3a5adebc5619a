# SPDX-License-Identifier: GPL-2.0-or-later
"""The raw endpoint against the reference kernel and against itself, in the lab's guest; and its
parts that need neither.
"""

import random
from typing import Any

import pytest
from in_guest import in_guest
from nvmptcp_conformance.endpoints.raw import Behaviour, Segment
from nvmptcp_conformance.endpoints.raw.packets import option_length, parse
from nvmptcp_conformance.endpoints.raw.sequence import Reassembly, Sequence
from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.mptcp_stream import End

NO_SYNACK_OPTION = "no MP_CAPABLE in the SYN/ACK"


@pytest.fixture(scope="module")
def seen() -> Any:
    """What raw_in_guest.py prints."""
    return in_guest("raw_in_guest")


# What each situation has to bring, but for figures that tests of their own look at.
EXPECTED: dict[str, dict[str, Any]] = {
    "nvme_association": {
        "mptcp": True, "checksum": True, "announced": ["10.0.2.2", "10.0.3.2", "10.0.4.2"],
        "identical": [True] * 8, "size": 4096, "checksummed": True, "remote_id": 2},
    "mappings": dict.fromkeys(
        ("first", "one byte each", "one mapping in many segments", "later part first",
         "overlapping", "reinjected", "4 octets"), True),
    "lossy": {"there": True, "back": True, "mptcp": True, "subflows": [2, 2],
              "more than once": True, "end": True},
    "path_loss": {"whole": True, "ended": "no answer", "alive": 1},
    "bad_joins": {
        "token": "ConnectionRefusedError: join to 10.0.2.2: reset by the peer",
        "HMAC": "ConnectionRefusedError: join to 10.0.2.2: reset by the peer",
        "kept": True, "unexpected": "Unexpected: expected MP_FAIL within 0.1 s; what came: nothing",
        "expected": "2", "long options": "ValueError: TCP options of 64 bytes: at most 40"},
    # On one of two: a reset with MP_FAIL, and the data by the other; on the last one: TCP.
    "bad_checksum": {"two": [True, "reset by the peer", "RA"],
                     "one": [True, "MP_FAIL by the peer", True]},
    "kernel_joins": {"wrong": 1, "there": True, "back": True, "joined": 1, "withdrawn": True},
    "kernel_ends": {
        "its end": True, "ours": "still", "subflow": "closed",
        "abort": "ConnectionResetError: MP_FASTCLOSE by the peer",
        "aborted": "ConnectionResetError: [Errno 104] Connection reset by peer"},
    "behaviours": {
        "TCP only": [True, True, False],
        "plain client": [True, "no MP_CAPABLE in the SYN, or not answered"], "plain end": True,
        "refused join": [1, "x"], "spoilt": ["SPOIL me", "MP_FAIL by the peer"], "after": True},
    "windows": {"whole": True, "kept": True},
    "two_raw_ends": {
        "backup": 0, "after MP_PRIO": 3000, "joined by the listener": [3, True],
        "withdrawn": "reset by the peer", "loopback": ["home", True],
        "unanswered": True,
        "mistake": "the raw stack has failed: KeyError('a mistake')"},
    "ipv6": {"echo": "cba", "mptcp": True, "served": True, "kernel": [True, True],
             "kernel's client": [True, True]},
    "refused": {
        "nobody": "ConnectionRefusedError: 10.0.1.2:6006: reset by the peer",
        "silent": "TimeoutError: no SYN/ACK of 10.0.1.99:5000 within 2 s",
        "taken": "OSError: [Errno 98] TCP port 6005 of 10.0.1.2: Address already in use",
        "threads": 0},
    "fastclose": {
        # The wrong key has no effect; the kernel answers to an ACK with a RST, to a RST not at all.
        form: {"kept": True, "server": ["ConnectionResetError"], "reset": form == "ack",
               "ours": "ConnectionResetError: MP_FASTCLOSE by us"} for form in ("ack", "reset")},
    "fallback": {
        where: {"whole": True, "mptcp": False, "server": False, "end": True, "why": why}
        for where, why in (
            ("SYN", NO_SYNACK_OPTION), ("SYN/ACK", NO_SYNACK_OPTION),
            ("none sent", NO_SYNACK_OPTION),
            ("after the handshake", "data were acknowledged without DATA_ACK"))},
}


@pytest.mark.parametrize("situation", EXPECTED)
def test_situation(seen: Any, situation: str) -> None:
    """Fails if a situation of raw_in_guest.py goes otherwise."""
    found, expected = seen[situation], EXPECTED[situation]
    assert {name: found.get(name) for name in expected} == expected, found


def test_both_subflows_carry(seen: Any) -> None:
    """Fails if a subflow that was joined carries nothing."""
    assert min(seen["nvme_association"]["sent"]) > 0
    assert min(seen["kernel_joins"]["sent"]) > 50_000
    assert min(seen["kernel_joins"]["received"]) > 50_000
    assert seen["path_loss"]["carried"] >= 50_000
    assert seen["mappings"]["short mappings"] >= 200_000 // 333


def test_windows_are_respected(seen: Any) -> None:
    """Fails if more is sent than a server that doesn't read has room for, or ours is exceeded."""
    assert 10_000 < seen["windows"]["held back"] < 400_000
    assert seen["windows"]["ahead"] <= 4096


def test_without_rights(seen: Any) -> None:
    """Fails if an ordinary user isn't told what is missing, and how to get it."""
    said = seen["unprivileged"]
    assert said.startswith("RawUnavailable: raw packets need CAP_NET_RAW: ")
    assert "sudo" in said
    assert "setcap" in said
    assert "\n" not in said


def test_behaviour_has_no_other_attributes() -> None:
    assert Behaviour(mss=500).mss == 500
    with pytest.raises(TypeError, match="no attribute windows"):
        Behaviour(windows=1)


@pytest.mark.parametrize("ends", [
    (End("192.0.2.1", 4420), End("192.0.2.2", 5000)),
    (End("2001:db8::1", 4420), End("2001:db8::2", 5000))])
@pytest.mark.parametrize("options", [
    (), (("MSS", 1400), ("WScale", 4), ("MPTCP", mptcp.MPCapableSYN())),
    (("MPTCP", mptcp.DSSChecksum(flags="MmAa", data_ack=1, dsn=2, ssn=3, data_len=4)),)])
def test_segment_round_trip(ends: tuple[End, End], options: tuple[tuple[str, Any], ...]) -> None:
    """Fails if a segment isn't read as it was written, or Ethernet's padding counts as payload."""
    segment = Segment(*ends, "PA", 0xFFFFFFFF, 1, 512, options, b"data")
    read = parse(segment.to_bytes() + bytes(6))
    assert read
    # Scapy fills an option field with NOP or EOL to four bytes.
    kept = tuple(option for option in read.options if option[0] not in ("NOP", "EOL"))
    assert [(name, bytes(value) if name == "MPTCP" else value) for name, value in kept] == [
        (name, bytes(value) if name == "MPTCP" else value) for name, value in options]
    assert (read.source, read.destination, read.flags, read.seq, read.ack, read.window,
            read.payload) == (*ends, "PA", 0xFFFFFFFF, 1, 512, b"data")
    assert len(segment.to_bytes()) == (
        (20 if "." in ends[0].address else 40) + 20 + option_length(options) + 4)


def test_parse_survives_what_is_cut_or_damaged() -> None:
    """Fails if a packet makes the parser raise."""
    whole = Segment(End("192.0.2.1", 1), End("192.0.2.2", 2), "A", 1, options=(
        ("MPTCP", mptcp.MPCapableACK()), ("MSS", 1400)), payload=b"data").to_bytes()
    generator = random.Random(1)
    for _ in range(2000):
        packet = bytearray(whole[:generator.randrange(len(whole) + 1)])
        for _ in range(generator.randrange(4)):
            if packet:
                packet[generator.randrange(len(packet))] = generator.randrange(256)
        segment = parse(bytes(packet))
        if segment:
            assert 0 <= (segment.number("MSS") or 0) < 1 << 16


@pytest.mark.parametrize("bits", [32, 64])
def test_positions_wrap(bits: int) -> None:
    """Fails if a position is lost where the numbers begin anew."""
    sequence = Sequence((1 << bits) - 5, bits)
    for position in (0, 4, 5, 6, 1 << 20):
        assert sequence.position(sequence.number(position), position + 1000) == position
        assert sequence.position(sequence.number(position), max(0, position - 1000)) == position
        assert sequence.position(sequence.number(position, 32), position + 9, 32) == position


def test_reassembly_in_any_order() -> None:
    """Fails if bytes get lost or doubled, however the stream is cut and repeated."""
    generator = random.Random(2)
    stream = generator.randbytes(500)
    for _ in range(200):
        pieces = [(start, start + generator.randrange(1, 60)) for start in range(0, 500, 7)]
        generator.shuffle(pieces)
        reassembly = Reassembly(1)
        found = b"".join(reassembly.add(start + 1, stream[start:end]) for start, end in pieces)
        held = bytearray(500)
        for start, end in pieces:
            held[start:min(end, 500)] = b"\1" * (min(end, 500) - start)
        gap = held.find(0)
        assert found == stream[:gap if gap >= 0 else 500]
        assert reassembly.next == len(found) + 1
