# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a key stands in a TOML file: tomllib doesn't tell."""

import re

Location = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*((?:\"[^\"]*\"|[\w-]+)(?:\s*\.\s*(?:\"[^\"]*\"|[\w-]+))*)\s*=")
_WORD = re.compile(r'"([^"]*)"|([\w-]+)')


class Lines:
    """The line of each table and key of a file that tomllib has accepted.

    Keys in inline tables have the line on which their table's own key stands.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Location, int] = {}
        self._arrays: dict[Location, int] = {}
        table: Location = ()
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.fullmatch(line):
                table = self._resolve(header[2], array=header[1] == "[[")
                self._lines[table] = number
            elif key := _KEY.match(line):
                self._lines.setdefault((*table, *_words(key[1])), number)

    def _resolve(self, dotted: str, array: bool) -> Location:
        words, found = _words(dotted), Location()
        for position, word in enumerate(words, 1):
            found = (*found, word)
            if array and position == len(words):
                self._arrays[found] = self._arrays.get(found, -1) + 1
            if found in self._arrays:
                found = (*found, self._arrays[found])
        return found

    def of(self, location: Location) -> int:
        """The line of a key, else of the nearest table around it, else 1."""
        while location and location not in self._lines:
            location = location[:-1]
        return self._lines.get(location, 1)

    def has(self, location: Location) -> bool:
        """Whether just this key has a line of its own."""
        return location in self._lines


def _words(dotted: str) -> Location:
    return tuple(quoted or bare for quoted, bare in _WORD.findall(dotted))
