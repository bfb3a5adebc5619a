# SPDX-License-Identifier: GPL-2.0-or-later
"""pytest plugin: which test verifies which requirement, and with what outcome.

A test names requirements with `@pytest.mark.requirement("TCPV-TSAS-004", …)`. An ID that
spec/requirements.lock.json doesn't have stops the run.
"""

import json
from pathlib import Path

import pytest

MARKER = "requirement"
LOCK_OPTION = "requirements_lock"
# The worst of several outcomes wins.
RANK = ("passed", "skipped", "failed")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("requirements", "requirements of the specification")
    group.addoption("--requirement-map", metavar="FILE", type=Path,
                    help="write which tests verify which requirement, as JSON")
    group.addoption("--requirement-verdicts", metavar="FILE", type=Path,
                    help="write the outcome for each requirement, as JSON")
    parser.addini(LOCK_OPTION, "the accepted requirements", default="spec/requirements.lock.json")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(*ids): the requirements that the test verifies")
    path = config.getoption("requirement_verdicts")
    if path and not hasattr(config, "workerinput"):  # pytest-xdist's workers only report
        config.pluginmanager.register(_Verdicts(path), "requirement-verdicts")


def requirements_of(item: pytest.Item) -> list[str]:
    """The IDs that a test names. UsageError for a marker without IDs or with anything else."""
    found: dict[str, None] = {}
    for mark in item.iter_markers(MARKER):
        if mark.kwargs or not mark.args or not all(isinstance(a, str) for a in mark.args):
            raise pytest.UsageError(f"{item.nodeid}: the marker {MARKER} takes IDs, as strings")
        found |= dict.fromkeys(mark.args)
    return list(found)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = {item: ids for item in items if (ids := requirements_of(item))}
    out = config.getoption("requirement_map")
    if out:  # whoever asks for the map looks at the IDs
        out.write_text(json.dumps(_map(marked), indent=1, sort_keys=True) + "\n")
        return
    if not marked:
        return
    for item, ids in marked.items():
        item.user_properties.append((MARKER, ids))
    lock = config.rootpath / config.getini(LOCK_OPTION)
    if not lock.is_file():
        raise pytest.UsageError(f"{lock}: is missing, and tests name requirements: run"
                                " `nvmptcp-spec accept`")
    known = json.loads(lock.read_text())
    unknown = [f"{item.nodeid}: unknown requirement {ident}" for item, ids in marked.items()
               for ident in ids if ident not in known]
    if unknown:
        raise pytest.UsageError("\n".join(unknown))


def without_parameters(nodeid: str) -> str:
    """A test without its parameters."""
    return nodeid.partition("[")[0]


def _map(marked: dict[pytest.Item, list[str]]) -> dict[str, dict[str, str]]:
    """Requirement → test → `file:line`. A test that is always skipped verifies nothing."""
    result: dict[str, dict[str, str]] = {}
    for item, ids in marked.items():
        if item.get_closest_marker("skip"):
            continue
        path, line, _ = item.location
        place = f"{path}:{(line or 0) + 1}"
        for ident in ids:
            result.setdefault(ident, {})[without_parameters(item.nodeid)] = place
    return result


class _Verdicts:
    """Notes the outcomes of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids: dict[str, list[str]] = {}  # by node ID
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # An expected failure is one; teardown counts, too.
        outcome = "failed" if hasattr(report, "wasxfail") else report.outcome
        before = self.outcomes.get(report.nodeid, "passed")
        self.outcomes[report.nodeid] = max(before, outcome, key=RANK.index)
        for name, value in report.user_properties:
            if name == MARKER and isinstance(value, list):
                self.ids[report.nodeid] = value

    def pytest_sessionfinish(self) -> None:
        tests: dict[str, dict[str, str]] = {}
        for nodeid, outcome in self.outcomes.items():
            for ident in self.ids.get(nodeid, []):
                of = tests.setdefault(ident, {})
                name = without_parameters(nodeid)
                of[name] = max(of.get(name, "passed"), outcome, key=RANK.index)
        result = {ident: {"outcome": max(of.values(), key=RANK.index), "tests": of}
                  for ident, of in tests.items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"requirements": result}, indent=1, sort_keys=True) + "\n")
