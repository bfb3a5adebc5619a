# SPDX-License-Identifier: GPL-2.0-or-later
"""The packets of a test case: AF_PACKET sockets of Linux, kept in memory, written as pcapng.

Sees all interfaces of the network namespace. Packets begin with the IP header (LINKTYPE_RAW), so
that one file can hold those of interfaces of any kind. Needs the capability CAP_NET_RAW.
"""

import ctypes
import os
import select
import socket
import struct
import threading
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

from scapy.utils import PcapNgWriter

LINKTYPE_RAW = 101
MAX_BYTES = 64 << 20  # of a case: what comes after isn't kept
_BUFFER = 16 << 20  # bytes of the socket
_ETH_P_ALL = 3
_LARGEST = 1 << 16  # bytes: segments that the kernel has put together
_SO_ATTACH_FILTER, _SO_TIMESTAMPNS = 26, 35
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_PACKET_OUTGOING = 4
_IF_NAME, _IF_TSRESOL = 2, 9  # options of an interface description block
_GIGA = 10**9


@dataclass(frozen=True)
class Packet:
    """One packet, from its IP header on."""

    time: int  # ns since the epoch
    interface: str
    data: bytes


class Capture:
    """Collects packets of TCP ports until `stop`. Raises OSError if there is no such socket."""

    def __init__(self, ports: set[int]) -> None:
        self.packets: list[Packet] = []
        self.lost = 0  # packets that came too fast, or were too many
        self._bytes = 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM,
                                     socket.htons(_ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        _attach(self._socket, tcp_filter(sorted(ports)))
        while self._take():  # what came before there was a filter
            pass
        self.packets.clear()
        self._wake, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End the collection, once what has arrived by now is in. Again: nothing."""
        if self._stop < 0:
            return
        os.close(self._stop)
        self._stop = -1
        self._thread.join()
        self.lost += struct.unpack("=II", self._socket.getsockopt(
            _SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        self._socket.close()
        os.close(self._wake)

    def _collect(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._wake, select.POLLHUP)
        ended = False
        while not ended:
            ended = any(descriptor == self._wake for descriptor, _ in poll.poll())
            while self._take():
                pass

    def _take(self) -> bool:
        """Take a packet. False if none is there."""
        try:
            data, control, _, sender = self._socket.recvmsg(_LARGEST, 64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        interface, kind = sender[0], sender[2]
        if kind == _PACKET_OUTGOING and interface == "lo":
            return True  # it comes in, too
        if self._bytes + len(data) > MAX_BYTES:
            self.lost += 1
            return True
        self._bytes += len(data)
        seconds, nanoseconds = next(
            (struct.unpack("=qq", value) for level, name, value in control
             if (level, name) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS)), (0, 0))
        self.packets.append(Packet(seconds * _GIGA + nanoseconds, interface, data))
        return True

    def write(self, path: Path) -> None:
        """Write what was collected, as pcapng. Raises OSError."""
        writer = _NanosecondWriter(str(path))
        with writer:
            for packet in self.packets:
                writer.add(packet)


class _NanosecondWriter(PcapNgWriter):
    """Scapy's writer with the resolution of the kernel's clock, and an interface only where one has
    packets.
    """

    def __init__(self, filename: str) -> None:
        super().__init__(filename)
        self.tsresol = _GIGA
        self.sync = False
        self.interfaces2id = {None: -1}  # the next one has number 0
        self._write_block_shb()
        self.header_present = True

    def add(self, packet: Packet) -> None:
        """Write a packet."""
        seconds: Any = Fraction(packet.time, _GIGA)  # exact, where a float isn't
        self._write_packet(packet.data, LINKTYPE_RAW, sec=seconds,
                           ifname=packet.interface.encode())

    def _write_block_idb(self, linktype: int, ifname: bytes | None = None) -> None:
        name = ifname or b""
        options = (struct.pack("<HH", _IF_NAME, len(name)) + self._add_padding(name)
                   + struct.pack("<HHB3x", _IF_TSRESOL, 1, 9) + bytes(4))
        body = struct.pack("<HHI", linktype, 0, _LARGEST)
        self.f.write(self.build_block(struct.pack("<I", 1), body, options))


_LDB, _LDH_X, _LDX_IHL, _LDX, _AND, _JEQ, _RET = (
    0x30, 0x48, 0xB1, 0x01, 0x54, 0x15, 0x06)


def tcp_filter(ports: list[int]) -> bytes:
    """A classic BPF program, struct sock_filter[]: TCP from or to one of `ports`, IPv4 and IPv6.

    Offsets count from the IP header. IPv6 extension headers aren't followed.
    """
    # (code, k, label to go to if equal, else); a string alone is a label
    hits = [(_JEQ, port, "accept", "") for port in ports]
    lines: list[tuple[int, int, str, str] | str] = [
        (_LDB, 0, "", ""), (_AND, 0xF0, "", ""),
        (_JEQ, 0x40, "ipv4", ""), (_JEQ, 0x60, "ipv6", "drop"),
        "ipv4", (_LDB, 9, "", ""), (_JEQ, socket.IPPROTO_TCP, "", "drop"), (_LDX_IHL, 0, "", ""),
        (_JEQ, socket.IPPROTO_TCP, "ports", ""),  # always: A still has the protocol
        "ipv6", (_LDB, 6, "", ""), (_JEQ, socket.IPPROTO_TCP, "", "drop"), (_LDX, 40, "", ""),
        "ports", (_LDH_X, 0, "", ""), *hits, (_LDH_X, 2, "", ""), *hits,
        "drop", (_RET, 0, "", ""), "accept", (_RET, _LARGEST, "", ""),
    ]
    labels: dict[str, int] = {}
    code: list[tuple[int, int, str, str]] = []
    for line in lines:
        if isinstance(line, str):
            labels[line] = len(code)
        else:
            code.append(line)
    return b"".join(
        struct.pack("=HBBI", operation, *(labels[label] - at - 1 if label else 0
                                          for label in (true, false)), k)
        for at, (operation, k, true, false) in enumerate(code))


def _attach(sock: socket.socket, program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER,
                    struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
