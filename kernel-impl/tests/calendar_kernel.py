# SPDX-License-Identifier: GPL-2.0-or-later
"""A stand-in for a User-Mode Linux kernel, as the lab's calendar sees one: clock and device.

Layouts are those of Linux: include/uapi/linux/um_timetravel.h and arch/um/drivers/vhost_user.h.
"""

import mmap
import os
import socket
import struct
from pathlib import Path

ACK, START, REQUEST, WAIT, GET, UPDATE, RUN, FREE_UNTIL, GET_TOD = range(9)
SET_OWNER, SET_MEM_TABLE, SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_ENABLE = 3, 5, 8, 9, 18
SET_SLAVE_REQ_FD, VRING_KICK, VRING_CALL = 21, 35, 4
VERSION, REPLY, NEED_REPLY = 1, 4, 8
SECONDS = 10  # that a test waits for an answer

HEADER, CLIENT = 4096, 128  # of the shared memory, in bytes
MEMORY, QUEUE = 1 << 20, 8  # bytes of the kernel's memory, entries of a queue
DESCRIPTORS, AVAILABLE, USED, BUFFERS = 0, 0x1000, 0x2000, 0x10000
BUFFER, NET_HEADER = 4096, 12
RECEIVE, TRANSMIT = 0, 1


def connect(path: Path) -> socket.socket:
    """A connection to a Unix socket; the name may be longer than sockets allow."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(SECONDS)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        made.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
    return made


class Clock:
    """The time-travel connection of kernel `number`."""

    def __init__(self, directory: Path, number: int) -> None:
        self.number, self.time = number, 0
        self.socket = connect(directory / "clock")
        self.send(START, number)

    def send(self, operation: int, time: int = 0) -> None:
        self.socket.sendall(struct.pack("=IIQ", operation, 1, time))

    def receive(self) -> tuple[int, int]:
        """Operation and time of the next message."""
        operation, _, time = struct.unpack("=IIQ", self.socket.recv(16, socket.MSG_WAITALL))
        return operation, time

    def started(self) -> None:
        """Take the answer to START, which the calendar gives when it is this kernel's turn."""
        data, descriptors, _, _ = socket.recv_fds(self.socket, 16, 2)
        operation, _, number = struct.unpack("=IIQ", data)
        assert (operation, number) == (ACK, self.number)
        (length,) = struct.unpack("=4xI", os.pread(descriptors[0], 8, 0))
        self.shared = mmap.mmap(descriptors[0], length)
        for descriptor in descriptors:
            os.close(descriptor)

    def request(self, time: int) -> None:
        """As a kernel that isn't the only one: its request, and free_until if it is sooner."""
        place = HEADER + self.number * CLIENT
        self.shared[place + 4:place + 16] = struct.pack("=IQ", 1, time)
        if time < self.free_until:
            self.shared[8:16] = struct.pack("=Q", time)

    @property
    def free_until(self) -> int:
        return int.from_bytes(self.shared[8:16], "little")

    @property
    def now(self) -> int:
        """The time in the shared memory."""
        return int.from_bytes(self.shared[16:24], "little")

    def propagate(self, time: int) -> None:
        """What a kernel does with its time before it kicks."""
        self.shared[16:24] = struct.pack("=Q", time)

    def wait(self, time: int) -> None:
        """Give the turn away until `time`; `turn` takes it again."""
        self.request(time)
        self.send(WAIT)

    def turn(self) -> int:
        """Wait for RUN. Returns its time, in ns."""
        operation, time = self.receive()
        assert operation == RUN
        place = HEADER + self.number * CLIENT
        self.shared[place + 4:place + 8] = struct.pack("=I", 0)
        self.time = time
        return time


class Device:
    """The driver's side of a virtio-net device, with buffers to receive into."""

    def __init__(self, directory: Path, name: str) -> None:
        self.socket = connect(directory / name)
        memory = os.memfd_create("kernel")
        os.ftruncate(memory, 2 * MEMORY)
        self.memory = mmap.mmap(memory, 2 * MEMORY)
        self.calls, theirs = socket.socketpair()
        self.calls.settimeout(SECONDS)
        self.available, self.used = [0, 0], [0, 0]
        self._request(SET_OWNER, b"")
        self._request(SET_SLAVE_REQ_FD, b"", theirs.fileno())
        self._request(SET_MEM_TABLE, struct.pack("=IIQQQQ", 1, 0, 0, 2 * MEMORY, 0, 0), memory)
        theirs.close()
        os.close(memory)
        for queue in (RECEIVE, TRANSMIT):
            base = queue * MEMORY
            self._request(SET_VRING_NUM, struct.pack("=II", queue, QUEUE))
            self._request(SET_VRING_ADDR, struct.pack(
                "=IIQQQQ", queue, 0, base + DESCRIPTORS, base + USED, base + AVAILABLE, 0))
            self._request(SET_VRING_ENABLE, struct.pack("=II", queue, 1))

    def _request(self, request: int, payload: bytes, *descriptors: int) -> None:
        self.ask(request, payload, *descriptors)
        self.answered()

    def ask(self, request: int, payload: bytes, *descriptors: int) -> None:
        """Send a request that wants an answer."""
        message = struct.pack("=III", request, VERSION | NEED_REPLY, len(payload)) + payload
        socket.send_fds(self.socket, [message], list(descriptors))

    def answered(self) -> None:
        """The calendar has done what was asked for."""
        request, flags, size, status = struct.unpack(
            "=IIIQ", self.socket.recv(20, socket.MSG_WAITALL))
        assert (flags, size, status) == (VERSION | REPLY, 8, 0), request

    def _offer(self, queue: int, length: int, flags: int) -> int:
        """Make the next buffer available. Returns where it is."""
        index = self.available[queue] % QUEUE
        base, place = queue * MEMORY, queue * MEMORY + BUFFERS + index * BUFFER
        descriptor = base + DESCRIPTORS + 16 * index
        self.memory[descriptor:descriptor + 16] = struct.pack("=QIHH", place, length, flags, 0)
        entry = base + AVAILABLE + 4 + 2 * index
        self.memory[entry:entry + 2] = struct.pack("=H", index)
        self.available[queue] += 1
        self.memory[base + AVAILABLE + 2:base + AVAILABLE + 4] = struct.pack(
            "=H", self.available[queue])
        return place

    def buffers(self, count: int) -> None:
        """Buffers to receive into."""
        for _ in range(count):
            self._offer(RECEIVE, BUFFER, 2)  # 2: the device writes

    def put(self, frame: bytes) -> None:
        """A frame into the queue to transmit."""
        data = bytes(NET_HEADER) + frame
        place = self._offer(TRANSMIT, len(data), 0)
        self.memory[place:place + len(data)] = data

    def kick(self, queue: int) -> None:
        """Tell the calendar of new entries; it answers when all is done that follows."""
        self.ask(VRING_KICK, struct.pack("=II", queue, 0))

    def interrupted(self) -> int:
        """Wait for an interrupt. Returns its queue."""
        request, _, _, queue, _ = struct.unpack("=IIIII", self.calls.recv(20, socket.MSG_WAITALL))
        assert request == VRING_CALL
        return int(queue)

    def called(self) -> int:
        """Wait for an interrupt, and answer it. Returns its queue."""
        queue = self.interrupted()
        self.calls.sendall(struct.pack("=IIIQ", VRING_CALL, VERSION | REPLY, 8, 0))
        return queue

    def may_be_silent(self) -> bool:
        """Whether the calendar doesn't want to hear of new buffers to receive into."""
        return self.memory[USED] == 1

    def frames(self) -> list[bytes]:
        """What has been received since the last call."""
        found = []
        end = int.from_bytes(self.memory[USED + 2:USED + 4], "little")
        while self.used[RECEIVE] != end:
            place = USED + 4 + 8 * (self.used[RECEIVE] % QUEUE)
            index, length = struct.unpack("=II", self.memory[place:place + 8])
            start = BUFFERS + index * BUFFER
            found.append(self.memory[start + NET_HEADER:start + length])
            self.used[RECEIVE] += 1
        return found
