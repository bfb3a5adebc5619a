# SPDX-License-Identifier: GPL-2.0-or-later
"""What a Linux kernel sent, in vectors/*.pcap: bytes, keys, HMACs, checksums, digests, data.

Nothing here is an expected value of ours: the kernel computed each of them. capture.py records the
captures anew; guest.py is the traffic.
"""

from collections import Counter
from pathlib import Path

import pytest
from nvmptcp_conformance.layers import mptcp, nvme
from nvmptcp_conformance.layers.discovery import TCPTSAS, DiscoveryLog, text
from nvmptcp_conformance.layers.mptcp_stream import (
    INITIATOR,
    LISTENER,
    Connection,
    Connections,
)
from nvmptcp_conformance.layers.nvme_tcp import (
    R2T,
    C2HData,
    CapsuleCmd,
    CapsuleResp,
    H2CData,
    ICReq,
    ICResp,
    NVMeTCP,
    split_pdus,
)
from nvmptcp_conformance.layers.registry import Mpattr, Tcpv
from scapy.layers.inet import TCP
from scapy.packet import Packet
from scapy.utils import rdpcap

VECTORS = Path(__file__).parent / "vectors"
CAPTURES = {name: list(rdpcap(str(VECTORS / f"{name}.pcap"))) for name in ("ipv4", "ipv6", "tcp")}
MPTCP = ["ipv4", "ipv6"]
SOLICITED = bytes(index % 251 for index in range(24 * 1024))  # as guest.py writes it


def follow(name: str) -> list[Connection]:
    connections = Connections()
    for packet in CAPTURES[name]:
        connections.add(packet)
    return list(connections)


CONNECTIONS = [(name, number, connection) for name in MPTCP
               for number, connection in enumerate(follow(name))]
EACH = pytest.mark.parametrize(
    "connection", [connection for _, _, connection in CONNECTIONS],
    ids=[f"{name} {('Discovery', 'Admin', 'I/O')[number]}" for name, number, _ in CONNECTIONS])


def pdus(connection: Connection, sender: int) -> list[NVMeTCP]:
    found, rest = split_pdus(connection.stream(sender))
    assert rest == b""
    return found


@pytest.mark.parametrize("name", CAPTURES)
def test_every_packet_is_rebuilt_byte_for_byte(name: str) -> None:
    assert len(CAPTURES[name]) > 100
    for number, packet in enumerate(CAPTURES[name], 1):
        copy = packet.copy()
        copy.clear_cache()
        assert bytes(copy) == packet.original, f"packet {number}: {packet.summary()}"


@pytest.mark.parametrize("name", MPTCP)
def test_captures_hold_the_options_that_a_kernel_sends(name: str) -> None:
    found = {type(option) for packet in CAPTURES[name] for option in mptcp.mptcp_options(packet)}
    six = name == "ipv6"
    assert found == {
        mptcp.MPCapableSYN, mptcp.MPCapableSYNACK, mptcp.MPCapableACK,
        mptcp.MPCapableData if six else mptcp.MPCapableDataChecksum,
        mptcp.MPJoinSYN, mptcp.MPJoinSYNACK, mptcp.MPJoinACK, mptcp.DSS,
        mptcp.AddAddr6 if six else mptcp.AddAddr, mptcp.RemoveAddr, mptcp.MPPrio,
        mptcp.MPFastclose, mptcp.MPTCPReset, *([] if six else [mptcp.DSSChecksum])}


def test_both_captures_hold_three_queues() -> None:
    assert [(name, number) for name, number, _ in CONNECTIONS] == [
        (name, number) for name in MPTCP for number in range(3)]


@EACH
def test_second_subflow_joined_with_our_token_and_hmacs(connection: Connection) -> None:
    first, second = connection.subflows
    assert first.join is None
    assert second.join is not None
    a, b = connection.keys
    nonce_a, nonce_b = second.nonces
    assert second.join.token == mptcp.token(b)
    assert second.hmacs[LISTENER] == mptcp.join_hmac(b, a, nonce_b, nonce_a)[:8]
    assert second.hmacs[INITIATOR] == mptcp.join_hmac(a, b, nonce_a, nonce_b)[:20]


@pytest.mark.parametrize("name", MPTCP)
def test_announcements_carry_our_hmac(name: str) -> None:
    """Each announcement is by the listener of one connection; its echo has the same address."""
    keys = [connection.keys for connection in follow(name)]
    announced, echoed = [], []
    for packet in CAPTURES[name]:
        for option in mptcp.mptcp_options(packet):
            if isinstance(option, mptcp.AddAddr | mptcp.AddAddr6):
                place = (option.address_id, option.address)
                if option.echo:
                    echoed.append(place)
                else:
                    announced.append(place)
                    assert option.hmac in [mptcp.add_addr_hmac(b, a, *place) for a, b in keys]
    assert len(announced) == 3
    assert announced == echoed


@EACH
def test_first_mappings_begin_at_our_idsn(connection: Connection) -> None:
    for sender in (INITIATOR, LISTENER):
        first = next(each for each in connection.mappings if each.sender == sender)
        assert (first.dsn, first.ssn) == (mptcp.idsn(connection.keys[sender]) + 1, 1)


@pytest.mark.parametrize("name", MPTCP)
def test_fastclose_carries_the_receivers_key(name: str) -> None:
    keys = {key for connection in follow(name) for key in connection.keys}
    found = [option for packet in CAPTURES[name]
             if (option := mptcp.find_option(packet, mptcp.MPFastclose))]
    assert found
    assert {option.receiver_key for option in found} <= keys


def test_dss_checksums_are_ours() -> None:
    """Every mapping of the capture with checksums, over the data that it maps."""
    checked = 0
    for connection in follow("ipv4"):
        for mapping in connection.mappings:
            assert mapping.checksum is not None
            start = (mapping.dsn - connection.first_dsn(mapping.sender)) % (1 << 64)
            data = connection.stream(mapping.sender)[start:start + mapping.payload_length]
            assert len(data) == mapping.payload_length
            assert mptcp.dss_checksum(
                mapping.dsn, mapping.ssn, mapping.length, data) == mapping.checksum
            checked += 1
    assert checked > 100


@EACH
def test_streams_are_pdus_rebuilt_byte_for_byte(connection: Connection) -> None:
    for sender, first in ((INITIATOR, ICReq), (LISTENER, ICResp)):
        found = pdus(connection, sender)
        assert type(found[0]) is first
        for pdu in found:
            pdu.clear_cache()
        assert b"".join(bytes(pdu) for pdu in found) == connection.stream(sender)


@EACH
def test_digests_are_ours(connection: Connection) -> None:
    """A kernel's digests; the Discovery controller's connection has none."""
    for sender in (INITIATOR, LISTENER):
        asked, *rest = pdus(connection, sender)
        for pdu in rest:
            assert bool(pdu.flags.HDGSTF) == bool(asked.dgst)
            if pdu.flags.HDGSTF:
                assert pdu.hdgst == pdu.header_digest()
            if getattr(pdu, "data", b"") and asked.dgst:
                assert pdu.ddgst == pdu.data_digest()


@EACH
def test_each_command_has_its_completion(connection: Connection) -> None:
    """Of the Asynchronous Event Request none comes unless something happens."""
    sent = [pdu.ccsqe for pdu in pdus(connection, INITIATOR) if isinstance(pdu, CapsuleCmd)]
    done = [pdu.rccqe.cid for pdu in pdus(connection, LISTENER) if isinstance(pdu, CapsuleResp)]
    assert isinstance(sent[0], nvme.Connect)
    waiting = [command.cid for command in sent if sent[0].qid == 0
               and command.opcode == nvme.AsyncEventRequest().opcode]
    without, asked = Counter(done), Counter(command.cid for command in sent)
    assert without <= asked
    assert asked - without <= Counter(waiting)


@pytest.mark.parametrize("name", MPTCP)
def test_solicited_write_crosses_two_subflows_and_comes_back(name: str) -> None:
    queue = follow(name)[2]
    (data,) = [pdu for pdu in pdus(queue, INITIATOR) if isinstance(pdu, H2CData)]
    (asked,) = [pdu for pdu in pdus(queue, LISTENER) if isinstance(pdu, R2T)]
    assert (asked.r2to, asked.r2tl, asked.ttag) == (0, len(SOLICITED), data.ttag)
    assert data.data == SOLICITED
    begin = queue.stream(INITIATOR).index(SOLICITED)
    carried = {each.packet[TCP].underlayer.dst for each in queue.mappings
               if each.sender == INITIATOR
               and begin <= each.dsn - queue.first_dsn(INITIATOR) < begin + len(SOLICITED)}
    assert carried == {subflow.ends[1].address for subflow in queue.subflows}
    assert len(carried) == 2
    read = [pdu for pdu in pdus(queue, LISTENER)
            if isinstance(pdu, C2HData) and pdu.datal == len(SOLICITED)]
    assert [pdu.data for pdu in read] == [SOLICITED]


@pytest.mark.parametrize("name", MPTCP)
def test_discovery_log_announces_the_variant(name: str) -> None:
    """The log page of the reference kernel, read by our layers."""
    discovery = follow(name)[0]
    log = b""
    for pdu in pdus(discovery, LISTENER):
        if isinstance(pdu, C2HData) and pdu.datal > 1024 and pdu.data[768 + 1024:1024 + 1024]:
            log = pdu.data
    page = DiscoveryLog(log)
    page.clear_cache()
    assert bytes(page) == log
    entries = [entry for entry in page.entries if entry.subtype == 2]
    assert len(entries) == 1
    entry, tsas = entries[0], entries[0].tsas
    assert isinstance(tsas, TCPTSAS)
    assert (tsas.tcpv, int(tsas.mpattr), tsas.maxsf, tsas.sfgid) == (
        Tcpv.MPTCP, Mpattr.ADDA, 2, 7)
    assert (text(entry.trsvcid), text(entry.subnqn)) == ("4420", "nqn.2026-11.org.example:nvmptcp")
    assert text(entry.traddr) == {"ipv4": "10.0.1.2", "ipv6": "fd00:1::2"}[name]


def test_old_targets_entry_is_plain_tcp() -> None:
    """The same kernel without the variant: every byte of TSAS after SECTYPE is zero."""
    logs = [packet for packet in CAPTURES["tcp"] if packet[TCP].sport == 4420]
    stream: dict[int, Packet] = {}
    port = logs[0][TCP].dport
    for packet in logs:
        if packet[TCP].dport == port and packet[TCP].payload:
            stream[packet[TCP].seq] = packet[TCP].payload.original
    found, _ = split_pdus(b"".join(data for _, data in sorted(stream.items())))
    page = DiscoveryLog([pdu for pdu in found if isinstance(pdu, C2HData)][-1].data)
    assert page.numrec == len(page.entries) > 0
    for entry in page.entries:
        assert bytes(entry.tsas) == bytes(256)
