# SPDX-License-Identifier: GPL-2.0-or-later
"""The byte streams of MPTCP connections, put together from captured packets.

    connections = Connections()
    for packet in rdpcap("capture.pcap"):
        connections.add(packet)
    for connection in connections:
        pdus, rest = split_pdus(connection.stream(INITIATOR))

It follows RFC 8684 for traffic without loss of the handshake: a connection is known by the keys of
its third packet (§3.1), a further subflow by the token of its SYN (§3.2), data by their mappings
(§3.3.1). Connections that fall back to TCP are not followed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scapy.compat import raw
from scapy.layers.inet import TCP
from scapy.packet import NoPayload, Packet, Padding

from . import mptcp

INITIATOR, LISTENER = 0, 1  # who sends
_DSN_SPACE, _HALF = 1 << 64, 1 << 31


class End(NamedTuple):
    """An address and a port."""

    address: str
    port: int


class Mapping(NamedTuple):
    """A data sequence mapping as it stood in an option."""

    packet: Packet
    sender: int  # INITIATOR or LISTENER
    dsn: int  # all 64 bits
    ssn: int  # relative: 1 is the first byte after the SYN
    length: int  # with DATA_FIN, if there is one
    checksum: int | None
    data_fin: bool

    @property
    def payload_length(self) -> int:
        """Bytes of payload that the mapping covers."""
        return self.length - (1 if self.data_fin else 0)


@dataclass
class Subflow:
    """One TCP connection; `isn` and `nonces` by sender, `address_ids` from MP_JOIN."""

    ends: tuple[End, End]
    isn: list[int] = field(default_factory=lambda: [0, 0])
    nonces: list[int] = field(default_factory=lambda: [0, 0])
    join: Packet | None = None  # the SYN's option, None on the first subflow
    hmacs: list[bytes] = field(default_factory=lambda: [b"", b""])
    last: list[Mapping | None] = field(default_factory=lambda: [None, None])


@dataclass
class Connection:
    """An MPTCP connection. Lists are by sender: [INITIATOR], [LISTENER]."""

    keys: list[int] = field(default_factory=lambda: [0, 0])
    subflows: list[Subflow] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    _bytes: list[dict[int, bytes]] = field(default_factory=lambda: [{}, {}])
    _highest: list[int] = field(default_factory=lambda: [0, 0])

    def token(self, side: int) -> int:
        """The token by which `side` knows the connection."""
        return mptcp.token(self.keys[side])

    def first_dsn(self, sender: int) -> int:
        """The DSN of the first byte: the IDSN itself counts for the SYN."""
        return (mptcp.idsn(self.keys[sender]) + 1) % _DSN_SPACE

    def extend_dsn(self, sender: int, dsn: int, octets: int) -> int:
        """The 64-bit DSN for one of 4 or 8 octets, near what was sent last."""
        if octets == 8:
            return dsn
        near = self._highest[sender] or self.first_dsn(sender)
        delta = (dsn - near + _HALF) % (1 << 32) - _HALF
        return (near + delta) % _DSN_SPACE

    def place(self, sender: int, dsn: int, data: bytes) -> None:
        """Bytes at a DSN."""
        self._highest[sender] = max(self._highest[sender], dsn, key=lambda value: (
            value - self.first_dsn(sender)) % _DSN_SPACE)
        offset = (dsn - self.first_dsn(sender)) % _DSN_SPACE
        if data and len(data) > len(self._bytes[sender].get(offset, b"")):
            self._bytes[sender][offset] = data

    def stream(self, sender: int) -> bytes:
        """What `sender` sent, in order, up to the first gap."""
        stream = bytearray()
        for offset, data in sorted(self._bytes[sender].items()):
            if offset > len(stream):
                break
            stream += data[len(stream) - offset:]
        return bytes(stream)


def _payload(tcp: Packet) -> bytes:
    if isinstance(tcp.payload, (NoPayload, Padding)):
        return b""
    return raw(tcp.payload)


class Connections:
    """All MPTCP connections of a capture, in the order of their SYNs."""

    def __init__(self) -> None:
        self._connections: list[Connection] = []
        self._by_ends: dict[tuple[End, End], tuple[Connection, Subflow, int]] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections)

    def add(self, packet: Packet) -> None:
        """Take in one packet; packets that belong to no MPTCP connection are passed over."""
        if TCP not in packet:
            return
        tcp = packet[TCP]
        sender, receiver = (End(tcp.underlayer.src, tcp.sport), End(tcp.underlayer.dst, tcp.dport))
        if tcp.flags.S and not tcp.flags.A:
            self._open(tcp, sender, receiver)
        known = self._by_ends.get((sender, receiver))
        if known:
            self._segment(packet, *known)

    def _open(self, tcp: Packet, sender: End, receiver: End) -> None:
        if (sender, receiver) in self._by_ends and (
                self._by_ends[sender, receiver][1].isn[INITIATOR] == tcp.seq):
            return  # a SYN sent again
        if mptcp.find_option(tcp, mptcp.MPCapableSYN):
            connection = Connection()
            self._connections.append(connection)
            join = None
        elif join := mptcp.find_option(tcp, mptcp.MPJoinSYN):
            found = [known for known in self._connections if known.token(LISTENER) == join.token]
            if not found:
                return
            connection = found[-1]
        else:
            return
        subflow = Subflow((sender, receiver), join=join)
        connection.subflows.append(subflow)
        self._by_ends[sender, receiver] = (connection, subflow, INITIATOR)
        self._by_ends[receiver, sender] = (connection, subflow, LISTENER)

    def _segment(self, packet: Packet, connection: Connection, subflow: Subflow,
                 sender: int) -> None:
        tcp = packet[TCP]
        if tcp.flags.S:
            subflow.isn[sender] = tcp.seq
        payload = _payload(tcp)
        for option in mptcp.mptcp_options(tcp):
            match option:
                case mptcp.MPJoinSYN():
                    subflow.nonces[sender] = option.nonce
                case mptcp.MPJoinSYNACK():
                    subflow.nonces[sender], subflow.hmacs[sender] = option.nonce, option.hmac
                case mptcp.MPJoinACK():
                    subflow.hmacs[sender] = option.hmac
                case mptcp.MPCapableACK() | mptcp.MPCapableData() | mptcp.MPCapableDataChecksum():
                    connection.keys[:] = option.sender_key, option.receiver_key
                    if not isinstance(option, mptcp.MPCapableACK):
                        self._map(connection, subflow, Mapping(
                            packet, sender, connection.first_dsn(sender), 1, option.data_len,
                            getattr(option, "checksum", None), False))
                case mptcp.DSS() if option.flags.M and option.data_len:
                    dsn = connection.extend_dsn(sender, option.dsn, 8 if option.flags.m else 4)
                    self._map(connection, subflow, Mapping(
                        packet, sender, dsn, option.ssn, option.data_len,
                        getattr(option, "checksum", None), bool(option.flags.F)))
        mapping = subflow.last[sender]
        if payload and mapping:
            # A mapping may span segments, of which the later ones need not repeat it.
            offset = (tcp.seq - subflow.isn[sender] - mapping.ssn) % (1 << 32)
            if offset < mapping.payload_length:
                connection.place(sender, (mapping.dsn + offset) % _DSN_SPACE,
                                 payload[:mapping.payload_length - offset])

    @staticmethod
    def _map(connection: Connection, subflow: Subflow, mapping: Mapping) -> None:
        connection.mappings.append(mapping)
        subflow.last[mapping.sender] = mapping
