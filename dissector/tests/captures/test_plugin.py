# SPDX-License-Identifier: GPL-2.0-or-later
"""tshark with the plugin, on whole captures: each PDU, in its frame, with its fields."""

from collections import Counter
from pathlib import Path

import pytest
from nvmptcp_captures.pdus import Row, expected_pdus, headers_of, shown_pdus
from nvmptcp_captures.stored import Capture, captures
from nvmptcp_captures.streams import SIDES, Connection
from nvmptcp_captures.tshark import DIGESTS, Tshark
from nvmptcp_conformance.layers.discovery import TCPTSAS, DiscoveryLog
from nvmptcp_conformance.layers.mptcp_stream import LISTENER
from nvmptcp_conformance.layers.nvme_tcp import C2HData
from nvmptcp_conformance.layers.registry import Tcpv

READABLE = [name for name in captures() if name != "tls"]
LEARNT_LATER = ("nvme_mptcp.qid", "nvme_mptcp.subflows")
# See test_reassembler.py for the first one; the others have queues on plain TCP, too.
COUNTED = [name for name in captures()
           if name not in ("terminated", "tcp", "fallback-before", "discovery")]
NVM_SUBSYSTEM = 2  # SUBTYPE
ADMIN = {0x02: "get_log_page", 0x06: "identify", 0x09: "set_features", 0x0A: "get_features",
         0x0C: "async_event", 0x18: "keep_alive"}
IO = {0x00: "flush", 0x01: "write", 0x02: "read", 0x08: "write_zeroes", 0x09: "dsm"}
FABRICS = {0x00: "property_set", 0x01: "connect", 0x04: "property_get"}

# Expert information: the captures in which something goes wrong, and what.
EVENTS = {
    "checksum-failure": {"checksum_bad", "mp_fail", "tcprst"},
    "refused-joins": {"join_refused"},
    "fallback-before": {"fallback.handshake", "fallback"},
    "fallback-after": {"checksum_bad", "mp_fail", "fallback"},
    "discovery": {"tcp_used", "join_refused"},
    "cut": {"silent"},
}
# What no capture has.
NEVER = ("framing_error", "not_captured", "hdgst_bad", "ddgst_bad", "duplicate_cid",
         "unknown_cid")
EVENT_NAMES = sorted({*NEVER, *(name for names in EVENTS.values() for name in names)})


@pytest.mark.only("tcp")
def test_stock_tshark_and_our_reassembler_agree_on_plain_tcp(
        file: Path, connections: list[Connection], stock: Tshark) -> None:
    """The control of what the plugin is compared with."""
    assert shown_pdus(stock, file) == expected_pdus(connections)


@pytest.mark.only(*READABLE)
def test_every_pdu_is_shown_where_it_ends(connections: list[Connection],
                                          rows: list[Row]) -> None:
    assert headers_of(rows) == expected_pdus(connections)


def test_nothing_is_malformed(rows: list[Row]) -> None:
    assert [row["frame.number"] for row in rows if row["_ws.malformed"]] == []


def test_two_passes_show_what_one_does(rows: list[Row], rows_of_two_passes: list[Row]) -> None:
    """But for what is learnt from later frames."""
    for one, two in zip(rows, rows_of_two_passes, strict=True):
        assert {name: two[name] for name in two if name not in LEARNT_LATER} == {
            name: one[name] for name in one if name not in LEARNT_LATER}


@pytest.mark.only("tcp")
@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_plain_tcp_is_untouched(file: Path, stock: Tshark, dissector: Tshark,
                                passes: tuple[str, ...]) -> None:
    arguments = ["-n", "-r", file, *passes, *DIGESTS, "-V"]
    assert dissector.run("tshark", *arguments) == stock.run("tshark", *arguments)


@pytest.mark.only(*COUNTED)
def test_commands_are_the_kernels(capture: Capture, rows: list[Row]) -> None:
    """By queue and opcode, against the target's trace points; in TLS, too."""
    expected = capture.expected
    table: dict[str, Counter[str]] = {}
    for row in rows:
        if float(row["frame.time_epoch"][0]) > expected["until"]:
            continue
        names = [f"nvme_fabrics_type_{FABRICS[int(value, 0)]}"
                 for value in row["nvme.fabrics.cmd.fctype"]]
        queue = int(row["nvme_mptcp.qid"][0]) if row["nvme_mptcp.qid"] else 0
        names += [f"nvme_cmd_{IO[int(value, 0)]}" if queue else f"nvme_admin_{ADMIN[int(value, 0)]}"
                  for value in row["nvme.cmd.opc"]]
        for name in names:
            table.setdefault("0" if "connect" in name else str(queue), Counter())[name] += 1
    assert {queue: dict(counts) for queue, counts in table.items()} == expected["commands"]


@pytest.mark.only("digests")
def test_every_digest_is_good(connections: list[Connection], rows: list[Row]) -> None:
    shown = Counter((name, value) for row in rows
                    for name in ("nvme-tcp.hdgst.status", "nvme-tcp.ddgst.status")
                    for value in row[name])
    pdus = [each.pdu for connection in connections for side in SIDES
            for each in connection.pdus(side)]
    assert sorted(shown.values()) == sorted(
        sum(bool(int(pdu.flags) & bit) for pdu in pdus) for bit in (1, 2))
    assert {int(value, 0) for _, value in shown} == {1}


@pytest.mark.only(*READABLE)
def test_places_of_pdus_are_ours(connections: list[Connection], rows: list[Row]) -> None:
    """Offset in the stream, and length."""
    expected: dict[str, list[tuple[str, str]]] = {}
    for connection in connections:
        if connection.protocol == "mptcp":
            for side in SIDES:
                for each in connection.pdus(side):
                    expected.setdefault(str(each.frame), []).append(
                        (str(each.offset), str(each.pdu.plen)))
    shown = {row["frame.number"][0]: list(zip(
        row["nvme_mptcp.pdu.offset"], row["nvme_mptcp.pdu.length"], strict=True))
        for row in rows if row["nvme_mptcp.pdu.offset"]}
    assert shown == expected


@pytest.mark.only(*READABLE)
def test_followed_stream_is_ours(connections: list[Connection], file: Path,
                                 dissector: Tshark) -> None:
    """Byte for byte, both directions of each MPTCP connection."""
    followed = {connection.flows[0].ends[0].port: connection for connection in connections
                if connection.protocol == "mptcp"}
    for number in range(len(connections)):
        output = dissector.run("tshark", "-n", "-r", file, "-q", "-z",
                               f"follow,nvme_mptcp,raw,{number}")
        head, _, text = output.partition("Node 1")
        connection = followed.pop(int(head.strip().rpartition(":")[2]), None)
        if connection is None:
            continue
        lines = text.splitlines()[1:-1]
        for side in SIDES:
            shown = [line for line in lines if line.startswith("\t") == (side == LISTENER)]
            assert bytes.fromhex("".join(shown)) == connection.stream(side)
    assert not followed


def test_connections_have_their_subflows(connections: list[Connection], rows: list[Row]) -> None:
    shown: dict[str, int] = {}
    for row in rows:
        for number, subflows in zip(row["nvme_mptcp.connection"], row["nvme_mptcp.subflows"],
                                    strict=False):
            shown[number] = max(shown.get(number, 0), int(subflows))
    expected = Counter(len(connection.flows) for connection in connections
                       if connection.protocol == "mptcp")
    assert expected <= Counter(shown.values())


@pytest.mark.only("discovery")
def test_variant_of_discovery_entries(connections: list[Connection], rows: list[Row]) -> None:
    """The TSAS as our Scapy layers read it."""
    expected = set()
    for connection in connections:
        for each in connection.pdus(LISTENER) if connection.protocol == "mptcp" else ():
            if not isinstance(each.pdu, C2HData) or each.pdu.datal <= 1024:
                continue
            for entry in DiscoveryLog(each.pdu.data).entries:
                if entry.subtype == NVM_SUBSYSTEM and isinstance(entry.tsas, TCPTSAS):
                    tsas = entry.tsas
                    assert tsas.tcpv == Tcpv.MPTCP
                    expected.add((int(tsas.mpattr), tsas.maxsf, tsas.sfgid))
    names = [f"nvme_mptcp.discovery.{name}" for name in ("mpattr", "maxsf", "sfgid")]
    shown = {tuple(int(value, 0) for value in values) for row in rows
             for values in zip(*(row[name] for name in names), strict=True)}
    assert shown == expected
    assert len(expected) == 2
    assert str(int(Tcpv.MPTCP)) in {value for row in rows
                                    for value in row["nvme_mptcp.discovery.tcpv"]}


@pytest.mark.only(*READABLE)
def test_expert_information(capture: Capture, rows: list[Row]) -> None:
    shown = {name for row in rows for name in EVENT_NAMES if row[f"nvme_mptcp.{name}"]}
    expected = EVENTS.get(capture.name, set())
    assert expected <= shown
    assert not shown & set(NEVER)
    clean = {name for names in EVENTS.values() for name in names} - {"tcprst", "silent"}
    assert not (shown & clean) - expected


@pytest.mark.only("checksum-failure", "fallback-after")
def test_checksum_failures_are_the_kernels(capture: Capture, rows: list[Row]) -> None:
    """The kernel doesn't look at what comes after the first one on a subflow that it resets."""
    kernel = capture.expected["mptcp"]
    counted = sum(kernel[netns].get("DataCsumErr", 0) for netns in kernel)
    wrong = sum(len(row["nvme_mptcp.checksum_bad"]) for row in rows)
    assert wrong >= counted > 0
    assert wrong == counted or capture.name == "checksum-failure"


def test_sequence_numbers_are_the_kernels(capture: Capture, rows: list[Row]) -> None:
    """The highest DSN that went either way is one before the kernel's next one, at the end."""
    sample = capture.expected["samples"][-1]
    ends = set()
    for row in rows:
        for dsn, length in zip(row["nvme_mptcp.dsn"], row["nvme_mptcp.length"], strict=False):
            ends.add((int(dsn) + int(length)) % (1 << 64))
    for known in sample["connections"]:
        received = int(known["rcv_nxt"], 16)
        if received >> 32:
            assert {int(known["write_seq"], 16), received} <= ends, known["token"]
