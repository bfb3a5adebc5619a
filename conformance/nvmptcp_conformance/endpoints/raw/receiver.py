# SPDX-License-Identifier: GPL-2.0-or-later
"""From mappings on subflows to one byte stream (RFC 8684 §3.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...layers import mptcp
from .sequence import Reassembly, Sequence

if TYPE_CHECKING:
    from .connection import Connection
    from .subflow import Subflow

_FARTHEST = 1 << 24  # bytes ahead of what is expected: a mapping beyond is not believed


@dataclass
class _Mapping:
    """Positions of a mapping; `length` without DATA_FIN, None for an infinite one."""

    ssn: int
    data: int
    length: int | None
    checksum: int | None = None
    fin: bool = False
    held: bytearray = field(default_factory=bytearray)  # until the checksum can be looked at

    def covers(self, position: int) -> bool:
        return self.ssn <= position and (self.length is None or position < self.ssn + self.length)


@dataclass
class _Incoming:
    """What a subflow brought: bytes in order that are still to be mapped, and mappings."""

    position: int = 1
    bytes: bytearray = field(default_factory=bytearray)
    mappings: list[_Mapping] = field(default_factory=list)

    def give_back(self) -> None:
        """Forget the mappings; what they hold is to be mapped again."""
        for mapping in self.mappings:  # only the first one can hold something
            self.bytes[:0] = mapping.held
            self.position -= len(mapping.held)
        self.mappings = []


class Receiver:
    """The peer's byte stream. Positions count from its IDSN."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.sequence = Sequence(0, 64)
        self._stream = Reassembly(1)
        self.buffer = bytearray()  # what the application may read
        self.ended = False  # the stream's end has come, in order
        self._fin: int | None = None  # its position
        self._infinite = False
        self._failed = False  # a checksum was wrong: nothing counts until the peer falls back, too
        self._incoming: dict[Subflow, _Incoming] = {}

    @property
    def next(self) -> int:
        """The position that is expected next: what DATA_ACK says."""
        return self._stream.next

    def fall_back(self, subflow: Subflow) -> None:
        """What the subflow brought and brings from here on is the stream."""
        incoming = self._incoming.setdefault(subflow, _Incoming())
        if not self._infinite:
            incoming.give_back()
            self._take_mapping(subflow, _Mapping(incoming.position, self.next, None))

    def map_capable(self, subflow: Subflow,
                    option: mptcp.MPCapableData | mptcp.MPCapableDataChecksum) -> None:
        """MP_CAPABLE with data maps the first ones."""
        checksum = getattr(option, "checksum", None)
        self._take_mapping(subflow, _Mapping(1, 1, option.data_len, checksum))

    def map(self, subflow: Subflow, option: mptcp.DSS) -> None:
        """A DSS with a mapping, or DATA_FIN alone."""
        bits = 64 if option.flags.m else 32
        position = self.sequence.position(option.dsn, self.next, bits)
        near = abs(position - self.next) <= _FARTHEST
        checksum = getattr(option, "checksum", None)
        if not option.data_len:
            if not self._infinite and near:
                self._take_mapping(subflow, _Mapping(option.ssn, position, None))
                self._connection.fall_back("infinite mapping")
            return
        length = option.data_len - (1 if option.flags.F else 0)
        mapping = _Mapping(option.ssn, position, length, checksum, bool(option.flags.F))
        if length:
            self._take_mapping(subflow, mapping)  # also from afar: its bytes are to be passed over
        elif near and not self._failed and self._fits(mapping, b""):
            self._end_at(position)

    def _take_mapping(self, subflow: Subflow, mapping: _Mapping) -> None:
        incoming = self._incoming.setdefault(subflow, _Incoming())
        if mapping.length is None:
            self._infinite, self._failed = True, False
            incoming.give_back()
        elif mapping.ssn + mapping.length <= incoming.position:
            return  # of what has come already
        if not any(m.covers(mapping.ssn) for m in incoming.mappings):
            incoming.mappings.append(mapping)
        self._use(subflow, incoming)

    def take(self, subflow: Subflow, position: int, data: bytes) -> None:
        """Bytes of a subflow, in its order."""
        incoming = self._incoming.setdefault(subflow, _Incoming())
        assert position == incoming.position + len(incoming.bytes)
        incoming.bytes += data
        self._use(subflow, incoming)
        # After MP_FAIL a whole mapping waits for the infinite one, and what came behind it.
        behaviour = self._connection.behaviour
        if (len(incoming.bytes) > behaviour.most_unmapped and not self._failed
                and subflow.ended is None):
            behaviour.unmapped(self._connection, subflow)

    def is_mapped(self, subflow: Subflow) -> bool:
        """Whether nothing waits for its mapping on this subflow."""
        return not self._incoming.setdefault(subflow, _Incoming()).bytes

    def _use(self, subflow: Subflow, incoming: _Incoming) -> None:
        while incoming.bytes and not self._failed:
            mapping = next((m for m in incoming.mappings if m.covers(incoming.position)), None)
            if not mapping:
                return
            offset = incoming.position - mapping.ssn
            length = len(incoming.bytes)
            if mapping.length is not None:
                length = min(length, mapping.length - offset)
            data = bytes(incoming.bytes[:length])
            del incoming.bytes[:length]
            incoming.position += length
            complete = offset + length == mapping.length
            if complete:
                incoming.mappings.remove(mapping)
            if not self._connection.checksum or mapping.length is None:
                self._place(mapping.data + offset, data)
            else:
                mapping.held += data
                if not complete:
                    continue
                if not self._fits(mapping, bytes(mapping.held)):
                    incoming.mappings.insert(0, mapping)
                    incoming.give_back()
                    self._failed = True
                    self._reject(subflow, mapping)
                    return
                self._place(mapping.data, bytes(mapping.held))
            if complete and mapping.fin and abs(mapping.data - self.next) <= _FARTHEST:
                self._end_at(mapping.data + offset + length)

    def _reject(self, subflow: Subflow, mapping: _Mapping) -> None:
        behaviour, connection = self._connection.behaviour, self._connection
        if mapping.checksum is None:
            behaviour.checksum_missing(connection, subflow)
        else:
            behaviour.checksum_failed(connection, subflow, self.sequence.number(mapping.data))

    def _fits(self, mapping: _Mapping, data: bytes) -> bool:
        if not self._connection.checksum:
            return True
        expected = mptcp.dss_checksum(self.sequence.number(mapping.data), mapping.ssn,
                                      len(data) + mapping.fin, data)
        return self._connection.behaviour.checksum_fits(expected, mapping.checksum)

    def go_on(self) -> None:
        """The subflow whose checksum was wrong is reset: the others may be believed."""
        self._failed = False

    def _place(self, position: int, data: bytes) -> None:
        if position - self.next > _FARTHEST:
            return
        self.buffer += self._stream.add(position, data)
        self._look_for_end()

    def _end_at(self, position: int) -> None:
        if self._fin is None:
            self._fin = position
        self._look_for_end()

    def end(self) -> None:
        """The stream ends here: FIN of a connection that is TCP."""
        self._end_at(self.next)

    def _look_for_end(self) -> None:
        if self._fin == self.next and not self.ended:
            self._stream.next += 1
            self.ended = True
            self._connection.stream_ended()
