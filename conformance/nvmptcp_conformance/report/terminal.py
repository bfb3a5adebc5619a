# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of a run on the terminal, as they come: a tree of chapters and tests."""

import os
import sys
import termios
from typing import TextIO

from .. import requirements
from ..suite.case import Case, Outcome, Result
from .document import Document

_INDENT = " " * (max(map(len, Outcome)) + 4)
_COLOURS = {Outcome.PASS: 32, Outcome.CONCEPTUAL: 36, Outcome.FAIL: 31, Outcome.NOT_APPLICABLE: 90,
            Outcome.INCONCLUSIVE: 33}


def printable(text: str) -> str:
    """Text of a device without what would move the cursor or ring the bell."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def is_for_a_person(stream: TextIO) -> bool:
    """Whether somebody looks at a terminal there: not one in raw mode, which only passes bytes."""
    if not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return bool(termios.tcgetattr(stream.fileno())[1] & termios.OPOST)


class Terminal:
    """Prints each result below the title of its chapter; on a terminal the progress, too."""

    def __init__(self, total: int, colour: str = "auto", stream: TextIO | None = None) -> None:
        self._out = stream or sys.stdout
        person = colour == "always" or (colour == "auto" and is_for_a_person(self._out))
        self._progress = person
        self._colours = person and (colour == "always" or not os.environ.get("NO_COLOR"))
        self._total, self._number = total, 0
        self._chapter = -1

    def line(self, text: str) -> None:
        """A line of its own."""
        print(printable(text), file=self._out, flush=True)

    def head(self, document: Document) -> None:
        """What is tested."""
        device = document.device
        if device.name:
            self.line(f"{device.name} {device.version}".strip())
        self.line(f"{device.address}  {device.nqn}".strip())
        if device.description:
            self.line(device.description)

    def begin(self, case: Case) -> None:
        """A case starts: on a terminal a line that goes away again."""
        self._number += 1
        if self._progress:
            print(f"\r\x1b[K[{self._number}/{self._total}] {case.name}", end="", file=self._out,
                  flush=True)

    def drop(self) -> None:
        """It was interrupted."""
        if self._progress:
            print("\r\x1b[K", end="", file=self._out, flush=True)

    def result(self, result: Result) -> None:
        """A result, and where it needs it, why."""
        self.drop()
        case = result.case
        if case.chapter.number != self._chapter:
            self._chapter = case.chapter.number
            self.line(f"{case.chapter.number} {case.chapter.title}" if case.chapter.number
                      else case.chapter.title)
        verdict = self._coloured(f"{result.verdict:{len(_INDENT) - 2}}", result.verdict)
        print(f"  {verdict}" + " ".join([case.name, "", *case.requirements]).rstrip(),
              file=self._out, flush=True)
        if result.verdict in (Outcome.FAIL, Outcome.CONCEPTUAL):
            texts = requirements.load()
            for ident in case.requirements:
                self.line(f"{_INDENT}requirement: {texts[ident].statement}")
            self.line(f"{_INDENT}expected:    {case.expected}")
            self.line(f"{_INDENT}observed:    {result.reason}")
            if result.capture:
                self.line(f"{_INDENT}packets:     {result.capture}")
        elif result.reason:
            self.line(f"{_INDENT}{result.reason}")

    def sums(self, document: Document) -> None:
        """How many of each verdict."""
        self.line(", ".join(f"{number} {outcome}" for outcome, number in document.counts.items()))

    def _coloured(self, text: str, outcome: Outcome) -> str:
        return f"\x1b[{_COLOURS[outcome]}m{text}\x1b[0m" if self._colours else text


def tree(document: Document, stream: TextIO) -> None:
    """Print a report as the run did."""
    terminal = Terminal(len(document.cases), "never", stream)
    terminal.head(document)
    for result in document.results:
        terminal.result(result)
    terminal.sums(document)
