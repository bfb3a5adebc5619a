# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Fallback to TCP: what the host does where MPTCP doesn't come about."""

from dataclasses import replace

import pytest

from ...endpoints import raw
from ...endpoints.subsystem import DISCOVERY_NQN
from ...host_under_test import Seen, Stage
from ...layers import mptcp
from ...layers.registry import Mpattr
from ..verdict import NotApplicable, check
from .raw_stage import C2H_DATA, InstrumentBehaviour, RawStage

STAYS = 3.0  # seconds


@pytest.mark.requirement("TCPV-FALL-001")
@pytest.mark.usefixtures("mptcp_host")
def test_goes_on_as_tcp(stage: Stage) -> None:
    """A connection that falls back before data goes on as TCP.

    Sent: SYN/ACKs without MP_CAPABLE to a host that is told to use MPTCP, but not to require it.
    Expected: the host opens its queues over TCP, and copies data unchanged.
    """
    stage.listen(mptcp=False)
    stage.trigger(copy=True)
    stage.queues()
    check(stage.copy_is_right(), f"what the host copied differs: {stage.describe()}")


@pytest.mark.requirement("TCPV-FALL-007")
@pytest.mark.usefixtures("discovering_host")
def test_no_tcp_where_it_is_refused(stage: Stage) -> None:
    """No TCP connection is opened to a port with MPREQ.

    Sent: a Discovery log page with an entry with TCPV 1h and MPREQ set.
    Expected: all connections to its NVM subsystem are MPTCP.
    """
    stage.listen()
    stage.discover(stage.entry(mpattr=int(Mpattr.MPREQ)))
    discovery = stage.instrument.of(DISCOVERY_NQN)
    others = [seen for seen in stage.instrument.seen if seen not in discovery]
    check(all(seen.mptcp for seen in others), stage.describe())
    stage.queues()


@pytest.mark.requirement("TCPV-FALL-009")
@pytest.mark.usefixtures("mptcp_host", "connects_afterwards")
def test_required_mptcp(stage: Stage) -> None:
    """A host that requires MPTCP closes a TCP connection before it sends Connect.

    Sent: SYN/ACKs without MP_CAPABLE, and ICResp, to a host that is told to require MPTCP.
    Expected: each connection is closed, without a command on it.
    """
    stage.listen(mptcp=False)
    stage.trigger("mptcp-only")
    check(bool(stage.instrument.seen), f"the host opened no connection: {stage.describe()}")
    check(not any(seen.commands for seen in stage.instrument.seen),
          f"the host sent commands: {stage.describe()}")
    check(stage.wait(lambda: all(seen.end for seen in stage.instrument.seen), STAYS),
          f"the host keeps a TCP connection: {stage.describe()}")


@pytest.mark.requirement("TCPV-FALL-010")
@pytest.mark.usefixtures("mptcp_host")
def test_other_connections_stay(stage: Stage) -> None:
    """A connection stays when another one of the association has fallen back.

    Sent: a SYN/ACK with MP_CAPABLE for the Admin Queue, and SYN/ACKs without for the I/O queues.
    Expected: the host copies data unchanged, and all connections are there 3 s later.
    """
    def other_protocol(seen: Seen) -> None:
        if len(stage.instrument.seen) == 1:
            stage.relisten(mptcp=False)

    stage.instrument.on_accept = other_protocol
    stage.listen()
    stage.trigger(copy=True)
    admin, io = stage.queues()
    check(admin.mptcp and not any(seen.mptcp for seen in io), stage.describe())
    check(stage.copy_is_right(), f"what the host copied differs: {stage.describe()}")
    gone = stage.wait(lambda: any(seen.end for seen in (admin, *io)), STAYS)
    check(not gone, f"the host closed a connection within {STAYS:g} s: {stage.describe()}")


@pytest.mark.requirement("TCPV-FALL-011")
@pytest.mark.usefixtures("mptcp_host")
def test_another_try(stage: Stage) -> None:
    """A connection in place of one that fell back is requested with MPTCP.

    Sent: SYN/ACKs without MP_CAPABLE; then a reset of each connection, and SYN/ACKs with MP_CAPABLE
    to what comes.
    Expected: the host reconnects over MPTCP.
    """
    stage.listen(mptcp=False)
    stage.trigger()
    stage.queues()
    before = list(stage.instrument.seen)
    stage.relisten(mptcp=True)
    for seen in before:
        stage.do(seen.queue.abort)
    timeout = stage.dut.timeout
    if not stage.wait(lambda: len(stage.instrument.seen) > len(before), timeout):
        raise NotApplicable(f"the host doesn't reconnect within {timeout:g} s after a reset")
    check(stage.instrument.seen[len(before)].mptcp, stage.describe())


class OtherAnswer(InstrumentBehaviour):
    """Changes MP_CAPABLE of the SYN/ACK."""

    fields: dict[str, int] = {}  # noqa: RUF012 - replaced, not changed

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        option = segment.find(mptcp.MPCapableSYNACK)
        if not option:
            return [segment]
        changed = option.copy()
        for name, value in self.fields.items():
            setattr(changed, name, value)
        return [replace(segment, options=tuple(
            (name, changed if value is option else value) for name, value in segment.options))]


class Strips(InstrumentBehaviour):
    """Takes all MPTCP options away behind the SYN/ACK."""

    def incoming(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return [segment.without_mptcp()]

    def outgoing(self, subflow: raw.Subflow, segment: raw.Segment) -> list[raw.Segment]:
        return [segment if "S" in segment.flags else segment.without_mptcp()]


@pytest.mark.requirement("TCPV-FALL-001")
@pytest.mark.parametrize("behaviour", [
    OtherAnswer(fields={"version": 0}), OtherAnswer(fields={"flags": 0}), Strips()],
    ids=["version 0", "no algorithm", "third packet"])
@pytest.mark.usefixtures("connects_afterwards")
def test_falls_back_before_data(raw_stage: RawStage, behaviour: InstrumentBehaviour) -> None:
    """A connection goes on as TCP where the handshake of MPTCP fails.

    Sent: MP_CAPABLE with version 0, or without the flag H, in the SYN/ACK; or the right one, and no
    MPTCP options behind it in either direction (third packet), as the name of the test says.
    Expected: the host opens its queues over TCP, and copies data unchanged.
    """
    raw_stage.listen_raw(behaviour)
    raw_stage.trigger(copy=True)
    raw_stage.check_unharmed()
    check(not any(seen.mptcp for seen in raw_stage.instrument.seen), raw_stage.describe())


@pytest.mark.requirement("TCPV-FALL-012")
@pytest.mark.usefixtures("connects_afterwards")
def test_infinite_mapping(raw_stage: RawStage) -> None:
    """A fallback after data is no error.

    Sent: an infinite mapping with the first data of a Read command, and no MPTCP options behind
    it.
    Expected: the host copies data unchanged, and keeps all its connections.
    """
    def fall_back(connection: raw.Connection) -> None:
        with connection.stack.lock:
            connection.fall_back("told to")

    raw_stage.once(C2H_DATA, fall_back)
    raw_stage.listen_raw()
    raw_stage.trigger(copy=True)
    raw_stage.check_acted()
    raw_stage.check_unharmed()
