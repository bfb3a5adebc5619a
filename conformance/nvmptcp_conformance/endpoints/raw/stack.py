# SPDX-License-Identifier: GPL-2.0-or-later
"""The thread that serves raw connections, and how they come to be."""

from __future__ import annotations

import collections
import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...layers import mptcp
from ...layers.mptcp_stream import End
from .behaviour import Behaviour
from .connection import Connection, Option
from .expect import Log
from .packets import Guard, PacketSockets, Segment, local_address
from .readiness import Waits
from .stream import Stream
from .subflow import State, Subflow

_ANY = ("0.0.0.0", "::")
_SHORTEST = 1e-4  # seconds: in a lab of virtual time, a thread that never sleeps stops the clock
_T = TypeVar("_T")


@dataclass
class _Held:
    """A local port, and whose it is."""

    guard: Guard
    users: list[Connection | Listener] = field(default_factory=list)


class Stack:
    """Raw sockets, a thread, and the connections on them. Raises RawUnavailable."""

    def __init__(self) -> None:
        self._packets = PacketSockets()
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.log = Log(self.changed)  # every segment, also of no connection
        self.connections: list[Connection] = []
        self._listeners: list[Listener] = []
        self._subflows: dict[tuple[End, End], Subflow] = {}
        self._held: dict[tuple[str, int], _Held] = {}
        self._calls: collections.deque[Callable[[], None]] = collections.deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closing = False
        self._failure: BaseException | None = None
        self.closes_itself = False  # with its last connection or listener
        self._thread = threading.Thread(target=self._run, name="raw stack", daemon=True)
        self._thread.start()

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, remote: str, port: int, *, local: str | None = None, local_port: int = 0,
                timeout: float | None = 5, behaviour: Behaviour | None = None,
                options: list[Option] | None = None, joins_at: Sequence[str] = (),
                wait: bool = True) -> Connection:
        """Open a connection; `timeout` (seconds) is also that of its socket methods.

        `options` are the SYN's MPTCP options instead of the right one, `[]` none. The peer may
        join at the addresses `joins_at`, too, with our port. Raises ConnectionRefusedError,
        TimeoutError, OSError. Without `wait` it comes back at once.
        """
        local = local or self._call(lambda: local_address(remote))
        connection = Connection(self, behaviour or Behaviour(), initiator=True)
        connection.settimeout(timeout)
        own = End(local, self.hold(local, local_port, connection))
        try:
            for other in joins_at:
                self.hold(other, own.port, connection)
            with self.lock:
                self.connections.append(connection)
                connection.handshake.start(own, End(remote, port), options)
                first = connection.subflows[0]
                if wait:
                    self.wait(lambda: first.state != State.SYN_SENT, timeout,
                              what=f"SYN/ACK of {remote}:{port}")
                if first.ended:
                    raise ConnectionRefusedError(f"{remote}:{port}: {first.ended}")
        except BaseException:
            connection.abort()
            connection.close()
            raise
        return connection

    def listen(self, address: str, port: int, *, behaviour: Behaviour | None = None,
               joins_at: Sequence[str] = ()) -> Listener:
        """Accept connections at an address ("0.0.0.0", "::": any) and port; at the addresses
        `joins_at` only joins. Port 0: any that is free. Raises OSError if one is taken.
        """
        return Listener(self, address, port, behaviour or Behaviour(), joins_at)

    def send(self, segment: Segment, subflow: Subflow | None = None) -> None:
        """Send a segment, of any connection or none. Raises OSError, ValueError."""
        with self.lock:
            packet = segment.to_bytes()
            self.log.add(True, segment, subflow)
            try:
                self._packets.send(packet, segment)
            except OSError:
                if threading.current_thread() is not self._thread:
                    raise  # in the thread the packet counts as lost

    def expect(self, what: str, fits: Callable[[Segment], object], within: float = 1, *,
               since: int = 0) -> Segment:
        """As `Connection.expect`, of all connections and of segments that belong to none."""
        return self.log.expect(what, fits, within, since, None, None)[0]

    def close(self) -> None:
        """Stop at once; connections that are open are left as they are."""
        self._stop()
        self.join_thread()

    def _stop(self) -> None:
        with self.lock:
            self.wake()
            self._closing = True

    def join_thread(self) -> None:
        """Wait for the end of the thread, if it is to end. Not with the lock held."""
        if self._closing and threading.current_thread() is not self._thread:
            self._thread.join()

    # For connections

    def hold(self, address: str, port: int, user: Connection | Listener) -> int:
        """Keep this machine's TCP from a local port, which is returned."""
        with self.lock:
            held = self._held.get((address, port))
        if not held:
            guard = self._call(lambda: Guard(address, port))
            with self.lock:
                held = self._held[address, guard.port] = _Held(guard)
                self._packets.watch([known[1] for known in self._held])
        with self.lock:
            held.users.append(user)
        return held.guard.port

    def release(self, user: Stream | Listener) -> None:
        """A connection or listener is closed: its ports, and those of subflows, are free."""
        with self.lock:
            for key, held in list(self._held.items()):
                held.users = [other for other in held.users if other is not user]
                if not held.users:
                    held.guard.close()
                    del self._held[key]
            if not self._closing:
                self._packets.watch([known[1] for known in self._held])
            self._listeners = [other for other in self._listeners if other is not user]
            self.connections = [other for other in self.connections if other is not user]
            for subflow in user.subflows if isinstance(user, Stream) else []:
                self._subflows.pop((subflow.local, subflow.remote), None)
            last = not self.connections and not self._listeners
            if last and self.closes_itself:
                self._stop()

    def add(self, subflow: Subflow) -> None:
        """Segments between these ends are the subflow's."""
        self._subflows[subflow.local, subflow.remote] = subflow

    def established(self, connection: Connection) -> None:
        """A listener's connection is established."""
        address = connection.subflows[0].local
        for listener in self._listeners:
            if listener.takes(address):
                listener.add(connection)
                return

    def wake(self) -> None:
        """Timers have changed."""
        if threading.current_thread() is not self._thread and not self._closing:
            os.eventfd_write(self._wake, 1)

    @staticmethod
    def now() -> float:
        """The time that deadlines count in."""
        return time.monotonic()

    def wait(self, holds: Callable[[], object], timeout: float | None, *,
             what: str = "data", quiet: bool = False) -> None:
        """Wait, with the lock held, until something holds; raises TimeoutError unless `quiet`."""
        done = self.changed.wait_for(lambda: holds() or self._failure or self._closing, timeout)
        if self._failure and not quiet:
            raise RuntimeError(f"the raw stack has failed: {self._failure!r}") from self._failure
        if not quiet and (not done or not holds()):
            raise TimeoutError(f"no {what} within {timeout:g} s" if timeout is not None
                               else "the raw stack was closed")

    def refuse(self, segment: Segment, behaviour: Behaviour, *options: Option) -> None:
        """Answer a segment that nobody wants with a RST (RFC 9293 §3.10.7.1)."""
        if "R" in segment.flags or not behaviour.reset_strays:
            return
        length = len(segment.payload) + ("S" in segment.flags) + ("F" in segment.flags)
        acked = "A" in segment.flags
        self.send(Segment(
            segment.destination, segment.source, "R" if acked else "RA",
            segment.ack if acked else 0, 0 if acked else (segment.seq + length) % (1 << 32), 0,
            tuple(("MPTCP", option) for option in options)))

    # The thread

    def _call(self, function: Callable[[], _T]) -> _T:
        """Call in the stack's thread, which is in its network namespace."""
        if threading.current_thread() is self._thread:
            return function()
        future: Future[_T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._calls.append(run)
        self.wake()
        return future.result()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._serve()
        except Exception as error:  # such as that of a Behaviour: told to those who wait, too
            self._failure = error
            raise
        finally:
            with self.lock:
                self._closing = True
                self._packets.close()
                for held in self._held.values():
                    held.guard.close()
                os.close(self._wake)
                self._wake = -1
                self.changed.notify_all()

    def _serve(self) -> None:
        with self.lock:
            dues = [d for d in (c.deadline for c in self.connections) if d is not None]
        timeout = max(_SHORTEST, min(dues) - self.now()) if dues else None
        select.select([self._wake, *self._packets.descriptors], [], [], timeout)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while self._calls:
            self._calls.popleft()()
        with self.lock:
            for segment in self._packets.receive():
                self._take(segment)
            now = self.now()
            for connection in list(self.connections):
                connection.tick(now)

    def _take(self, segment: Segment) -> None:
        subflow = self._subflows.get((segment.destination, segment.source))
        syn = "S" in segment.flags and "A" not in segment.flags
        if subflow and not (syn and subflow.state == State.CLOSED):
            self.log.add(False, segment, subflow)
            if not subflow.deaf:
                for taken in subflow.connection.behaviour.incoming(subflow, segment):
                    subflow.receive(taken)
            return
        users = self._users(segment.destination)
        if not users:
            return  # of another program
        self.log.add(False, segment, None)
        if syn:
            self._take_syn(segment, users)
        else:
            self.refuse(segment, users[0].behaviour)

    def _users(self, local: End) -> list[Connection | Listener]:
        held = self._held.get((local.address, local.port))
        for any_address in _ANY:
            held = held or self._held.get((any_address, local.port))
        return held.users if held else []

    def _take_syn(self, syn: Segment, users: list[Connection | Listener]) -> None:
        behaviour = users[0].behaviour
        join = syn.find(mptcp.MPJoinSYN)
        if join:
            connection = next((c for c in self.connections if c.mptcp and c.token == join.token),
                              None)
            if not connection:
                reset = behaviour.unknown_token(syn)
            else:
                behaviour = connection.behaviour
                reset = behaviour.accept_join(connection, syn)
                if not reset:
                    connection.handshake.answer_join(syn, join)
                    return
            if reset:
                self.refuse(syn, behaviour, reset)
            return
        for listener in self._listeners:
            if listener.takes(syn.destination) and listener.behaviour.accept(syn):
                connection = Connection(self, listener.behaviour, initiator=False)
                self.connections.append(connection)
                connection.handshake.answer(syn)
                return
        self.refuse(syn, behaviour)


class Listener(Waits):
    """Accepts connections; made by `listen`."""

    def __init__(self, stack: Stack, address: str, port: int, behaviour: Behaviour,
                 joins_at: Sequence[str]) -> None:
        super().__init__()
        self.stack, self.behaviour = stack, behaviour
        self._waiting: collections.deque[Connection] = collections.deque()
        self._closed = False
        port = stack.hold(address, port, self)
        self.address = End(address, port)
        for other in joins_at:
            stack.hold(other, port, self)
        with stack.lock:
            stack._listeners.append(self)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def takes(self, address: End) -> bool:
        """Whether connections, not only joins, are accepted there."""
        return (self.address.port == address.port
                and self.address.address in (address.address, *_ANY))

    def add(self, connection: Connection) -> None:
        """A connection is established."""
        self._waiting.append(connection)
        self.readable.set(True)
        self.stack.changed.notify_all()

    def accept(self) -> tuple[Connection, End]:
        """The next connection, and the peer's address. Raises TimeoutError."""
        with self.stack.lock:
            if self._timeout == 0 and not self._waiting:
                raise BlockingIOError
            self.stack.wait(lambda: self._waiting or self._closed, self._timeout,
                            what=f"connection to {self.address.address}:{self.address.port}")
            if self._closed:
                raise ConnectionAbortedError("the listener was closed")
            connection = self._waiting.popleft()
            self.readable.set(bool(self._waiting))
        return connection, connection.getpeername()

    def getsockname(self) -> End:
        return self.address

    def close(self) -> None:
        """Accept no more; connections that were accepted go on."""
        if self._closed:
            return
        with self.stack.lock:
            self._closed = True
            self.stack.changed.notify_all()
        self.readable.close()
        self.stack.release(self)
        self.stack.join_thread()


def connect(remote: str, port: int, **options: Any) -> Connection:
    """`Stack.connect` on a stack of the connection's own."""
    stack = Stack()
    stack.closes_itself = True
    try:
        return stack.connect(remote, port, **options)
    except BaseException:
        stack.close()
        raise


def listen(address: str, port: int, **options: Any) -> Listener:
    """`Stack.listen` on a stack that the listener and its connections share."""
    stack = Stack()
    stack.closes_itself = True
    try:
        return stack.listen(address, port, **options)
    except BaseException:
        stack.close()
        raise
