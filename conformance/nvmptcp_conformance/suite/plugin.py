# SPDX-License-Identifier: GPL-2.0-or-later
"""pytest plugin of the suite: its order, its results, and the fixtures of both sides."""

import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import pytest
from nvmptcp_spec.pytest_plugin import MARKER

from ..endpoints.raw.packets import PacketSockets, RawUnavailable
from .case import DESTRUCTIVE, Case, Result, Side
from .verdict import Inconclusive

SUITE = Path(__file__).parent
DEVICE = pytest.StashKey[Any]()  # the Target or HostUnderTest
CASE = pytest.StashKey[Case]()
ERROR = pytest.StashKey[BaseException]()
_OPTIONS = ["-c", "/dev/null", f"--rootdir={SUITE}", "--import-mode=importlib", "--strict-markers",
            "-p", "no:terminal", "-p", "no:cacheprovider"]


class Observer(Protocol):
    """Who hears how a run goes. An exception of it ends the run and is raised by `run`."""

    def begin(self, case: Case) -> None:
        """A case is about to start."""

    def end(self, result: Result) -> None:
        """It has ended."""

    def drop(self) -> None:
        """It was interrupted."""


class _Plugin:
    """Brings the device in and the results out."""

    def __init__(self, wanted: Callable[[Case], bool], device: object = None,
                 observer: Observer | None = None) -> None:
        self.cases: list[Case] = []
        self.errors: list[str] = []
        self.broken: Exception | None = None  # what the observer raised
        self._wanted, self._device, self._observer = wanted, device, observer

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", f"{MARKER}(*ids): the requirements that a test verifies")
        config.addinivalue_line("markers", f"{DESTRUCTIVE}: may harm what else the device does")
        config.stash[DEVICE] = self._device

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(str(report.longrepr))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            item.stash[CASE] = Case.of(item)
        items[:] = sorted((item for item in items if self._wanted(item.stash[CASE])),
                          key=lambda item: item.stash[CASE].chapter.number)
        self.cases = [item.stash[CASE] for item in items]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if not self._observer:
            return (yield)
        try:
            self._observer.begin(item.stash[CASE])
            try:
                done = yield
            except BaseException:
                self._observer.drop()
                raise
            self._observer.end(Result.of(item.stash[CASE], item.stash.get(ERROR, None)))
            return done
        except Exception as error:  # pytest would take it for one of its own
            self.broken = error
            item.session.shouldstop = "the results can't be kept"
            return True

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo:
            item.stash.setdefault(ERROR, call.excinfo.value)  # the first one

    @pytest.fixture(scope="session")
    def raw(self) -> None:
        """Raw packets can be sent and received: for tests that need endpoints/raw."""
        if reason := raw_missing():
            raise Inconclusive(reason)


def raw_missing() -> str:
    """Why there are no raw packets here; empty where there are."""
    try:
        PacketSockets().close()
    except RawUnavailable as error:
        return str(error)
    return ""


def _fixtures(sides: Sequence[Side]) -> list[object]:
    """The plugins with the fixtures of a side. Imported when needed only: one may need more."""
    found: list[object] = []
    if Side.TARGET in sides:
        from . import target_fixtures

        found.append(target_fixtures)
    if Side.HOST in sides:
        from . import host_fixtures

        found.append(host_fixtures)
    return found


def _run(plugin: _Plugin, sides: Sequence[Side], *options: str) -> None:
    # Not what else is installed or set on this machine.
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    with mock.patch.dict(os.environ, environment):
        code = pytest.main([*_OPTIONS, *options, *(str(SUITE / side) for side in sides)],
                           plugins=[plugin, *_fixtures(sides)])
    if plugin.broken:
        raise plugin.broken
    if code == pytest.ExitCode.INTERRUPTED and not plugin.errors:
        raise KeyboardInterrupt
    known = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    if plugin.errors or code not in known:
        raise RuntimeError(f"the suite is broken: {' '.join(plugin.errors) or code}")


def cases(wanted: Callable[[Case], bool] = lambda case: True,
          sides: Sequence[Side] = tuple(Side)) -> list[Case]:
    """The cases of the suite, each side in the order of the chapters."""
    found = []
    for side in sides:
        if (SUITE / side).is_dir():
            plugin = _Plugin(wanted)
            _run(plugin, [side], "--collect-only")
            found += plugin.cases
    return found


def run(side: Side, device: object, observer: Observer,
        wanted: Callable[[Case], bool] = lambda case: True) -> None:
    """Run the cases of a side on a device, a Target or a HostUnderTest."""
    _run(_Plugin(wanted, device, observer), [side])
