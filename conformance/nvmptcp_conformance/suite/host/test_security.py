# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Security considerations: checksums that are taken away."""

import ipaddress
import time
from itertools import pairwise

import pytest

from ...endpoints import mptcp_socket, raw
from ...endpoints.subsystem import DISCOVERY_NQN
from ...host_under_test import NQN, HostUnderTest, Stage
from ...layers import mptcp
from ...layers.registry import Mpattr
from ..verdict import NotApplicable, check
from .raw_stage import R2T, SETTLE, InstrumentBehaviour, RawStage, further, opened
from .refusals import REFUSALS

WITHIN = 2.0  # seconds
WATCHED = 10.0  # seconds in which joins are counted
APART = 0.99  # seconds between two joins
_ADD_ADDR = 0x30  # subtype and no flag


@pytest.mark.requirement("TCPV-SEC-010")
@pytest.mark.usefixtures("connects_afterwards")
def test_checksum_downgrade(discovering_host: HostUnderTest, stage: Stage) -> None:
    """A connection without DSS checksums to a port with DCSR is aborted.

    Sent: a Discovery log page with an entry with DCSR set, and MP_CAPABLE with the flag A cleared
    in the SYN/ACKs. (Where the host asks for checksums by itself, they are in use, and the test is
    not applicable.)
    Expected: the host closes each connection without a command on it.
    """
    checksums: list[bool] = []

    def note(seen: object) -> None:
        queue = stage.instrument.seen[-1].queue
        state = mptcp_socket.info(queue.transport)
        checksums.append(bool(state and state.checksums))

    stage.instrument.on_accept = note
    stage.listen()
    stage.discover(stage.entry(mpattr=int(Mpattr.DCSR)))
    discovery = stage.instrument.of(DISCOVERY_NQN)
    others = [seen for seen in stage.instrument.seen if seen not in discovery]
    if any(on for seen, on in zip(stage.instrument.seen, checksums, strict=True) if seen in others):
        raise NotApplicable("DSS checksums are in use, so there is no downgrade")
    check(bool(others), f"the host opened no connection to the port: {stage.describe()}")
    check(not stage.instrument.of(NQN) and not any(seen.commands for seen in others),
          f"the host goes on without DSS checksums: {stage.describe()}")


class WrongHmac(InstrumentBehaviour):
    """Answers joins with a wrong HMAC."""

    def join_synack(self, connection: raw.Connection,
                    option: mptcp.MPJoinSYNACK) -> mptcp.MPTCPOption:
        option.hmac = bytes(byte ^ 0xFF for byte in option.hmac)
        return option


@pytest.mark.requirement("TCPV-SEC-002")
@pytest.mark.usefixtures("connects_afterwards")
def test_wrong_hmac(raw_stage: RawStage) -> None:
    """A join that is answered with a wrong HMAC is reset.

    Sent: ADD_ADDR, and SYN/ACKs with a wrong HMAC to the joins.
    Expected: a RST for each, and no HMAC of the host; the host copies data unchanged.
    """
    raw_stage.listen_raw(WrongHmac(), joins_at=further(raw_stage.dut))
    raw_stage.trigger(copy=True)
    raw_stage.wait_for_joins()
    joined = [subflow for connection in raw_stage.stack.connections
              for subflow in connection.subflows if subflow.join]
    raw_stage.wait(lambda: all(subflow.ended for subflow in joined), WITHIN)
    check(all(subflow.ended == "reset by the peer" for subflow in joined),
          f"not reset: {[subflow for subflow in joined if not subflow.ended]}")
    check(not any(passed.segment.find(mptcp.MPJoinACK) for passed in raw_stage.stack.log.since()
                  if not passed.sent), "the host has sent its HMAC")
    raw_stage.check_unharmed()


@pytest.mark.requirement("TCPV-SEC-003")
@pytest.mark.parametrize(("form", "subflows"), [("ack", 1), ("reset", 2)], ids=["ACK", "RST"])
@pytest.mark.usefixtures("connects_afterwards")
def test_forged_fastclose(raw_stage: RawStage, form: str, subflows: int) -> None:
    """MP_FASTCLOSE with a wrong key closes nothing.

    Sent: MP_FASTCLOSE with a wrong key before an R2T, on an ACK, or on a RST of the second of two
    subflows, as the name of the test says.
    Expected: the host copies data unchanged, and keeps all its connections.
    """
    def forge(connection: raw.Connection) -> None:
        connection.fastclose(key=connection.peer_key ^ 1, form=form, subflow=connection.alive[-1])

    raw_stage.once(R2T, forge, subflows=subflows)
    raw_stage.listen_raw(joins_at=further(raw_stage.dut) if subflows > 1 else ())
    raw_stage.trigger(copy=True)
    raw_stage.check_acted()
    raw_stage.check_unharmed()


class Forges(InstrumentBehaviour):
    """Announces the first address in a forged way, the second in the right one."""

    form = "wrong"

    def established(self, connection: raw.Connection) -> None:
        forged, right = self.addresses
        if self.form == "wrong":
            connection.announce(forged, 1, hmac=bytes(8))
        else:
            connection.send_option(bytes([_ADD_ADDR, 1]) + ipaddress.ip_address(forged).packed)
        connection.announce(right, 2)


@pytest.mark.requirement("TCPV-SEC-004")
@pytest.mark.parametrize("form", ["wrong", "missing"])
@pytest.mark.usefixtures("connects_afterwards")
def test_forged_announcements(raw_stage: RawStage, form: str) -> None:
    """A forged announcement isn't followed.

    Sent: ADD_ADDR for two addresses: the HMAC of the first is wrong or missing, as the name of the
    test says.
    Expected: no join to the first. (Where the second isn't joined, the test is not applicable.)
    """
    addresses = further(raw_stage.dut, 2)
    raw_stage.listen_raw(Forges(form=form), joins_at=addresses)
    raw_stage.trigger()
    raw_stage.queues()
    raw_stage.wait(lambda: False, SETTLE)
    joined = {passed.segment.destination.address for passed in raw_stage.wait_for_joins()}
    check(addresses[0] not in joined, f"the host joins at {addresses[0]}")


@pytest.mark.requirement("TCPV-SEC-005")
def test_announcements_are_declined(raw_stage: RawStage) -> None:
    """The administrator can have announced addresses not be joined.

    Sent: ADD_ADDR to a host that is told to have one subflow a connection. (Where the host joins
    without that setting neither, the test is not applicable.)
    Expected: no join.
    """
    addresses = further(raw_stage.dut)
    with opened(raw_stage.dut) as stage:
        stage.listen_raw(joins_at=addresses)
        stage.trigger()
        stage.queues()
        stage.wait_for_joins()
    raw_stage.listen_raw(joins_at=addresses)
    raw_stage.trigger(max_subflows=1)
    raw_stage.queues()
    raw_stage.wait(lambda: bool(raw_stage.joins()), SETTLE)
    check(not raw_stage.joins(), f"{len(raw_stage.joins())} joins")


@pytest.mark.requirement("TCPV-SEC-009")
@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.usefixtures("connects_afterwards")
def test_joins_are_not_repeated_without_end(raw_stage: RawStage, refusal: str) -> None:
    """Joins that fail are repeated once a second at most.

    Sent: ADD_ADDR, and to each join what the name of the test says.
    Expected: in 10 s no two joins of a connection within 1 s with the same addresses.
    """
    raw_stage.listen_raw(REFUSALS[refusal](), joins_at=further(raw_stage.dut))
    raw_stage.trigger()
    raw_stage.queues()
    raw_stage.wait_for_joins()
    time.sleep(WATCHED)
    times: dict[object, list[float]] = {}
    for passed in raw_stage.joins():
        segment, option = passed.segment, passed.segment.find(mptcp.MPJoinSYN)
        assert option
        place = option.token, segment.source.address, segment.destination.address
        times.setdefault(place, []).append(passed.time)
    least = min((later - earlier for each in times.values() for earlier, later in pairwise(each)),
                default=WATCHED)
    check(least >= APART, f"two joins with the same addresses {least * 1000:.0f} ms apart")
