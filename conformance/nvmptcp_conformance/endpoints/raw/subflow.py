# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP of one subflow: sequence numbers, acknowledgement, retransmission (RFC 9293)."""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...layers import mptcp
from ...layers.mptcp_stream import End
from .packets import Segment, option_length
from .sequence import Reassembly, Sequence

if TYPE_CHECKING:
    from .connection import Connection

_WINDOW_SHIFT = 4  # of what we offer
_MOST_SHIFT = 14  # RFC 7323 §2.3
_MAX_IN_FLIGHT = 1 << 16  # bytes; there is no congestion control
_DUPLICATE_ACKS = 3
_DEFAULT_MSS = 536  # RFC 9293 §3.7.1


class State(enum.Enum):
    """Where a subflow stands."""

    SYN_SENT = "SYN sent"
    SYN_RECEIVED = "SYN received"
    ESTABLISHED = "established"
    CLOSED = "closed"


@dataclass
class _Sent:
    """A segment that takes sequence numbers and isn't acknowledged."""

    position: int
    length: int
    flags: str
    payload: bytes
    options: list[tuple[str, Any]]
    due: float
    tries: int = 0


class Subflow:
    """One TCP connection. Positions count from the ISN, so `send_next` is also the next SSN."""

    def __init__(self, connection: Connection, local: End, remote: End, *,
                 address_id: int = 0, join: bool = False) -> None:
        self.connection = connection
        self.index = len(connection.subflows)
        self.local, self.remote = local, remote
        self.join = join
        self.state = State.CLOSED
        self.ended: str | None = None  # why, once it is closed
        self.reset_option: mptcp.MPTCPReset | None = None  # of the RST that came
        self.address_id, self.remote_id = address_id, 0
        self.backup = self.peer_backup = False
        self.nonce = self.peer_nonce = 0
        self.third: list[tuple[str, Any]] | None = None  # options of our third packet
        self.forced_hmac: bytes | None = None  # instead of the right ones in it
        self.forced_third: mptcp.MPTCPOption | bytes | None = None
        self.confirmed = False  # something came back after the handshake
        self.muted = False  # sends nothing, though it believes that it does
        self.deaf = False  # takes nothing in
        self.finished = self.peer_finished = False  # a FIN was sent, was received
        self._behaviour = connection.behaviour
        self._sequence = Sequence(self._behaviour.isn(), 32)
        self._peer_sequence = Sequence(0, 32)
        self.sequences_known = False
        self.send_next = self.send_unacked = 0
        self._received = Reassembly(0)
        self._peer_fin: int | None = None
        self._peer_mss = _DEFAULT_MSS
        self._scaled = True  # both ends sent the window scale option
        self._peer_shift = 0
        self._window_end = 0  # position
        self.peer_window = 0  # bytes, as the peer said last
        self._unacked: list[_Sent] = []
        self._duplicates = 0
        self._recover_to = 0
        self._third_due: float | None = None
        self._third_tries = 0

    def __repr__(self) -> str:
        return (f"<Subflow {self.index} {self.local.address}:{self.local.port} -"
                f" {self.remote.address}:{self.remote.port} {self.ended or self.state.value}>")

    @property
    def alive(self) -> bool:
        """Established, and not ended by us."""
        return self.state == State.ESTABLISHED and not self.finished

    @property
    def isn(self) -> int:
        """Our initial sequence number."""
        return self._sequence.initial

    @property
    def peer_isn(self) -> int:
        """The peer's initial sequence number, 0 before its SYN came."""
        return self._peer_sequence.initial

    @property
    def receive_next(self) -> int:
        """The position of the next byte in order."""
        return self._received.next

    @property
    def stalled(self) -> bool:
        """Data were sent again, and nothing has been acknowledged since."""
        return bool(self._unacked and self._unacked[0].tries)

    @property
    def room(self) -> int:
        """Bytes that may be sent now: the peer's window, less what is on its way."""
        in_flight = self.send_next - self.send_unacked
        return max(0, min(self._window_end - self.send_next, _MAX_IN_FLIGHT - in_flight))

    @property
    def silent(self) -> bool:
        """A path that has gone dead: nothing goes out, nothing comes in. May be set."""
        return self.muted and self.deaf

    @silent.setter
    def silent(self, value: bool) -> None:
        self.muted = self.deaf = value

    def segment_size(self, options: Items[tuple[str, Any]]) -> int:
        """Bytes of payload that fit into a segment beside the options."""
        return max(1, min(self._peer_mss, self._behaviour.mss) - option_length(options))

    # Sending

    def send(self, flags: str = "A", payload: bytes = b"",
             options: Items[mptcp.MPTCPOption | bytes | tuple[str, Any]] = (), *,
             seq: int | None = None, ack: int | None = None, window: int | None = None) -> Segment:
        """Send a segment as it is said, now. Without `seq` it is the next one, and is sent again
        until it is acknowledged. `seq`, `ack`, `window` are numbers on the wire.
        """
        with self.connection.stack.lock:
            listed = [o if isinstance(o, tuple) else ("MPTCP", o) for o in options]
            position = self.send_next
            length = len(payload) + ("S" in flags) + ("F" in flags)
            segment = self._emit(flags, payload, listed, self._sequence.number(position)
                                 if seq is None else seq, ack, window)
            if seq is None and length and "R" not in flags and self.state != State.CLOSED:
                rto = self._behaviour.syn_rto if "S" in flags else self._behaviour.rto
                self._unacked.append(_Sent(position, length, flags, payload, listed,
                                           time.monotonic() + rto))
                self.send_next += length
                self.connection.stack.wake()
            return segment

    def _emit(self, flags: str, payload: bytes, options: list[tuple[str, Any]], seq: int,
              ack: int | None = None, window: int | None = None) -> Segment:
        if ack is None:
            ack = self._peer_sequence.number(self.receive_next) if "A" in flags else 0
        segment = Segment(self.local, self.remote, flags, seq, ack,
                          self._window("S" in flags) if window is None else window,
                          tuple(options), payload)
        for going in self._behaviour.outgoing(self, segment):
            if not self.muted:
                self.connection.stack.send(going, self)
        return segment

    def _window(self, syn: bool) -> int:
        window = self._behaviour.receive_window
        return min(65535, window if syn or not self._scaled else window >> _WINDOW_SHIFT)

    def start(self, flags: str, options: Items[mptcp.MPTCPOption | bytes]) -> None:
        """Send the SYN, or SYN/ACK."""
        self.state = State.SYN_RECEIVED if "A" in flags else State.SYN_SENT
        scale = [("WScale", _WINDOW_SHIFT)] if self._scaled else []
        self.send(flags, options=[("MSS", self._behaviour.mss), *scale, *options])

    def send_third(self) -> None:
        """Send the third packet; on a join again and again, until something comes back."""
        options = self.third or []
        self._emit("A", b"", options, self._sequence.number(self.send_next))
        if self.join and not self.confirmed:
            self._third_due = time.monotonic() + self._behaviour.rto * 2**self._third_tries
            self._third_tries += 1
            self.connection.stack.wake()

    def acknowledge(self) -> None:
        """Send an ACK, with a DATA_ACK if there is a place for it."""
        if self._behaviour.acknowledge:
            self.send("A", options=self.connection.ack_options())

    def finish(self) -> None:
        """Send a FIN."""
        with self.connection.stack.lock:
            if self.state == State.ESTABLISHED and not self.finished:
                self.send("FA", options=self.connection.ack_options())
                self.finished = True

    def reset(self, *options: mptcp.MPTCPOption | bytes) -> None:
        """Send a RST with these MPTCP options, and forget the subflow."""
        with self.connection.stack.lock:
            if self.state != State.CLOSED:
                self.send("RA" if self.sequences_known else "R", options=options)
                self.end("reset by us")

    def end(self, why: str) -> None:
        """The subflow is no more; nothing is sent."""
        if self.ended is None:
            self.state, self.ended = State.CLOSED, why
            self._unacked.clear()
            self._third_due = None
            self.connection.subflow_ended(self)

    # Receiving

    def peer_syn(self, segment: Segment) -> None:
        """Take in what the peer's SYN says of TCP."""
        self._peer_sequence = Sequence(segment.seq, 32)
        self._received = Reassembly(1)
        self.sequences_known = True
        self._peer_mss = segment.number("MSS") or _DEFAULT_MSS
        shift = segment.number("WScale")
        self._scaled, self._peer_shift = shift is not None, min(shift or 0, _MOST_SHIFT)
        self.peer_window = segment.window
        self._window_end = 1 + segment.window

    def receive(self, segment: Segment) -> None:
        """Take in a segment of this subflow."""
        if self.state == State.CLOSED:
            self._after_end(segment)
        elif "R" in segment.flags:
            self._receive_reset(segment)
        elif self.state == State.SYN_SENT:
            self._receive_synack(segment)
        elif "S" in segment.flags:
            if "A" in segment.flags and self.third is not None:
                self.send_third()  # which was lost
        elif "A" in segment.flags:
            self._receive_more(segment)

    def _after_end(self, segment: Segment) -> None:
        if self.ended == "closed":
            if "F" in segment.flags:  # our ACK was lost
                self.acknowledge()
        elif "R" not in segment.flags:
            self.connection.stack.refuse(segment, self._behaviour)

    def _receive_reset(self, segment: Segment) -> None:
        if self.state == State.SYN_SENT:
            fits = "A" in segment.flags and segment.ack == self._sequence.number(1)
        else:
            ahead = self._peer_sequence.position(segment.seq, self.receive_next) - self.receive_next
            fits = 0 <= ahead <= max(1, self._behaviour.receive_window)
        if fits:
            self.reset_option = segment.find(mptcp.MPTCPReset)
            self.end("reset by the peer")
            self.connection.take_fastclose(self, segment)

    def _receive_synack(self, segment: Segment) -> None:
        if "A" in segment.flags and segment.ack != self._sequence.number(1):
            # Of a former connection with our port, which the peer still has (RFC 9293 §3.10.7.3).
            self.connection.stack.refuse(segment, self._behaviour)
            return
        if "S" not in segment.flags or "A" not in segment.flags:
            return
        self.peer_syn(segment)
        self._unacked.clear()
        self.send_unacked = 1
        self.state = State.ESTABLISHED
        self.connection.take_synack(self, segment)

    def _receive_more(self, segment: Segment) -> None:
        data_acknowledged = self._take_ack(segment)
        if self.state == State.SYN_RECEIVED:
            if self.send_unacked < 1:
                return
            self.state = State.ESTABLISHED
            self.connection.take_third(self, segment)
        if self.state == State.ESTABLISHED:
            self.confirmed, self._third_due = True, None
            self.connection.take_options(self, segment, data_acknowledged)
        if self.state != State.ESTABLISHED:
            return
        self._take_payload(segment)
        if self.finished and self.peer_finished and not self._unacked:
            self.end("closed")

    def _take_ack(self, segment: Segment) -> bool:
        """Returns whether it acknowledges data that weren't before."""
        position = self._sequence.position(segment.ack, self.send_unacked)
        if position > self.send_next or position < self.send_unacked:
            return False
        before = self.send_unacked
        self.peer_window = segment.window << self._peer_shift
        self._window_end = max(self._window_end, position + self.peer_window)
        if position == before:
            if self._unacked and not segment.payload and "F" not in segment.flags:
                self._duplicates += 1
                if self._duplicates == _DUPLICATE_ACKS:
                    self._recover_to = self.send_next
                    self._send_again(self._unacked[0])
            return False
        self.send_unacked, self._duplicates = position, 0
        self._unacked = [sent for sent in self._unacked
                         if sent.position + sent.length > position]
        if position < self._recover_to and self._unacked:
            self._send_again(self._unacked[0])
        return before > 0

    def _take_payload(self, segment: Segment) -> None:
        position = self._peer_sequence.position(segment.seq, self.receive_next)
        old = position < self.receive_next  # sent again, or a keep-alive probe
        if segment.payload:
            start = self.receive_next
            ordered = self._received.add(position, segment.payload)
            if ordered:
                self.connection.take_data(self, start, ordered)
        if "F" in segment.flags:
            self._peer_fin = position + len(segment.payload)
        if self._peer_fin == self.receive_next and not self.peer_finished:
            self._received.next += 1
            self.peer_finished = True
            self.connection.take_fin(self)
        if self.state == State.ESTABLISHED and (segment.payload or "F" in segment.flags or old):
            self.acknowledge()

    # Time

    @property
    def deadline(self) -> float | None:
        """When `tick` has something to do."""
        dues = [sent.due for sent in self._unacked[:1]]
        if self._third_due is not None:
            dues.append(self._third_due)
        return min(dues, default=None)

    def tick(self, now: float) -> None:
        """Send again what is due."""
        if self._third_due is not None and self._third_due <= now:
            if self._third_tries > self._behaviour.tries:
                self.end("no answer to the third packet")
            else:
                self.send_third()
        if self._unacked and self._unacked[0].due <= now:
            if self._unacked[0].tries >= self._behaviour.tries:
                self.end("no answer")
            else:
                self._recover_to = self.send_next
                self._send_again(self._unacked[0])

    def _send_again(self, sent: _Sent) -> None:
        sent.tries += 1
        rto = self._behaviour.syn_rto if "S" in sent.flags else self._behaviour.rto
        sent.due = time.monotonic() + rto * 2**sent.tries
        self._emit(sent.flags, sent.payload, sent.options, self._sequence.number(sent.position))
