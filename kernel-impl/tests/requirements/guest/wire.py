# SPDX-License-Identifier: GPL-2.0-or-later
"""A stranger on a link, in the guest: sees what passes, and sends segments of its own making.

It is not the host and not the target: neither kernel knows its address, so neither answers for it.
"""

import json
import random
import select
import socket
import time
from collections.abc import Iterable

from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, Connection, Connections, End, Subflow
from nvmptcp_lab.guest.netns import inside
from scapy.compat import raw
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import NoPayload, Packet, Padding

from .situation import ip

ETH_P_ALL = 3
_SEQUENCE_SPACE = 1 << 32
_SOURCE, _DESTINATION = slice(26, 30), slice(30, 34)  # IPv4 addresses in an Ethernet frame
_OTHER = {"host": "target", "target": "host"}


def _mac(netns: str, interface: str) -> str:
    address: str = json.loads(ip(netns, "-j", "link", "show", interface))[0]["address"]
    return address


def payload_length(segment: Packet) -> int:
    """Bytes of TCP payload of a captured segment, Ethernet's padding not counted."""
    tcp = segment[TCP]
    if isinstance(tcp.payload, (NoPayload, Padding)):
        return 0
    length: int = segment.len - 4 * segment.ihl - 4 * tcp.dataofs
    return length


class Tap:
    """One end of a path: `tap.seen()` is what passed it, both ways; `tap.send()` puts frames on it,
    towards the other end.
    """

    def __init__(self, netns: str, path: int) -> None:
        interface = f"path{path}"
        with inside(netns):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            # SO_RCVBUFFORCE: the handshakes wait here until somebody asks
            self._socket.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)
            self._socket.bind((interface, 0))
        self._netns, self._interface = netns, interface
        self._ignored: set[bytes] = set()
        self.own_mac = _mac(netns, interface)
        self.peer_mac = _mac(_OTHER[netns], interface)

    def seen(self, seconds: float = 0) -> list[Packet]:
        """The TCP segments (IP layer) that passed since the last call, and, where there are none,
        those that do within some time.
        """
        found = []
        end = time.monotonic() + seconds
        while select.select([self._socket], [], [], max(0, end - time.monotonic()))[0]:
            data = self._socket.recv(1 << 17)
            if data[_SOURCE] in self._ignored or data[_DESTINATION] in self._ignored:
                continue
            frame = Ether(data)
            if IP in frame and TCP in frame:
                found.append(frame[IP])
                end = 0
        return found

    def send(self, segments: Iterable[Packet]) -> None:
        header = Ether(src=self.own_mac, dst=self.peer_mac)
        for segment in segments:
            self._socket.send(raw(header / segment))

    def lend_address(self, address: str) -> None:
        """Let the other end know where `address` is, which no kernel has."""
        ip(_OTHER[self._netns], "neigh", "replace", address, "lladdr", self.own_mac,
           "dev", self._interface)


    def ignore(self, address: str) -> None:
        """Have `seen` leave out an address: what is seen is dissected, and that takes long."""
        self._ignored.add(socket.inet_aton(address))


class Observer:
    """The MPTCP connections that passed some taps: keys, subflows, sequence numbers."""

    def __init__(self, *taps: Tap) -> None:
        self._taps = taps
        self._connections = Connections()
        self._next: dict[tuple[End, End], int] = {}

    def update(self) -> list[Connection]:
        """Take in what passed. Taps are read one after another: the first one has to be that of the
        first subflow.
        """
        for tap in self._taps:
            for segment in tap.seen():
                tcp = segment[TCP]
                self._connections.add(segment)
                ends = End(segment.src, tcp.sport), End(segment.dst, tcp.dport)
                length = payload_length(segment) + bool(tcp.flags.S) + bool(tcp.flags.F)
                self._next[ends] = (tcp.seq + length) % _SEQUENCE_SPACE
        return list(self._connections)

    def forge(self, subflow: Subflow, sender: int, option: mptcp.MPTCPOption | None,
              flags: str = "A") -> Packet:
        """A segment of a subflow as `sender` (INITIATOR or LISTENER) would send it next."""
        ends = subflow.ends if sender == INITIATOR else (subflow.ends[1], subflow.ends[0])
        source, destination = ends
        return IP(src=source.address, dst=destination.address) / TCP(
            sport=source.port, dport=destination.port, flags=flags, window=512,
            seq=self._next[source, destination], ack=self._next[destination, source],
            options=[("MPTCP", option)] if option else [])


class Joiner:
    """The stranger's own TCP connection, from an address that it lends itself."""

    def __init__(self, tap: Tap, source: str, destination: str, dport: int = 4420) -> None:
        self._tap = tap
        self._tap.lend_address(source)
        self._own, self._peer = End(source, random.randrange(20_000, 60_000)), End(
            destination, dport)
        self.isn = random.randrange(_SEQUENCE_SPACE)
        self.nonce = random.randrange(_SEQUENCE_SPACE)
        self._next, self._ack = self.isn, 0
        self.answer: Packet | None = None

    def send(self, flags: str, options: list[tuple[str, object]], payload: bytes = b"") -> None:
        segment = IP(src=self._own.address, dst=self._peer.address) / TCP(
            sport=self._own.port, dport=self._peer.port, flags=flags, seq=self._next,
            ack=self._ack, window=65535, options=options) / payload
        self._tap.send([segment])
        self._next = (self._next + len(payload) + ("S" in flags)) % _SEQUENCE_SPACE

    def receive(self, seconds: float = 0.3) -> list[Packet]:
        """The TCP layers of what came back, within some time."""
        found = []
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for segment in self._tap.seen(left):
                tcp = segment[TCP]
                if End(segment.dst, tcp.dport) == self._own and segment.src == self._peer.address:
                    found.append(tcp)
        return found

    def syn(self, option: mptcp.MPTCPOption | None) -> str:
        """Send a SYN. Returns what came: "reset", "syn/ack", "nothing"."""
        self.send("S", [("MSS", 1400), *([("MPTCP", option)] if option else [])])
        for tcp in self.receive():
            if tcp.flags.R:
                return "reset"
            if tcp.flags.S:
                self.answer, self._ack = tcp, (tcp.seq + 1) % _SEQUENCE_SPACE
                return "syn/ack"
        return "nothing"

    def join(self, token: int, address_id: int = 99) -> str:
        """Send a SYN with MP_JOIN. Returns as `syn` does."""
        return self.syn(mptcp.MPJoinSYN(address_id=address_id, token=token, nonce=self.nonce))

    def hmacs_fit(self, connection: Connection) -> bool:
        """Whether the SYN/ACK proves that the listener knows the keys."""
        option = self._join_answer()
        own, peer = connection.keys
        return bool(option.hmac == mptcp.join_hmac(peer, own, option.nonce, self.nonce)[:8])

    def complete(self, connection: Connection, *, wrong: bool = False) -> str:
        """Send the third packet, with the right HMAC or a wrong one.

        Returns "reset" where a reset came, else "joined" if the listener acknowledged it.
        """
        own, peer = connection.keys
        hmac = mptcp.join_hmac(own, peer, self.nonce, self._join_answer().nonce)[:20]
        if wrong:
            hmac = bytes([hmac[0] ^ 1]) + hmac[1:]
        self.send("A", [("MPTCP", mptcp.MPJoinACK(hmac=hmac))])
        return self.outcome()

    def outcome(self) -> str:
        """What the listener makes of what was sent: "reset", "joined" or "nothing"."""
        answers = self.receive()
        if any(tcp.flags.R for tcp in answers):
            return "reset"
        return "joined" if any(tcp.flags.A and not tcp.flags.S for tcp in answers) else "nothing"

    def reset(self) -> None:
        """Take the subflow back."""
        self.send("R", [])

    def data(self, dsn: int, payload: bytes) -> None:
        """Send data at a DSN of the connection."""
        ssn = (self._next - self.isn) % _SEQUENCE_SPACE
        option = mptcp.DSS(flags="Mm", dsn=dsn, ssn=ssn, data_len=len(payload))
        self.send("A", [("MPTCP", option)], payload)

    def _join_answer(self) -> mptcp.MPJoinSYNACK:
        assert self.answer, "no SYN/ACK came"
        option = mptcp.find_option(self.answer, mptcp.MPJoinSYNACK)
        assert option, "the SYN/ACK has no MP_JOIN"
        return option


class Answerer:
    """The stranger as the one who is joined, at an address that it lends itself."""

    def __init__(self, tap: Tap, address: str) -> None:
        self._tap, self._address = tap, address
        self.joins: list[Packet] = []  # the SYNs with MP_JOIN, not counting those sent again
        self.nonce = random.randrange(_SEQUENCE_SPACE)
        tap.lend_address(address)
        tap.seen()

    def listen(self, seconds: float) -> list[Packet]:
        """What comes within some time; new SYNs are noted in `joins`."""
        found = []
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            found += [segment for segment in self._tap.seen(left) if segment.dst == self._address]
        known = {(syn.src, syn[TCP].sport) for syn in self.joins}
        self.joins += [segment for segment in found
                       if mptcp.find_option(segment, mptcp.MPJoinSYN)
                       and (segment.src, segment[TCP].sport) not in known]
        return found

    def answer(self, connection: Connection, *, wrong: bool = False) -> str:
        """Answer the first join, with the right HMAC or a wrong one.

        Returns what came: "reset", "HMAC" (a third packet whose HMAC is right) or "nothing".
        """
        syn = self.joins[0]
        option = mptcp.find_option(syn, mptcp.MPJoinSYN)
        assert option
        peer, own = connection.keys
        hmac = mptcp.join_hmac(own, peer, self.nonce, option.nonce)[:8]
        if wrong:
            hmac = bytes([hmac[0] ^ 1]) + hmac[1:]
        reply = mptcp.MPJoinSYNACK(address_id=77, hmac=hmac, nonce=self.nonce)
        self._tap.send([IP(src=self._address, dst=syn.src) / TCP(
            sport=syn[TCP].dport, dport=syn[TCP].sport, flags="SA", seq=self.nonce,
            ack=(syn[TCP].seq + 1) % _SEQUENCE_SPACE, window=65535,
            options=[("MSS", 1400), ("MPTCP", reply)])])
        for segment in self.listen(0.1):
            if segment[TCP].flags.R:
                return "reset"
            third = mptcp.find_option(segment, mptcp.MPJoinACK)
            expected = mptcp.join_hmac(peer, own, option.nonce, self.nonce)[:20]
            if third and third.hmac == expected:
                return "HMAC"
        return "nothing"
