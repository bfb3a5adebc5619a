# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx directive `wire-example`: annotated bytes, straight from the Scapy layers.

`.. wire-example:: NAME` takes `discovery-entry`, `mp-capable`, `connection`, or `derived`: what
both ends compute from the keys of the connection. Options: `:caption:`, `:name:`; for `connection`
either `:summary:`, one row a segment, or `:phase:`, a number from 1 to 5: a part of it, with its
bytes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.nvme import ConnectData, SGLDescriptor
from nvmptcp_conformance.layers.nvme_tcp import CapsuleCmd
from scapy.compat import raw
from scapy.fields import BitField, Field, FlagsField, MultipleTypeField, _EnumField
from scapy.packet import Packet
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from . import example_packets as packets
from . import registry

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

_LONG_HEX = re.compile(r"[0-9A-F]{8,}h$")
SHOWN = 16  # bytes of a long field that are printed

# RFC 8684's names; NVMe's are the layers' own in capitals.
NAMES = {
    "subtype": "Subtype", "version": "Version", "flags": "Flags", "reserved": "Reserved",
    "sender_key": "Sender's Key", "receiver_key": "Receiver's Key", "data_len": "Data-Level Length",
    "backup": "B", "address_id": "Address ID", "token": "Receiver's Token",
    "nonce": "Sender's Random Number", "hmac": "HMAC", "data_ack": "Data ACK",
    "dsn": "Data Sequence Number", "ssn": "Subflow Sequence Number", "echo": "E",
    "address": "Address",
}
CAPABLE_FLAGS = {"A": "DSS checksums", "C": "no subflows to this address", "H": "HMAC-SHA256"}
SGL_TYPES = {(0, 1): "Data block in the capsule", (5, 10): "Data that the transport carries"}
# By field, where neither the value's name nor the example says it.
MEANINGS = {
    "plen": "Bytes of the whole PDU", "hlen": "Bytes of the header", "pdo": "Where data begin",
    "maxh2cdata": "Bytes of data in an H2CData PDU at most", "cid": "Command identifier",
    "cccid": "Command identifier", "datal": "Bytes of data", "r2tl": "Bytes asked for",
    "ttag": "Transfer tag", "sqhd": "Submission queue head", "dw0": "Controller ID 1h",
    "qid": "I/O Queue 1", "sqsize": "128 entries, 0's based", "cntlid": "Controller",
    "nsid": "Namespace", "slba": "First logical block", "sgl1 length": "Bytes of data",
    "portid": "NVM subsystem port", "asqsz": "Entries of the Admin Submission Queue",
    "trsvcid": "TCP port", "subnqn": "NVM subsystem", "traddr": "IP address", "hostnqn": "Host",
    "hostid": "Host", "psdt, reserved0, fuse": "SGLs", "data_len": "Bytes of stream",
    "address_id": "Identifies the address", "address": "Further address",
    "recfmt": "Record format",
    "nlb": "One block, 0's based",
    "maxsf": "Subflows of a connection at most", "sfgid": "Subflow group",
}


@dataclass(frozen=True)
class Row:
    """Bytes of one field, or of several that share a byte. `offset` counts from the structure."""

    offset: int
    data: bytes
    name: str
    value: str
    meaning: str
    key: str = ""  # names of the fields

    def clip(self, begin: int, end: int) -> "Row | None":
        """The part of it between two offsets."""
        first, last = max(begin, self.offset), min(end, self.offset + len(self.data))
        if first >= last:
            return None
        part = self.data[first - self.offset:last - self.offset]
        return self if part == self.data else replace(self, offset=first, data=part)


def _value(packet: Packet, field: Field[Any, Any], value: Any) -> str:
    if isinstance(value, bytes):
        stripped = value.rstrip(b"\0")
        return stripped.decode() if stripped.isascii() and stripped.decode().isprintable() else ""
    if isinstance(value, str):  # an address
        return value
    is_mptcp = isinstance(packet, mptcp.MPTCPOption)
    if isinstance(field, FlagsField):
        return (str(value) if is_mptcp else "") or f"{int(value):X}h"
    if field.__class__.__name__.startswith("X") and is_mptcp:
        return f"{value:0{2 * field.sz}X}h"  # keys, DSNs and the like: all their digits
    if isinstance(field, BitField | _EnumField) or field.__class__.__name__.startswith("X"):
        return f"{int(value):X}h"
    return str(value)


def _named(packet: Packet, field: Field[Any, Any], value: Any) -> str:
    """What a code or a set of flags means."""
    if isinstance(field, FlagsField):
        if isinstance(packet, mptcp.DSS):
            parts = [f"{8 if value.a else 4}-byte Data ACK"] * bool(value.A)
            parts += [f"{8 if value.m else 4}-byte DSN"] * bool(value.M)
            return ", ".join([*parts, *["DATA_FIN"] * bool(value.F)])
        if isinstance(packet, mptcp.MPTCPOption):
            return ", ".join(CAPABLE_FLAGS[letter] for letter in str(value))
        return str(value)
    if isinstance(packet, SGLDescriptor) and field.name == "subtype":
        return SGL_TYPES[packet.type, value]
    return str(getattr(field, "i2s", {}).get(value, ""))


def annotate(packet: Packet, base: int = 0, prefix: str = "",
             inside: Mapping[str, type[Packet]] | None = None) -> list[Row]:
    """A row for each field of a built packet, from its own bytes; packets in fields opened.

    `base` is the offset of its first byte. `inside` names the class of what a field of bytes holds.
    """
    wire = raw(packet)
    dissected = packet.__class__(wire)
    rows: list[Row] = []
    rest: Any = wire
    begin, shared = 0, list[tuple[str, str, str]]()
    for field in dissected.fields_desc:
        value = dissected.getfieldval(field.name)
        rest, _ = field.getfield(dissected, rest)
        left, bits = (rest[0], rest[1]) if isinstance(rest, tuple) else (rest, 0)
        end = len(wire) - len(left)
        inner: Any = getattr(field, "fld", field)
        if isinstance(inner, MultipleTypeField):
            inner = inner._find_fld_pkt(dissected)
        original = packet.getfieldval(field.name)
        if isinstance(original, Packet):  # of its own class, which bytes alone don't always tell
            prefixed = "sgl1 " if field.name == "sgl1" else ""
            rows += annotate(original, base + begin, prefixed, inside)
        elif inside and field.name in inside and value:
            rows += annotate(inside[field.name](value), base + begin, prefix, inside)
        elif end > begin or bits or shared:
            shared.append((prefix + field.name, _value(dissected, inner, value),
                           _named(dissected, inner, value)))
            if not bits and end > begin:
                rows.append(_row(base + begin, wire[begin:end], shared,
                                 isinstance(packet, mptcp.MPTCPOption)))
        if not bits:
            begin, shared = end, []
    return rows


def _row(offset: int, data: bytes, shared: Sequence[tuple[str, str, str]], is_mptcp: bool) -> Row:
    key = ", ".join(name for name, _, _ in shared)
    names = ", ".join(
        NAMES[name] if is_mptcp else "Reserved" if name.startswith("reserved") else name.upper()
        for name, _, _ in shared)
    values = ", ".join(value for _, value, _ in shared)
    meanings = [meaning for _, _, meaning in shared if meaning]
    meaning = "; ".join(meanings) or MEANINGS.get(key, "")
    return Row(offset, data, names, values, meaning, key)


def explain(rows: Iterable[Row], notes: Mapping[str, str]) -> list[Row]:
    """The rows with what an example says of its fields."""
    return [replace(row, meaning=notes[row.key]) if row.key in notes else row for row in rows]


def without_zeroes(rows: Iterable[Row], keep: Iterable[str] = ()) -> list[Row]:
    """Rows with a byte that isn't zero, and those of the fields `keep`."""
    return [row for row in rows if any(row.data) or row.key in keep]


def option_rows(option: mptcp.MPTCPOption, notes: Mapping[str, str]) -> list[Row]:
    """An MPTCP option with its kind and length."""
    size = len(raw(option)) + 2
    head = [Row(0, bytes([mptcp.KIND]), "Kind", str(mptcp.KIND), "Multipath TCP"),
            Row(1, bytes([size]), "Length", str(size), "Bytes of the option")]
    return [*head, *explain(annotate(option, 2), notes)]


@dataclass(frozen=True)
class Heading:
    """A row across the table."""

    text: str


Body = list[Row | Heading]


def discovery_entry() -> Body:
    data = registry.load()
    entry = packets.discovery_entry()
    tsas = next(each.first for each in data.structures["discovery-entry"].fields
                if each.name == "TSAS")
    notes = {"cntlid": "Allocated on Connect"}
    for name in ("sectype", "tcpv"):
        value = entry.tsas.getfieldval(name)
        notes[name] = next(word.meaning or "" for word in data.sets[name].words
                           if word.first == value)
    notes["mpattr"] = ", ".join(
        f"{bit.name}: {bit.long_name}" for bit in data.sets["mpattr"].words
        if bit.name and int(entry.tsas.mpattr) >> bit.first & 1)
    shown: Body = list(explain(without_zeroes(annotate(entry), ("sectype",)), notes))
    first = next(index for index, row in enumerate(shown)
                 if isinstance(row, Row) and row.offset >= tsas)
    shown.insert(first, Heading(f"TSAS, from byte {tsas}"))
    return shown


def mp_capable() -> Body:
    body: Body = []
    for segment, flags in zip(packets.connection()[0], ("SYN", "SYN/ACK", "ACK"), strict=True):
        body.append(Heading(f"{flags}, {_direction(segment)}"))
        for option in segment.options:
            body += option_rows(option, segment.notes)
    return body


def phase(number: int) -> Body:
    """The segments of a phase of the connection, counted from 1."""
    phases = packets.connection()
    first = sum(map(len, phases[:number - 1])) + 1
    body: Body = []
    for count, segment in enumerate(phases[number - 1], first):
        where = f"{_direction(segment)}, subflow {segment.subflow + 1}"
        body.append(Heading(f"Segment {count}, {where}, {_flags(segment)}: option"))
        for option in segment.options:
            body += option_rows(option, segment.notes)
        if segment.piece:
            body.append(Heading(f"Segment {count}: payload, {_payload_name(segment.piece)}"))
            body += _payload(segment.piece)
    return body


def _payload_name(piece: packets.Piece) -> str:
    size = len(raw(piece.pdu))
    if piece.end - piece.begin == size:
        return f"{piece.pdu.name}, {size} bytes"
    return f"{piece.pdu.name}, bytes {piece.begin} to {piece.end - 1} of {size}"


def _payload(piece: packets.Piece) -> Iterator[Row]:
    pdu, begin, end = piece.pdu, piece.begin, piece.end
    inside = {"data": ConnectData} if isinstance(pdu, CapsuleCmd) else None
    for row in without_zeroes(annotate(pdu, inside=inside), ("type", "nlb")):
        if part := row.clip(begin, end):
            count = len(part.data)
            yield replace(part, meaning=f"Bytes {part.offset - row.offset} to "
                          f"{part.offset - row.offset + count - 1} of {len(row.data)}"
                          ) if part != row else part


def _direction(segment: packets.Segment) -> str:
    sender, receiver = packets.SENDERS[segment.sender], packets.SENDERS[1 - segment.sender]
    return f"{sender.lower()} to {receiver.lower()}"


def _flags(segment: packets.Segment) -> str:
    names = {"S": "SYN", "SA": "SYN/ACK", "A": "ACK", "PA": "ACK with data"}
    return names[str(segment.packet["TCP"].flags)]


def summary() -> list[list[str]]:
    """A row for each segment of the connection, the headings first."""
    rows = [["", "From", "Sub\u00adflow", "TCP", "MPTCP option", "Payload"]]
    for count, segment in enumerate(chain(*packets.connection()), 1):
        options = ", ".join(_option_summary(option) for option in segment.options)
        payload = _payload_name(segment.piece) if segment.piece else ""
        rows.append([str(count), packets.SENDERS[segment.sender], str(segment.subflow + 1),
                     _flags(segment), options, payload])
    return rows


def _option_summary(option: mptcp.MPTCPOption) -> str:
    name = str(mptcp.SUBTYPES[option.subtype])
    if isinstance(option, mptcp.DSS):
        parts = [word for bit, word in (("A", "DATA_ACK"), ("M", "mapping"), ("F", "DATA_FIN"))
                 if getattr(option.flags, bit)]
        return f"{name}: {', '.join(parts)}"
    return f"{name}, echo" if getattr(option, "echo", 0) else name


def derived() -> list[list[str]]:
    """What both ends compute from the keys, the headings first."""
    rows = [["Name", "Value", "How"]]
    for letter, key, nonce, who in zip("HC", packets.KEYS, packets.NONCES, packets.SENDERS,
                                       strict=True):
        rows += [
            [f"Key-{letter}", f"{key:016X}h", f"Random, chosen by the {who.lower()}"],
            [f"Token-{letter}", f"{mptcp.token(key):08X}h",
             f"First 32 bits of SHA-256(Key-{letter})"],
            [f"IDSN-{letter}", f"{mptcp.idsn(key):016X}h",
             f"Last 64 bits of SHA-256(Key-{letter})"],
            [f"R-{letter}", f"{nonce:08X}h", f"Random, chosen by the {who.lower()}"],
        ]
    return rows


def byte_text(data: bytes) -> str:
    """Bytes in hexadecimal; what is long or ends in zeroes is cut, with its number of bytes."""
    stripped = data.rstrip(b"\0") or data[:1]
    shown = data if len(data) <= SHOWN else stripped[:SHOWN]
    return shown.hex(" ") + ("" if len(shown) == len(data) else f" … ({len(data)} bytes)")


TABLES: dict[str, Callable[[], Body]] = {"discovery-entry": discovery_entry,
                                         "mp-capable": mp_capable}
NAMES_KNOWN = (*TABLES, "connection", "derived")


class WireExample(SphinxDirective):
    """See the module."""

    required_arguments = 1
    option_spec: ClassVar = {"caption": directives.unchanged_required, "summary": directives.flag,
                             "phase": directives.positive_int, "name": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        name, number = self.arguments[0], self.options.get("phase")
        if name not in NAMES_KNOWN:
            raise self.error(f"no example {name!r} (there are {', '.join(NAMES_KNOWN)})")
        if number is not None and (name != "connection" or number > len(packets.PHASES)):
            raise self.error(f"phase: only the example connection has phases, 1 to"
                             f" {len(packets.PHASES)}")
        for path in (packets.__file__, __file__, self.env.config.nvmptcp_registry):
            self.env.note_dependency(path)
        if name == "derived":
            return self._table([14, 30, 56], [self._cells(row) for row in derived()], code={1})
        if name == "connection" and "summary" in self.options:
            return self._table([6, 14, 10, 18, 28, 24], [self._cells(row) for row in summary()])
        if name in TABLES:
            body = TABLES[name]()
        else:
            numbers = [number] if number else range(1, len(packets.PHASES) + 1)
            body = [row for each in numbers for row in phase(each)]
        head = ["Byte", "Bytes", "Field", "Value", "Meaning"]
        return self._table([10, 27, 19, 22, 22], [self._cells(head), *map(self._body_row, body)],
                           code={1, 3})

    def _body_row(self, row: Row | Heading) -> list[str] | str:
        if isinstance(row, Heading):
            return row.text
        last = row.offset + len(row.data) - 1
        place = f"{row.offset}" if last == row.offset else f"{last}:{row.offset}"
        return [place, byte_text(row.data), row.name, row.value, row.meaning]

    @staticmethod
    def _cells(row: list[str]) -> list[str] | str:
        return row

    def _table(self, widths: Sequence[int], rows: Sequence[list[str] | str],
               code: frozenset[int] | set[int] = frozenset()) -> list[nodes.Node]:
        head, *body = rows
        table = nodes.table("", classes=["wire-example", "longtable", "colwidths-given"])
        if "caption" in self.options:
            text, messages = self.parse_inline(self.options["caption"])
            table += nodes.title("", "", *text, *messages)
        group = nodes.tgroup("", *(nodes.colspec("", colwidth=width) for width in widths),
                             cols=len(widths))
        group += nodes.thead("", self._row(head, len(widths), set()))
        group += nodes.tbody("", *(self._row(row, len(widths), code) for row in body))
        table += group
        self.set_source_info(table)
        self.add_name(table)
        ragged = "".join(rf">{{\raggedright\arraybackslash}}\X{{{width}}}{{{sum(widths)}}}"
                         for width in widths)
        return [addnodes.tabular_col_spec(spec=ragged), table]

    @staticmethod
    def _row(cells: list[str] | str, width: int, code: frozenset[int] | set[int]) -> nodes.row:
        if isinstance(cells, str):
            text = nodes.paragraph("", "", nodes.strong("", cells))
            return nodes.row("", nodes.entry("", text, morecols=width - 1))
        row = nodes.row()
        for index, cell in enumerate(cells):
            # A literal is broken after dots and spaces only, in LaTeX too.
            as_code = cell and (index in code or cell.startswith("nqn.") or _LONG_HEX.match(cell))
            content = nodes.literal(cell, cell) if as_code else nodes.Text(cell)
            row += nodes.entry("", nodes.paragraph("", "", content))
        return row


def setup(app: "Sphinx") -> "ExtensionMetadata":
    app.add_directive("wire-example", WireExample)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
