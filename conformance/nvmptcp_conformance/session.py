# SPDX-License-Identifier: GPL-2.0-or-later
"""One run of the suite on a device: hooks, tests, captures, results."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from . import hooks
from .capture import Capture
from .errors import KeptError, UsageError
from .profile import Hooks
from .report.document import Device, Document, Selection, now
from .report.terminal import Terminal
from .store import Mode, Store
from .suite import plugin
from .suite.case import Case, Outcome, Result, Side


class Captures(StrEnum):
    """Whose packets are kept."""

    ALL = "all"
    FAILED = "failed"  # all but those of "pass" and "not applicable"
    NONE = "none"


@dataclass(frozen=True)
class Options:
    """How a run is done."""

    results: Path
    mode: Mode
    selection: Selection
    cases: Sequence[Case]  # those that it covers
    captures: Captures
    colour: str
    hooks: Hooks


@dataclass(frozen=True)
class Subject:
    """A device that was found. `instrument`: the Target or HostUnderTest that tests use."""

    instrument: object
    device: Device
    ports: frozenset[int]  # TCP ports whose packets are captured


class _Observer:
    """Keeps and prints each result as it comes."""

    def __init__(self, store: Store, document: Document, terminal: Terminal,
                 ports: frozenset[int], captures: Captures) -> None:
        self._store, self._document, self._terminal = store, document, terminal
        self._ports, self._captures = ports, captures
        self._capture: Capture | None = None
        self._started = 0.0

    def begin(self, case: Case) -> None:
        self._terminal.begin(case)
        if self._captures != Captures.NONE:
            self._capture = Capture(set(self._ports))
        self._started = time.monotonic()

    def end(self, result: Result) -> None:
        seconds = time.monotonic() - self._started
        result = Result(result.case, result.verdict, result.reason, self._keep(result), seconds)
        self._document.by_key[result.case.key] = result
        self._store.save(self._document)
        self._terminal.result(result)

    def drop(self) -> None:
        if self._capture:
            self._capture.stop()
        self._terminal.drop()

    def _keep(self, result: Result) -> str:
        """Write the packets of a case where they are wanted; the file, if there is one."""
        name = self._store.capture(result.case)
        path = self._store.directory / name
        path.unlink(missing_ok=True)  # of an earlier run
        if not self._capture:
            return ""
        self._capture.stop()
        wanted = self._captures == Captures.ALL or result.verdict not in (
            Outcome.PASS, Outcome.NOT_APPLICABLE)
        if not (wanted and self._capture.packets):
            return ""
        path.parent.mkdir(exist_ok=True)
        try:
            self._capture.write(path)
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            raise OSError(error.errno, error.strerror, str(path)) from None
        return name


def run(side: Side, options: Options, find: Callable[[Store], Subject]) -> int:
    """Find the device, run the tests, write the results; the exit code.

    Raises UsageError where there is no device, KeptError where the run ended early.
    """
    store = Store(options.results, options.mode)
    _hook("set_up", options.hooks, store)
    try:
        code = _run(side, options, store, find)
    except BaseException:
        with suppress(UsageError, OSError):  # what went wrong before is told
            _hook("clean_up", options.hooks, store)
        raise
    _hook("clean_up", options.hooks, store)
    return code


def _hook(name: str, known: Hooks, store: Store) -> None:
    if command := getattr(known, name):
        hooks.run(name, command, store.directory, timeout=known.timeout or hooks.DEFAULT_TIMEOUT)


def _run(side: Side, options: Options, store: Store, find: Callable[[Store], Subject]) -> int:
    subject = find(store)
    claimed = set(subject.device.claims)
    found = [case for case in options.cases if _is_claimed(case, claimed)]
    allowed = [case for case in found if options.selection.wants(case)]
    document = store.begin(subject.device, options.selection, allowed)
    cases = store.to_run(document, options.selection)
    keys = {case.key for case in cases}
    terminal = Terminal(len(cases), options.colour)
    terminal.head(document)
    if left_out := len(found) - len(allowed):
        terminal.line(f"destructive tests that are left out (--destructive): {left_out}")
    captures = options.captures
    if captures != Captures.NONE and (missing := plugin.raw_missing()):
        terminal.line(f"no captures, and tests with raw packets are inconclusive: {missing}")
        captures = Captures.NONE
    observer = _Observer(store, document, terminal, subject.ports, captures)
    store.save(document)
    where = f"the results so far are kept in {store.directory}; --resume goes on"
    try:
        if cases:
            plugin.run(side, subject.instrument, observer, lambda case: case.key in keys)
    except KeyboardInterrupt:
        with suppress(OSError):
            store.save_reports(document)
        print(f"nvmptcp-conformance: {where}", file=sys.stderr)
        raise
    except OSError as error:
        raise KeptError(f"{error.filename or store.directory}: {error.strerror}; {where}"
                        ) from None
    document.finished = now() if len(document.results) == len(document.cases) else ""
    store.save(document)
    store.save_reports(document)
    terminal.sums(document)
    return document.exit_code


def _is_claimed(case: Case, claimed: set[str]) -> bool:
    """A claim that wasn't made isn't tested."""
    return case.chapter.name != "claims" or case.name.partition("[")[2].rstrip("]") in claimed
