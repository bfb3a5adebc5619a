# SPDX-License-Identifier: GPL-2.0-or-later
"""The host under test, and the instrument that it connects to: our target side, which notes what
the host did. The module `trigger` says how the host is made to connect.
"""

import asyncio
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from .endpoints import mptcp_socket
from .endpoints.controller import DDGST, HDGST, Queue, Service
from .endpoints.server import Server
from .endpoints.subsystem import DISCOVERY_NQN, Subsystem
from .errors import UsageError
from .feature import Feature
from .layers import discovery, nvme, nvme_tcp
from .layers.registry import Sectype, Tcpv
from .profile import Claims
from .suite.verdict import Failed, Inconclusive, NotApplicable
from .trigger import NOT_SUPPORTED

NQN = "nqn.2026-11.org.example:instrument"
SECOND_NQN = "nqn.2026-11.org.example:instrument-2"
COPY = 256 << 10  # bytes that tests have the host copy
QUIET = 1.0  # seconds without a new connection: the host has all that it wants
_STEP = 0.02
_TLS_HANDSHAKE = 0x16
TLS_REQUIRED = 1  # bits 1:0 of TREQ
_KEPT = 4096  # bytes of what was first on a connection
_SAID = 400  # characters of a trigger's output in a verdict


@dataclass
class Seen:
    """What a host did on one connection. Times are of time.monotonic()."""

    queue: Queue
    at: float
    first: bytes = b""
    icreqs: list[nvme_tcp.ICReq] = field(default_factory=list)
    commands: list[tuple[float, nvme.Command]] = field(default_factory=list)
    terminations: list[nvme_tcp.H2CTermReq] = field(default_factory=list)
    end: str = ""  # "ends" or "aborts"
    ended_at: float = 0
    shut_down: bool = False  # CC.SHN was set before the end

    @property
    def mptcp(self) -> bool:
        """The protocol in effect when it was accepted."""
        return self.queue.mptcp

    @property
    def qid(self) -> int:
        """Its queue ID; -1 if no Connect succeeded."""
        return self.queue.qid

    @property
    def tls(self) -> bool:
        """It began with a TLS handshake."""
        return self.first[:1] == bytes([_TLS_HANDSHAKE])

    def connects(self) -> list[nvme.Connect]:
        """The Connect commands."""
        return [command for _, command in self.commands if isinstance(command, nvme.Connect)]

    def keep_alives(self) -> list[float]:
        """When Keep Alive commands came."""
        return [at for at, command in self.commands if isinstance(command, nvme.KeepAlive)]

    def describe(self) -> str:
        """In a few words."""
        what = {-1: "no Connect", 0: "Admin Queue"}.get(self.qid, f"I/O queue {self.qid}")
        return f"{'MPTCP' if self.mptcp else 'TCP'} to {self.queue.local[0]} ({what})"


class Instrument(Service):
    """What the host connects to. Tests change its attributes before they trigger the host."""

    def __init__(self) -> None:
        self.nvm, self.second = Subsystem(NQN), Subsystem(SECOND_NQN)
        super().__init__(self.nvm, self.second, Subsystem(DISCOVERY_NQN, log=self._log))
        self.entries: list[discovery.DiscoveryLogEntry] = []
        self.seen: list[Seen] = []
        self.on_accept: Callable[[Seen], None] = lambda seen: None
        self.change: Callable[[Seen, bytes], bytes] = lambda seen, pdu: pdu
        self.sends_bytes = 0  # so many at the start of a connection are sent one by one
        self._by_queue: dict[Queue, Seen] = {}
        pattern = random.Random(1).randbytes(COPY)
        self.nvm.storage[:COPY] = self.second.storage[:COPY] = pattern

    def of(self, nqn: str = NQN, qid: int | None = None) -> list[Seen]:
        """The connections on which a Connect to a subsystem (for one queue) succeeded."""
        return [seen for seen in self.seen if seen.queue.controller
                and seen.queue.controller.subsystem.nqn == nqn and qid in (None, seen.qid)]

    def accepts(self, queue: Queue) -> bool:
        seen = self._by_queue[queue] = Seen(queue, time.monotonic())
        self.seen.append(seen)
        self.on_accept(seen)
        return True

    def received(self, queue: Queue, data: bytes) -> bool:
        seen = self._by_queue[queue]
        seen.first = (seen.first + data)[:_KEPT]
        return not seen.tls

    def took(self, queue: Queue, pdu: nvme_tcp.NVMeTCP) -> None:
        seen = self._by_queue[queue]
        if isinstance(pdu, nvme_tcp.ICReq):
            seen.icreqs.append(pdu)
        elif isinstance(pdu, nvme_tcp.H2CTermReq):
            seen.terminations.append(pdu)

    def command(self, queue: Queue, command: nvme.Command) -> None:
        self._by_queue[queue].commands.append((time.monotonic(), command))

    def pdu(self, queue: Queue, built: bytes) -> bytes:
        return self.change(self._by_queue[queue], built)

    def ended(self, queue: Queue, error: OSError | None) -> bool:
        seen = self._by_queue[queue]
        seen.end, seen.ended_at = "aborts" if error else "ends", time.monotonic()
        seen.shut_down = bool(queue.controller and queue.controller.was_shut_down)
        return super().ended(queue, error)

    def _log(self) -> discovery.DiscoveryLog:
        return discovery.DiscoveryLog(genctr=1, entries=self.entries)


class _BytewiseServer(Server):
    """Sends the first bytes of a connection one by one, each when the one before has arrived."""

    service: Instrument

    async def send(self, queue: Queue, data: bytes) -> None:
        single = data[:max(0, self.service.sends_bytes - queue.sent)]
        for byte in single:
            await super().send(queue, bytes([byte]))
            while mptcp_socket.unacknowledged(queue.transport):
                await asyncio.sleep(0.0005)
        queue.sent += len(data)
        await super().send(queue, data[len(single):])


class Stage:
    """One test's instrument, listening, and the trigger."""

    server: type[Server] = _BytewiseServer

    def __init__(self, dut: "HostUnderTest") -> None:
        self.dut, self.instrument = dut, Instrument()
        self._server = self.server(self.instrument)
        self._trigger: subprocess.Popen[bytes] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - until close()
        self.copied = 0  # bytes that the host was asked to copy

    def listen(self, *addresses: str, mptcp: bool = True) -> None:
        """Accept connections at these addresses, by default that of the port under test."""
        for address in addresses or (self.dut.listen,):
            self._server.listen(address, self.dut.trsvcid, mptcp=mptcp)

    def relisten(self, *, mptcp: bool) -> None:
        """Accept further connections by another protocol."""
        self._server.silence()
        self.listen(mptcp=mptcp)

    def entry(self, *, traddr: str = "", nqn: str = NQN, treq: int = 0,
              **fields: int | bytes) -> discovery.DiscoveryLogEntry:
        """An entry of the discovery log, by default of the port under test, with TCPV 1h. `fields`:
        those of TSAS.
        """
        traddr = traddr or self.dut.listen
        tsas = discovery.TCPTSAS(tcpv=int(Tcpv.MPTCP))
        for name, value in fields.items():
            setattr(tsas, name, value)
        return discovery.DiscoveryLogEntry(
            adrfam=2 if ":" in traddr else 1, portid=1, treq=treq, subnqn=nqn.encode(),
            trsvcid=str(self.dut.trsvcid).encode(), traddr=traddr.encode(), tsas=tsas)

    def trigger(self, variant: str = "mptcp", *, copy: bool = False, digests: int = 0,
                max_subflows: int | None = None) -> None:
        """Have the host connect to the NVM subsystem of the instrument, and wait for it."""
        self._start("connect", NQN, variant, copy, digests, max_subflows)

    def discover(self, *entries: discovery.DiscoveryLogEntry, copy: bool = False) -> None:
        """Have the host read a log with these entries and connect, and wait for it."""
        self.instrument.entries = list(entries)
        self._start("discover", DISCOVERY_NQN, "", copy, 0, None)

    def _start(self, action: str, nqn: str, variant: str, copy: bool, digests: int,
               max_subflows: int | None) -> None:
        self.copied = COPY if copy else 0
        environment = {
            "NVMPTCP_ACTION": action, "NVMPTCP_TRADDR": self.dut.listen,
            "NVMPTCP_TRSVCID": str(self.dut.trsvcid), "NVMPTCP_NQN": nqn,
            "NVMPTCP_TCP_VARIANT": variant, "NVMPTCP_HDGST": str(digests & 1),
            "NVMPTCP_DDGST": str(digests >> 1 & 1), "NVMPTCP_COPY": str(self.copied),
            "NVMPTCP_MAX_SUBFLOWS": "" if max_subflows is None else str(max_subflows)}
        self._trigger = subprocess.Popen(
            self.dut.trigger, shell=True, stdin=subprocess.DEVNULL, stdout=self._output,
            stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **environment})
        self.wait(self._is_settled, self.dut.timeout)
        if self._trigger.poll() == NOT_SUPPORTED:
            proof = f"the trigger says, by exit code {NOT_SUPPORTED}, that the host can't"
            if self.instrument.seen:
                raise Failed(f"{proof}, but it connected: {self.describe()}")
            setting = f", NVMPTCP_MAX_SUBFLOWS={max_subflows}" if max_subflows is not None else ""
            raise NotApplicable(f"{proof}: NVMPTCP_ACTION={action},"
                                f" NVMPTCP_TCP_VARIANT={variant}{setting}")

    def _is_settled(self) -> bool:
        """The trigger has ended, or the host has I/O queues, has copied, and opens no more."""
        assert self._trigger
        if self._trigger.poll() is not None:
            return True
        seen = self.instrument.seen
        open_io = any(each.qid > 0 for each in seen)
        return (open_io and time.monotonic() - seen[-1].at > QUIET
                and (not self.copied or self.copy_is_right()))

    def copy_is_right(self, nqn: str = NQN) -> bool:
        """What the host was asked to copy has arrived whole."""
        storage = self.instrument.subsystems[nqn].storage
        return storage[self.copied:2 * self.copied] == storage[:self.copied]

    def wait(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, for some time; whether it does."""
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                return False
            time.sleep(_STEP)
        return True

    def do(self, function: Callable[[], None]) -> None:
        """Do something to a queue of the instrument."""
        self._server.call(function)

    def describe(self) -> str:
        """What the host did, in a line."""
        number = Counter(seen.describe() for seen in self.instrument.seen)
        connections = ", ".join(f"{each}{f' {times} times' if times > 1 else ''}"
                                for each, times in number.items())
        said = ""
        if self._trigger and self._trigger.poll():
            self._output.seek(0)
            words = " ".join(self._output.read().decode(errors="replace").split())[-_SAID:]
            said = f"; the trigger ended with {self._trigger.returncode}" + (
                f" and said: {words}" if words else "")
        return (connections or "no connection") + said

    def queues(self, nqn: str = NQN) -> tuple[Seen, list[Seen]]:
        """The Admin Queue and the I/O queues of the first association. Failed if there is none."""
        admin, io = self.instrument.of(nqn, 0), self.instrument.of(nqn)
        io = [seen for seen in io if seen.qid > 0]
        if not admin or not io:
            raise Failed(f"no association with an I/O queue within {self.dut.timeout:g} s:"
                         f" {self.describe()}")
        return admin[0], io

    def untrigger(self) -> None:
        """Have the host disconnect, and end the trigger. UsageError if the untrigger fails."""
        done = None
        try:
            if self.dut.untrigger:
                done = subprocess.run(
                    self.dut.untrigger, shell=True, stdin=subprocess.DEVNULL, capture_output=True,
                    timeout=self.dut.timeout)
        except subprocess.TimeoutExpired:
            raise UsageError(f"the untrigger didn't end within {self.dut.timeout:g} s") from None
        finally:
            self._end_trigger()
        if done and done.returncode:
            words = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise UsageError(f"the untrigger ended with exit code {done.returncode}: {words}")

    def _end_trigger(self) -> None:
        if self._trigger and self._trigger.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._trigger.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._trigger.wait(self.dut.timeout)
                return
            with suppress(ProcessLookupError):
                os.killpg(self._trigger.pid, signal.SIGKILL)
            self._trigger.wait()

    def close(self) -> None:
        """Untrigger and stop listening."""
        try:
            self.untrigger()
        finally:
            self._server.stop()
            self._output.close()


@dataclass(frozen=True)
class HostUnderTest:
    """How to make a host connect. `listen`: an address of this machine; `further`: more of them,
    for tests of subflow groups; `timeout`: seconds for the trigger, and for the untrigger.
    """

    listen: str
    trigger: str
    trsvcid: int = 4420
    further: tuple[str, ...] = ()
    untrigger: str = ""
    status: str = ""
    timeout: float = 30
    claims: Claims = field(default_factory=Claims)
    _shown: dict[str, Feature] = field(default_factory=dict, init=False, repr=False)

    @contextmanager
    def stage(self) -> Iterator[Stage]:
        """An instrument for one test. Inconclusive where it can't listen."""
        stage = Stage(self)
        try:
            yield stage
        finally:
            stage.close()

    def probe(self) -> None:
        """Have the host connect, with no setting. UsageError if it doesn't."""
        where = f"{self.listen} port {self.trsvcid}"
        try:
            with self.stage() as stage:
                stage.listen()
                stage.trigger("")
                if not any(seen.qid == 0 for seen in stage.instrument.seen):
                    raise UsageError(f"{where}: the host opened no Admin Queue within"
                                     f" {self.timeout:g} s: {stage.describe()}")
        except NotApplicable as error:
            raise UsageError(f"{where}: {error}") from None
        except OSError as error:
            raise UsageError(f"{where}: can't listen: {error.strerror}") from None

    def feature(self, name: str) -> Feature:
        """What the host shows of a feature with a claim (profile.Claims) when it is told to use it.
        NotApplicable where nothing tells it to use TLS.
        """
        if name == "tls":
            return Feature(name, *self._tls())
        if name not in self._shown:
            looks: dict[str, Callable[[], tuple[bool, str]]] = {
                "mptcp": self._mptcp, "discovery": self._discovery,
                "hdgst": lambda: self._digest(HDGST, "HDGST"),
                "ddgst": lambda: self._digest(DDGST, "DDGST")}
            try:
                on, proof = looks[name]()
            except NotApplicable as error:
                on, proof = False, str(error)
            self._shown[name] = Feature(name, on, proof)
        return self._shown[name]

    def _mptcp(self) -> tuple[bool, str]:
        with self.stage() as stage:
            stage.listen()
            stage.trigger("mptcp")
            on = any(seen.mptcp for seen in stage.instrument.seen)
            return on, (f"with NVMPTCP_TCP_VARIANT=mptcp the host {'opens' if on else 'opens no'}"
                        f" MPTCP connections: {stage.describe()}")

    def _discovery(self) -> tuple[bool, str]:
        with self.stage() as stage:
            stage.listen()
            stage.discover(stage.entry())
            on = bool(stage.instrument.of(DISCOVERY_NQN))
            return on, (f"with NVMPTCP_ACTION=discover the host opens {'a' if on else 'no'}"
                        f" connection to the Discovery subsystem: {stage.describe()}")

    def _digest(self, bit: int, name: str) -> tuple[bool, str]:
        with self.stage() as stage:
            stage.listen()
            stage.trigger("", digests=bit)
            admin, _ = stage.queues()
            on = bool(int(admin.icreqs[0].dgst) & bit)
            return on, f"with NVMPTCP_{name}=1 ICReq has {name} {'set' if on else 'cleared'}"

    def _tls(self) -> tuple[bool, str]:
        self.feature("discovery").require(Claims())  # only an entry of the log asks for TLS
        with self.stage() as stage:
            stage.listen()
            stage.discover(stage.entry(tcpv=0, sectype=int(Sectype.TLS13), treq=TLS_REQUIRED))
            on = any(seen.tls for seen in stage.instrument.seen)
            return on, (f"where an entry requires TLS, the host {'begins' if on else 'begins no'}"
                        " handshake of it")

    def require(self, name: str) -> None:
        """NotApplicable if the host shows that it lacks a feature, Failed if the profile claims it.
        """
        self.feature(name).require(self.claims)

    def second_address(self) -> str:
        """A further address to listen on. Inconclusive if there is none."""
        if not self.further:
            raise Inconclusive("needs a second address of this machine to listen on")
        return self.further[0]


def read_status(dut: HostUnderTest) -> tuple[str, dict[int, tuple[str, int]]]:
    """What the host shows its administrator: the variant asked for, and of each queue the protocol
    in effect and its number of subflows.

    The command prints `requested VARIANT`, and a line `QID PROTOCOL SUBFLOWS` for each queue.
    """
    if not dut.status:
        raise Inconclusive("needs a command that shows the state of the host: `status`")
    done = subprocess.run(dut.status, shell=True, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=dut.timeout)
    if done.returncode:
        raise Inconclusive(f"the status command ended with {done.returncode}: {done.stderr}")
    requested, queues = "", {}
    try:
        for line in done.stdout.splitlines():
            words = line.split()
            if words[0] == "requested":
                requested = words[1]
            else:
                queues[int(words[0])] = (words[1], int(words[2]))
    except (ValueError, IndexError):
        raise Inconclusive(f"the status command prints a line that isn't one: {line!r}") from None
    return requested, queues

