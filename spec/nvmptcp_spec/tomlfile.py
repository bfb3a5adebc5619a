# SPDX-License-Identifier: GPL-2.0-or-later
"""Read a TOML file strictly, with the line of what is wrong (tomllib keeps no lines)."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from .errors import SpecError

T = TypeVar("T")
Key = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.-]+)\s*\]\]?")
_ASSIGNMENT = re.compile(r"\s*([\w-]+)\s*=")
_TYPE_NAMES = {str: "a string", int: "an integer", bool: "true or false", list: "a list",
               dict: "a table"}


class Table:
    """A table of the file. Each key has to be asked for: `finish` complains about the others."""

    def __init__(self, path: Path, data: Mapping[str, Any], lines: Mapping[Key, int], key: Key):
        self._path, self._data, self._lines, self._key = path, data, lines, key
        self._asked: set[str] = set()

    def line(self, key: str | None = None) -> int:
        """The line of one key of this table, or of its header."""
        whole = self._key if key is None else (*self._key, key)
        return self._lines.get(whole) or self._lines.get(self._key) or 1

    def fail(self, what: str, key: str | None = None) -> NoReturn:
        """Raise SpecError: `file:line: what`."""
        raise SpecError(f"{self._path}:{self.line(key)}: {what}")

    def __iter__(self) -> Iterator[str]:
        """The keys, known or not."""
        return iter(self._data)

    def get(self, key: str, kind: type[T]) -> T | None:
        """The value of a key that can be absent."""
        self._asked.add(key)
        value = self._data.get(key)
        if value is None:
            return None
        # bool is an int in Python, not in TOML
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(f"{key}: {_TYPE_NAMES[kind]} is needed, not {value!r}", key)
        if isinstance(value, str) and not value.strip():
            self.fail(f"{key}: is empty", key)
        return value

    def need(self, key: str, kind: type[T]) -> T:
        """The value of a key that has to be there."""
        value = self.get(key, kind)
        if value is None:
            self.fail(f"{key}: is missing")
        return value

    def choice(self, key: str, values: tuple[str, ...]) -> str:
        """A string out of `values`."""
        value = self.need(key, str)
        if value not in values:
            self.fail(f"{key}: {value!r} is none of {', '.join(values)}", key)
        return value

    def tables(self, key: str) -> "Iterator[Table]":
        """The tables of an array of tables, `[[key]]`."""
        for number, entry in enumerate(self.get(key, list) or []):
            if not isinstance(entry, dict):
                self.fail(f"{key}: is an array of tables, [[{key}]]", key)
            yield Table(self._path, entry, self._lines, (*self._key, key, number))

    def table(self, key: str) -> "Table | None":
        """A table inside of this one."""
        entry = self.get(key, dict)
        return None if entry is None else Table(self._path, entry, self._lines, (*self._key, key))

    def finish(self) -> None:
        """Every key that nobody asked for is an error."""
        for key in self._data:
            if key not in self._asked:
                known = ", ".join(sorted(self._asked))
                self.fail(f"{key}: is an unknown key (known: {known})", key)


def load(path: Path) -> Table:
    """The top table of a file. SpecError if it can't be read or isn't TOML."""
    text = ""
    try:
        text = path.read_text()
        return Table(path, tomllib.loads(text), _lines(text), ())
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: isn't UTF-8 text: {error.reason}") from error
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"(.*) \(at (?:line (\d+)|end of document)", str(error))
        what, line = found.groups() if found else (str(error), "1")
        line = line or len(text.splitlines()) or 1  # the end of the document
        raise SpecError(f"{path}:{line}: not TOML: {what}") from error


def _lines(text: str) -> dict[Key, int]:
    """Where each table and each key of a valid file stands."""
    lines: dict[Key, int] = {}
    count: dict[Key, int] = {}
    table: Key = ()
    in_string = False
    for number, line in enumerate(text.splitlines(), 1):
        was_in_string = in_string
        in_string ^= (line.count('"""') + line.count("'''")) % 2 == 1
        if was_in_string:
            continue
        if header := _HEADER.match(line):
            table = ()
            *outer, last = header[2].split(".")
            for part in outer:
                table = (*table, part)
                if table in count:
                    table = (*table, count[table])
            table = (*table, last)
            if header[1] == "[[":
                count[table] = count.get(table, -1) + 1
                table = (*table, count[table])
            lines[table] = number
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, assignment[1]), number)
    return lines
