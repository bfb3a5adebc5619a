# SPDX-License-Identifier: GPL-2.0-or-later
"""From one byte stream to mappings on subflows (RFC 8684 §3.3)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...layers import mptcp
from .sequence import Sequence

if TYPE_CHECKING:
    from .connection import Connection
    from .subflow import Subflow

_LONGEST = 65535  # bytes: data-level length


@dataclass
class _Mapped:
    """Data without DATA_ACK, and where they were sent last. `fin`: DATA_FIN, without data."""

    position: int
    data: bytes
    subflow: Subflow
    due: float
    tries: int = 0
    fin: bool = False


class Sender:
    """Our byte stream. Positions count from our IDSN."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._behaviour = connection.behaviour
        self.sequence = Sequence(mptcp.idsn(connection.local_key), 64)
        self.next = self.unacked = 1
        self.limit = 1  # position behind the peer's window
        self._pending = bytearray()
        self._mapped: list[_Mapped] = []
        self._end_wanted = self._fin_sent = False
        self._infinite: Subflow | None = None  # what carries all, without options
        self._infinite_option: mptcp.DSS | None = None  # to be sent with the next data
        self._probe_due: float | None = None

    @property
    def done(self) -> bool:
        """All is sent and acknowledged, the end of the stream too if there is one."""
        if self._pending or self._end_wanted != self._fin_sent:
            return False
        if self._infinite:
            return self._infinite.send_unacked == self._infinite.send_next
        return not self._mapped

    @property
    def finished(self) -> bool:
        """The end of the stream is sent and acknowledged."""
        return self._fin_sent and self.done

    def fall_back(self, subflow: Subflow, *, infinite_mapping: bool) -> None:
        """Send without options from now on; the first data with the infinite mapping if there were
        mappings before. It starts at what the peer has acknowledged last (§3.7).
        """
        self._infinite = subflow
        if infinite_mapping:
            form = mptcp.DSSChecksum if self._connection.checksum else mptcp.DSS
            self._infinite_option = form(
                flags="Mm", dsn=self.sequence.number(self.unacked), data_len=0,
                ssn=subflow.send_next - (self.next - self.unacked))
        self._mapped.clear()
        self.push()

    def add(self, data: bytes) -> None:
        self._pending += data
        self.push()

    def end(self) -> None:
        """The stream ends behind what was given."""
        self._end_wanted = True
        self.push()

    def push(self) -> None:
        """Send what the windows let through."""
        if self._infinite:
            self._push_plain(self._infinite)
            return
        while self._pending:
            subflow = self._choose()
            if not subflow:
                break
            length = min(len(self._pending), self.limit - self.next, subflow.room,
                         self._behaviour.mapping_size or self._largest(subflow))
            if length <= 0:
                break
            self._send_next(subflow, length)
        if not self._pending and self._end_wanted and not self._fin_sent:
            subflow = self._choose(room=False)
            if subflow:
                self._fin_sent = True
                self._remember(b"", subflow, fin=True)
                self.next += 1
                self.map(subflow, self.sequence.number(self.next - 1), b"", fin=True)
        self._probe_due = (time.monotonic() + self._behaviour.data_rto
                           if self._pending and not self._mapped else None)
        self._connection.stack.wake()

    def _send_next(self, subflow: Subflow, length: int) -> None:
        data = bytes(self._pending[:length])
        del self._pending[:length]
        position = self.next
        self._remember(data, subflow)
        self.next += length
        self.map(subflow, self.sequence.number(position), data)

    def _push_plain(self, subflow: Subflow) -> None:
        while self._pending and subflow.alive and subflow.room:
            size = min(subflow.segment_size([("MPTCP", self._infinite_option)]
                       if self._infinite_option else []), subflow.room)
            data = bytes(self._pending[:size])
            del self._pending[:size]
            options = []
            if self._infinite_option:
                options, self._infinite_option = [self._infinite_option], None
            self.next += len(data)
            subflow.send("PA", data, options)
        if not self._pending and self._end_wanted and not self._fin_sent:
            self._fin_sent = True
            subflow.finish()

    def _choose(self, room: bool = True, other_than: Subflow | None = None) -> Subflow | None:
        able = [s for s in self._connection.alive if s.confirmed or not s.join]
        heard = [s for s in able if not s.stalled] or able
        regular = [s for s in heard if not s.backup and not s.peer_backup] or heard
        regular = [s for s in regular if s is not other_than] or regular
        usable = [s for s in regular if s.room or not room]
        return self._behaviour.schedule(self._connection, usable) if usable else None

    def _largest(self, subflow: Subflow) -> int:
        longest = mptcp.DSSChecksum if self._connection.checksum else mptcp.DSS
        return subflow.segment_size([("MPTCP", longest(flags="MmAa"))])

    def _remember(self, data: bytes, subflow: Subflow, fin: bool = False) -> None:
        self._mapped.append(_Mapped(self.next, data, subflow,
                                    time.monotonic() + self._behaviour.data_rto, fin=fin))

    def skip(self, data: bytes, subflow: Subflow, fin: bool) -> int:
        """Take the next positions for data that the caller sends; returns their DSN."""
        position = self.next
        self._remember(data, subflow, fin)
        self.next += len(data) + fin
        self._connection.stack.wake()
        return self.sequence.number(position)

    def skip_to(self, dsn: int, length: int) -> None:
        """The caller sends so much from `dsn` on: where that goes on the stream, it grows."""
        position = self.sequence.position(dsn, self.next)
        if position <= self.next:
            self.next = max(self.next, position + length)

    # One mapping

    def map(self, subflow: Subflow, dsn: int, data: bytes, *, ssn: int | None = None,
            length: int | None = None, checksum: int | bool | None = None, fin: bool = False,
            segment_size: int | None = None, on_each: bool = True) -> None:
        """Send one mapping, in as many segments as it takes; see `Connection.send_mapping`."""
        if len(data) + fin > _LONGEST:
            raise ValueError(f"a mapping of {len(data) + fin} bytes: at most {_LONGEST}")
        ssn = (subflow.send_next if data else 0) if ssn is None else ssn
        length = len(data) + fin if length is None else length
        if checksum is None:
            checksum = self._connection.checksum
        if checksum is True:
            checksum = mptcp.dss_checksum(dsn, ssn, length, data)
        option = self._option(subflow, dsn, ssn, length, None if checksum is False else checksum,
                              fin)
        size = segment_size or subflow.segment_size([("MPTCP", option)])
        for start in range(0, len(data), size) if data else (0,):
            piece = data[start:start + size]
            flags = "PA" if data and start + size >= len(data) else "A"
            carried: list[mptcp.MPTCPOption] = [option]
            if start and (not on_each or isinstance(option, mptcp.MPCapableData)):
                carried = self._connection.ack_options()
            subflow.send(flags, piece, carried)

    def _option(self, subflow: Subflow, dsn: int, ssn: int, length: int, checksum: int | None,
                fin: bool) -> mptcp.MPTCPOption:
        connection = self._connection
        if (connection.initiator and not connection.confirmed and subflow.index == 0 and ssn == 1
                and dsn == self.sequence.number(1) and not fin):
            fields: dict[str, Any] = {
                "flags": connection.handshake.flags, "sender_key": connection.local_key,
                "receiver_key": connection.peer_key, "data_len": length}
            if checksum is None:
                return mptcp.MPCapableData(**fields)
            return mptcp.MPCapableDataChecksum(**fields, checksum=checksum)
        flags = "M" + "m" * (self._behaviour.dsn_octets == 8) + "F" * fin
        fields = {"dsn": dsn % (1 << 8 * self._behaviour.dsn_octets), "ssn": ssn,
                  "data_len": length}
        for ack in connection.ack_options():
            flags += str(ack.flags)
            fields["data_ack"] = ack.data_ack
        if checksum is None:
            return mptcp.DSS(flags=flags, **fields)
        return mptcp.DSSChecksum(flags=flags, **fields, checksum=checksum)

    # What comes back

    def take_ack(self, option: mptcp.DSS, window_from: Subflow) -> None:
        """A DATA_ACK; with it goes the window of the segment that carries it."""
        position = self.sequence.position(option.data_ack, self.unacked,
                                          64 if option.flags.a else 32)
        if not self.unacked <= position <= self.next:
            return
        self.limit = max(self.limit, position + window_from.peer_window)
        if position > self.unacked:
            self.unacked = position
            self._mapped = [sent for sent in self._mapped
                            if sent.position + len(sent.data) + sent.fin > position]
        self.push()

    def subflow_lost(self, subflow: Subflow) -> None:
        """Send what only that subflow had on another one, at once."""
        if self._infinite:
            return
        for sent in self._mapped:
            if sent.subflow is subflow:
                sent.due = 0
        self._connection.stack.wake()

    @property
    def deadline(self) -> float | None:
        """When `tick` has something to do."""
        if self._infinite or not self._connection.alive:
            return None
        dues = [sent.due for sent in self._mapped]
        return min([*dues, *([self._probe_due] if self._probe_due else [])], default=None)

    def tick(self, now: float) -> None:
        """Send again what is due; a byte beyond the window where that stays closed."""
        if self._infinite:
            return
        for sent in list(self._mapped):
            subflow = self._choose(other_than=sent.subflow) if sent.due <= now else None
            if subflow:
                sent.tries += 1
                sent.subflow = subflow
                sent.due = now + self._behaviour.data_rto * 2**min(sent.tries, 6)
                self.map(subflow, self.sequence.number(sent.position), sent.data, fin=sent.fin)
            elif sent.due <= now:
                sent.due = now + self._behaviour.data_rto
        if self._probe_due and self._probe_due <= now:
            subflow = self._choose(room=False)
            if subflow and self._pending:
                self._send_next(subflow, 1)
            self._probe_due = None
