# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the raw endpoint in the lab's guest; prints what was seen as JSON.

The raw endpoint is in one namespace, the kernel's MPTCP in the other: nvmet, an echo server, or a
client. Each function is a situation; what it returns is judged by test_raw_endpoint.py.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from nvmptcp_conformance.endpoints import raw
from nvmptcp_conformance.endpoints.host import Host
from nvmptcp_conformance.endpoints.mptcp_socket import IPPROTO_MPTCP, info
from nvmptcp_conformance.endpoints.raw import Behaviour, Connection, Segment, Subflow
from nvmptcp_conformance.layers import mptcp
from nvmptcp_lab.guest import nvmet
from nvmptcp_lab.guest.netns import inside

HOST, SECOND_HOST = "10.0.1.1", "10.0.2.1"
TARGET, SECOND_TARGET = "10.0.1.2", "10.0.2.2"
HOST6, TARGET6 = "fd00:77::1", "fd00:77::2"
ECHO, RAW = 5000, 6000  # ports
DATA = random.Random(8684).randbytes(200_000)
SETTLE = 0.5  # seconds: longer than anything that isn't retransmitted takes


class RoundRobin(Behaviour):
    """Uses its subflows in turn."""

    turn = 0

    def schedule(self, connection: Connection, usable: Sequence[Subflow]) -> Subflow:
        self.turn += 1
        return usable[self.turn % len(usable)]


class Lossy(Behaviour):
    """Loses, repeats and reorders what it sends, but for SYNs."""

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self._random = random.Random(30)
        self._kept: Segment | None = None

    def outgoing(self, subflow: Subflow, segment: Segment) -> list[Segment]:
        if "S" in segment.flags:
            return [segment]
        kept, self._kept = self._kept, None
        match self._random.randrange(12):
            case 0:
                self._kept = None
                return [kept] if kept else []
            case 1:
                return [segment, segment, *([kept] if kept else [])]
            case 2:
                self._kept = segment
                return [kept] if kept else []
        return [segment, *([kept] if kept else [])]


class Echo:
    """A server of the kernel that sends back what comes, until `RAW` says otherwise."""

    def __init__(self, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with inside("target"):
            self._listener = socket.socket(family, socket.SOCK_STREAM, IPPROTO_MPTCP)
        if family == socket.AF_INET6:
            self._listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self._listener.bind(("::" if family == socket.AF_INET6 else "", ECHO))
        self._listener.listen()
        self.sockets: list[socket.socket] = []
        self.ends: list[str] = []  # how each connection ended, as the server saw it
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connected, _ = self._listener.accept()
                self.sockets.append(connected)
                threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        try:
            while data := connected.recv(65536):
                connected.sendall(data)
            self.ends.append("end")
        except OSError as error:
            self.ends.append(type(error).__name__)
        connected.close()


def connect(remote: str = TARGET, port: int = ECHO, **options: Any) -> Connection:
    with inside("host"):
        return raw.connect(remote, port, **options)


def listen(port: int, **options: Any) -> raw.Listener:
    with inside("target"):
        listener = raw.listen(options.pop("address", TARGET), port, **options)
    listener.settimeout(5)
    return listener


@contextlib.contextmanager
def kernel_client(listener: raw.Listener, protocol: int = IPPROTO_MPTCP
                  ) -> Iterator[tuple[socket.socket, Connection]]:
    """A socket of the kernel that is connected to a raw listener, and the listener's end of it."""
    address = listener.getsockname()
    family = socket.AF_INET6 if ":" in address.address else socket.AF_INET
    with inside("host"):
        client = socket.socket(family, socket.SOCK_STREAM, protocol)
    client.settimeout(5)
    client.connect(tuple(address))
    client.sendall(b"first")
    connection, _ = listener.accept()
    connection.settimeout(5)
    assert receive(connection, 5) == b"first"
    with client, connection, listener:
        yield client, connection


def receive(connection: Connection | socket.socket, size: int) -> bytes:
    """So many bytes, or fewer if the stream ends."""
    data = b""
    while len(data) < size and (more := connection.recv(65536)):
        data += more
    return data


def error_of(action: Callable[[], object]) -> str:
    """The error that it ends with."""
    try:
        action()
    except (OSError, raw.RawUnavailable, raw.Unexpected, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def carried(connection: Connection, sent: bool) -> list[int]:
    """Bytes of payload on each subflow."""
    passed = connection.stack.log.since(0, connection)
    return [sum(len(p.segment.payload) for p in passed if p.subflow is subflow and p.sent == sent)
            for subflow in connection.subflows]


def unprivileged() -> str:
    """What an ordinary user is told. Asked in a child, since it gives up its rights."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setuid(65534)
        os.write(write, error_of(raw.Stack).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(read, 1000).decode()


def nvme_association() -> dict[str, Any]:
    """An NVMe association with nvmet, DSS checksums, two subflows, orderly end."""
    nvmet.add_port(nvmet.Port(1, TARGET, 4420, "mptcp", "adda", maximum_subflows=8),
                   nvmet.subsystem(nvmet.null_block(16, memory_backed=True)))
    connection = connect(port=4420, behaviour=RoundRobin(checksum_required=True))
    host = Host(cast(socket.socket, connection))
    host.initialize()
    host.connect(nvmet.NQN)
    host.enable()
    host.wait_ready()
    alone = host.identify_controller()
    second = connection.join(SECOND_HOST, SECOND_TARGET)
    same = [host.identify_controller() == alone for _ in range(8)]
    checksummed = [s.find(mptcp.DSSChecksum) is not None for s in connection.received()
                   if s.payload]
    seen = {"mptcp": connection.mptcp, "checksum": connection.checksum,
            "announced": sorted(a.address for a in connection.announced),
            "identical": same, "size": len(alone), "checksummed": all(checksummed),
            "sent": carried(connection, True), "remote_id": second.remote_id}
    connection.shutdown(socket.SHUT_WR)
    connection.wait_acknowledged(1)
    host.close()
    return seen


def mappings() -> dict[str, Any]:
    """The stream cut into mappings in every way, some of it twice."""
    connection = connect(timeout=3)
    connection.sendall(b"1st")
    seen: dict[str, Any] = {"first": receive(connection, 3) == b"1st"}
    second = connection.join(SECOND_HOST, SECOND_TARGET)
    first = connection.subflows[0]

    def echoed(name: str, *pieces: dict[str, Any], expected: bytes) -> None:
        for piece in pieces:
            connection.send_mapping(piece.pop("data"), **piece)
        seen[name] = receive(connection, len(expected)) == expected

    echoed("one byte each", *({"data": bytes([n])} for n in range(20)), expected=bytes(range(20)))
    echoed("one mapping in many segments", {"data": DATA[:9000], "on_each": False,
                                            "segment_size": 700}, expected=DATA[:9000])
    dsn = connection.next_dsn
    echoed("later part first", {"data": b"abc" * 9, "subflow": second},
           {"data": b"def" * 9, "subflow": first}, expected=b"abc" * 9 + b"def" * 9)
    dsn = connection.next_dsn
    echoed("overlapping", {"data": b"0123456789", "subflow": first},
           {"data": b"56789abcde", "subflow": second, "dsn": (dsn + 5) % (1 << 64)},
           expected=b"0123456789abcde")
    dsn = connection.next_dsn
    echoed("reinjected", {"data": b"twice", "subflow": first},
           {"data": b"twice", "subflow": second, "dsn": dsn}, {"data": b"once"},
           expected=b"twiceonce")
    connection.behaviour.dsn_octets = connection.behaviour.data_ack_octets = 4
    connection.behaviour.mapping_size = 333
    connection.sendall(DATA)
    seen["4 octets"] = receive(connection, len(DATA)) == DATA
    short = [s for s in (p.segment for p in connection.stack.log.since(0, connection) if p.sent)
             if (option := s.find(mptcp.DSS)) and option.flags.M and not option.flags.m]
    seen["short mappings"] = len(short)
    connection.close()
    return seen


def lossy() -> dict[str, Any]:
    """Segments of both ends get lost, come twice and out of order."""
    with inside("target"):
        listener = raw.listen(TARGET, RAW, behaviour=Lossy(), joins_at=[SECOND_TARGET])
    with listener, connect(port=RAW, timeout=30, behaviour=Lossy()) as near:
        near.sendall(b"1")
        listener.settimeout(30)
        far, _ = listener.accept()
        far.settimeout(30)
        assert receive(far, 1) == b"1"
        near.join(SECOND_HOST, SECOND_TARGET, within=20)
        near.sendall(DATA)
        far.sendall(DATA[::-1])
        there, back = receive(far, len(DATA)), receive(near, len(DATA))
        near.wait_acknowledged(30)
        seen = {"there": there == DATA, "back": back == DATA[::-1], "mptcp": far.mptcp,
                "subflows": [len(near.alive), len(far.alive)],
                "more than once": sum(carried(near, True)) > len(DATA)}
        near.shutdown(socket.SHUT_WR)
        seen["end"] = far.recv(1) == b""
        far.close()
    return seen


def path_loss() -> dict[str, Any]:
    """The path that carries the data goes dead: they go on by the other one."""
    connection = connect(timeout=20)
    connection.sendall(b"1")
    receive(connection, 1)
    connection.join(SECOND_HOST, SECOND_TARGET)
    connection.subflows[0].silent = True
    connection.sendall(DATA[:50_000])
    whole = receive(connection, 50_000) == DATA[:50_000]
    connection.wait("the end of the dead subflow", lambda: connection.subflows[0].ended, 60)
    seen = {"whole": whole, "ended": connection.subflows[0].ended,
            "alive": len(connection.alive), "carried": carried(connection, True)[1]}
    connection.close()
    return seen


def fastclose(echo: Echo) -> dict[str, Any]:
    """MP_FASTCLOSE with a wrong key, and in both forms with the right one."""
    seen: dict[str, Any] = {}
    for form in ("ack", "reset"):
        connection = connect(timeout=2)
        connection.sendall(b"1")
        receive(connection, 1)
        connection.fastclose(key=connection.peer_key ^ 1)
        connection.sendall(b"2")
        kept = receive(connection, 1) == b"2"
        before, mark = len(echo.ends), connection.mark()
        connection.fastclose(form=form)
        time.sleep(SETTLE)
        reset = any("R" in s.flags for s in connection.received(mark))
        seen[form] = {"kept": kept, "server": echo.ends[before:], "reset": reset,
                      "ours": error_of(lambda c=connection: c.recv(1))}  # type: ignore[misc]
        connection.close()
    return seen


class Strips(Behaviour):
    """Takes the MPTCP options from some segments, as a middlebox would."""

    def __init__(self, which: str) -> None:
        super().__init__()
        self._which = which
        self.active = True

    def _strip(self, segment: Segment, name: str) -> list[Segment]:
        return [segment.without_mptcp() if self._which == name else segment]

    def outgoing(self, subflow: Subflow, segment: Segment) -> list[Segment]:
        if "S" in segment.flags:
            return self._strip(segment, "SYN")
        return self._strip(segment, "after the handshake")

    def incoming(self, subflow: Subflow, segment: Segment) -> list[Segment]:
        return self._strip(segment, "SYN/ACK") if "S" in segment.flags else [segment]


def fallback(echo: Echo) -> dict[str, Any]:
    """Options are taken away here and there; and none were sent at all."""
    seen: dict[str, Any] = {}
    for which in ("SYN", "SYN/ACK", "after the handshake", "none sent"):
        options: dict[str, Any] = ({"options": []} if which == "none sent"
                                   else {"behaviour": Strips(which)})
        with connect(timeout=5, **options) as connection:
            connection.sendall(DATA[:5000])
            whole = receive(connection, 5000) == DATA[:5000]
            seen[which] = {"whole": whole, "mptcp": connection.mptcp,
                           "server": info(echo.sockets[-1]) is not None,
                           "why": connection.fell_back}
            connection.shutdown(socket.SHUT_WR)
            seen[which]["end"] = connection.recv(1) == b""
    return seen


def bad_joins() -> dict[str, Any]:
    """Joins that the kernel has to refuse; the connection lives on."""
    with connect(timeout=3) as connection:
        connection.sendall(b"1")
        receive(connection, 1)
        wrong = {
            "token": error_of(lambda: connection.join(SECOND_HOST, SECOND_TARGET,
                                                      token=connection.peer_token ^ 1)),
            "HMAC": error_of(lambda: connection.join(SECOND_HOST, SECOND_TARGET,
                                                     hmac=bytes(20))),
        }
        connection.mark()
        quiet = error_of(lambda: connection.expect("MP_FAIL", lambda s: s.find(mptcp.MPFail), 0.1))
        connection.sendall(b"2")
        seen = {**wrong, "kept": receive(connection, 1) == b"2", "unexpected": quiet}
        segment = connection.expect("data", lambda s: s.payload)
        return {**seen, "expected": segment.payload.decode(),
                "long options": error_of(lambda: connection.subflows[0].send(
                    "A", options=[bytes(38), bytes(20)]))}


def bad_checksum() -> dict[str, Any]:
    """A wrong checksum on one of two subflows; and on the only one of another connection."""
    seen = {}
    with connect(timeout=5, behaviour=Behaviour(checksum_required=True)) as connection:
        connection.sendall(b"1")
        receive(connection, 1)
        second = connection.join(SECOND_HOST, SECOND_TARGET)
        connection.send_mapping(b"to be sent again", subflow=second, checksum=0xBAD)
        seen["two"] = [receive(connection, 16) == b"to be sent again", second.ended]
        reset = connection.expect("MP_FAIL on a RST", lambda s: s.find(mptcp.MPFail))
        seen["two"].append(reset.flags)
    with connect(timeout=5, behaviour=Behaviour(checksum_required=True)) as connection:
        connection.sendall(b"1")
        receive(connection, 1)
        connection.send_mapping(b"and this", checksum=0xBAD)
        connection.expect("MP_FAIL", lambda s: s.find(mptcp.MPFail) and "R" not in s.flags)
        seen["one"] = [receive(connection, 8) == b"and this", connection.fell_back]
        connection.sendall(DATA[:5000])
        seen["one"].append(receive(connection, 5000) == DATA[:5000])
    return seen


def kernel_joins() -> dict[str, Any]:
    """A client of the kernel joins an announced address, but not one with a wrong HMAC."""
    listener = listen(RAW + 1, joins_at=[SECOND_TARGET, "10.0.3.2"], behaviour=RoundRobin())
    with kernel_client(listener) as (client, connection):
        connection.announce("10.0.3.2", 3, hmac=bytes(8))
        time.sleep(SETTLE)
        wrong = len(connection.alive)
        connection.announce(SECOND_TARGET, 2)
        connection.expect("echo of ADD_ADDR", lambda s: (o := s.find(mptcp.AddAddr)) and o.echo)
        connection.wait("a second subflow", lambda: len(connection.alive) == 2)
        connection.sendall(DATA)
        there = receive(client, len(DATA)) == DATA
        client.sendall(DATA)
        back = receive(connection, len(DATA)) == DATA
        sent, received = carried(connection, True), carried(connection, False)
        joined = cast(Any, info(client)).joined
        connection.withdraw(2)
        connection.wait("the end of the second subflow", lambda: len(connection.alive) == 1)
        connection.sendall(b"x")
        return {"wrong": wrong, "there": there, "back": back, "sent": sent, "received": received,
                "joined": joined, "withdrawn": receive(client, 1) == b"x"}


def kernel_ends() -> dict[str, Any]:
    """A client of the kernel ends its stream, sees the end of ours, and aborts."""
    seen: dict[str, Any] = {}
    with kernel_client(listen(RAW + 2)) as (client, connection):
        client.shutdown(socket.SHUT_WR)
        seen["its end"] = connection.recv(1) == b""
        connection.sendall(b"still")
        connection.shutdown(socket.SHUT_WR)
        seen["ours"] = receive(client, 10).decode()
        connection.wait("the subflow's end", lambda: connection.subflows[0].ended)
        seen["subflow"] = connection.subflows[0].ended
    with kernel_client(listen(RAW + 2)) as (client, connection):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        seen["abort"] = error_of(lambda: connection.recv(1))
    with kernel_client(listen(RAW + 2)) as (client, connection):
        connection.fastclose()
        seen["aborted"] = error_of(lambda: client.recv(1))
    return seen


class Spoils(Behaviour):
    """Damages a byte of the data that come, once."""

    spoilt = False

    def incoming(self, subflow: Subflow, segment: Segment) -> list[Segment]:
        if b"spoil me" in segment.payload and not self.spoilt:
            self.spoilt = True
            segment = replace(segment, payload=segment.payload.replace(b"spoil", b"SPOIL"))
        return [segment]


class Refuses(Behaviour):
    """Announces an address, but lets nobody join."""

    def established(self, connection: Connection) -> None:
        connection.announce(SECOND_TARGET, 2)

    def accept_join(self, connection: Connection, syn: Segment) -> mptcp.MPTCPReset:
        return mptcp.MPTCPReset(reason=3)


class NoCapable(Behaviour):
    """A listener that knows TCP only."""

    def answer_capable(self, syn: Segment) -> bool:
        return False


def behaviours() -> dict[str, Any]:
    """A listener that behaves otherwise."""
    seen: dict[str, Any] = {}
    with kernel_client(listen(RAW + 3, behaviour=NoCapable())) as (client, connection):
        client.sendall(DATA[:3000])
        seen["TCP only"] = [receive(connection, 3000) == DATA[:3000], info(client) is None,
                            connection.mptcp]
    with kernel_client(listen(RAW + 3), socket.IPPROTO_TCP) as (client, connection):
        connection.sendall(DATA[:3000])
        seen["plain client"] = [receive(client, 3000) == DATA[:3000], connection.fell_back]
        client.close()
        seen["plain end"] = connection.recv(1) == b""
    with kernel_client(listen(RAW + 3, joins_at=[SECOND_TARGET],
                              behaviour=Refuses())) as (client, connection):
        connection.stack.expect("join", lambda s: s.find(mptcp.MPJoinSYN))
        client.sendall(b"x")
        seen["refused join"] = [len(connection.subflows), receive(connection, 1).decode()]
    with kernel_client(listen(RAW + 3, behaviour=Spoils(checksum_required=True))
                       ) as (client, connection):
        client.sendall(b"spoil me")
        seen["spoilt"] = [receive(connection, 8).decode(), connection.fell_back]
        client.sendall(DATA[:3000])
        seen["after"] = receive(connection, 3000) == DATA[:3000]
    return seen


def windows() -> dict[str, Any]:
    """A server that doesn't read for a while; and a listener with a small window of its own."""
    with inside("target"):
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    server.bind((TARGET, RAW + 6))
    server.listen()
    with server, connect(port=RAW + 6, timeout=5) as connection:
        accepted, _ = server.accept()
        connection.sendall(DATA * 2)
        time.sleep(2)
        held_back = sum(carried(connection, True))
        whole = receive(accepted, len(DATA) * 2) == DATA * 2
        connection.wait_acknowledged(1)
        accepted.close()
    with kernel_client(listen(RAW + 3, behaviour=Behaviour(receive_window=4096))
                       ) as (client, connection):
        client.sendall(DATA[:50_000])
        kept = receive(connection, 50_000) == DATA[:50_000]
        acknowledged, ahead = 0, []
        for passed in connection.stack.log.since(0, connection):
            if passed.sent:
                acknowledged = passed.segment.ack
            elif passed.segment.payload:
                ahead.append((passed.segment.seq + len(passed.segment.payload) - acknowledged)
                             % (1 << 32))
    return {"held back": held_back, "whole": whole, "kept": kept, "ahead": max(ahead)}


class Breaks(Behaviour):
    """Has a mistake in its code."""

    def accept_join(self, connection: Connection, syn: Segment) -> None:
        raise KeyError("a mistake")


def two_raw_ends() -> dict[str, Any]:
    """A listener at any address, with MP_PRIO, a join by the listener's side and REMOVE_ADDR; then
    the loopback interface; then a Behaviour that raises.
    """
    listener = listen(RAW + 7, address="0.0.0.0")
    with listener, connect(port=RAW + 7, joins_at=["10.0.3.1"]) as near:
        near.sendall(b"1")
        far, _ = listener.accept()
        far.settimeout(5)
        second = near.join(SECOND_HOST, SECOND_TARGET, backup=True)
        far.sendall(DATA[:3000])
        assert receive(near, 3000) == DATA[:3000]
        seen: dict[str, Any] = {"backup": carried(near, False)[1]}
        near.send_option(mptcp.MPPrio(backup=0), subflow=second)
        near.send_option(mptcp.MPPrio(backup=1), subflow=near.subflows[0])
        far.wait("MP_PRIO", lambda: far.subflows[0].peer_backup)
        far.sendall(DATA[:3000])
        assert receive(near, 3000) == DATA[:3000]
        seen["after MP_PRIO"] = carried(near, False)[1]
        third = far.join("10.0.3.2", "10.0.3.1", port=near.subflows[0].local.port)
        seen["joined by the listener"] = [len(near.alive), third.confirmed]
        near.withdraw(second.address_id)
        near.wait("the end of the second subflow", lambda: second.ended)
        seen["withdrawn"] = second.ended
        far.close()
    with (inside("target"), raw.listen("127.0.0.1", RAW + 8) as listener,
          raw.connect("127.0.0.1", RAW + 8) as near):
        near.sendall(b"home")
        far, _ = listener.accept()
        seen["loopback"] = [receive(far, 4).decode(), far.mptcp]
        far.setblocking(False)
        far.close()
    with listen(RAW + 7, behaviour=Breaks()) as listener, connect(port=RAW + 7) as near:
        near.sendall(b"1")
        far, _ = listener.accept()
        # A stack that has failed gives its ports back: silence, or then a RST of the kernel.
        seen["unanswered"] = error_of(lambda: near.join(SECOND_HOST, TARGET)).split(":")[0] in (
            "TimeoutError", "ConnectionRefusedError")
        try:
            far.recv(10)
            far.recv(10)
        except RuntimeError as error:
            seen["mistake"] = str(error)
    return seen


def ipv6() -> dict[str, Any]:
    """IPv6: both ends raw, the listener through asyncio; then the kernel at either end."""
    async def serve(listener: raw.Listener) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        connection, _ = await loop.sock_accept(cast(socket.socket, listener))
        while data := await loop.sock_recv(connection, 65536):
            await loop.sock_sendall(connection, data[::-1])
        connection.close()

    for side, address in (("host", HOST6), ("target", TARGET6)):
        with inside(side):
            subprocess.run(["ip", "address", "add", f"{address}/64", "dev", "path1", "nodad"],
                           check=True)
    listener = listen(RAW + 4, address=TARGET6)
    thread = threading.Thread(target=lambda: asyncio.run(serve(listener)))
    thread.start()
    with connect(TARGET6, RAW + 4) as connection:
        connection.sendall(b"abc")
        seen: dict[str, Any] = {"echo": receive(connection, 3).decode(),
                                "mptcp": connection.mptcp}
    thread.join(10)
    seen["served"] = not thread.is_alive()
    listener.close()
    Echo(TARGET6)
    with connect(TARGET6) as connection:
        connection.sendall(DATA)
        seen["kernel"] = [receive(connection, len(DATA)) == DATA, connection.mptcp]
    with kernel_client(listen(RAW + 4, address=TARGET6)) as (client, connection):
        client.sendall(DATA)
        seen["kernel's client"] = [receive(connection, len(DATA)) == DATA, connection.mptcp]
    return seen


def refused() -> dict[str, Any]:
    """Nobody there; a port that is taken."""
    with inside("target"), socket.create_server((TARGET, RAW + 5)):
        return {"nobody": error_of(lambda: connect(port=RAW + 6, timeout=3)),
                "silent": error_of(lambda: connect("10.0.1.99", timeout=2)),
                "taken": error_of(lambda: raw.listen(TARGET, RAW + 5)),
                "threads": sum(t.name == "raw stack" for t in threading.enumerate())}


def main() -> None:
    found: dict[str, Any] = {"unprivileged": unprivileged()}
    echo = Echo(TARGET)
    situations: dict[str, Callable[[], dict[str, Any]]] = {
        f.__name__: f for f in (nvme_association, mappings, lossy, path_loss, bad_joins,
                                bad_checksum, kernel_joins, kernel_ends, behaviours, windows,
                                two_raw_ends, ipv6, refused)}
    situations["fastclose"] = lambda: fastclose(echo)
    situations["fallback"] = lambda: fallback(echo)
    for name in sys.argv[1:] or situations:
        try:
            found[name] = situations[name]()
        except Exception:
            found[name] = {"error": traceback.format_exc()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
