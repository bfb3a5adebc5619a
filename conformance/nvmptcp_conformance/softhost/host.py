# SPDX-License-Identifier: GPL-2.0-or-later
"""A host that connects to one NVM subsystem, or to all that a discovery log lists, and stays
connected. It reads TSAS as the proposal has it.
"""

import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scapy.compat import raw

from ..endpoints import mptcp_socket
from ..endpoints.host import DISCOVERY_NQN, HOST_NQN, Host, ProtocolError
from ..layers import discovery, nvme
from ..layers.registry import Mpattr, Sectype, Tcpv
from . import association
from .association import Association, Place, Refused, Variant

KATO = 10_000  # milliseconds
RECONNECT = 1.0  # seconds
ATTEMPTS = 10
_NVM = 2  # SUBTYPE
_DCTYPE, _CDC = 1806, 2  # byte of the Identify Controller data structure
_SECURE_CHANNEL_REQUIRED = 1  # TREQ bits 1:0
_POLL = 0.2  # seconds between two looks at the signal to stop
_CONNECT_TIMEOUT = 5.0

Entry = discovery.DiscoveryLogEntry


@dataclass(frozen=True)
class HostOptions:
    """What the administrator asks for. `variant` None: no setting."""

    traddr: str
    trsvcid: int = 4420
    nqn: str = DISCOVERY_NQN
    discover: bool = False
    variant: Variant | None = None
    hdgst: bool = False
    ddgst: bool = False
    io_queues: int = 2
    copy: int = 0  # bytes
    kato: int = KATO
    max_subflows: int | None = None
    hostnqn: str = HOST_NQN
    status: Path | None = None  # file that shows the state


class ConnectError(Exception):
    """The host couldn't do what it was asked for: one line."""


class SoftHost:
    """A subclass may have a fault, and says which requirements it breaks."""

    breaks: tuple[str, ...] = ()

    def __init__(self, options: HostOptions) -> None:
        self.options = options
        self.associations: list[Association] = []
        self.stopped = False
        self._reason = "the log has no entry for this host"
        self._limit_before = ""  # that of the namespace, if it was changed

    def run(self) -> None:
        """Connect, copy if asked for, and stay until `stop`. Raises ConnectError, OSError."""
        try:
            self._run()
        finally:
            if self._limit_before:
                _limit_subflows(self._limit_before)

    def _run(self) -> None:
        self._connect_all()
        if not self.associations:
            raise ConnectError(f"no association could be opened: {self._reason}")
        if self.options.copy:
            self._copy()
        while not self.stopped:
            self.show()
            self._serve()
        for each in self.associations:
            each.shut_down()

    def stop(self) -> None:
        """End `run`, from a signal handler."""
        self.stopped = True

    # What its connections are.

    def state(self, queue: Host) -> mptcp_socket.Info | None:
        """Of a connection; None where the protocol in effect is TCP."""
        return mptcp_socket.info(queue.socket)

    def subflows(self, queue: Host) -> int:
        """How many a connection has; 1 on TCP."""
        return association.subflows(queue)

    def wait_acknowledged(self, queue: Host, seconds: float) -> None:
        """Wait until all that was sent has been acknowledged. TimeoutError."""
        mptcp_socket.wait_acknowledged(queue.socket, seconds)

    # Decisions that a fault changes.

    def places(self, entries: list[Entry]) -> Iterator[list[Place]]:
        """What the entries of a log lead to: groups of places, of which one is enough."""
        groups: dict[object, list[Place]] = {}
        for number, entry in enumerate(entries):
            if entry.subtype != _NVM or entry.trtype != discovery.TCP or self.needs_tls(entry):
                continue
            key = self.group(entry)
            groups.setdefault(key if key is not None else number, []).append(self.place(entry))
        yield from groups.values()

    def group(self, entry: Entry) -> object:
        """What the entries of a subflow group have in common; None: it is in no group."""
        if self.multipath(entry) and entry.tsas.sfgid:
            return discovery.text(entry.subnqn), int(entry.tsas.sfgid)
        return None

    def multipath(self, entry: Entry) -> bool:
        """TCPV is 1h; values that aren't known are read as 0h."""
        return int(entry.tsas.tcpv) == Tcpv.MPTCP

    def needs_tls(self, entry: Entry) -> bool:
        """TLS is required, which this host doesn't have."""
        required = entry.treq & 3 == _SECURE_CHANNEL_REQUIRED
        return int(entry.tsas.sectype) != Sectype.NONE and required

    def place(self, entry: Entry) -> Place:
        """Where an entry leads to."""
        where = (discovery.text(entry.traddr), int(discovery.text(entry.trsvcid)),
                 discovery.text(entry.subnqn))
        if not self.multipath(entry):
            return Place(*where, Variant.TCP)
        required = int(entry.tsas.mpattr) & Mpattr.MPREQ
        return Place(*where, Variant.MPTCP_ONLY if required else Variant.MPTCP,
                     bool(int(entry.tsas.mpattr) & Mpattr.DCSR), entry.tsas.maxsf)

    def variant(self) -> Variant:
        """That of an association without an entry."""
        return self.options.variant or Variant.TCP

    def connect(self, place: Place, qid: int) -> Host:
        """A connection for a queue."""
        self.limit(place)
        return Host(mptcp_socket.open_socket(place.traddr, place.trsvcid, _CONNECT_TIMEOUT,
                                             mptcp=place.variant != Variant.TCP))

    def limit(self, place: Place) -> None:
        """Keep the number of subflows below what the entry or the administrator says."""
        limits = [each for each in (self.options.max_subflows, place.maxsf) if each]
        if limits and place.variant != Variant.TCP:
            before = _limit_subflows(str(min(limits) - 1))
            self._limit_before = self._limit_before or before

    def check_protocol(self, place: Place, state: mptcp_socket.Info | None) -> None:
        """Refuse a connection after ICResp. Raises Refused."""
        if place.variant == Variant.MPTCP_ONLY and state is None:
            raise Refused(f"{place.traddr}: the connection fell back to TCP")
        if place.checksums_required and state and not state.checksums:
            raise Refused(f"{place.traddr}: no DSS checksums, though the entry has DCSR set")

    def digests(self, mptcp: bool) -> int:
        """The bits of DGST to ask for."""
        return int(self.options.hdgst) | int(self.options.ddgst) << 1

    def kato(self, place: Place) -> int:
        """Keep Alive Timeout in milliseconds; no timer on Discovery controllers."""
        return 0 if place.nqn == DISCOVERY_NQN else self.options.kato

    def keep_alive_interval(self, each: Association, kato: int) -> float:
        """Seconds between two Keep Alive commands."""
        return kato / 2000 if kato else float("inf")

    def open_io_queue(self, each: Association, qid: int) -> None:
        """Open an I/O queue."""
        each.open_io_queue(qid)

    def enough(self, opened: Association) -> bool:
        """One association is enough for its group: its Admin Queue is MPTCP."""
        return self.state(opened.admin) is not None

    def end(self, queue: Host) -> None:
        """Close a connection after the shutdown of the controller."""
        association.end(self, queue)

    def abort(self, queue: Host) -> None:
        """Reset a connection."""
        queue.abort()

    def hears(self, each: Association) -> list[Host]:
        """The connections whose end is noticed."""
        return each.queues

    def tsas(self) -> discovery.TCPTSAS:
        """That of the host itself, in its registration."""
        return discovery.TCPTSAS(tcpv=int(Tcpv.MPTCP))

    def again(self, place: Place) -> Place:
        """Where to reconnect to."""
        return place

    def show(self) -> None:
        """Show the administrator what is in effect."""
        if self.options.status:
            lines = [line for each in self.associations for line in self._status(each)]
            self.options.status.write_text("".join(f"{line}\n" for line in lines))

    def _status(self, each: Association) -> Iterator[str]:
        yield f"requested {each.place.variant}"
        for qid, queue in enumerate(each.queues):
            protocol = "tcp" if self.state(queue) is None else "mptcp"
            yield f"{qid} {protocol} {self.subflows(queue)}"

    # What is done with them.

    def _copy(self) -> None:
        """Copy as the options say; where the association is lost, once more from the start."""
        try:
            self.associations[0].copy(self.options.copy)
        except (OSError, ProtocolError) as error:
            self.lost(self.associations[0], error)
            self.associations[0].copy(self.options.copy)

    def _connect_all(self) -> None:
        options = self.options
        if not options.discover:
            self._open_one([Place(options.traddr, options.trsvcid, options.nqn, self.variant())])
            return
        for group in self.places(self._read_log()):
            self._open_one(group)

    def _open_one(self, group: list[Place]) -> None:
        """Open the first association of a group that can be opened; all, if it fell back."""
        alone = True
        for place in group:
            try:
                opened = Association(self, place)
            except (OSError, ProtocolError, Refused) as error:
                self._reason = getattr(error, "strerror", None) or str(error)
                continue
            self.associations.append(opened)
            alone = alone and self.enough(opened)
            if alone:
                return

    def _read_log(self) -> list[Entry]:
        options = self.options
        place = Place(options.traddr, options.trsvcid, DISCOVERY_NQN, self.variant())
        try:
            each = Association(self, place)
        except (OSError, ProtocolError, Refused) as error:
            raise ConnectError(f"{place.traddr}: no Discovery controller: {error}") from error
        try:
            if each.admin.identify_controller()[_DCTYPE] == _CDC:
                each.admin.command(*self._registration())
            return list(each.admin.discovery_log().entries)
        finally:
            each.shut_down()

    def _registration(self) -> tuple[nvme.Command, bytes]:
        """Discovery Information Management: register this host, with in-capsule data."""
        name = self.options.hostnqn.encode()
        entry = discovery.ExtendedDiscoveryInformationEntry(nqn=name, tsas=self.tsas())
        data = raw(discovery.DIMData(eid=name, entries=[entry]))
        command = nvme.DiscoveryInformationManagement()
        command.sgl1 = nvme.SGLDescriptor(length=len(data), type=0, subtype=1)
        return command, data

    def _serve(self) -> None:
        sockets = {queue.socket: (each, queue)
                   for each in self.associations for queue in self.hears(each)}
        for ready in select.select(list(sockets), [], [], _POLL)[0]:
            each, queue = sockets[ready]
            if each.queues:  # not given up for another one of its connections
                try:
                    each.hear(queue)
                except (OSError, ProtocolError) as error:
                    self.lost(each, error)
        for each in list(self.associations):
            try:
                each.keep_alive()
            except (OSError, ProtocolError) as error:
                self.lost(each, error)

    def lost(self, each: Association, error: Exception) -> None:
        """Recover an association from a loss or a fatal error. Raises ConnectError."""
        each.terminate(error)
        for _ in range(ATTEMPTS):
            if self._sleep(RECONNECT):
                return
            with suppress(OSError, ProtocolError, Refused):
                self.associations[self.associations.index(each)] = Association(
                    self, self.again(each.place))
                return
        raise ConnectError(f"{each.place.traddr}: lost, and {ATTEMPTS} attempts to reconnect"
                           f" failed: {error}")

    def _sleep(self, seconds: float) -> bool:
        """Whether the host was stopped meanwhile."""
        end = time.monotonic() + seconds
        while not self.stopped and time.monotonic() < end:
            time.sleep(_POLL)
        return self.stopped


def _limit_subflows(joined: str) -> str:
    """Have the kernel open at most this many subflows a connection beside the first one. Returns
    the limit before. OSError where it can't be done: it is one of the namespace, and needs root.
    """
    command = ["ip", "mptcp", "limits"]
    words = subprocess.run([*command, "show"], capture_output=True, text=True).stdout.split()
    done = subprocess.run([*command, "set", "subflows", joined], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip mptcp limits: {done.stderr.strip()}")
    return words[words.index("subflows") + 1]
