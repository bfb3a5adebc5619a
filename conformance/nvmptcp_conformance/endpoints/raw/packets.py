# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP segments in and out of raw sockets, past this machine's own TCP."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from scapy.compat import raw
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6

from ...layers import mptcp
from ...layers.mptcp_stream import End

_ETH_P_IP, _ETH_P_IPV6 = 0x0800, 0x86DD
_SO_ATTACH_FILTER, _IP_FREEBIND, _IPV6_FREEBIND, _IP_PKTINFO = 26, 15, 78, 8
_PACKET_OTHERHOST = 3
_LARGEST = 1 << 17  # bytes: packets that GRO has put together
_IPV6_HEADER = 40
_OPTION_ROOM = 40  # bytes of TCP options
_MAX_FILTER_PORTS = 2000  # a filter has at most 4096 instructions, two a port

_OPTIONS = next(field for field in TCP.fields_desc if field.name == "options")

_Option = TypeVar("_Option", bound=mptcp.MPTCPOption)


class RawUnavailable(Exception):
    """Raw packets can't be sent or received here; the text says what to do."""


@dataclass(frozen=True)
class Segment:
    """A TCP segment as it is on the wire. `flags` as Scapy writes them, such as "SA"; options as
    in Scapy's TCP layer: ("MSS", 1400), ("MPTCP", an option of layers.mptcp, or bytes).
    """

    source: End
    destination: End
    flags: str
    seq: int
    ack: int = 0
    window: int = 65535  # as in the header, not scaled
    options: tuple[tuple[str, Any], ...] = ()
    payload: bytes = b""

    @property
    def mptcp_options(self) -> list[mptcp.MPTCPOption | bytes]:
        """The MPTCP options, in order; bytes for those that have no form of RFC 8684."""
        return [value for name, value in self.options if name == "MPTCP"]

    def find(self, form: type[_Option]) -> _Option | None:
        """The first MPTCP option of this form, if there is one."""
        return next((option for option in self.mptcp_options if isinstance(option, form)), None)

    def number(self, name: str) -> int | None:
        """The value of a TCP option such as "MSS", None where it isn't there or has no number."""
        return next((value for option, value in self.options
                     if option == name and isinstance(value, int)), None)

    def without_mptcp(self) -> Segment:
        """The segment with all MPTCP options taken out, as some middleboxes do."""
        return replace(self, options=tuple(o for o in self.options if o[0] != "MPTCP"))

    def to_bytes(self) -> bytes:
        """The IP packet. Raises ValueError where the options don't fit into a TCP header."""
        length = option_length(self.options)
        if length > _OPTION_ROOM:
            raise ValueError(f"TCP options of {length} bytes: at most {_OPTION_ROOM}")
        kind = IPv6 if ":" in self.source.address else IP
        tcp = TCP(sport=self.source.port, dport=self.destination.port, flags=self.flags,
                  seq=self.seq, ack=self.ack, window=self.window, options=list(self.options))
        return raw(kind(src=self.source.address, dst=self.destination.address) / tcp / self.payload)


def option_length(options: Collection[tuple[str, Any]]) -> int:
    """Bytes that options take in a TCP header, with padding."""
    length = len(_OPTIONS.i2m(None, list(options)))
    return (length + 3) // 4 * 4


def parse(packet: bytes) -> Segment | None:
    """The TCP segment in an IP packet, None if it is something else. TCP's checksum is not looked
    at: within a machine it is left to hardware that isn't there.
    """
    if len(packet) < 20:
        return None
    if packet[0] >> 4 == 4:
        start, end = 4 * (packet[0] & 15), int.from_bytes(packet[2:4], "big") or len(packet)
        fragment = int.from_bytes(packet[6:8], "big") & 0x3FFF  # More Fragments, offset
        protocol, addresses, family = packet[9], packet[12:20], socket.AF_INET
    elif len(packet) >= _IPV6_HEADER:
        # 0: a jumbogram, which is what GRO makes of more than 64 KiB
        start, end = _IPV6_HEADER, int.from_bytes(packet[4:6], "big") + _IPV6_HEADER
        end = len(packet) if end == _IPV6_HEADER else end
        protocol, addresses, family, fragment = packet[6], packet[8:40], socket.AF_INET6, 0
    else:
        return None
    if protocol != socket.IPPROTO_TCP or fragment or len(packet) < start + 20:
        return None
    payload = start + 4 * (packet[start + 12] >> 4)
    if not start + 20 <= payload <= len(packet):
        return None
    tcp = TCP(packet[start:payload])  # the header only: nothing shall be made of the payload
    half = len(addresses) // 2
    return Segment(End(socket.inet_ntop(family, addresses[:half]), tcp.sport),
                   End(socket.inet_ntop(family, addresses[half:]), tcp.dport),
                   str(tcp.flags), tcp.seq, tcp.ack, tcp.window, tuple(tcp.options),
                   packet[payload:end])


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def local_address(remote: str) -> str:
    """The address from which this machine would send to `remote`. Raises OSError."""
    with socket.socket(family_of(remote), socket.SOCK_DGRAM) as probe:
        probe.connect((remote, 9))  # sends nothing
        address: str = probe.getsockname()[0]
    return address


def _attach(sock: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    """Attach a classic BPF program: (code, jump if true, jump if false, value)."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER,
                    struct.pack("HL", len(program), ctypes.addressof(buffer)))


class Guard:
    """Holds a local TCP port, so that this machine's TCP stays silent: a listening socket whose
    filter drops all that comes.
    """

    def __init__(self, address: str, port: int) -> None:
        """Port 0: any that is free. Raises OSError, for one that is taken, too."""
        family = family_of(address)
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            _attach(self._socket, [(0x06, 0, 0, 0)])  # drop
            if family == socket.AF_INET6:
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
            else:
                self._socket.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, port))
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise OSError(error.errno, f"TCP port {port} of {address}: {error.strerror}") from None
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


class PacketSockets:
    """The raw sockets. Raises RawUnavailable."""

    def __init__(self) -> None:
        self._in: dict[socket.socket, int] = {}
        self._out: dict[int, socket.socket] = {}
        try:
            for protocol in (_ETH_P_IP, _ETH_P_IPV6):
                # Of one protocol, a packet socket doesn't see what this machine sends.
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(protocol))
                self._in[sock] = protocol
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                sock.setblocking(False)
                _attach(sock, [(0x06, 0, 0, 0)])
            self._open_out()
        except PermissionError:
            self.close()
            raise RawUnavailable(
                "raw packets need CAP_NET_RAW: run with sudo, or give it to Python by"
                " `sudo setcap cap_net_raw+ep \"$(readlink -f .venv/bin/python)\"`") from None
        except OSError as error:
            self.close()
            raise RawUnavailable(f"no raw packets on this machine: {error.strerror}; the kernel"
                                 " needs CONFIG_PACKET") from None

    def _open_out(self) -> None:
        self._out[socket.AF_INET] = socket.socket(socket.AF_INET, socket.SOCK_RAW,
                                                  socket.IPPROTO_RAW)
        with contextlib.suppress(PermissionError, OSError):  # IPv6 may be switched off
            sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
            self._out[socket.AF_INET6] = sock

    @property
    def descriptors(self) -> list[int]:
        """What to wait for before `receive`."""
        return [sock.fileno() for sock in self._in]

    def watch(self, ports: Collection[int]) -> None:
        """Receive what comes to these TCP ports."""
        for sock, protocol in self._in.items():
            _attach(sock, _program(protocol, ports))

    def receive(self) -> list[Segment]:
        """All segments that have come."""
        found = []
        for sock in self._in:
            with contextlib.suppress(BlockingIOError):
                while True:
                    packet, address = sock.recvfrom(_LARGEST)
                    segment = parse(packet)
                    if segment and address[2] != _PACKET_OTHERHOST:
                        found.append(segment)
        return found

    def send(self, packet: bytes, segment: Segment) -> None:
        """Send a segment's packet by this machine's routes, also those that depend on the source
        address. Raises OSError.
        """
        destination, source = segment.destination.address, segment.source.address
        family = family_of(destination)
        if family not in self._out:
            raise OSError(f"{destination}: IPv6 is switched off on this machine")
        packed = socket.inet_pton(family, source)
        if family == socket.AF_INET:
            level, kind, info = socket.IPPROTO_IP, _IP_PKTINFO, struct.pack("=i4s4x", 0, packed)
        else:
            level, kind, info = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO,
                                 struct.pack("=16si", packed, 0))
        self._out[family].sendmsg([packet], [(level, kind, info)], 0, (destination, 0))

    def close(self) -> None:
        for sock in (*self._in, *self._out.values()):
            sock.close()


def _program(protocol: int, ports: Collection[int]) -> list[tuple[int, int, int, int]]:
    """BPF: TCP to one of the ports; offsets count from the IP header."""
    accept, drop = (0x06, 0, 0, 0x40000), (0x06, 0, 0, 0)
    next_header, payload = (9, []) if protocol == _ETH_P_IP else (6, [])
    program = [(0x30, 0, 0, next_header), (0x15, 1, 0, socket.IPPROTO_TCP), drop]
    if len(ports) > _MAX_FILTER_PORTS:
        return [*program, accept]
    if protocol == _ETH_P_IP:
        payload = [(0xB1, 0, 0, 0), (0x48, 0, 0, 2)]  # X = header length; A = port
    else:
        payload = [(0x28, 0, 0, _IPV6_HEADER + 2)]
    program += payload
    for port in sorted(set(ports)):
        program += [(0x15, 0, 1, port), accept]
    return [*program, drop]
