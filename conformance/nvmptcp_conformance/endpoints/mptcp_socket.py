# SPDX-License-Identifier: GPL-2.0-or-later
"""MPTCP sockets of the Linux kernel, and what they tell of their connection.

Structures and constants: linux/mptcp.h and linux/tcp.h. Needs Linux 5.16.
"""

import ctypes
import errno
import fcntl
import socket
import struct
import termios
import time
from dataclasses import dataclass

IPPROTO_MPTCP = 262
SOL_MPTCP = 284
_MPTCP_INFO, _MPTCP_TCPINFO, _MPTCP_SUBFLOW_ADDRS = 1, 2, 3
_FALLBACK = 1  # MPTCP_INFO_FLAG_FALLBACK
_INFO = struct.Struct("=6B2x2I3Q3B")  # up to mptcpi_csum_enabled
_SUBFLOW_DATA = struct.Struct("=4I")
_STATE_ONLY = 8  # bytes of struct tcp_info; the first is the state
_TCP_ESTABLISHED = 1
_SOCKADDR = 128  # bytes of struct sockaddr_storage
MAX_SUBFLOWS = 256

Subflow = tuple[tuple[str, int], tuple[str, int]]  # local and remote address and port


@dataclass(frozen=True)
class Info:
    """Part of struct mptcp_info."""

    joined: int  # subflows beside the first one, those being established included
    joined_max: int  # `subflows` of `ip mptcp limits`
    addresses_accepted: int  # announced addresses that were joined
    addresses_accepted_max: int  # `add_addr_accepted` of `ip mptcp limits`
    checksums: bool  # DSS checksums are in use
    announced: int  # addresses that this side has announced


def open_socket(traddr: str, trsvcid: int, timeout: float, *,
                mptcp: bool = True) -> socket.socket:
    """A connection to a target, MPTCP or TCP; `timeout` in seconds. Raises OSError."""
    family, kind, _, _, address = socket.getaddrinfo(traddr, trsvcid, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, IPPROTO_MPTCP if mptcp else socket.IPPROTO_TCP)
    try:
        sock.settimeout(timeout)
        sock.connect(address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        sock.close()
        raise
    return sock


def info(sock: socket.socket) -> Info | None:
    """The state of an MPTCP connection; None where the protocol in effect is TCP."""
    try:
        data = sock.getsockopt(SOL_MPTCP, _MPTCP_INFO, _INFO.size)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOPROTOOPT):  # a TCP socket answers
            return None
        raise
    (joined, announced, accepted, joined_max, _, accepted_max, flags, *_,
     checksums) = _INFO.unpack(data)
    if flags & _FALLBACK:
        return None
    return Info(joined, joined_max, accepted, accepted_max, bool(checksums), announced)


def established(sock: socket.socket) -> int:
    """The number of established subflows of an MPTCP connection. Raises OSError if it is TCP."""
    request = _SUBFLOW_DATA.pack(_SUBFLOW_DATA.size, 0, 0, _STATE_ONLY)
    # getsockopt() of Python sends no bytes in, and the kernel wants the sizes.
    data = _getsockopt(sock, _MPTCP_TCPINFO, request, MAX_SUBFLOWS * _STATE_ONLY)
    count = _SUBFLOW_DATA.unpack_from(data)[1]
    states = data[_SUBFLOW_DATA.size::_STATE_ONLY][:count]
    return states.count(_TCP_ESTABLISHED)


def subflow_addresses(sock: socket.socket) -> list[Subflow]:
    """Local and remote (address, port) of each subflow. Raises OSError if it is TCP."""
    request = _SUBFLOW_DATA.pack(_SUBFLOW_DATA.size, 0, 0, 2 * _SOCKADDR)
    data = _getsockopt(sock, _MPTCP_SUBFLOW_ADDRS, request, MAX_SUBFLOWS * 2 * _SOCKADDR)
    count = _SUBFLOW_DATA.unpack_from(data)[1]
    ends = [_address(data[at:at + _SOCKADDR])
            for at in range(_SUBFLOW_DATA.size, _SUBFLOW_DATA.size + count * 2 * _SOCKADDR,
                            _SOCKADDR)]
    return list(zip(ends[::2], ends[1::2], strict=True))


def _address(sockaddr: bytes) -> tuple[str, int]:
    family, = struct.unpack_from("=H", sockaddr)
    port, = struct.unpack_from("!H", sockaddr, 2)
    binary = sockaddr[4:8] if family == socket.AF_INET else sockaddr[8:24]
    return socket.inet_ntop(family, binary), port


def unacknowledged(sock: socket.socket) -> int:
    """How many bytes have been sent, but not yet acknowledged."""
    return int(struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0])


def wait_acknowledged(sock: socket.socket, timeout: float) -> None:
    """Wait until all that was sent has been acknowledged. Raises TimeoutError after `timeout` s."""
    end = time.monotonic() + timeout
    while unacknowledged(sock):
        if time.monotonic() > end:
            raise TimeoutError(f"no acknowledgement within {timeout:g} s")
        time.sleep(0.0005)


def _getsockopt(sock: socket.socket, option: int, request: bytes, room: int) -> bytes:
    """getsockopt(2) of SOL_MPTCP with a buffer that says something to the kernel."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(request, len(request) + room)
    length = ctypes.c_uint32(len(buffer))
    if libc.getsockopt(sock.fileno(), SOL_MPTCP, option, buffer, ctypes.byref(length)):
        number = ctypes.get_errno()
        raise OSError(number, f"getsockopt: {errno.errorcode.get(number, number)}")
    return buffer.raw[:length.value]
