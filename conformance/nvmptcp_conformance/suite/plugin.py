# SPDX-License-Identifier: GPL-2.0-or-later
"""pytest plugin of the suite: its fixtures, its order, and the results."""

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from unittest import mock

import pytest
from nvmptcp_spec.pytest_plugin import MARKER

from ..endpoints.host import ProtocolError
from ..target import Target
from .case import Case, Result
from .verdict import Failed, NotApplicable

SUITE = Path(__file__).parent
TARGET = pytest.StashKey[Target]()
CASE = pytest.StashKey[Case]()
ERROR = pytest.StashKey[BaseException]()
_OPTIONS = ["-c", "/dev/null", f"--rootdir={SUITE}", "--import-mode=importlib", "--strict-markers",
            "-p", "no:terminal", "-p", "no:cacheprovider"]


class _Plugin:
    """Brings the target in and the results out."""

    def __init__(self, target: Target | None, wanted: Callable[[Case], bool],
                 found: Callable[[Result], None] | None) -> None:
        self.cases: list[Case] = []
        self.errors: list[str] = []
        self._target, self._wanted, self._found = target, wanted, found

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", f"{MARKER}(*ids): the requirements that a test verifies")
        if self._target:
            config.stash[TARGET] = self._target

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
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None],
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.excinfo:
            item.stash.setdefault(ERROR, call.excinfo.value)  # the first one
        if self._found and call.when == "teardown":
            self._found(Result.of(item.stash[CASE], item.stash.get(ERROR, None)))
        return report

    @pytest.fixture(scope="session")
    def target(self, request: pytest.FixtureRequest) -> Target:
        """The target under test."""
        return request.config.stash[TARGET]

    @pytest.fixture
    def mptcp_port(self, target: Target) -> Target:
        """The target, if its port reports TCPV 1h."""
        if not target.multipath:
            reason = f"the entry of {target.address} has TCPV {int(target.entry.tsas.tcpv):X}h"
            raise Failed(f"{reason}, and --require-mptcp was given") if (
                target.address.require_mptcp) else NotApplicable(reason)
        return target

    @pytest.fixture
    def serves_afterwards(self, target: Target) -> Iterator[None]:
        """After the test, the target has to serve a fresh association."""
        yield
        try:
            with target.admin_queue() as (host, _):
                host.keep_alive()
        except (OSError, ProtocolError) as error:
            raise Failed(f"no fresh association afterwards: {error}") from error


def _run(plugin: _Plugin, *options: str) -> None:
    # Not what else is installed or set on this machine.
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    with mock.patch.dict(os.environ, environment):
        code = pytest.main([*_OPTIONS, *options, str(SUITE)], plugins=[plugin])
    if code == pytest.ExitCode.INTERRUPTED and not plugin.errors:
        raise KeyboardInterrupt
    known = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    if plugin.errors or code not in known:
        raise RuntimeError(f"the suite is broken: {' '.join(plugin.errors) or code}")


def cases(wanted: Callable[[Case], bool] = lambda case: True) -> list[Case]:
    """The cases of the suite, in the order of the chapters."""
    plugin = _Plugin(None, wanted, None)
    _run(plugin, "--collect-only")
    return plugin.cases


def run(target: Target, found: Callable[[Result], None],
        wanted: Callable[[Case], bool] = lambda case: True) -> None:
    """Run the cases; `found` is called with each result as it comes."""
    _run(_Plugin(target, wanted, found))
