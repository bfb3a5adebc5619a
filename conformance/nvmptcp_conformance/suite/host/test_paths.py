# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Addresses, joins and path loss: the subflows that the host opens.

The kernel of this machine announces its `signal` endpoints (ip-mptcp(8)).
"""

import time
from collections.abc import Collection
from contextlib import suppress

import pytest

from ...endpoints import mptcp_socket, raw
from ...host_under_test import HostUnderTest, Seen, Stage
from ...layers import mptcp
from ..verdict import Inconclusive, NotApplicable, check
from .raw_stage import C2H_DATA, R2T, WAYS, InstrumentBehaviour, RawStage, Strips, further
from .refusals import REFUSALS

SETTLE = 2.0  # seconds for ADD_ADDR and the joins
MAXSF = 2
COMES_BACK = 30.0  # seconds for a subflow in place of a lost one
DISCOVERY_PORT = 8009


def announced(connections: list[Seen]) -> None:
    """Wait for the joins. Inconclusive if this machine announces no address."""
    time.sleep(SETTLE)
    states = [mptcp_socket.info(seen.queue.transport) for seen in connections if not seen.end]
    if states and not any(state and state.announced for state in states):
        raise Inconclusive("this machine announces no address: `ip mptcp endpoint add ADDRESS"
                           " signal`, for an address that the host can reach")


def subflows(stage: Stage, connections: list[Seen]) -> list[mptcp_socket.Subflow]:
    """The subflows of connections, which are still there."""
    gone = [seen for seen in connections if seen.end]
    check(not gone, f"the host closed a connection: {stage.describe()}")
    return [each for seen in connections
            for each in mptcp_socket.subflow_addresses(seen.queue.transport)]


@pytest.mark.requirement("TCPV-PATH-004")
def test_port_of_joins(mptcp_host: HostUnderTest, stage: Stage) -> None:
    """Joins to announced addresses go to the port of the first subflow.

    Sent: ADD_ADDR without a port number.
    Expected: each subflow goes to the port that the connection was opened to, and one has joined.
    """
    stage.listen(mptcp_host.listen, *mptcp_host.further)
    stage.trigger()
    admin, io = stage.queues()
    announced([admin, *io])
    ports = [local[1] for local, _ in subflows(stage, [admin, *io])]
    if len(ports) == len(io) + 1:
        raise NotApplicable(f"the host joins no announced address within {SETTLE:g} s")
    check(set(ports) == {mptcp_host.trsvcid}, f"subflows to the ports {sorted(set(ports))}")


@pytest.mark.requirement("TCPV-PATH-011")
def test_maxsf(discovering_host: HostUnderTest, stage: Stage) -> None:
    """No connection has more subflows than MAXSF says.

    Sent: a Discovery log page with an entry with MAXSF 2, and announcements of addresses.
    Expected: at most 2 subflows on each connection.
    """
    stage.listen(discovering_host.listen, *discovering_host.further)
    stage.discover(stage.entry(mpattr=1, maxsf=MAXSF))
    admin, io = stage.queues()
    announced([admin, *io])
    for seen in (admin, *io):
        number = len(subflows(stage, [seen]))
        check(number <= MAXSF, f"{seen.describe()} has {number} subflows")


@pytest.mark.requirement("TCPV-PATH-013")
def test_failed_joins_harm_nothing(mptcp_host: HostUnderTest, stage: Stage) -> None:
    """A connection stays when joins to it are refused.

    Sent: announcements of addresses where nothing listens, so that joins are reset.
    Expected: the host copies data unchanged, and its connections stay.
    """
    stage.listen(mptcp_host.listen)
    stage.trigger(copy=True)
    admin, io = stage.queues()
    announced([admin, *io])
    subflows(stage, [admin, *io])
    check(stage.copy_is_right(), f"what the host copied differs: {stage.describe()}")


@pytest.mark.requirement("TCPV-PATH-004")
def test_joins_go_to_no_other_port(raw_stage: RawStage) -> None:
    """Joins to announced addresses go to the port of the first subflow, all of them.

    Sent: ADD_ADDR without a port number.
    Expected: no SYN with MP_JOIN goes to the next port, or that of Discovery controllers.
    """
    addresses, port = further(raw_stage.dut), raw_stage.dut.trsvcid
    raw_stage.listen_raw(joins_at=addresses)
    for other in {port + 1, DISCOVERY_PORT} - {port}:
        for address in addresses:
            raw_stage.stack.hold(address, other, raw_stage.listener)
    raw_stage.trigger()
    raw_stage.queues()
    ports = {passed.segment.destination.port for passed in raw_stage.wait_for_joins()}
    check(ports == {port}, f"joins to the ports {sorted(ports)}")


@pytest.mark.requirement("TCPV-PATH-013")
@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.usefixtures("connects_afterwards")
def test_refused_joins_harm_nothing(raw_stage: RawStage, refusal: str) -> None:
    """A connection stays whatever way joins to it fail.

    Sent: ADD_ADDR, and to each join what the name of the test says.
    Expected: the host copies data unchanged, and keeps all its connections.
    """
    raw_stage.listen_raw(REFUSALS[refusal](), joins_at=further(raw_stage.dut))
    raw_stage.trigger(copy=True)
    raw_stage.wait_for_joins()
    raw_stage.check_unharmed()


class Backup(InstrumentBehaviour):
    """Sets the second subflow to backup when it joins, and counts what comes by it then."""

    at_join = True
    marked = False

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self.bytes = 0
        self.marked = self.at_join

    def join_synack(self, connection: raw.Connection,
                    option: mptcp.MPJoinSYNACK) -> mptcp.MPTCPOption:
        option.backup = int(self.at_join)
        return option

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if subflow.join and self.marked:
            self.bytes += len(segment.payload)
        return [segment]

    def mark(self, connection: raw.Connection) -> None:
        """Set it to backup by MP_PRIO, where it wasn't yet."""
        if not self.at_join:
            connection.send_option(mptcp.MPPrio(backup=1), subflow=connection.alive[1])
            time.sleep(0.1)
            self.marked = True


@pytest.mark.requirement("TCPV-PATH-014")
@pytest.mark.parametrize("at_join", [True, False], ids=["MP_JOIN", "MP_PRIO"])
def test_backup_is_not_used(raw_stage: RawStage, at_join: bool) -> None:
    """No data go by a backup subflow while another one works.

    Sent: the flag B for the second subflow, in MP_JOIN or, before an R2T, in MP_PRIO.
    Expected: from then on the host's data come by the first one.
    """
    behaviour = Backup(at_join=at_join)
    raw_stage.once(R2T, behaviour.mark, subflows=2)
    raw_stage.listen_raw(behaviour, joins_at=further(raw_stage.dut))
    raw_stage.trigger(copy=True)
    raw_stage.check_acted()
    raw_stage.check_unharmed()
    check(not behaviour.bytes, f"{behaviour.bytes} bytes came by a backup subflow")


class Loses(InstrumentBehaviour):
    """Loses the subflow that carries the next data of a connection, and these data with it."""

    way = "reset"
    direction = "in"

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self.armed: raw.Connection | None = None
        self.lost: raw.Subflow | None = None

    def arm(self, connection: raw.Connection) -> None:
        self.armed = connection

    def _passes(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        if subflow is self.lost:
            return [segment] if "R" in segment.flags else []
        if subflow.connection is not self.armed or not segment.payload:
            return [segment]
        self.armed, self.lost = None, subflow
        if self.way == "reset":
            subflow.reset()
        else:
            subflow.silent = True
        return []

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return self._passes(subflow, segment) if self.direction == "in" else [segment]

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return self._passes(subflow, segment) if self.direction == "out" else [segment]


def lose(stage: RawStage, way: str, direction: str) -> None:
    """Lose a subflow that carries data of a command. NotApplicable if there is one subflow."""
    behaviour = Loses(way=way, direction=direction)
    stage.once(R2T if direction == "in" else C2H_DATA, behaviour.arm, subflows=2)
    stage.listen_raw(behaviour, joins_at=further(stage.dut))
    stage.trigger(copy=True)
    stage.check_acted()
    check(behaviour.lost is not None, "the host has sent no data for an R2T")
    stage.check_unharmed()


@pytest.mark.requirement("TCPV-LOSS-001", "TCPV-LOSS-002", "TCPV-LOSS-003")
@pytest.mark.parametrize("way", ["reset", "silent"])
@pytest.mark.usefixtures("connects_afterwards")
def test_subflow_lost_between_r2t_and_data(raw_stage: RawStage, way: str) -> None:
    """Data that a lost subflow has taken with it come by another one.

    Sent: an R2T; when its data begin to come, the subflow that brings them is reset, or silent from
    then on, as the name of the test says.
    Expected: the host copies data unchanged, sends no command again, and keeps all its connections.
    """
    lose(raw_stage, way, "in")


@pytest.mark.requirement("TCPV-LOSS-001", "TCPV-LOSS-002")
@pytest.mark.parametrize("way", ["reset", "silent"])
@pytest.mark.usefixtures("connects_afterwards")
def test_subflow_lost_in_a_read(raw_stage: RawStage, way: str) -> None:
    """A Read command survives the subflow that brings its data.

    Sent: data of a Read command, by a subflow that is reset, or silent from then on, as the name of
    the test says; then the same data by the other subflow.
    Expected: the host copies data unchanged, sends no command again, and keeps all its connections.
    """
    lose(raw_stage, way, "out")


@pytest.mark.requirement("TCPV-LOSS-001", "TCPV-LOSS-002", "TCPV-LOSS-003")
@pytest.mark.parametrize(("index", "directions"), [
    pytest.param(0, WAYS["to the host"], id="first, to the host"),
    pytest.param(0, WAYS["to the controller"], id="first, to the controller"),
    pytest.param(1, WAYS["both ways"], id="second, both ways")])
@pytest.mark.usefixtures("connects_afterwards")
def test_options_get_lost_on_a_subflow(raw_stage: RawStage, index: int,
                                       directions: Collection[str]) -> None:
    """A subflow whose MPTCP options get lost is a lost one.

    Sent: data of Read commands on a connection with two subflows; from then on the MPTCP options of
    the one in the name of the test are missing, in the direction in the name; a RST on it, with
    MP_TCPRST, when data come by it without a mapping; what was lost by the other one.
    Expected: the host copies data unchanged, sends no command again, and keeps all its connections.
    """
    behaviour = Strips(index=index, directions=directions)
    raw_stage.once(C2H_DATA, behaviour.arm, subflows=2)
    raw_stage.listen_raw(behaviour, joins_at=further(raw_stage.dut))
    raw_stage.trigger(copy=True)
    raw_stage.check_acted()
    raw_stage.check_unharmed()


@pytest.mark.requirement("TCPV-LOSS-008")
@pytest.mark.usefixtures("connects_afterwards")
def test_subflows_come_back(raw_stage: RawStage) -> None:
    """A lost subflow is replaced.

    Sent: a RST on the second subflow of the Admin Queue's connection.
    Expected: within 30 s a join to the same address.
    """
    raw_stage.listen_raw(joins_at=further(raw_stage.dut))
    raw_stage.trigger()
    admin, _ = raw_stage.queues()
    connection: raw.Connection = admin.queue.transport
    if len(raw_stage.wait_joined(connection)) == 1:
        raise NotApplicable(f"the host joins no announced address within {SETTLE:g} s")
    lost = connection.alive[1]
    lost.reset()
    with suppress(TimeoutError):
        connection.wait("join", lambda: len(connection.alive) > 1, COMES_BACK)
    check(any(subflow.local.address == lost.local.address for subflow in connection.alive),
          f"no join in place of the lost subflow within {COMES_BACK:g} s")
