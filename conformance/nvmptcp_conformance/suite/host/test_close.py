# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Closing a connection."""

import time

import pytest

from ...endpoints import raw
from ...host_under_test import HostUnderTest, Stage
from ...layers import mptcp, nvme, nvme_tcp
from ..verdict import Failed, NotApplicable, check
from .raw_stage import R2T, InstrumentBehaviour, RawStage, further

WITHIN = 2.0  # seconds: shorter than any timer that is to be excluded
RESET_WITHIN = 35.0  # seconds: a host waits up to 30 s for the controller
UNKNOWN_CID = 0xEEEE
HELD = 1.0  # seconds until DATA_FIN is acknowledged
PATIENCE = 20.0  # seconds of the 30 in which a termination request may arrive


@pytest.mark.requirement("TCPV-CLOS-001")
@pytest.mark.usefixtures("mptcp_host")
def test_data_fin_after_the_shutdown(stage: Stage) -> None:
    """After the shutdown of the controller, connections end with DATA_FIN.

    Sent: answers to what the host sends when it is told to disconnect.
    Expected: the byte stream of each connection ends, without MP_FASTCLOSE before its end was
    acknowledged.
    """
    stage.listen()
    stage.trigger()
    admin, io = stage.queues()
    stage.untrigger()
    check(stage.wait(lambda: all(seen.end for seen in (admin, *io)), WITHIN),
          f"a connection is still there {WITHIN:g} s after the host was told to disconnect")
    if not admin.shut_down:
        raise NotApplicable("the host disconnects without a shutdown of the controller")
    aborted = [seen.describe() for seen in (admin, *io) if seen.end != "ends"]
    check(not aborted, f"ended by MP_FASTCLOSE: {', '.join(aborted)}")


def gone(stage: Stage, queue: int, how: str, seconds: float) -> None:
    """Close a connection from our side. Failed unless the host ends the association."""
    admin, io = stage.queues()
    connections = [admin, *io]
    closed = connections[queue]
    commands = len(closed.commands)
    stage.do(getattr(closed.queue, how))
    left = [seen for seen in connections if seen is not closed or how == "end"]
    check(stage.wait(lambda: all(seen.end for seen in left), seconds),
          f"{seconds:g} s later the association is still there: "
          + ", ".join(seen.describe() for seen in left if not seen.end))
    check(len(closed.commands) == commands, "the host sent a command on the connection that ended")


@pytest.mark.requirement("TCPV-CLOS-003")
@pytest.mark.parametrize("queue", [0, 1], ids=["admin", "io"])
@pytest.mark.usefixtures("mptcp_host", "connects_afterwards")
def test_the_controller_closes(stage: Stage, queue: int) -> None:
    """DATA_FIN from the controller ends the association.

    Sent: DATA_FIN on the connection in the name of the test.
    Expected: the host sends no command on it any more, and ends all connections of the
    association.
    """
    stage.listen()
    stage.trigger()
    gone(stage, queue, "end", stage.dut.timeout)


@pytest.mark.requirement("TCPV-CLOS-006")
@pytest.mark.parametrize("queue", [0, 1], ids=["admin", "io"])
@pytest.mark.usefixtures("mptcp_host", "connects_afterwards")
def test_fastclose_is_a_reset(stage: Stage, queue: int) -> None:
    """MP_FASTCLOSE from the controller ends the association at once.

    Sent: MP_FASTCLOSE on the connection in the name of the test.
    Expected: the host ends all connections of the association within 2 s.
    """
    stage.listen()
    stage.trigger()
    gone(stage, queue, "abort", WITHIN)


@pytest.mark.requirement("TCPV-CLOS-005")
@pytest.mark.usefixtures("mptcp_host", "connects_afterwards")
def test_abort_is_fastclose(stage: Stage) -> None:
    """A host resets an MPTCP connection by MP_FASTCLOSE.

    Sent: a completion of a command that the host hasn't sent; no end of the connection after
    H2CTermReq.
    Expected: after H2CTermReq the host waits no longer than 30 s, and then sends MP_FASTCLOSE.
    """
    stage.instrument.ends_when_asked = False
    stage.listen()
    stage.trigger()
    admin, _ = stage.queues()
    stage.do(lambda: admin.queue.send(nvme_tcp.CapsuleResp(
        rccqe=nvme.Completion(cid=UNKNOWN_CID))))
    stage.wait(lambda: bool(admin.end), RESET_WITHIN)
    if not admin.terminations:
        raise NotApplicable("the host sends no H2CTermReq after a completion of an unknown command")
    check(admin.end == "aborts", "the connection ended without MP_FASTCLOSE" if admin.end else
          f"the connection is still there after {RESET_WITHIN:g} s")


@pytest.mark.requirement("TCPV-CLOS-006")
def test_again_after_fastclose(mptcp_host: HostUnderTest) -> None:
    """After MP_FASTCLOSE on all connections, the host can connect again.

    Sent: MP_FASTCLOSE on each connection; then SYN/ACKs with MP_CAPABLE to what comes.
    Expected: told to connect again, the host opens an association over MPTCP.
    """
    with mptcp_host.stage() as stage:
        stage.listen()
        stage.trigger()
        admin, io = stage.queues()
        for seen in (admin, *io):
            stage.do(seen.queue.abort)
    with mptcp_host.stage() as stage:
        stage.listen()
        stage.trigger()
        stage.queues()
        if not all(seen.mptcp for seen in stage.instrument.seen):
            raise Failed(f"not over MPTCP: {stage.describe()}")


class HoldsDataAck(InstrumentBehaviour):
    """Doesn't acknowledge DATA_FIN in the first second."""

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self.ended: dict[raw.Connection, float] = {}

    def data_fin(self, connection: raw.Connection) -> None:
        self.ended[connection] = time.monotonic()

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        ended = self.ended.get(subflow.connection)
        held = ended is not None and time.monotonic() - ended < HELD
        return [segment.without_mptcp() if held else segment]


def shut_down(stage: RawStage) -> list[raw.Connection]:
    """Have the host disconnect; its connections. NotApplicable if it shuts nothing down."""
    stage.trigger()
    admin, io = stage.queues()
    connections = [seen.queue.transport for seen in (admin, *io)]
    stage.untrigger()
    stage.wait(lambda: all(seen.end for seen in (admin, *io)), WITHIN + HELD)
    if not admin.shut_down:
        raise NotApplicable("the host disconnects without a shutdown of the controller")
    return connections


def closing(connection: raw.Connection) -> list[tuple[float, str]]:
    """When DATA_FIN came, and what ends subflows, in the order in which they came."""
    found = []
    for passed in connection.stack.log.since(0, connection):
        option = passed.segment.find(mptcp.DSS)
        if passed.sent:
            continue
        if option and option.flags.F:
            found.append((passed.time, "DATA_FIN"))
        if passed.segment.find(mptcp.MPFastclose):
            found.append((passed.time, "MP_FASTCLOSE"))
        elif {"F", "R"} & set(passed.segment.flags):
            found.append((passed.time, "FIN" if "F" in passed.segment.flags else "RST"))
    return found


@pytest.mark.requirement("TCPV-CLOS-001")
def test_data_fin_comes_first(raw_stage: RawStage) -> None:
    """DATA_FIN comes before the subflows are closed.

    Sent: DATA_ACK for each DATA_FIN, to a host that is told to disconnect.
    Expected: on each connection DATA_FIN comes before FIN, RST and MP_FASTCLOSE.
    """
    raw_stage.listen_raw()
    for connection in shut_down(raw_stage):
        kinds = [kind for _, kind in closing(connection)]
        check(kinds[:1] == ["DATA_FIN"], f"what closes a connection: {', '.join(kinds) or 'none'}")


@pytest.mark.requirement("TCPV-CLOS-001")
def test_acknowledgement_of_data_fin_is_waited_for(raw_stage: RawStage) -> None:
    """Subflows are closed when DATA_FIN is acknowledged.

    Sent: DATA_ACK for each DATA_FIN 1 s after it came, to a host that is told to disconnect.
    Expected: no FIN, RST or MP_FASTCLOSE before that.
    """
    behaviour = HoldsDataAck()
    raw_stage.listen_raw(behaviour)
    for connection in shut_down(raw_stage):
        ended = behaviour.ended.get(connection)
        check(ended is not None, "a connection ended without DATA_FIN")
        early = [kind for at, kind in closing(connection)
                 if kind != "DATA_FIN" and at < (ended or 0) + HELD]
        check(not early, f"{early[:1]} came before the acknowledgement of DATA_FIN")


@pytest.mark.requirement("TCPV-CLOS-002")
@pytest.mark.parametrize("index", [0, 1], ids=["first subflow", "second subflow"])
@pytest.mark.usefixtures("connects_afterwards")
def test_fin_closes_a_subflow_only(raw_stage: RawStage, index: int) -> None:
    """FIN on one of two subflows doesn't end the connection.

    Sent: FIN without DATA_FIN on the subflow in the name of the test, before an R2T.
    Expected: the host copies data unchanged, and keeps all its connections.
    """
    raw_stage.once(R2T, lambda connection: connection.alive[index].finish(), subflows=2)
    raw_stage.listen_raw(joins_at=further(raw_stage.dut))
    raw_stage.trigger(copy=True)
    raw_stage.check_acted()
    raw_stage.check_unharmed()


@pytest.mark.requirement("TCPV-CLOS-007")
@pytest.mark.usefixtures("connects_afterwards")
def test_termination_requests_may_arrive(raw_stage: RawStage) -> None:
    """A host that has sent H2CTermReq waits for its acknowledgement.

    Sent: a completion of a command that the host hasn't sent, and no DATA_ACK any more.
    Expected: no MP_FASTCLOSE within 20 s after H2CTermReq.
    """
    behaviour = InstrumentBehaviour()
    raw_stage.instrument.ends_when_asked = False
    raw_stage.listen_raw(behaviour)
    raw_stage.trigger()
    admin, _ = raw_stage.queues()
    behaviour.acknowledge_data = False
    raw_stage.do(lambda: admin.queue.send(nvme_tcp.CapsuleResp(
        rccqe=nvme.Completion(cid=UNKNOWN_CID))))
    raw_stage.wait(lambda: bool(admin.terminations or admin.end), WITHIN)
    try:
        if not admin.terminations:
            raise NotApplicable(
                "the host sends no H2CTermReq after a completion of an unknown command")
        early = raw_stage.wait(lambda: admin.end == "aborts", PATIENCE)
        check(not early, f"the host reset the connection within {PATIENCE:g} s after H2CTermReq,"
              " which wasn't acknowledged")
    finally:
        behaviour.acknowledge_data = True
