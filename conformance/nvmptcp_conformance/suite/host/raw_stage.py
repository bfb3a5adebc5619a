# SPDX-License-Identifier: GPL-2.0-or-later
"""The instrument that hosts connect to, on the raw stack: tests decide on each segment."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from ...endpoints import raw
from ...endpoints.controller import Queue
from ...endpoints.raw.expect import Passed
from ...endpoints.server import Server
from ...host_under_test import HostUnderTest, Seen, Stage
from ...layers import mptcp, nvme
from ..verdict import Inconclusive, NotApplicable, check

SETTLE = 2.0  # seconds for ADD_ADDR and the joins
WAYS = {"to the host": ("out",), "to the controller": ("in",), "both ways": ("in", "out")}
R2T, C2H_DATA = 0x09, 0x07  # types of PDUs
_ABORT = 0x08  # opcode
_CHUNK = 8 << 10  # bytes that a test maps at a time
_STEP = 0.002

Maps = Callable[[Queue, bytes], None]
Acts = Callable[[raw.Connection], None]


class InstrumentBehaviour(raw.Behaviour):
    """Announces the addresses that the host may join."""

    addresses: Sequence[str] = ()

    def established(self, connection: raw.Connection) -> None:
        for number, address in enumerate(self.addresses, 1):
            connection.announce(address, number)


class Strips(InstrumentBehaviour):
    """A box on the path of a subflow takes the MPTCP options away, but those of a RST, from when it
    is armed. The instrument closes what brings data without a mapping (RFC 8684 §3.7): the subflow,
    or the connection if that has no other one. It does so at once: as long as TCP acknowledges what
    Linux sends on such a path, Linux sends it there again and again, and on no other one.
    """

    directions: Collection[str] = ("in", "out")
    index = 0  # of the subflow
    most_unmapped = 0

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self._path: raw.Subflow | None = None

    def arm(self, connection: raw.Connection) -> None:
        self._path = connection.alive[self.index]

    def unmapped(self, connection: raw.Connection, subflow: raw.Subflow) -> None:
        if len(connection.alive) > 1:
            super().unmapped(connection, subflow)
        else:
            connection.fastclose(form="reset")

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return [self._passed("in", subflow, segment)]

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return [self._passed("out", subflow, segment)]

    def _passed(self, direction: str, subflow: raw.Subflow, segment: raw.Segment) -> raw.Segment:
        strips = subflow is self._path and direction in self.directions
        return segment.without_mptcp() if strips and "R" not in segment.flags else segment


class _MappingServer(Server):
    """Lets the test send what a queue has to say."""

    maps: Maps | None = None

    async def send(self, queue: Queue, data: bytes) -> None:
        if not self.maps or not queue.transport.mptcp:
            await super().send(queue, data)
            return
        for start in range(0, len(data), _CHUNK):
            self.maps(queue, data[start:start + _CHUNK])
            while not (queue.transport.sender.done or queue.transport.lost):
                await asyncio.sleep(_STEP)


class RawStage(Stage):
    """As `Stage`, with `listen_raw` in place of `listen`."""

    server = _MappingServer
    _server: _MappingServer
    stack: raw.Stack

    def __init__(self, dut: HostUnderTest) -> None:
        super().__init__(dut)
        self.acted: list[raw.Connection] = []
        self._tried = False

    def listen_raw(self, behaviour: InstrumentBehaviour | None = None, *,
                   joins_at: Sequence[str] = (), maps: Maps | None = None) -> None:
        """Accept connections at the port under test, and joins also at further addresses, which are
        announced unless the behaviour says otherwise. `maps` sends what is to be sent.
        """
        behaviour = behaviour or InstrumentBehaviour()
        behaviour.addresses = behaviour.addresses or joins_at
        self._server.maps = maps
        listener = raw.listen(self.dut.listen, self.dut.trsvcid, behaviour=behaviour,
                              joins_at=joins_at)
        self.stack = listener.stack
        self.listener = listener
        self._server.add(listener)

    def once(self, pdu_type: int, act: Acts, *, subflows: int = 1) -> None:
        """Do something before the first PDU of a type goes out on an I/O queue that has so many
        subflows.
        """
        def change(seen: Seen, pdu: bytes) -> bytes:
            if pdu[0] == pdu_type and self.may_act(seen.queue, subflows):
                act(seen.queue.transport)
            return pdu

        self.instrument.change = change

    def may_act(self, queue: Queue, subflows: int = 1) -> bool:
        """Whether this is the time to do it, once: on an I/O queue with so many subflows, which are
        waited for.
        """
        if self.acted or self._tried or queue.qid <= 0:
            return False
        self._tried = True
        if len(self.wait_joined(queue.transport, subflows)) < subflows:
            return False
        self.acted.append(queue.transport)
        return True

    def wait_joined(self, connection: raw.Connection, subflows: int = 2) -> list[raw.Subflow]:
        """The established subflows, after some time to become so many."""
        with suppress(TimeoutError):
            connection.wait("joins", lambda: len(connection.alive) >= subflows, SETTLE)
        return connection.alive

    def check_acted(self) -> raw.Connection:
        """The connection on which `once` has done it. NotApplicable if the host has one subflow."""
        self.queues()
        if not self.acted:
            raise NotApplicable(f"the host joins no announced address within {SETTLE:g} s")
        return self.acted[0]

    def check_unharmed(self) -> None:
        """Failed unless all commands of the first association have succeeded, each sent once."""
        admin, io = self.queues()
        check(self.copy_is_right(), f"what the host copied differs: {self.describe()}")
        ended = [seen.describe() for seen in (admin, *io) if seen.end]
        check(not ended, f"the host closed a connection: {', '.join(ended)}")
        check(len(self.instrument.of(qid=0)) == 1, f"more than one association: {self.describe()}")
        check(not any(command.opcode == _ABORT for _, command in admin.commands),
              "the host sent an Abort command")
        writes = [command.slba for seen in io for _, command in seen.commands
                  if isinstance(command, nvme.Write)]
        check(len(set(writes)) == len(writes), "the host sent a Write command again")

    def joins(self) -> list[Passed]:
        """The SYNs with MP_JOIN that came, without those that were sent again."""
        found: dict[object, Passed] = {}
        for passed in self.stack.log.since():
            if not passed.sent and passed.segment.find(mptcp.MPJoinSYN):
                found.setdefault((passed.segment.source, passed.segment.destination), passed)
        return list(found.values())

    def wait_for_joins(self) -> list[Passed]:
        """The joins after some time. NotApplicable if there is none."""
        self.wait(lambda: bool(self.joins()), SETTLE)
        if not self.joins():
            raise NotApplicable(f"the host joins no announced address within {SETTLE:g} s")
        return self.joins()


@contextmanager
def opened(dut: HostUnderTest) -> Iterator[RawStage]:
    """A stage, to be closed."""
    stage = RawStage(dut)
    try:
        yield stage
    finally:
        stage.close()


def further(dut: HostUnderTest, number: int = 1) -> tuple[str, ...]:
    """So many further addresses to announce. Inconclusive if there are fewer."""
    if len(dut.further) < number:
        raise Inconclusive(f"needs {number} further addresses of this machine to announce")
    return dut.further[:number]
