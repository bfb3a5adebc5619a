# SPDX-License-Identifier: GPL-2.0-or-later
"""A capture's byte streams and PDUs, put together apart from the dissector, to compare it with.

    for connection in read(Path("capture.pcapng")):
        for pdu in connection.pdus(INITIATOR):
            print(pdu.frame, pdu.pdu.summary())

It knows a capture from its beginning to its end before it puts anything in order, and needs one
that is complete: handshakes, and each byte at least once. It follows RFC 8684: mappings and DSS
checksums (§3.3), tokens (§3.2), both kinds of fallback (§3.7). TCP connections come out, too.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER, End
from nvmptcp_conformance.layers.nvme_tcp import NVMeTCP, split_pdus
from scapy.layers.inet import TCP
from scapy.packet import Packet
from scapy.utils import RawPcapNgReader

MAX_PACKET = 1 << 18  # bytes; larger than any IP packet and its Ethernet header
EVERY = range(1 << 32)  # frame
NANOSECONDS = 1_000_000_000
SIDES = (INITIATOR, LISTENER)
_SEQUENCES, _DSNS = 1 << 32, 1 << 64
_ETHERNET, _IPV6_HEADER, _TCP_PROTOCOL = 14, 40, 6
_ETHERTYPES = {0x0800: 4, 0x86DD: 6}


class Segment(NamedTuple):
    """A TCP segment of a capture."""

    frame: int  # from 1
    time: float  # s
    source: End
    destination: End
    tcp: Packet  # the header
    payload: bytes


class Piece(NamedTuple):
    """Bytes at an offset of a stream (from 0), and where they came."""

    offset: int
    data: bytes
    frame: int
    time: float


class Mapping(NamedTuple):
    """A data sequence mapping; `length`, in bytes of payload, is None where it is infinite."""

    ssn: int
    dsn: int
    length: int | None
    checksum: int | None
    data_fin: bool

    def covers(self, ssn: int) -> bool:
        return self.ssn <= ssn and (self.length is None or ssn < self.ssn + self.length)


class PDU(NamedTuple):
    """A PDU of a stream; frame and time are those at which the stream is whole up to its end."""

    offset: int
    frame: int
    time: float
    pdu: NVMeTCP


def segments(capture: Path) -> Iterator[Segment]:
    """The TCP segments of a pcapng file of Ethernet frames. Raises OSError, Scapy_Exception."""
    for frame, (data, time) in enumerate(packets(capture), 1):
        if segment := _segment(frame, time / NANOSECONDS, data):
            yield segment


def packets(capture: Path) -> Iterator[tuple[bytes, int]]:
    """The packets of a pcapng file and their times in ns. Raises OSError, Scapy_Exception."""
    reader: Any
    with RawPcapNgReader(str(capture)) as reader, suppress(EOFError):
        while True:
            # What iteration gives, which cuts the largest GSO packets.
            data, about = reader._read_packet(size=MAX_PACKET)
            yield data, ((about.tshigh << 32) + about.tslow) * NANOSECONDS // about.tsresol


def _segment(frame: int, time: float, data: bytes) -> Segment | None:
    packet = data[_ETHERNET:]
    match _ETHERTYPES.get(int.from_bytes(data[12:14], "big")):
        case 4 if packet[9] == _TCP_PROTOCOL:
            addresses, start = (packet[12:16], packet[16:20]), 4 * (packet[0] & 15)
            end = int.from_bytes(packet[2:4], "big")
        case 6 if packet[6] == _TCP_PROTOCOL:
            addresses, start = (packet[8:24], packet[24:40]), _IPV6_HEADER
            end = start + int.from_bytes(packet[4:6], "big")
        case _:
            return None
    options_end = start + 4 * (packet[start + 12] >> 4)
    tcp = TCP(packet[start:options_end])
    source, destination = (str(ip_address(address)) for address in addresses)
    return Segment(frame, time, End(source, tcp.sport), End(destination, tcp.dport), tcp,
                   packet[options_end:end])


@dataclass
class Flow:
    """A TCP connection: a subflow, or one without MPTCP. Lists are by sender."""

    ends: tuple[End, End]
    joined: bool
    isn: list[int] = field(default_factory=lambda: [0, 0])
    pieces: list[list[Piece]] = field(default_factory=lambda: [[], []])  # offset: SSN - 1
    mappings: list[set[Mapping]] = field(default_factory=lambda: [set(), set()])

    def stream(self, sender: int, until: float = inf) -> bytes:
        """The bytes of the TCP connection up to the first gap."""
        return _Assembly(self.pieces[sender], until).stream


def _first_come(pieces: Iterable[Piece]) -> list[Piece]:
    """Disjoint pieces in order; of bytes that came more than once, the ones that came first."""
    kept: list[Piece] = []
    begins: list[int] = []
    for piece in sorted(pieces, key=lambda piece: piece.frame):
        at, end = piece.offset, piece.offset + len(piece.data)
        index = bisect_right(begins, at)
        if index:
            at = max(at, begins[index - 1] + len(kept[index - 1].data))
        while at < end:
            gap = min(end, begins[index]) if index < len(begins) else end
            if gap > at:
                data = piece.data[at - piece.offset:gap - piece.offset]
                kept.insert(index, Piece(at, data, piece.frame, piece.time))
                begins.insert(index, at)
                index += 1
            if index == len(begins):
                break
            at = begins[index] + len(kept[index].data)
            index += 1
    return kept


class _Assembly:
    """Pieces in order. Of bytes that came more than once, the first ones count."""

    def __init__(self, pieces: Iterable[Piece], until: float = inf) -> None:
        parts: list[bytes] = []
        self._ends: list[int] = []  # of the parts, in the stream
        self._whole: list[tuple[int, float]] = []  # (frame, time) by which it is whole up to there
        self._frames: list[int] = []  # that carried them
        length, whole = 0, (0, 0.0)
        for piece in _first_come(piece for piece in pieces if piece.time <= until):
            if piece.offset > length:
                break
            length += len(piece.data)
            whole = max(whole, (piece.frame, piece.time))
            parts.append(piece.data)
            self._ends.append(length)
            self._whole.append(whole)
            self._frames.append(piece.frame)
        self.stream = b"".join(parts)

    def whole(self, end: int) -> tuple[int, float]:
        """Frame and time by which the stream is whole up to byte `end`."""
        return self._whole[bisect_right(self._ends, end - 1)]

    def frames(self, begin: int, end: int) -> list[int]:
        """The frames that carried these bytes, in the order of the stream."""
        first, last = (bisect_right(self._ends, byte) for byte in (begin, end - 1))
        return [frame for frame, _ in groupby(self._frames[first:last + 1])]


class Coverage:
    """The parts of a stream that some pieces hold."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for piece in sorted(pieces):
            end = piece.offset + len(piece.data)
            if self._ends and piece.offset <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(piece.offset)
                self._ends.append(end)

    def covers(self, begin: int, end: int) -> bool:
        """Whether the bytes from `begin` up to `end`, which is past the last one, are all there."""
        index = bisect_right(self._begins, begin) - 1
        return index >= 0 and end <= self._ends[index]


@dataclass
class Connection:
    """An MPTCP connection, or a TCP connection, which has one flow. Lists are by sender."""

    protocol: str  # "mptcp", also where it fell back after the handshake, or "tcp"
    flows: list[Flow] = field(default_factory=list)
    keys: list[int] = field(default_factory=lambda: [0, 0])
    # What was put together and parsed, by sender and time.
    _assemblies: dict[tuple[int, float], _Assembly] = field(default_factory=dict, repr=False)
    _pdus: dict[tuple[int, float], list[PDU]] = field(default_factory=dict, repr=False)

    def first_dsn(self, sender: int) -> int:
        """The DSN of the first byte: the IDSN itself counts for the SYN."""
        return (mptcp.idsn(self.keys[sender]) + 1) % _DSNS

    def next_dsn(self, sender: int, until: float) -> int:
        """The DSN after the last byte of the stream, as far as it is whole at a time."""
        return (self.first_dsn(sender) + len(self.stream(sender, until))) % _DSNS

    def stream(self, sender: int, until: float = inf) -> bytes:
        """What `sender` sent, in order, up to the first gap, up to a time."""
        return self._assembly(sender, until).stream

    def pdus(self, sender: int, until: float = inf) -> list[PDU]:
        """The PDUs of a stream. Raises ValueError where it is none of PDUs."""
        if (sender, until) not in self._pdus:
            assembly = self._assembly(sender, until)
            found, offset = [], 0
            for pdu in split_pdus(assembly.stream)[0]:
                found.append(PDU(offset, *assembly.whole(offset + pdu.plen), pdu))
                offset += pdu.plen
            self._pdus[sender, until] = found
        return self._pdus[sender, until]

    def carriers(self, sender: int) -> list[list[int]]:
        """For each PDU of a stream the frames that carried its bytes, in order."""
        assembly = self._assembly(sender, inf)
        return [assembly.frames(each.offset, each.offset + each.pdu.plen)
                for each in self.pdus(sender)]

    def coverage(self, sender: int, frames: range = EVERY) -> Coverage:
        """The parts of a stream that the chosen frames hold."""
        return Coverage(piece for piece in self._pieces[sender] if piece.frame in frames)

    def _assembly(self, sender: int, until: float) -> _Assembly:
        if (sender, until) not in self._assemblies:
            self._assemblies[sender, until] = _Assembly(self._pieces[sender], until)
        return self._assemblies[sender, until]

    @cached_property
    def _pieces(self) -> list[list[Piece]]:
        if self.protocol == "tcp":
            return self.flows[0].pieces
        return [[piece for flow in self.flows for piece in self._mapped(flow, sender)]
                for sender in SIDES]

    def _mapped(self, flow: Flow, sender: int) -> Iterator[Piece]:
        """The pieces of a flow at their offsets in the connection's stream."""
        first, end = self.first_dsn(sender), self._trusted_end(flow, sender)
        mappings = sorted(flow.mappings[sender], key=lambda mapping: mapping.ssn)
        starts = [mapping.ssn for mapping in mappings]
        for piece in flow.pieces[sender]:
            at = 0
            while at < len(piece.data):
                ssn = piece.offset + 1 + at
                later = bisect_right(starts, ssn)
                mapping = next((mappings[index] for index in range(later - 1, -1, -1)
                                if mappings[index].covers(ssn)), None)
                size = len(piece.data) - at
                if mapping and mapping.length is not None:
                    size = min(size, mapping.ssn + mapping.length - ssn)
                elif not mapping and later < len(starts):
                    size = min(size, starts[later] - ssn)
                if ssn < end and (mapping or not flow.joined):
                    # Without a mapping it is TCP again, which has one flow, from the first byte on.
                    offset = ssn - 1 if mapping is None else (
                        mapping.dsn + ssn - mapping.ssn - first) % _DSNS
                    yield Piece(offset, piece.data[at:at + size], piece.frame, piece.time)
                at += size

    def _trusted_end(self, flow: Flow, sender: int) -> float:
        """The SSN from which a flow's data don't count: it is reset after a wrong checksum, if
        there are others (RFC 8684 §3.7).
        """
        if len(self.flows) == 1:
            return inf
        stream = flow.stream(sender)
        for mapping in sorted(flow.mappings[sender], key=lambda mapping: mapping.ssn):
            if mapping.checksum is None or mapping.length is None:
                continue
            data = stream[mapping.ssn - 1:mapping.ssn - 1 + mapping.length]
            length = mapping.length + mapping.data_fin
            if len(data) == mapping.length and mapping.checksum != mptcp.dss_checksum(
                    mapping.dsn, mapping.ssn, length, data):
                return mapping.ssn
        return inf


def read(capture: Path) -> list[Connection]:
    """The connections of a capture, in the order of their SYNs. Raises OSError."""
    reader = _Reader()
    for segment in segments(capture):
        reader.add(segment)
    return reader.connections


class _Reader:
    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self._by_ends: dict[tuple[End, End], tuple[Connection, Flow, int]] = {}
        self._dsn: dict[tuple[int, int], int] = {}  # the last one of a connection and sender

    def add(self, segment: Segment) -> None:
        tcp = segment.tcp
        ends = segment.source, segment.destination
        if tcp.flags.S and not tcp.flags.A:
            known = self._by_ends.get(ends)
            if not known or known[1].isn[INITIATOR] != tcp.seq:
                self._open(segment, ends)
        if ends not in self._by_ends:
            return
        connection, flow, sender = self._by_ends[ends]
        if tcp.flags.S:
            flow.isn[sender] = tcp.seq
            if tcp.flags.A and not flow.joined and not mptcp.find_option(
                    tcp, mptcp.MPCapableSYNACK):
                connection.protocol = "tcp"
        for option in mptcp.mptcp_options(tcp):
            self._option(connection, flow, sender, option)
        if segment.payload and not tcp.flags.S:
            offset = (tcp.seq - flow.isn[sender] - 1) % _SEQUENCES
            flow.pieces[sender].append(
                Piece(offset, segment.payload, segment.frame, segment.time))

    def _open(self, segment: Segment, ends: tuple[End, End]) -> None:
        join = mptcp.find_option(segment.tcp, mptcp.MPJoinSYN)
        flow = Flow(ends, joined=bool(join), isn=[segment.tcp.seq, 0])
        if join:
            connection = next((each for each in reversed(self.connections)
                               if mptcp.token(each.keys[LISTENER]) == join.token), None)
            if connection is None:
                return
        else:
            capable = mptcp.find_option(segment.tcp, mptcp.MPCapableSYN)
            connection = Connection("mptcp" if capable else "tcp")
            self.connections.append(connection)
        connection.flows.append(flow)
        self._by_ends[ends] = connection, flow, INITIATOR
        self._by_ends[ends[1], ends[0]] = connection, flow, LISTENER

    def _option(self, connection: Connection, flow: Flow, sender: int,
                option: mptcp.MPTCPOption | bytes) -> None:
        checksum = getattr(option, "checksum", None)
        match option:
            case mptcp.MPCapableACK() | mptcp.MPCapableData() | mptcp.MPCapableDataChecksum():
                connection.keys = [option.sender_key, option.receiver_key]
                if length := getattr(option, "data_len", 0):
                    flow.mappings[sender].add(
                        Mapping(1, connection.first_dsn(sender), length, checksum, False))
            case mptcp.DSS() if option.flags.M:
                data_fin = bool(option.flags.F)
                length = option.data_len - data_fin if option.data_len else None
                if length != 0:
                    flow.mappings[sender].add(Mapping(
                        option.ssn, self._extended(connection, sender, option), length, checksum,
                        data_fin))

    def _extended(self, connection: Connection, sender: int, option: mptcp.DSS) -> int:
        """The DSN of a mapping with all of its 64 bits."""
        place = id(connection), sender
        dsn = int(option.dsn)
        if not option.flags.m:
            near = self._dsn.get(place, connection.first_dsn(sender))
            half = _SEQUENCES // 2
            dsn = (near + (dsn - near + half) % _SEQUENCES - half) % _DSNS
        self._dsn[place] = dsn
        return dsn
