# SPDX-License-Identifier: GPL-2.0-or-later
"""The byte-level examples: correct as packets, complete as tables, and put on the pages."""

import re
from itertools import chain
from pathlib import Path

import pytest
from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.discovery import TCPTSAS, DiscoveryLogEntry
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER, Connections
from nvmptcp_conformance.layers.nvme_tcp import CapsuleCmd, H2CData, ICReq, split_pdus
from nvmptcp_spec import example_packets as packets
from nvmptcp_spec import examples, registry
from scapy.compat import raw
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import wrpcap
from spec_helpers import CONF, checkout
from test_pages import build
from tshark import decode, number

SEGMENTS = list(chain(*packets.connection()))


def followed() -> Connections:
    """The example as a capture of it would be read."""
    connections = Connections()
    for segment in SEGMENTS:
        connections.add(Ether(raw(segment.packet)))
    return connections


def test_connection_is_one_connection_with_two_subflows() -> None:
    (connection,) = followed()
    assert tuple(connection.keys) == packets.KEYS
    first, second = connection.subflows
    assert first.join is None
    assert second.join is not None
    assert second.join.token == mptcp.token(packets.KEYS[packets.CONTROLLER])
    (h, c), (r_h, r_c) = packets.KEYS, packets.NONCES
    assert second.hmacs == [mptcp.join_hmac(h, c, r_h, r_c)[:20],
                            mptcp.join_hmac(c, h, r_c, r_h)[:8]]


def test_streams_are_whole_and_acknowledged() -> None:
    (connection,) = followed()
    for sender in (INITIATOR, LISTENER):
        pdus, rest = split_pdus(connection.stream(sender))
        assert rest == b""
        sent = [segment.piece.pdu for segment in SEGMENTS
                if segment.piece and segment.sender == sender and segment.piece.begin == 0]
        assert [raw(pdu) for pdu in pdus] == [raw(pdu) for pdu in sent]
        acknowledged = [mptcp.find_option(segment.packet, mptcp.DSS) for segment in SEGMENTS
                        if segment.sender != sender]
        last = max(option.data_ack for option in acknowledged if option)
        # one more for the DATA_FIN
        assert last == connection.first_dsn(sender) + len(connection.stream(sender)) + 1
    assert [pdu.data for pdu in split_pdus(connection.stream(INITIATOR))[0]
            if isinstance(pdu, H2CData)] == [packets.BLOCK]


def test_h2cdata_is_cut_over_both_subflows() -> None:
    parts = [(segment.subflow, segment.piece.begin, segment.piece.end) for segment in SEGMENTS
             if segment.piece and isinstance(segment.piece.pdu, H2CData)]
    assert parts == [(0, 0, packets.FIRST_PART), (1, packets.FIRST_PART, 24 + len(packets.BLOCK))]


def test_tshark_reads_the_connection(tmp_path: Path) -> None:
    capture = tmp_path / "connection.pcap"
    wrpcap(str(capture), [segment.packet for segment in SEGMENTS])
    rows = decode(capture, ["tcp.options.mptcp.subtype", "mptcp.stream", "_ws.malformed",
                            "nvme-tcp.type", "tcp.payload"])
    assert [[number(value) for value in row["tcp.options.mptcp.subtype"]] for row in rows] == [
        [option.subtype for option in segment.options] for segment in SEGMENTS]
    # by token and keys, tshark knows both subflows as one connection
    assert [row["mptcp.stream"] for row, segment in zip(rows, SEGMENTS, strict=True)
            if segment.piece] == [["0"]] * sum(bool(segment.piece) for segment in SEGMENTS)
    assert not any(row["_ws.malformed"] for row in rows)
    assert number(rows[3]["nvme-tcp.type"][0]) == ICReq().type
    assert number(rows[5]["nvme-tcp.type"][0]) == CapsuleCmd().type
    assert [bytes.fromhex("".join(row["tcp.payload"]).replace(":", "")) for row in rows] == [
        segment.packet[Raw].load if segment.piece else b"" for segment in SEGMENTS]


def test_entry_uses_each_field_of_the_proposal() -> None:
    entry = DiscoveryLogEntry(raw(packets.discovery_entry()))
    assert isinstance(entry.tsas, TCPTSAS)
    data = registry.load()
    added = [field.name for field in data.structures["tsas"].fields
             if field.since == data.structures["tsas"].fields[1].since and field.name]
    assert added == ["TCPV", "MPATTR", "MAXSF", "SFGID"]
    assert all(entry.tsas.getfieldval(name.lower()) for name in added)


@pytest.mark.parametrize("packet", [
    packets.discovery_entry(),
    *(segment.piece.pdu for segment in SEGMENTS if segment.piece),
    *(option for segment in SEGMENTS for option in segment.options)],
    ids=lambda packet: str(packet.name))
def test_rows_cover_every_byte_once(packet: Packet) -> None:
    wire, position = raw(packet), 0
    for row in examples.annotate(packet):
        assert row.offset == position, row
        assert row.data == wire[position:position + len(row.data)]
        position += len(row.data)
    assert position == len(wire)


def test_every_row_says_what_it_means() -> None:
    """Of what is shown; only data and 128-bit identifiers speak for themselves."""
    bodies = [examples.discovery_entry(), examples.mp_capable(),
              *(examples.phase(number) for number in range(1, 6))]
    dumb = {row.name for body in bodies for row in body
            if isinstance(row, examples.Row) and not row.meaning}
    assert dumb == set()


def test_rows_of_a_cut_pdu_say_which_part() -> None:
    rows = [row for row in examples.phase(4)
            if isinstance(row, examples.Row) and row.name == "DATA"]
    assert [(row.offset, len(row.data), row.meaning) for row in rows] == [
        (24, 256, "Bytes 0 to 255 of 512"), (280, 256, "Bytes 256 to 511 of 512")]


@pytest.mark.parametrize(("data", "shown"), [
    (b"\0", "00"), (bytes(4), "00 00 00 00"), (bytes(range(16)), bytes(range(16)).hex(" ")),
    (b"4420" + bytes(28), "34 34 32 30 … (32 bytes)"), (bytes(99), "00 … (99 bytes)"),
    (bytes(range(1, 30)), bytes(range(1, 17)).hex(" ") + " … (29 bytes)")])
def test_long_fields_are_cut(data: bytes, shown: str) -> None:
    assert examples.byte_text(data) == shown


# --- The directive -------------------------------------------------------------------------------

PAGE = """\
.. wire-example:: discovery-entry
   :name: the-entry
   :caption: An entry

.. wire-example:: connection
   :phase: 3

.. wire-example:: connection
   :summary:

.. wire-example:: derived

See :numref:`the-entry`.
"""
BAD = """\
.. wire-example:: nonsense

.. wire-example:: mp-capable
   :phase: 1

.. wire-example:: connection
   :phase: 6
"""


def test_directive_in_html_and_latex(tmp_path: Path) -> None:
    made = checkout(tmp_path)
    (tmp_path / "conf.py").write_text(CONF.replace(
        '"nvmptcp_spec.trace"', '"nvmptcp_spec.trace", "nvmptcp_spec.examples"'))
    made.chapter(PAGE)
    assert build(made, "html") == ""
    page = re.sub(r"<[^>]+>", "", (tmp_path / "build/html/spec/one.html").read_text())
    for text in ("Table 1", "An entry", "TSAS, from byte 768", "Multipath TCP, protocol version 1",
                 f"{mptcp.token(packets.KEYS[1]):08X}h", "H2CData, bytes 280 to 535 of 536",
                 "Random Number", "See Table 1"):
        assert text in page, text
    assert build(made, "latex") == ""
    (source,) = (tmp_path / "build/latex").glob("*.tex")
    assert source.read_text().count(r"\begin{longtable}") == 4


def test_directive_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    made = checkout(tmp_path)
    (tmp_path / "conf.py").write_text(CONF.replace(
        '"nvmptcp_spec.trace"', '"nvmptcp_spec.trace", "nvmptcp_spec.examples"'))
    made.chapter(BAD)
    warnings = build(made, "html")
    assert re.search(r"one\.rst:\d+: ERROR: no example 'nonsense' \(there are", warnings)
    assert warnings.count("only the example connection has phases, 1 to 5") == 2
