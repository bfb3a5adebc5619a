# SPDX-License-Identifier: GPL-2.0-or-later
"""Listeners for a `controller.Service`: they move the bytes of its queues, in a thread with an
asyncio loop of its own. Listeners and connections are sockets of the kernel, or of endpoints.raw.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from .controller import Closing, Queue, Service
from .mptcp_socket import IPPROTO_MPTCP, info

T = TypeVar("T")
TICK = 0.25  # seconds between two looks at the Keep Alive Timers
LINGER = 5.0  # seconds that a host has to end its direction after we have ended ours
TERMINATION = 30.0  # seconds that a host has to close after a termination request
_CHUNK = 1 << 16


class Server:
    """Serves hosts from `listen` until `stop`. The listeners belong to the network namespace of the
    thread that makes the server.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: dict[Any, asyncio.Task[None]] = {}
        self._queues: set[Queue] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.call(lambda: self._task(self._expire()))

    def listen(self, traddr: str, trsvcid: int, *, mptcp: bool = True) -> None:
        """Accept connections at an address and port. Raises OSError, also where it is in use."""
        self.call(lambda: self._listen(open_listener(traddr, trsvcid, mptcp=mptcp)))

    def add(self, listener: Any) -> None:
        """Accept connections of a listener that has been made elsewhere."""
        self.call(lambda: self._listen(listener))

    def silence(self, *, also_connections: bool = False) -> None:
        """Close all listeners; with `also_connections` reset what is open."""
        self.call(lambda: self._silence(also_connections))

    def stop(self) -> None:
        """Close everything and end the thread."""
        if self._loop.is_closed():
            return
        self.silence(also_connections=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, function: Callable[[], T]) -> T:
        """Do something in the server's thread, where the queues live, and return its result."""
        if threading.current_thread() is self._thread:
            return function()
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()

    async def send(self, queue: Queue, data: bytes) -> None:
        """Send what a queue has to say. A subclass may do it in parts."""
        await self._loop.sock_sendall(queue.transport, data)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))

    def _task(self, work: Any) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _listen(self, listener: Any) -> None:
        listener.setblocking(False)
        self._listeners[listener] = self._task(self._accept(listener))

    def _silence(self, also_connections: bool) -> None:
        for listener, task in self._listeners.items():
            task.cancel()
            # only after the loop has forgotten it
            self._loop.remove_reader(listener.fileno())
            listener.close()
        self._listeners.clear()
        if also_connections:
            for queue in list(self._queues):
                queue.abort()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            for subsystem in self.service.subsystems.values():
                subsystem.expire()

    async def _accept(self, listener: Any) -> None:
        while listener in self._listeners:
            connected, peer = await self._loop.sock_accept(listener)
            with suppress(OSError):
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            queue = Queue(self.service, mptcp=protocol_is_mptcp(connected), transport=connected,
                          local=connected.getsockname()[:2], peer=peer[:2])
            if self.service.accepts(queue):
                self._task(self._serve(queue))
            else:
                _reset(connected)

    async def _serve(self, queue: Queue) -> None:
        changed = asyncio.Event()
        queue.wake = changed.set
        self._queues.add(queue)
        reader = self._task(self._read(queue))
        try:
            while queue.closing is Closing.NO:
                await changed.wait()
                changed.clear()
                while output := queue.take():
                    await self.send(queue, output)
            await self._close(queue, reader)
        except OSError:
            await reader  # which notices, too
        finally:
            reader.cancel()
            queue.wake = lambda: None
            self._queues.discard(queue)
            queue.transport.close()

    async def _read(self, queue: Queue) -> None:
        error: OSError | None = None
        try:
            while data := await self._loop.sock_recv(queue.transport, _CHUNK):
                queue.receive(data)
                queue.wake()
        except OSError as caught:
            error = caught
        if self.service.ended(queue, error) and queue.closing is Closing.NO:
            queue.end()

    async def _close(self, queue: Queue, reader: "asyncio.Task[None]") -> None:
        with suppress(OSError):
            if queue.closing is Closing.END:
                queue.transport.shutdown(socket.SHUT_WR)
                await asyncio.wait([reader], timeout=LINGER)
            elif queue.closing is Closing.TERMINATED:
                await asyncio.wait([reader], timeout=TERMINATION)
        if not reader.done():
            _reset(queue.transport)


def open_listener(traddr: str, trsvcid: int, *, mptcp: bool) -> socket.socket:
    """A listening socket of the kernel, in the namespace of the calling thread. Raises OSError."""
    family, kind, _, _, address = socket.getaddrinfo(traddr, trsvcid, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, IPPROTO_MPTCP if mptcp else socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def protocol_is_mptcp(connected: Any) -> bool:
    """The protocol in effect: MPTCP, or TCP after a fallback."""
    if isinstance(connected, socket.socket):
        return info(connected) is not None
    return bool(connected.mptcp)  # of endpoints.raw


def _reset(connected: Any) -> None:
    """Send MP_FASTCLOSE; on TCP, RST."""
    with suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connected.close()
