# SPDX-License-Identifier: GPL-2.0-or-later
"""Associations on the raw stack: queues whose subflows the test decides on, joins, and transfers in
steps. Tests that use them ask for the fixture `raw`, those that write for `scratch`, too.
"""

import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from scapy.compat import raw as build

from ...endpoints import raw
from ...endpoints.host import Host, ProtocolError, StatusError
from ...endpoints.raw.packets import local_address
from ...layers import nvme, nvme_tcp
from ...target import KATO, Target
from ..verdict import Failed, Inconclusive, NotApplicable, check

SETTLE = 2.0  # seconds for what comes unasked: ADD_ADDR and its retransmission, REMOVE_ADDR
RECOVERY = 30.0  # seconds for what a lost subflow has taken with it to come by another one
SCRATCH = 64 << 10  # bytes that tests may write, at the beginning of a namespace
_FLBAS, _LBAF, _MDTS = 26, 128, 77  # bytes of Identify Namespace and Identify Controller
_PAGE = 4096  # bytes, in powers of two of which MDTS counts
_LAST_PDU, _SUCCESS = 4, 8  # flags of a PDU
_FIRST_CID = 0x4000  # apart from those of Host


class Steered(raw.Behaviour):
    """Sends data on subflow number `on`, or on another one that can, but not on one made silent."""

    on = 0

    def schedule(self, connection: raw.Connection, usable: Sequence[raw.Subflow]) -> raw.Subflow:
        heard = [subflow for subflow in usable if not subflow.silent] or usable
        return next((subflow for subflow in heard if subflow.index == self.on), heard[0])


class Middlebox(Steered):
    """Does something to segments on their way: `out` and `into` get the subflow and the segment,
    and return what goes on, None for nothing.
    """

    def __init__(self, out: "Change | None" = None, into: "Change | None" = None,
                 **attributes: object) -> None:
        super().__init__(**attributes)
        self.out, self.into = out or _unchanged, into or _unchanged

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        changed = self.out(subflow, segment)
        return [changed] if changed else []

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        changed = self.into(subflow, segment)
        return [changed] if changed else []


Change = Callable[[raw.Subflow, raw.Segment], raw.Segment | None]


def _unchanged(_: raw.Subflow, segment: raw.Segment) -> raw.Segment:
    return segment


class Alternating(raw.Behaviour):
    """Uses its subflows in turn."""

    turn = 0

    def schedule(self, connection: raw.Connection, usable: Sequence[raw.Subflow]) -> raw.Subflow:
        self.turn += 1
        return usable[self.turn % len(usable)]


@contextmanager
def raw_connection(target: Target, behaviour: raw.Behaviour | None = None, *, mptcp: bool = True,
                   traddr: str | None = None, trsvcid: int | None = None,
                   **options: Any) -> Iterator[raw.Connection]:
    """A connection to the port, or to another destination, without any PDU on it yet; `options` as
    `raw.connect` has them. With `mptcp` the target has to answer MP_CAPABLE.
    """
    address = target.address
    with raw.connect(traddr or address.traddr, trsvcid or address.trsvcid, timeout=address.timeout,
                     behaviour=behaviour or Steered(), **options) as connection:
        if mptcp:
            check(connection.mptcp, f"the SYN with MP_CAPABLE led to TCP: {connection.fell_back}")
        yield connection


def host_on(connection: raw.Connection) -> Host:
    """A queue of NVMe/TCP on a connection, nothing sent yet."""
    return Host(cast(socket.socket, connection))  # as good as one


@dataclass
class RawQueue:
    """A queue that Connect has made. `icresp`: what was negotiated."""

    target: Target
    connection: raw.Connection
    host: Host
    cntlid: int
    icresp: nvme_tcp.ICResp

    def send_by(self, subflow: raw.Subflow | int) -> None:
        """What is sent from now on goes by this subflow; needs the behaviour Steered."""
        behaviour = self.connection.behaviour
        assert isinstance(behaviour, Steered)
        behaviour.on = subflow if isinstance(subflow, int) else subflow.index

    def works_by(self, *subflows: raw.Subflow) -> None:
        """A Keep Alive command by each of them succeeds; an Admin Queue."""
        for subflow in subflows:
            self.send_by(subflow)
            self.host.keep_alive()


@contextmanager
def raw_admin_queue(target: Target, behaviour: raw.Behaviour | None = None, *, kato: int = KATO,
                    **options: Any) -> Iterator[RawQueue]:
    """An association with an Admin Queue, its controller enabled; `kato` in milliseconds."""
    with raw_connection(target, behaviour, **options) as connection:
        host = host_on(connection)
        icresp = host.initialize()
        cntlid = host.connect(target.nqn, target.address.hostnqn, kato=kato)
        host.enable()
        host.wait_ready()
        yield RawQueue(target, connection, host, cntlid, icresp)


@contextmanager
def raw_io_queue(target: Target, behaviour: raw.Behaviour | None = None,
                 **options: Any) -> Iterator[RawQueue]:
    """I/O queue 1 of an association, whose Admin Queue is on a socket of the kernel."""
    with target.admin_queue() as (admin, cntlid):
        admin.allow_io_queues()
        with raw_connection(target, behaviour, **options) as connection:
            host = host_on(connection)
            icresp = host.initialize()
            host.connect(target.nqn, target.address.hostnqn, qid=1, cntlid=cntlid)
            yield RawQueue(target, connection, host, cntlid, icresp)


# Joins


def join(connection: raw.Connection, remote: str | None = None, *, within: float | None = None,
         **options: Any) -> raw.Subflow:
    """A further subflow to `remote`, by default the first one's address, from the address that this
    machine sends from; `options` as `Connection.join` has them. Raises Failed if it is refused.
    """
    remote = remote or connection.subflows[0].remote.address
    try:
        return connection.join(local_address(remote), remote, within=within
                               or connection.gettimeout() or SETTLE, **options)
    except (ConnectionRefusedError, TimeoutError) as error:
        raise Failed(f"a join was refused: {error}") from error


def start_join(connection: raw.Connection, remote: str | None = None,
               **options: Any) -> raw.Subflow:
    """As `join`, but doesn't wait: see `outcome`."""
    remote = remote or connection.subflows[0].remote.address
    return connection.join(local_address(remote), remote, wait=False, **options)


def outcome(connection: raw.Connection, subflow: raw.Subflow, within: float | None = None) -> str:
    """What becomes of a join: "established", why it ended, or "no answer"."""
    within = within or connection.gettimeout() or SETTLE
    try:
        connection.wait("the join", lambda: subflow.ended or (subflow.alive and subflow.confirmed),
                        within)
    except TimeoutError:
        return "SYN/ACK and nothing more" if subflow.alive else "no answer"
    return subflow.ended or "established"


def announced(connection: raw.Connection, at_least: int = 1) -> list[raw.Announcement]:
    """The addresses that the target announces on a connection, once there are so many of them or
    the time is over. NotApplicable if there is none.
    """
    try:
        connection.wait("ADD_ADDR", lambda: len(connection.announced) >= at_least, SETTLE)
    except TimeoutError:
        if not connection.announced:
            raise NotApplicable(f"no address was announced within {SETTLE:g} s") from None
    return list(connection.announced)


def reachable(addresses: list[raw.Announcement]) -> list[raw.Announcement]:
    """Those that this machine can send to. Inconclusive if there is none."""
    found = []
    for each in addresses:
        with suppress(OSError):
            local_address(each.address)
            found.append(each)
    if not found:
        names = ", ".join(each.address for each in addresses)
        raise Inconclusive(f"this machine has no route to the announced {names}")
    return found


@contextmanager
def overtaken(subflow: raw.Subflow, by: raw.Subflow) -> Iterator[None]:
    """What is sent on a subflow meanwhile gets lost, and TCP sends it again after what was sent
    `by` another one has arrived.
    """
    connection = subflow.connection
    subflow.muted = True
    try:
        yield
        connection.wait("ACK of what came first", lambda: by.send_unacked == by.send_next,
                        connection.gettimeout() or SETTLE)
    finally:
        subflow.muted = False


def stays_quiet(connection: raw.Connection, seconds: float = SETTLE) -> None:
    """Give the target time, and raise Failed if it ends the connection."""
    time.sleep(seconds)
    check(bool(connection.alive), f"the connection was lost: {connection.subflows}")


# Transfers


@dataclass(frozen=True)
class Scratch:
    """The beginning of the lowest namespace: `size` bytes, which a session may write to and which
    it gives back as they were.
    """

    nsid: int
    block: int  # bytes
    size: int  # bytes, a multiple of `block`
    _random: random.Random = field(default_factory=lambda: random.Random(8684))

    def pattern(self) -> bytes:
        """`size` bytes, others each time."""
        return self._random.randbytes(self.size)

    @classmethod
    def find(cls, admin: Host) -> "Scratch":
        """By the Identify data of an Admin Queue. NotApplicable where there is no namespace."""
        nsid = int.from_bytes(admin.read(nvme.Identify(cns=2), 4096)[:4], "little")
        if not nsid:
            raise NotApplicable("the active namespace ID list is empty: no I/O command to send")
        namespace = admin.read(nvme.Identify(cns=0, nsid=nsid), 4096)
        mdts = admin.identify_controller()[_MDTS]
        form = namespace[_FLBAS] & 15 | namespace[_FLBAS] >> 1 & 0x30
        block = 1 << namespace[_LBAF + 4 * form + 2]
        blocks = int.from_bytes(namespace[:8], "little")
        largest = min(SCRATCH, blocks * block, _PAGE << mdts if mdts else SCRATCH)
        return cls(nsid, block, max(block, largest - largest % block))


class Disk:
    """Reads and writes of the scratch area on an I/O queue, whole or in steps."""

    def __init__(self, host: Host, scratch: Scratch, maxh2cdata: int) -> None:
        self.host, self.scratch = host, scratch
        self._most, self._cid = maxh2cdata, _FIRST_CID

    @classmethod
    def on(cls, queue: RawQueue, scratch: Scratch) -> "Disk":
        return cls(queue.host, scratch, queue.icresp.maxh2cdata)

    def write(self, data: bytes) -> None:
        """Write the area, with R2T."""
        self.finish_write(self.begin_write(), data)

    def read(self) -> bytes:
        """Read the area."""
        return self.finish_read(self.begin_read())

    def begin_write(self) -> int:
        """Send a Write command without data; its CID."""
        return self._begin(nvme.Write)

    def begin_read(self) -> int:
        """Send a Read command; its CID."""
        return self._begin(nvme.Read)

    def _begin(self, form: type[nvme.Command]) -> int:
        self._cid += 1
        command = form(nsid=self.scratch.nsid, cid=self._cid,
                       nlb=self.scratch.size // self.scratch.block - 1)
        command.sgl1 = nvme.SGLDescriptor(length=self.scratch.size)
        self.host.send(build(self.host.capsule(command)))
        return self._cid

    def take_r2t(self, cid: int) -> nvme_tcp.R2T:
        """The R2T of a Write command."""
        pdu = self.host.receive()
        if not isinstance(pdu, nvme_tcp.R2T) or pdu.cccid != cid:
            raise ProtocolError(f"{pdu.name} instead of the R2T of a Write command")
        return pdu

    def host_data(self, r2t: nvme_tcp.R2T, data: bytes) -> list[bytes]:
        """The H2CData PDUs that an R2T asks for, out of the whole area's data."""
        pieces = []
        end = r2t.r2to + r2t.r2tl
        for start in range(r2t.r2to, end, self._most):
            piece = data[start:min(end, start + self._most)]
            last = _LAST_PDU if start + len(piece) == end else 0
            pieces.append(build(nvme_tcp.H2CData(flags=last, cccid=r2t.cccid, ttag=r2t.ttag,
                                                 datao=start, data=piece)))
        return pieces

    def finish_write(self, cid: int, data: bytes) -> None:
        """Answer the R2Ts of a Write command until it is completed. Raises StatusError."""
        while True:
            pdu = self.host.receive()
            if isinstance(pdu, nvme_tcp.R2T) and pdu.cccid == cid:
                self.host.send(b"".join(self.host_data(pdu, data)))
            elif isinstance(pdu, nvme_tcp.CapsuleResp) and pdu.rccqe.cid == cid:
                if pdu.rccqe.sct or pdu.rccqe.sc:
                    raise StatusError(nvme.Write(), pdu.rccqe)
                return
            else:
                raise ProtocolError(f"{pdu.name} during a Write command")

    def finish_read(self, cid: int) -> bytes:
        """Take the data of a Read command until it is completed. Raises StatusError."""
        return self.finish_reads([cid])[0]

    def finish_reads(self, cids: Sequence[int]) -> list[bytes]:
        """Take the data of Read commands until all are completed, in the order of `cids`; they
        may come in another one. Raises StatusError.
        """
        data, running = dict.fromkeys(cids, b""), set(cids)
        while running:
            pdu = self.host.receive()
            if isinstance(pdu, nvme_tcp.C2HData) and pdu.cccid in running:
                if pdu.datao != len(data[pdu.cccid]):
                    raise ProtocolError(f"C2HData with offset {pdu.datao} instead of"
                                        f" {len(data[pdu.cccid])}")
                data[pdu.cccid] += bytes(pdu.data)
                if int(pdu.flags) & _SUCCESS:
                    running.remove(pdu.cccid)
            elif isinstance(pdu, nvme_tcp.CapsuleResp) and pdu.rccqe.cid in running:
                if pdu.rccqe.sct or pdu.rccqe.sc:
                    raise StatusError(nvme.Read(), pdu.rccqe)
                running.remove(pdu.rccqe.cid)
            else:
                raise ProtocolError(f"{pdu.name} during a Read command")
        return [data[cid] for cid in cids]
