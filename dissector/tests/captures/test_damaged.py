# SPDX-License-Identifier: GPL-2.0-or-later
"""tshark with the plugin, on captures of which something is missing or wrong."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from nvmptcp_captures.pdus import Header, counted, shown_pdus, whole_pdus
from nvmptcp_captures.stored import Capture
from nvmptcp_captures.streams import SIDES, Connection, read
from nvmptcp_captures.tshark import Tshark, edit
from nvmptcp_conformance.layers.nvme_tcp import DIGEST_SIZE, NVMeTCP
from scapy.utils import RawPcapNgReader, RawPcapWriter

BUSY = ("four-paths", "slow-path", "impaired", "cut", "joins", "checksum", "ipv6", "hosts",
        "digests")
DROPPED = 0.003  # of the frames
SNAPLEN = 200  # bytes
LAST_FRAME = 999_999  # of any capture
CHANGED_FRAMES, CHANGED_BYTES = 0.1, 0.005  # part of all
ETHERNET, LINKTYPE = 14, 1
HEADERS = range(ETHERNET, 160)  # bytes of a frame: those of TCP with its options, and of a PDU


def frames_of(file: Path) -> int:
    with RawPcapNgReader(str(file)) as reader:
        return sum(1 for _ in reader)


def false_pdus(shown: Iterable[Header], connections: list[Connection]) -> set[Header]:
    """What was shown and never sent."""
    return set(shown) - set(whole_pdus(connections))


@pytest.mark.parametrize("part", [0.1, 0.5])
def test_captures_that_begin_late(files: dict[str, Path], part: float, dissector: Tshark,
                                  connections_of: dict[str, list[Connection]]) -> None:
    """Without handshakes. 98 % of the PDUs of which each byte is there: where a capture begins
    within data, some are needed to recognise the next header.
    """
    found = total = 0
    for name in BUSY:
        file, connections = files[name], connections_of[name]
        first = int(frames_of(file) * part)
        cut = edit(file, file.with_suffix(".late"), "-r", frames=[f"{first + 1}-{LAST_FRAME}"])
        shown = counted(shown_pdus(dissector, cut))
        whole = whole_pdus(connections, range(first + 1, LAST_FRAME))
        found += (whole & shown).total()
        total += whole.total()
        assert false_pdus(shown, connections) == set(), name
    assert found >= 0.98 * total > 1000


def test_dropped_frames(connections_of: dict[str, list[Connection]], files: dict[str, Path],
                        dissector: Tshark) -> None:
    """99 % of all PDUs, those included of which bytes are missing."""
    found = total = 0
    for number, name in enumerate(BUSY):
        file, connections = files[name], connections_of[name]
        generator = random.Random(number)
        dropped = [frame for frame in range(1, frames_of(file) + 1)
                   if generator.random() < DROPPED]
        cut = edit(file, file.with_suffix(".dropped"), frames=dropped or [1])
        shown = counted(shown_pdus(dissector, cut))
        every = whole_pdus(connections)
        found += (every & shown).total()
        total += every.total()
        assert false_pdus(shown, connections) == set(), name
    assert found >= 0.99 * total > 1000


@pytest.mark.only(*BUSY)
def test_cut_frames(file: Path, connections: list[Connection], dissector: Tshark) -> None:
    """Frames cut to SNAPLEN bytes: each PDU whose header, with its digest, is there."""
    cut = edit(file, file.with_suffix(".snaplen"), "-s", SNAPLEN)
    shown = shown_pdus(dissector, cut)
    there = {(number, side): connection.coverage(side) for number, connection
             in enumerate(read(cut)) for side in SIDES}
    expected = [each for number, connection in enumerate(connections) for side in SIDES
                for each in connection.pdus(side)
                if there[number, side].covers(each.offset, each.offset + _header_size(each.pdu))]
    assert len(expected) > 50
    assert counted(shown).total() >= 0.99 * len(expected)
    assert false_pdus(counted(shown), connections) == set()


def _header_size(pdu: NVMeTCP) -> int:
    return int(pdu.hlen) + (DIGEST_SIZE if pdu.flags.HDGSTF else 0)


def test_corrupted_bytes(file: Path, dissector: Tshark) -> None:
    """editcap -E: each byte is changed with some probability; tshark makes one pass."""
    damaged = edit(file, file.with_suffix(".bytes"), "-E", CHANGED_BYTES, "--seed", 1)
    dissector.run("tshark", "-n", "-r", damaged, "-V", keep=False)


def test_corrupted_headers(capture: Capture, file: Path, dissector: Tshark) -> None:
    """Some frames have a byte changed in their headers, options or the PDU's header; two passes."""
    generator = random.Random(capture.name)
    damaged = file.with_suffix(".headers")
    with RawPcapNgReader(str(file)) as reader, RawPcapWriter(str(damaged), LINKTYPE) as writer:
        writer.write_header(None)
        for number, (data, _) in enumerate(reader):
            frame = bytearray(data)
            place = generator.choice(HEADERS)
            if generator.random() < CHANGED_FRAMES and place < len(frame):
                flipped = frame[place] ^ 1 << generator.randrange(8)
                frame[place] = generator.choice((0, 0xFF, flipped))
            writer.write_packet(bytes(frame), sec=number // 1000, usec=number % 1000 * 1000)
    damaged.chmod(0o644)
    dissector.run("tshark", "-n", "-r", damaged, "-2", "-V", keep=False)


@pytest.mark.parametrize("kind", ["tcp", "ip", "ipv6", "eth"])
def test_random_packets(kind: str, stock: Tshark, dissector: Tshark) -> None:
    packets = stock.home / f"{kind}.random"
    stock.run("randpkt", "-b", 2000, "-c", 2000, "-t", kind, packets)
    dissector.run("tshark", "-n", "-r", packets, "-2", "-V", keep=False)
