# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Connections, on the reference kernel."""

import itertools
from collections.abc import Iterator

import pytest
from nvmptcp_conformance.layers import mptcp, mptcp_stream, nvme, nvme_tcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER, End
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, admin_commands, run
from scapy.layers.inet import IP, TCP
from scapy.utils import PcapReader

FABRICS_CONNECT, PROPERTY_GET = 0x01, 0x04  # FCTYPE
ICREQ_SIZE = ICRESP_SIZE = 128  # bytes
CONNECT_SIZE = 72 + 1024  # bytes of the capsule: header with command, data
RESPONSE_SIZE = 24  # bytes of a CapsuleResp
DELAYS = """
[[path]]
delay = "1ms"
[[path]]
delay = "3ms"
[[path]]
delay = "8ms"
"""


@pytest.fixture(scope="module")
def queues(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("connection", "queues", tmp_path_factory.mktemp("queues"),
               topology=f'rate = "1gbit"\n{DELAYS}', capture=True)


@pytest.fixture(scope="module")
def no_joins(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("connection", "no_joins", tmp_path_factory.mktemp("no_joins"), topology="paths = 2")


@pytest.fixture(scope="module")
def mixed(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("connection", "mixed", tmp_path_factory.mktemp("mixed"), topology="paths = 2")


@pytest.fixture(scope="module")
def lost_syn(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("connection", "lost_syn", tmp_path_factory.mktemp("lost_syn"), topology="paths = 2",
               capture=True)


@pytest.fixture(scope="module")
def bytewise_host(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("connection", "bytewise_host", tmp_path_factory.mktemp("host"),
               topology="paths = 2", capture=True)


@pytest.fixture(scope="module")
def bytewise_target(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("connection", "bytewise_target", tmp_path_factory.mktemp("target"),
               topology="paths = 2", capture=True)


def pdus(connection: mptcp_stream.Connection, sender: int) -> list[nvme_tcp.NVMeTCP]:
    found, rest = nvme_tcp.split_pdus(connection.stream(sender))
    assert not rest
    return found


@pytest.mark.requirement("TCPV-CONN-001", "TCPV-CONN-003")
def test_connection_of_its_own_for_each_queue(queues: Situation) -> None:
    """Fails if two queues share a connection, or one has two, or one isn't MPTCP."""
    assert [(qid, protocol) for qid, protocol, _ in queues.data["queues"]] == [
        (0, "mptcp"), (1, "mptcp")]
    connects = [[command.qid for command in admin_commands(connection)
                 if isinstance(command, nvme.Connect)] for connection in queues.connections]
    assert connects == [[0], [1]]
    assert len({connection.keys[INITIATOR] for connection in queues.connections}) == 2


@pytest.mark.requirement("TCPV-CONN-004", "TCPV-CONN-005")
def test_first_syn(queues: Situation) -> None:
    """Fails if the first SYN of a queue has no MP_CAPABLE, another version of it, or goes anywhere
    else than to the address and the port that the host was given.
    """
    syns = list(queues.with_option(mptcp.MPCapableSYN))
    assert [(syn.dst, syn[TCP].dport) for syn, _ in syns] == [("10.0.2.2", 4421)] * 2
    assert [option.version for _, option in syns] == [1, 1]
    joins = [syn for syn, _ in queues.with_option(mptcp.MPJoinSYN)]
    opened = {(syn.src, syn[TCP].sport) for syn, _ in syns} | {
        (syn.src, syn[TCP].sport) for syn in joins}
    assert {(s.src, s[TCP].sport) for s in queues.segments if s[TCP].flags == "S"} == opened


@pytest.mark.requirement("TCPV-CONN-006")
def test_mp_capable_is_answered(queues: Situation) -> None:
    """Fails if a SYN/ACK of the port lacks MP_CAPABLE or has another version."""
    syns = {End(syn.src, syn[TCP].sport) for syn, _ in queues.with_option(mptcp.MPCapableSYN)}
    answers = [mptcp.find_option(segment, mptcp.MPCapableSYNACK) for segment in queues.segments
               if segment[TCP].flags == "SA" and End(segment.dst, segment[TCP].dport) in syns]
    assert [option and option.version for option in answers] == [1, 1]


@pytest.mark.requirement("TCPV-CONN-007")
def test_lost_syn_is_no_proof(lost_syn: Situation) -> None:
    """Fails if the host sends a SYN without MP_CAPABLE after the loss of one with it, or never
    sends a second one, or gives MPTCP up for the next connect.
    """
    assert lost_syn.data["outcome"] == "failed"
    syns = [segment for segment in lost_syn.between(lost_syn.data["begin"], lost_syn.data["end"])
            if segment[TCP].flags == "S"]
    assert len(syns) >= 2
    assert len({syn[TCP].sport for syn in syns}) == 1
    assert all(mptcp.find_option(syn, mptcp.MPCapableSYN) for syn in syns)
    assert {protocol for _, protocol, _ in lost_syn.data["queues"]} == {"mptcp"}


@pytest.mark.requirement("TCPV-CONN-008")
def test_one_icreq(queues: Situation) -> None:
    """Three subflows a connection. Fails if a joined subflow brings an ICReq of its own, or if
    something comes before it.
    """
    for connection in queues.connections:
        assert len(connection.subflows) == 3
        types = [type(pdu) for pdu in pdus(connection, INITIATOR)]
        assert types[0] is nvme_tcp.ICReq
        assert types.count(nvme_tcp.ICReq) == 1


@pytest.mark.requirement("TCPV-CONN-009", "TCPV-CONN-010")
def test_nobody_waits_for_joins(no_joins: Situation) -> None:
    """No join is ever answered. Fails if ICReq, ICResp or what follows waits for one."""
    assert no_joins.data == {"queues": [[0, "mptcp", 1], [1, "mptcp", 1]], "whole": True}


@pytest.mark.requirement("TCPV-CONN-002", "TCPV-FALL-010")
@pytest.mark.parametrize(("which", "expected"), [
    ("I/O fell back", [[0, "mptcp", 2], [1, "tcp", 1]]),
    ("admin fell back", [[0, "tcp", 1], [1, "mptcp", 2]]),
])
def test_connections_that_differ_in_protocol(mixed: Situation, which: str,
                                             expected: list[object]) -> None:
    """Fails if the association isn't accepted, or if host or target closes one connection since the
    other one fell back, at once or within 30 s.
    """
    assert mixed.data[which] == {"queues": expected, "after": expected, "wholes": [True, True],
                                 "state": "live"}


@pytest.mark.requirement("TCPV-CONN-002")
def test_connections_that_differ_in_subflows(mixed: Situation) -> None:
    """Fails if the association doesn't work with two subflows on one queue and one on the other."""
    assert mixed.data["subflows"]["state"] == "live"
    assert sorted(flows for _, _, flows in mixed.data["subflows"]["queues"]) == [1, 2]
    assert mixed.data["subflows"]["wholes"] == [True]


def at_receiver(situation: Situation, sender: int) -> list[mptcp_stream.Connection]:
    """The connections as the receiver of what `sender` sends saw them arrive."""
    if sender == LISTENER:
        return situation.connections
    assert situation.directory
    found = mptcp_stream.Connections()
    packets = [packet for file in sorted(situation.directory.glob("target-*.pcapng"))
               for packet in PcapReader(str(file)) if TCP in packet]
    for packet in sorted(packets, key=lambda packet: packet.time):
        found.add(packet[IP])
    return list(found)


def mappings(connection: mptcp_stream.Connection, sender: int) -> list[tuple[range, End]]:
    """(bytes of the stream, sender's end of the subflow) of each mapping, as they arrived."""
    first = connection.first_dsn(sender)
    found = []
    for mapping in connection.mappings:
        if mapping.sender == sender and mapping.payload_length:
            begin = (mapping.dsn - first) % (1 << 64)
            found.append((range(begin, begin + mapping.payload_length),
                          End(mapping.packet[IP].src, mapping.packet[TCP].sport)))
    return found


def spans(connection: mptcp_stream.Connection, sender: int) -> Iterator[range]:
    """The bytes of the stream that each PDU takes."""
    ends = itertools.accumulate((pdu.plen for pdu in pdus(connection, sender)), initial=0)
    return itertools.starmap(range, itertools.pairwise(ends))


@pytest.mark.requirement("TCPV-CONN-012", "TCPV-CONN-013")
@pytest.mark.parametrize("sender", [INITIATOR, LISTENER], ids=["to target", "to host"])
def test_pdus_arrive_in_parts_and_out_of_order(queues: Situation, sender: int) -> None:
    """Paths of different delay. Fails if PDUs are taken as they come and not in the order of the
    stream: digests would be wrong. The control is that parts of PDUs did arrive out of order, by
    different subflows.
    """
    (connection,) = at_receiver(queues, sender)[1:]  # the I/O queue's
    arrived = mappings(connection, sender)
    starts = [where.start for where, _ in arrived]
    assert starts != sorted(starts), "nothing arrived out of order"
    assert any(
        len({end for where, end in arrived
             if where.start < pdu.stop and pdu.start < where.stop}) > 1
        for pdu in spans(connection, sender)), "no PDU was divided between subflows"
    assert queues.data["wholes"] == [True] * 3
    assert queues.data["log"] == []


def cuts(connection: mptcp_stream.Connection, sender: int) -> set[int]:
    """The places in the stream where one mapping ends and another begins."""
    return {where.start for where, _ in mappings(connection, sender)}


@pytest.mark.requirement("TCPV-CONN-013")
def test_pdus_divided_at_any_byte_to_target(bytewise_host: Situation) -> None:
    """ICReq, Connect capsule with its data, Property Set and Keep Alive, a mapping a byte. Fails if
    the target, at any cut, takes a part for the whole.
    """
    (connection,) = bytewise_host.connections
    sent = len(connection.stream(INITIATOR))
    assert sent > ICREQ_SIZE + CONNECT_SIZE
    assert cuts(connection, INITIATOR) >= set(range(sent))
    answers = pdus(connection, LISTENER)
    assert [type(pdu) for pdu in answers] == [nvme_tcp.ICResp] + [nvme_tcp.CapsuleResp] * 5
    assert [(pdu.rccqe.sct, pdu.rccqe.sc) for pdu in answers[1:]] == [(0, 0)] * 5


@pytest.mark.requirement("TCPV-CONN-013")
def test_pdus_divided_at_any_byte_to_host(bytewise_target: Situation) -> None:
    """ICResp, the completion of Connect and more, on both queues. Fails if the host, at any cut,
    takes a part for the whole.
    """
    assert bytewise_target.data == {
        "queues": [[0, "mptcp", 2], [1, "mptcp", 2]], "connections": 2, "whole": True}
    for connection in bytewise_target.connections:
        assert cuts(connection, LISTENER) >= set(range(ICRESP_SIZE + RESPONSE_SIZE))
