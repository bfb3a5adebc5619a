# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Integrity and TLS: digests."""

import pytest

from ...endpoints import raw
from ...endpoints.controller import DDGST, HDGST, Queue
from ...host_under_test import HostUnderTest, Seen, Stage
from ..verdict import NotApplicable, check
from .raw_stage import C2H_DATA, InstrumentBehaviour, Maps, RawStage, further

DIGESTS = {0: "none", HDGST: "hdgst", DDGST: "ddgst", HDGST | DDGST: "both"}
_CAPSULE_RESP = 0x05
_HEADER = 24
LARGE = 4096  # bytes: data, not a response
WRONG = 0x1234


def asked(dut: HostUnderTest, variant: str, digests: int) -> int:
    """DGST of the ICReq PDUs, after the association has proved to work with these digests."""
    with dut.stage() as stage:
        stage.listen()
        stage.trigger(variant, copy=True, digests=digests)
        admin, io = stage.queues()
        check(stage.copy_is_right(), f"what the host copied differs: {stage.describe()}")
        found = {int(seen.icreqs[0].dgst) for seen in (admin, *io)}
        check(len(found) == 1, f"queues ask for different digests: DGST {sorted(found)}")
        return found.pop()


@pytest.mark.requirement("TCPV-INTG-001")
@pytest.mark.parametrize("digests", DIGESTS, ids=DIGESTS.values())
def test_digests_are_independent(mptcp_host: HostUnderTest, digests: int) -> None:
    """Digests are asked for over MPTCP as over TCP.

    Sent: ICResp that grants what ICReq asks for, to a host that is told to use the digests in the
    name of the test, over TCP and over MPTCP.
    Expected: ICReq has the same DGST both times, and the host copies data unchanged.
    """
    tcp, mptcp = (asked(mptcp_host, variant, digests) for variant in ("tcp", "mptcp"))
    check(mptcp == tcp, f"DGST {tcp:02X}h over TCP, {mptcp:02X}h over MPTCP")


@pytest.mark.requirement("TCPV-INTG-006")
@pytest.mark.usefixtures("mptcp_host", "connects_afterwards")
def test_header_digest_error(stage: Stage) -> None:
    """A header digest error is fatal for the MPTCP connection.

    Sent: a CapsuleResp with a wrong HDGST on the Admin Queue.
    Expected: the host ends the connection.
    """
    stage.dut.require("hdgst")
    wrong: list[Seen] = []

    def change(seen: Seen, pdu: bytes) -> bytes:
        if seen in wrong and pdu[0] == _CAPSULE_RESP:
            return pdu[:_HEADER] + bytes(byte ^ 0xFF for byte in pdu[_HEADER:])
        return pdu

    stage.instrument.change = change
    stage.listen()
    stage.trigger(digests=HDGST)
    admin, _ = stage.queues()
    wrong.append(admin)
    kato = admin.connects()[0].kato / 1000
    commands = len(admin.commands)
    if not stage.wait(lambda: len(admin.commands) > commands, kato + stage.dut.timeout):
        raise NotApplicable("the host sends no command on the Admin Queue, so nothing is answered")
    check(stage.wait(lambda: bool(admin.end), stage.dut.timeout),
          f"{stage.dut.timeout:g} s later the connection is still there: {stage.describe()}")


SUBFLOWS = {"by the first subflow": (0, 0), "by the second subflow": (1, 1), "by both": (0, 1)}


@pytest.mark.requirement("TCPV-INTG-006")
@pytest.mark.parametrize("subflows", SUBFLOWS.values(), ids=SUBFLOWS)
@pytest.mark.usefixtures("connects_afterwards")
def test_header_digest_error_by_subflows(raw_stage: RawStage, subflows: tuple[int, int]) -> None:
    """A wrong header digest is fatal for the connection, whatever subflow brought it.

    Sent: a C2HData PDU with a wrong HDGST on a connection with two subflows, in two mappings, of
    which the first ends within HDGST, by the subflows in the name of the test.
    Expected: the host ends the connection, all its subflows.
    """
    def change(seen: Seen, pdu: bytes) -> bytes:
        if pdu[0] == C2H_DATA and raw_stage.may_act(seen.queue, 2):
            return pdu[:_HEADER] + bytes(byte ^ 0xFF for byte in pdu[_HEADER:_HEADER + 4]
                                         ) + pdu[_HEADER + 4:]
        return pdu

    sent: list[raw.Subflow] = []

    def maps(queue: Queue, data: bytes) -> None:
        connection: raw.Connection = queue.transport
        if connection not in raw_stage.acted or sent:
            connection.sendall(data)
            return
        sent.extend(connection.subflows[index] for index in subflows)
        for subflow, part in zip(sent, (data[:_HEADER + 2], data[_HEADER + 2:]), strict=True):
            connection.send_mapping(part, subflow=subflow)

    raw_stage.dut.require("hdgst")
    raw_stage.instrument.change = change
    raw_stage.listen_raw(joins_at=further(raw_stage.dut), maps=maps)
    raw_stage.trigger(digests=HDGST, copy=True)
    connection, timeout = raw_stage.check_acted(), raw_stage.dut.timeout
    check(raw_stage.wait(lambda: bool(connection.receiver.ended or connection.lost), timeout),
          f"{timeout:g} s later the connection is still there: {connection}")


def once_with(stage: RawStage, checksum: int | bool, subflows: int) -> Maps:
    """Send one mapping on the last of so many subflows with this checksum (False: none)."""
    def maps(queue: Queue, data: bytes) -> None:
        connection: raw.Connection = queue.transport
        if len(data) >= LARGE and stage.may_act(queue, subflows):
            connection.send_mapping(data[:LARGE], checksum=checksum, subflow=connection.alive[-1],
                                    segment_size=1000)
            data = data[LARGE:]
        connection.sendall(data)

    return maps


def copy_with(stage: RawStage, checksum: int | bool, subflows: int) -> raw.Connection:
    """Have the host copy over a connection with DSS checksums, and with such a mapping."""
    stage.listen_raw(InstrumentBehaviour(checksum_required=True),
                     joins_at=further(stage.dut) if subflows > 1 else (),
                     maps=once_with(stage, checksum, subflows))
    stage.trigger(copy=True)
    return stage.check_acted()


@pytest.mark.requirement("TCPV-INTG-004")
@pytest.mark.usefixtures("connects_afterwards")
def test_mapping_without_checksum(raw_stage: RawStage) -> None:
    """A subflow is reset that brings a mapping without the checksum that was negotiated.

    Sent: the flag A in MP_CAPABLE; on the second of two subflows data of a Read command, in a
    mapping without checksum.
    Expected: the host resets that subflow, and copies data unchanged by the other one.
    """
    connection = copy_with(raw_stage, False, 2)
    raw_stage.check_unharmed()
    check(any(subflow.ended == "reset by the peer" for subflow in connection.subflows[1:]),
          "the host didn't reset the subflow")


@pytest.mark.requirement("TCPV-INTG-005")
@pytest.mark.usefixtures("connects_afterwards")
def test_checksum_failure_on_one_of_two(raw_stage: RawStage) -> None:
    """A checksum failure on one of two subflows fails no command.

    Sent: the flag A in MP_CAPABLE; on the second of two subflows data of a Read command, with a
    wrong checksum.
    Expected: the host resets that subflow, and copies data unchanged by the other one.
    """
    connection = copy_with(raw_stage, WRONG, 2)
    raw_stage.check_unharmed()
    check(any(subflow.ended == "reset by the peer" for subflow in connection.subflows[1:]),
          "the host takes data whose checksum is wrong")


@pytest.mark.requirement("TCPV-INTG-005", "TCPV-FALL-012")
@pytest.mark.usefixtures("connects_afterwards")
def test_checksum_failure_on_the_only_subflow(raw_stage: RawStage) -> None:
    """A checksum failure on the only subflow fails no command.

    Sent: the flag A in MP_CAPABLE; data of a Read command with a wrong checksum on the only
    subflow; an infinite mapping after MP_FAIL. (Where the host resets the connection instead, the
    test is not applicable.)
    Expected: the host sends MP_FAIL, and copies data unchanged.
    """
    connection = copy_with(raw_stage, WRONG, 1)
    if not connection.fell_back and connection.lost:
        raise NotApplicable("the connection doesn't go on: the host resets it")
    raw_stage.check_unharmed()
    check(bool(connection.fell_back), "the host takes data whose checksum is wrong")
