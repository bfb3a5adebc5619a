# SPDX-License-Identifier: GPL-2.0-or-later
"""The directory of a run's results: results.json after every test, junit.xml and report.html at the
end, captures/, and what hooks printed.
"""

import json
import os
import re
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

from .errors import UsageError
from .report import html, junit
from .report.document import Device, Document, Selection
from .suite.case import UNSETTLED, Case

RESULTS, JUNIT, HTML, CAPTURES = "results.json", "junit.xml", "report.html", "captures"


class Mode(StrEnum):
    """What becomes of results that are there already."""

    NEW = "new"  # replaced, if their run was finished
    RESTART = "restart"  # replaced
    RESUME = "resume"  # kept; what is missing is run
    FAILED = "failed"  # kept; what is missing, failed or was inconclusive is run


def read(path: Path) -> Document:
    """The results in a directory, or of a results.json. Raises UsageError."""
    file = path / RESULTS if path.is_dir() else path
    try:
        return Document.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file}: isn't the {RESULTS} of a run of this version"
                         f" ({type(error).__name__}: {error})") from None


class Store:
    """A directory that a run writes to."""

    def __init__(self, directory: Path, mode: Mode) -> None:
        """Make the directory, if need be. Raises UsageError, OSError."""
        self.directory = directory
        self._mode = mode
        directory.mkdir(parents=True, exist_ok=True)
        self._before = read(directory) if (directory / RESULTS).exists() else None
        if mode in (Mode.RESUME, Mode.FAILED):
            if not self._before:
                raise UsageError(f"{directory}: has no results: --{mode} needs those of an earlier"
                                 " run (--results)")
        elif mode == Mode.NEW and self._before and not self._before.finished:
            raise UsageError(f"{directory}: holds an interrupted run: --resume goes on with it,"
                             " --restart drops it")
        if mode in (Mode.NEW, Mode.RESTART):
            self._clear()
        probe = directory / ".writable"
        probe.write_text("")  # an error is told now, not after the first test
        probe.unlink()

    def begin(self, device: Device, selection: Selection, cases: list[Case]) -> Document:
        """The document that the run fills, with `cases`, or goes on with, with those of the earlier
        run. Raises UsageError if that was one of something else.
        """
        fresh = Document(device, selection, cases)
        if self._mode in (Mode.NEW, Mode.RESTART):
            return fresh
        assert self._before
        before = self._before
        then, now = ({**asdict(each.device), "suite": each.suite, "requirements": each.revision}
                     for each in (before, fresh))
        for what, value in now.items():
            if then[what] != value:
                raise UsageError(f"{self.directory}: the earlier run was of something else: {what}"
                                 f" {then[what]}, now {value}; --restart begins anew")
        before.finished = ""
        return before

    def to_run(self, document: Document, selection: Selection) -> list[Case]:
        """The cases of the document that the run has to do."""
        again = UNSETTLED if self._mode == Mode.FAILED else ()
        return [case for case in document.cases if selection.covers(case)
                and (case.key not in document.by_key
                     or document.by_key[case.key].verdict in again)]

    def save(self, document: Document) -> None:
        """Write results.json. Raises OSError; the file from before then stays."""
        write(self.directory / RESULTS, json.dumps(document.as_json(), indent=1) + "\n")

    def save_reports(self, document: Document) -> None:
        """Write what is made from the results. Raises OSError."""
        write(self.directory / JUNIT, junit.render(document))
        write(self.directory / HTML, html.render(document))

    def capture(self, case: Case) -> str:
        """Where the packets of a case go, relative to the directory."""
        return f"{CAPTURES}/{re.sub(r'[^a-zA-Z0-9_.-]+', '-', case.key).strip('-')}.pcapng"

    def _clear(self) -> None:
        for pattern in (RESULTS, JUNIT, HTML, f"{CAPTURES}/*.pcapng", "hook-*.txt"):
            for file in self.directory.glob(pattern):
                file.unlink()


def write(path: Path, text: str) -> None:
    """Replace a file in one step: whoever reads it finds the old text or the new one."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from None
