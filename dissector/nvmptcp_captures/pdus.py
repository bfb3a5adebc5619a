# SPDX-License-Identifier: GPL-2.0-or-later
"""The PDUs of a capture, by our own reassembler and by tshark, in a form that can be compared."""

from collections import Counter
from pathlib import Path

from nvmptcp_conformance.layers.nvme_tcp import NVMeTCP

from .streams import EVERY, SIDES, Connection
from .tshark import Tshark

HEADER = ("type", "flags", "hlen", "pdo", "plen")
PDU_FIELDS = [f"nvme-tcp.{name}" for name in HEADER]
Header = tuple[int, ...]
ByFrame = dict[int, list[Header]]
Row = dict[str, list[str]]  # of a frame: field → values


def header(pdu: NVMeTCP) -> Header:
    return tuple(int(pdu.getfieldval(name)) for name in HEADER)


def expected_pdus(connections: list[Connection]) -> ByFrame:
    """Frame → headers of the PDUs that it completes, by our own reassembler."""
    found: ByFrame = {}
    for connection in connections:
        for side in SIDES:
            for _, frame, _, pdu in connection.pdus(side):
                found.setdefault(frame, []).append(header(pdu))
    return found


def whole_pdus(connections: list[Connection], frames: range = EVERY) -> Counter[Header]:
    """The headers of the PDUs of which the chosen frames hold each byte."""
    return Counter(header(each.pdu) for connection in connections for side in SIDES
                   for coverage in [connection.coverage(side, frames)]
                   for each in connection.pdus(side)
                   if coverage.covers(each.offset, each.offset + each.pdu.plen))


def counted(pdus: ByFrame) -> Counter[Header]:
    return Counter(each for headers in pdus.values() for each in headers)


def shown_pdus(tshark: Tshark, file: Path, *options: object) -> ByFrame:
    """Frame → headers of the PDUs that tshark shows there."""
    return headers_of(tshark.fields(file, ["frame.number", *PDU_FIELDS], *options))


def headers_of(rows: list[Row]) -> ByFrame:
    """The same, of rows that hold PDU_FIELDS."""
    found: ByFrame = {}
    for row in rows:
        columns = [[int(value, 0) for value in row[name]] for name in PDU_FIELDS]
        if columns[0]:
            found[int(row["frame.number"][0])] = list(zip(*columns, strict=True))
    return found
