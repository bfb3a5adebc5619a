# SPDX-License-Identifier: GPL-2.0-or-later
"""The wire layout in spec/registry.toml, checked: every error is one line, `file:line: what`."""

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import tomlfile
from .tomlfile import Table

REGISTRY = Path(__file__).resolve().parent.parent / "registry.toml"
NAME = re.compile(r"[A-Z][A-Z0-9]*")
SET_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Range:
    """A piece of a structure (unit: bytes), of a flag field (bits), or of the values of a field.

    `first` and `last` are both included. A piece without a name is reserved or, with
    `elsewhere`, defined by other documents and of no use here.
    """

    first: int
    last: int
    name: str | None
    long_name: str | None
    meaning: str | None
    since: str | None  # the revision's title
    elsewhere: bool

    @property
    def size(self) -> int:
        """How many bytes, bits or values."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Word(Range):
    """A value or a bit of a field, with the word for it in Linux (configfs, connect options)."""

    keyword: str | None


@dataclass(frozen=True)
class ValidIf:
    """A field has a meaning only if another one has this value."""

    field: str
    value: str  # its name
    code: int


@dataclass(frozen=True)
class Field(Range):
    """A field of a structure; `values` names the set of its codes or bits."""

    values: str | None
    structure: str | None
    valid_if: ValidIf | None


@dataclass(frozen=True)
class Structure:
    name: str
    title: str
    size: int  # bytes
    fields: tuple[Field, ...]

    def field(self, name: str) -> Field:
        """The field of that name. KeyError if there is none."""
        return {f.name: f for f in self.fields}[name]


@dataclass(frozen=True)
class WordSet:
    """The values of a field, or its bits (`flags`)."""

    name: str
    title: str
    bits: int  # of the field
    flags: bool
    words: tuple[Word, ...]

    def named(self) -> tuple[Word, ...]:
        """All but the reserved ones."""
        return tuple(word for word in self.words if word.name)


@dataclass(frozen=True)
class Registry:
    path: Path
    structures: dict[str, Structure]
    sets: dict[str, WordSet]

    def owner(self, set_name: str) -> Field:
        """The field that a set of values or bits belongs to."""
        return next(f for s in self.structures.values() for f in s.fields if f.values == set_name)


def load(path: Path = REGISTRY) -> Registry:
    """Read and check the registry.

    Raises SpecError (`file:line: what`) for anything unknown, missing, doubled, overlapping or
    left out.
    """
    top = tomlfile.load(path)
    revisions = _revisions(top)
    sets: dict[str, WordSet] = {}
    for kind, member in (("codes", "value"), ("flags", "bit")):
        for table in top.tables(kind):
            one = _word_set(table, member, revisions)
            _once(table, one.name, sets)
            sets[one.name] = one
    structures: dict[str, Structure] = {}
    late: list[Callable[[dict[str, Structure]], None]] = []
    for table in top.tables("structure"):
        structure = _structure(table, revisions, sets, late)
        _once(table, structure.name, {*sets, *structures})
        structures[structure.name] = structure
    for check in late:
        check(structures)
    used = {f.values for s in structures.values() for f in s.fields}
    for kind in ("codes", "flags"):
        for table in top.tables(kind):
            if table.need("name", str) not in used:
                table.fail(f"{table.need('name', str)}: no field has these values", "name")
    top.finish()
    return Registry(path, structures, sets)


def _revisions(top: Table) -> dict[str, str]:
    table = top.table("revisions")
    if table is None:
        top.fail("revisions: the table [revisions] is missing")
    return {key: table.need(key, str) for key in table}


def _once(table: Table, name: str, known: Container[str]) -> None:
    if not SET_NAME.fullmatch(name):
        table.fail(f"name: {name!r}: small letters, digits and '-' are needed", "name")
    if name in known:
        table.fail(f"name: {name!r} is there already", "name")


def _range(table: Table, limit: int, unit: str) -> tuple[int, int]:
    at = table.need("at", list)
    if len(at) != 2 or any(type(n) is not int for n in at):
        table.fail("at: two numbers are needed, [first, last]", "at")
    first, last = at
    if not 0 <= first <= last < limit:
        table.fail(f"at: [{first}, {last}] isn't within {unit} 0 to {limit - 1}, in order", "at")
    return first, last


def _common(table: Table, limit: int, unit: str, revisions: dict[str, str]) -> Range:
    """What fields, values and bits have in common."""
    first, last = _range(table, limit, unit)
    reserved, elsewhere = table.get("reserved", bool), table.get("elsewhere", bool)
    if reserved or elsewhere:
        if reserved and elsewhere:
            table.fail("elsewhere: a range is either reserved or defined elsewhere", "elsewhere")
        return Range(first, last, None, None, None, None, bool(elsewhere))
    name = table.need("name", str)
    if not NAME.fullmatch(name):
        table.fail(f"name: {name!r}: capitals and digits are needed", "name")
    since = table.choice("since", tuple(revisions))
    return Range(first, last, name, table.get("long_name", str), table.need("meaning", str),
                 revisions[since], False)


def _cover(table: Table, pieces: Sequence[tuple[Range, Table]], limit: int, unit: str) -> None:
    """The pieces stand in order, without gap, overlap or name used twice, up to the end."""
    names: set[str] = set()
    end = 0
    for piece, where in pieces:
        if piece.first < end:
            where.fail(f"at: {unit} {piece.first} is taken already", "at")
        if piece.first > end:
            where.fail(f"at: a gap, {unit} {end} to {piece.first - 1}: say that it is reserved",
                       "at")
        end = piece.last + 1
        if piece.name in names:
            where.fail(f"name: {piece.name!r} is there already", "name")
        if piece.name:
            names.add(piece.name)
    if end != limit:
        table.fail(f"{unit} {end} to {limit - 1} at the end are missing")


def _word_set(table: Table, member: str, revisions: dict[str, str]) -> WordSet:
    name, title, bits = table.need("name", str), table.need("title", str), table.need("bits", int)
    if bits not in (8, 16, 32):
        table.fail(f"bits: {bits} is none of 8, 16, 32", "bits")
    flags = member == "bit"
    limit, unit = (bits, "bit") if flags else (1 << bits, "value")
    pieces: list[tuple[Word, Table]] = []
    keywords: set[str] = set()
    for entry in table.tables(member):
        common = _common(entry, limit, unit, revisions)
        keyword = entry.get("keyword", str)
        if common.name and common.size != 1:
            entry.fail(f"at: {common.name} is one {unit}, not a range", "at")
        if keyword in keywords:
            entry.fail(f"keyword: {keyword!r} is there already", "keyword")
        if keyword:
            keywords.add(keyword)
        entry.finish()
        pieces.append((Word(**vars(common), keyword=keyword), entry))
    _cover(table, pieces, limit, unit)
    table.finish()
    return WordSet(name, title, bits, flags, tuple(word for word, _ in pieces))


def _structure(table: Table, revisions: dict[str, str], sets: dict[str, WordSet],
               late: "list[Callable[[dict[str, Structure]], None]]") -> Structure:
    name, title, size = table.need("name", str), table.need("title", str), table.need("bytes", int)
    table.choice("endian", ("little",))
    if size < 1:
        table.fail(f"bytes: {size} is no size", "bytes")
    pieces: list[tuple[Field, Table]] = []
    for entry in table.tables("field"):
        common = _common(entry, size, "byte", revisions)
        if common.name and common.long_name is None:
            entry.fail("long_name: is missing")
        values, inner = entry.get("values", str), entry.get("structure", str)
        if values is not None:
            if values not in sets:
                entry.fail(f"values: no codes or flags of the name {values!r}", "values")
            if sets[values].bits != 8 * common.size:
                entry.fail(f"values: {values} has {sets[values].bits} bits, the field"
                           f" {8 * common.size}", "values")
        if inner is not None:
            late.append(_inner_check(entry, inner, common.size))
        field = Field(**vars(common), values=values, structure=inner,
                      valid_if=_valid_if(entry, [f for f, _ in pieces], sets))
        entry.finish()
        pieces.append((field, entry))
    _cover(table, pieces, size, "byte")
    table.finish()
    return Structure(name, title, size, tuple(field for field, _ in pieces))


def _inner_check(entry: Table, inner: str, size: int) -> "Callable[[dict[str, Structure]], None]":
    """A field that holds a structure, which can be defined further down, is as large as it."""
    def check(structures: dict[str, Structure]) -> None:
        if inner not in structures:
            entry.fail(f"structure: none of the name {inner!r}", "structure")
        if structures[inner].size != size:
            entry.fail(f"structure: {inner} has {structures[inner].size} bytes, the field {size}",
                       "structure")
    return check


def _valid_if(entry: Table, before: Sequence[Field], sets: dict[str, WordSet]) -> ValidIf | None:
    table = entry.table("valid_if")
    if table is None:
        return None
    name, value = table.need("field", str), table.need("value", str)
    table.finish()
    field = next((f for f in before if f.name == name), None)
    if field is None:
        entry.fail(f"valid_if: no field {name!r} before this one", "valid_if")
    words = sets[field.values].words if field.values else ()
    word = next((w for w in words if w.name == value), None)
    if word is None:
        entry.fail(f"valid_if: {name} has no value {value!r}", "valid_if")
    return ValidIf(name, value, word.first)
