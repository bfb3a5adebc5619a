# SPDX-License-Identifier: GPL-2.0-or-later
"""An MPTCP connection: what its user may do, and what it makes of options (RFC 8684)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...layers import mptcp
from ...layers.mptcp_stream import End
from .behaviour import Behaviour
from .handshake import Handshake
from .packets import Segment
from .receiver import Receiver
from .sender import Sender
from .stream import Stream
from .subflow import State, Subflow

if TYPE_CHECKING:
    from .stack import Stack

_WITHIN = 1.0  # seconds

Option = mptcp.MPTCPOption | bytes


@dataclass(frozen=True)
class Announcement:
    """An address that the peer announced by ADD_ADDR; port 0 if it said none."""

    address_id: int
    address: str
    port: int


class Connection(Stream):
    """Made by `connect` and `Listener.accept`. See `Stream` for what it shares with sockets."""

    def __init__(self, stack: Stack, behaviour: Behaviour, *, initiator: bool) -> None:
        super().__init__()
        self.stack, self.behaviour, self.initiator = stack, behaviour, initiator
        self.mptcp = False  # the protocol in effect, once established
        self.checksum = False  # DSS checksums are in use
        self.confirmed = False  # the peer has sent a DSS
        self.fell_back: str | None = None  # why it is TCP
        self.local_key, self.peer_key = behaviour.key(), 0
        self.announced: list[Announcement] = []  # by the peer, and not withdrawn
        self.sender, self.receiver = Sender(self), Receiver(self)
        self.handshake = Handshake(self)
        self._mark = stack.log.mark()
        self._failed = False  # MP_FAIL was sent

    def __repr__(self) -> str:
        return f"<Connection {'MPTCP' if self.mptcp else 'TCP'} {self.subflows}>"

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def token(self) -> int:
        """By which the peer's joins name this connection."""
        return mptcp.token(self.local_key)

    @property
    def peer_token(self) -> int:
        """By which our joins name it."""
        return mptcp.token(self.peer_key)

    @property
    def next_dsn(self) -> int:
        """The DSN of the next byte that we send."""
        return self.sender.sequence.number(self.sender.next)

    @property
    def acknowledged_dsn(self) -> int:
        """The highest DATA_ACK of the peer."""
        return self.sender.sequence.number(self.sender.unacked)

    @property
    def data_ack(self) -> int:
        """The DSN that we expect next, which our DATA_ACK says."""
        return self.receiver.sequence.number(self.receiver.next)

    # Looking

    def expect(self, what: str, fits: Callable[[Segment], object], within: float = _WITHIN, *,
               subflow: Subflow | None = None, since: int | None = None) -> Segment:
        """Wait for a segment that `fits`; `what` names it in the message of Unexpected. Looks at
        what came since the mark (see `mark`), by default behind the one that was expected last.
        """
        segment, mark = self.stack.log.expect(
            what, fits, within, self._mark if since is None else since, self, subflow)
        if since is None:
            self._mark = mark
        return segment

    def mark(self) -> int:
        """Let `expect` look only at what comes from now on; the mark, for `since`."""
        self._mark = self.stack.log.mark()
        return self._mark

    def received(self, since: int = 0) -> list[Segment]:
        """The segments that came since a mark."""
        return [p.segment for p in self.stack.log.since(since, self) if not p.sent]

    def wait(self, what: str, holds: Callable[[], object], within: float = _WITHIN) -> None:
        """Wait for something to hold, such as a subflow's state. Raises TimeoutError."""
        with self.stack.lock:
            self.stack.wait(holds, within, what=what)

    # Sending what sockets can't

    def join(self, local: str | None = None, remote: str | None = None, *, port: int | None = None,
             address_id: int | None = None, backup: bool = False, token: int | None = None,
             hmac: bytes | None = None, third: Option | None = None, wait: bool = True,
             within: float = _WITHIN, local_port: int = 0,
             options: list[Option] | None = None) -> Subflow:
        """Open a further subflow from `local` to `remote`, by default the first one's addresses.

        `token`, `hmac` (20 bytes), `third` (the third packet's option) and `options` (those of the
        SYN) take the place of the right ones. With `wait` until the peer has answered to the third
        packet; raises ConnectionRefusedError if it resets the subflow, TimeoutError if it says
        nothing within some seconds. Without, see the subflow's `state`, `confirmed`, `ended`.
        """
        first = self.subflows[0]
        local, remote = local or first.local.address, remote or first.remote.address
        own = End(local, self.stack.hold(local, local_port, self))
        with self.stack.lock:
            subflow = self.handshake.start_join(
                own, End(remote, port or first.remote.port), address_id=address_id, backup=backup,
                token=self.peer_token if token is None else token, hmac=hmac, third=third,
                options=options)
        if wait:
            self.wait_joined(subflow, within)
        return subflow

    def wait_joined(self, subflow: Subflow, within: float = _WITHIN) -> None:
        """Wait until a subflow is established on both sides; raises as `join` does."""
        self.wait(f"answer to the join from {subflow.local.address} to {subflow.remote.address}",
                  lambda: subflow.ended or (subflow.confirmed and subflow.alive), within)
        if subflow.ended:
            raise ConnectionRefusedError(f"join to {subflow.remote.address}: {subflow.ended}")

    def send_mapping(self, data: bytes, *, subflow: Subflow | None = None,
                     dsn: int | None = None, ssn: int | None = None, length: int | None = None,
                     checksum: int | bool | None = None, fin: bool = False,
                     segment_size: int | None = None, on_each: bool = True) -> None:
        """Send data with one mapping, now, whatever the windows say.

        Without `dsn` they are the next of the stream, and are sent again until the peer's DATA_ACK
        comes; with one (64 bits), only TCP sends them again. `ssn`, `length` (data-level length)
        and `checksum` (a number; True or False: the right one or none) take the place of the right
        ones. `fin`: with DATA_FIN. `segment_size`: bytes in a segment; `on_each`: the option stands
        in each segment, else in the first one.
        """
        with self.stack.lock:
            subflow = subflow or self.alive[0]
            if dsn is None:
                dsn = self.sender.skip(data, subflow, fin)
            else:
                self.sender.skip_to(dsn, len(data) + fin)
            self.sender.map(subflow, dsn, data, ssn=ssn, length=length, checksum=checksum,
                            fin=fin, segment_size=segment_size, on_each=on_each)

    def send_option(self, *options: Option, subflow: Subflow | None = None) -> None:
        """Send an ACK with these options, beside the DATA_ACK if that fits."""
        with self.stack.lock:
            chosen = subflow or self.alive[0]
            try:
                chosen.send("A", options=[*options, *self.ack_options()])
            except ValueError:
                chosen.send("A", options=options)

    def announce(self, address: str, address_id: int, port: int = 0, *, hmac: bytes | None = None,
                 subflow: Subflow | None = None) -> None:
        """Send ADD_ADDR; `hmac` (8 bytes) takes the place of the right one."""
        if hmac is None:
            hmac = mptcp.add_addr_hmac(self.local_key, self.peer_key, address_id, address, port)
        self.handshake.address_ids[address] = address_id
        self.send_option(_add_addr(address, port, address_id=address_id, hmac=hmac),
                         subflow=subflow)

    def withdraw(self, *address_ids: int, subflow: Subflow | None = None) -> None:
        """Send REMOVE_ADDR."""
        self.send_option(mptcp.RemoveAddr(address_ids=list(address_ids)), subflow=subflow)

    def fastclose(self, *, key: int | None = None, form: str = "ack",
                  subflow: Subflow | None = None) -> None:
        """Send MP_FASTCLOSE (RFC 8684 §3.5) and forget the connection; where it is TCP, a RST.

        `form`: "ack", on an ACK of one subflow with the others reset, or "reset", on a RST of each.
        With a `key` that isn't the peer's, it goes by one subflow, and nothing else is done.
        """
        with self.stack.lock:
            chosen = subflow or next(iter(self.alive), None)
            option = mptcp.MPFastclose(receiver_key=self.peer_key if key is None else key)
            flags = "A" if form == "ack" else "RA"
            if not self.mptcp or not chosen:
                self.abort()
            elif option.receiver_key != self.peer_key:
                chosen.send(flags, options=[option])
            elif form == "ack":
                self.error = "MP_FASTCLOSE by us"
                chosen.send(flags, options=[option])
                for each in self.alive:
                    if each is not chosen:
                        each.reset()
            else:
                self.error = "MP_FASTCLOSE by us"
                self.abort(option)
            self.changed()

    def abort(self, *options: Option) -> None:
        """Reset all subflows, with these options."""
        with self.stack.lock:
            self.error = self.error or "reset by us"
            for subflow in self.subflows:
                subflow.reset(*options)
            self.changed()

    def stop(self) -> None:
        if not self.error:
            self.fastclose()

    # What subflows, handshake and streams call

    def ack_options(self) -> list[mptcp.MPTCPOption]:
        """The DSS with our DATA_ACK; none where the connection is TCP, or not to say it."""
        if not self.mptcp or not self.behaviour.acknowledge_data:
            return []
        octets = self.behaviour.data_ack_octets
        return [mptcp.DSS(flags="Aa" if octets == 8 else "A",
                          data_ack=self.data_ack % (1 << 8 * octets))]

    def establish(self, subflow: Subflow, peer_key: int) -> None:
        """The keys have been exchanged."""
        self.mptcp, self.peer_key = True, peer_key
        self.receiver.sequence.initial = mptcp.idsn(peer_key)
        self.sender.limit = 1 + subflow.peer_window

    def take_synack(self, subflow: Subflow, segment: Segment) -> None:
        """Our SYN was answered."""
        self.handshake.take_synack(subflow, segment)
        self.changed()

    def take_third(self, subflow: Subflow, segment: Segment) -> None:
        """Our SYN/ACK was answered."""
        self.handshake.take_third(subflow, segment)
        self.changed()

    def take_options(self, subflow: Subflow, segment: Segment, data_acknowledged: bool) -> None:
        """The options of an established subflow's segment."""
        if not self.mptcp:
            self.sender.push()
            return
        for option in segment.mptcp_options:
            if subflow.state == State.ESTABLISHED:
                self._take_option(subflow, option)
        if (subflow.index == 0 and not self.confirmed and data_acknowledged and self.mptcp
                and not any(isinstance(option, mptcp.DSS) for option in segment.mptcp_options)):
            self.fall_back("data were acknowledged without DATA_ACK")
        self.take_fastclose(subflow, segment)
        self._close_subflows()
        self.changed()

    def _take_option(self, subflow: Subflow, option: Option) -> None:
        match option:
            case mptcp.DSS():
                self._confirm()
                if option.flags.A:
                    self.sender.take_ack(option, subflow)
                if option.flags.M:
                    self.receiver.map(subflow, option)
                    if option.flags.F:
                        subflow.acknowledge()
            case mptcp.MPCapableData() | mptcp.MPCapableDataChecksum():
                if not self.initiator and subflow.index == 0:
                    self._confirm()
                    self.receiver.map_capable(subflow, option)
            case mptcp.MPJoinACK() if subflow.join:
                subflow.acknowledge()
            case mptcp.MPPrio():
                subflow.peer_backup = bool(option.backup)
            case mptcp.MPFail():
                self.behaviour.fail(self, subflow, option)
            case mptcp.RemoveAddr():
                for address_id in option.address_ids:
                    self.announced = [a for a in self.announced if a.address_id != address_id]
                    self.behaviour.remove_addr(self, address_id)
            case (mptcp.AddAddr() | mptcp.AddAddrPort() | mptcp.AddAddr6()
                  | mptcp.AddAddr6Port()) if not option.echo:
                self._take_add_addr(subflow, option)

    def _confirm(self) -> None:
        if not self.confirmed:
            self.confirmed = True
            self.behaviour.established(self)

    def _take_add_addr(self, subflow: Subflow, option: mptcp.MPTCPOption) -> None:
        port = getattr(option, "port", 0)
        expected = mptcp.add_addr_hmac(self.peer_key, self.local_key, option.address_id,
                                       option.address, port)
        if not self.behaviour.add_addr_fits(expected, option.hmac):
            return
        address = Announcement(option.address_id, option.address, port)
        if address not in self.announced:
            self.announced.append(address)
        if self.behaviour.echo_add_addr:
            self.send_option(_add_addr(option.address, port, address_id=option.address_id, echo=1),
                             subflow=subflow)
        self.behaviour.announced(self, address)

    def take_fastclose(self, subflow: Subflow, segment: Segment) -> None:
        """MP_FASTCLOSE, if there is one, on an ACK or a RST."""
        option = segment.find(mptcp.MPFastclose)
        if self.mptcp and option and self.behaviour.fastclose_fits(self.local_key,
                                                                  option.receiver_key):
            self.error = "MP_FASTCLOSE by the peer"
            self.behaviour.fastclose(self, subflow)

    def take_data(self, subflow: Subflow, position: int, data: bytes) -> None:
        """Bytes of a subflow, in order."""
        self.receiver.take(subflow, position, data)
        if (self.mptcp and not self.confirmed and subflow.index == 0
                and not self.receiver.is_mapped(subflow)):
            self.fall_back("data without a mapping")
        self.changed()

    def take_fin(self, subflow: Subflow) -> None:
        """The peer's FIN on a subflow."""
        if self.mptcp:
            subflow.finish()
        else:
            self.receiver.end()
        self.changed()

    def stream_ended(self) -> None:
        """The peer's stream has ended, in order."""
        self.behaviour.data_fin(self)
        self._close_subflows()
        self.changed()

    def _close_subflows(self) -> None:
        """FIN on each subflow once both streams have ended and are acknowledged (§3.3.3)."""
        if self.mptcp and self.receiver.ended and self.sender.finished:
            for subflow in self.alive:
                subflow.finish()

    def subflow_ended(self, subflow: Subflow) -> None:
        """A subflow is closed: what it took with it goes by another one."""
        self.sender.subflow_lost(subflow)
        self.changed()

    # Fallback and failure (§3.7)

    def fall_back(self, why: str) -> None:
        """Go on as TCP, on the only subflow there is."""
        if self.fell_back:
            return
        self.mptcp, self.fell_back = False, why
        carrier = next(iter(self.alive), self.subflows[0])
        self.receiver.fall_back(carrier)
        self.sender.fall_back(carrier, infinite_mapping=self.confirmed)
        self.behaviour.fallback(self)

    def reject_mapping(self, subflow: Subflow, dsn: int) -> None:
        """Say MP_FAIL: with a RST where there is another subflow, else to fall back to TCP."""
        if len(self.alive) > 1:
            subflow.reset(mptcp.MPFail(dsn=dsn))
            self.receiver.go_on()
        else:
            self._send_fail(subflow, dsn)

    def take_fail(self, subflow: Subflow) -> None:
        """The peer couldn't use a mapping of ours, or answers to our MP_FAIL: fall back."""
        if len(self.alive) == 1:
            self._send_fail(subflow, self.data_ack)
            self.fall_back("MP_FAIL by the peer")

    def _send_fail(self, subflow: Subflow, dsn: int) -> None:
        if not self._failed:
            self._failed = True
            subflow.send("A", options=[mptcp.MPFail(dsn=dsn)])

    # Time

    @property
    def deadline(self) -> float | None:
        """When `tick` has something to do."""
        dues = [self.sender.deadline, self.closing_deadline,
                *(subflow.deadline for subflow in self.subflows)]
        return min((due for due in dues if due is not None), default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for subflow in list(self.subflows):
            subflow.tick(now)
        self.sender.tick(now)
        self.tick_closing(now)


def _add_addr(address: str, port: int, **fields: Any) -> mptcp.MPTCPOption:
    """ADD_ADDR in the form that the address and the port ask for."""
    if ":" in address:
        form: type[mptcp.MPTCPOption] = mptcp.AddAddr6Port if port else mptcp.AddAddr6
    else:
        form = mptcp.AddAddrPort if port else mptcp.AddAddr
    if port:
        fields["port"] = port
    return form(address=address, **fields)
