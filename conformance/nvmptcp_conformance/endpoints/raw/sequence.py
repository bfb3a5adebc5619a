# SPDX-License-Identifier: GPL-2.0-or-later
"""Sequence numbers that don't wrap, and bytes put in order by them."""

from __future__ import annotations


class Sequence:
    """A space of sequence numbers; a *position* in it counts from its initial number."""

    def __init__(self, initial: int, bits: int) -> None:
        self.initial, self._bits = initial, bits

    def number(self, position: int, bits: int | None = None) -> int:
        """What stands for a position on the wire, in all or only the lower `bits`."""
        return (self.initial + position) % (1 << (bits or self._bits))

    def position(self, number: int, near: int, bits: int | None = None) -> int:
        """The position of a number (or its lower `bits`) that is nearest to position `near`."""
        space = 1 << (bits or self._bits)
        return near + (number - self.number(near, bits) + space // 2) % space - space // 2


class Reassembly:
    """Bytes that come in any order, cut anyhow and more than once."""

    def __init__(self, start: int) -> None:
        self.next = start  # the position of the next byte in order
        self._held: dict[int, bytes] = {}

    def add(self, position: int, data: bytes) -> bytes:
        """Take in bytes; returns those that have now come in order."""
        if position + len(data) > self.next and len(data) > len(self._held.get(position, b"")):
            self._held[position] = data
        start = self.next
        ordered = bytearray()
        for at in sorted(self._held):
            if at > self.next:
                break
            piece = self._held.pop(at)[self.next - at:]
            ordered += piece
            self.next += len(piece)
        assert self.next == start + len(ordered)
        return bytes(ordered)
