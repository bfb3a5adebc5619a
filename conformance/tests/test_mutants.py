# SPDX-License-Identifier: GPL-2.0-or-later
"""The command behind `make mutants`; what the mutants do in the lab is tested elsewhere."""

import json
from typing import Any

import mutants
import pytest


def caught_by(**changes: Any) -> dict[str, Any]:
    return {"test": "some_test", "verdict": "fail", "requirements": ["TCPV-X-001"], **changes}


class Bad:
    """Does something."""

    breaks = ("TCPV-X-001", "TCPV-X-002")


GROUP = mutants.Group("host", "raw stack", "module", "mode", {"Bad": Bad})


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the run in the guest gives, to be filled."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(mutants, "GROUPS", (GROUP,))
    monkeypatch.setattr(mutants, "in_guest", lambda module, mode: {"Bad": found})
    return found


def test_caught(results: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a mutant counts as caught without being so, or isn't shown with its tests."""
    results += [caught_by(), caught_by(test="other", requirements=["TCPV-X-002"])]
    assert mutants.main(["--json"]) == 0
    out, err = capsys.readouterr()
    assert [(row["requirement"], row["caught_by"]) for row in json.loads(out)] == [
        ("TCPV-X-001", ["some_test"]), ("TCPV-X-002", ["other"])]
    assert err.splitlines()[-1] == "1 mutants, 1 caught, 0 survive"


@pytest.mark.parametrize("second", [
    {"verdict": "pass"}, {"verdict": "inconclusive"}, {"verdict": "conceptual pass"}, {}])
def test_survivor(results: list[dict[str, Any]], capsys: pytest.CaptureFixture[str],
                  second: dict[str, Any]) -> None:
    """Fails if a mutant doesn't survive though no test of a requirement of its own failed."""
    requirement = {"requirements": ["TCPV-X-002" if second else "TCPV-X-009"]}
    results += [caught_by(), caught_by(**requirement, **second)]
    assert mutants.main([]) == 1
    out, _ = capsys.readouterr()
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["host", "Bad", "TCPV-X-001", "some_test"], ["host", "Bad", "TCPV-X-002", "SURVIVES"]]


def test_failed_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails if a run that can't be done ends with a traceback or another code."""
    def fails(module: str, mode: str) -> None:
        raise AssertionError("the guest panicked")

    monkeypatch.setattr(mutants, "in_guest", fails)
    assert mutants.main(["--side", "host"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "mutants: error: the guest panicked"


def test_every_group_has_mutants() -> None:
    """Fails if the registry of a group is empty, or a mutant breaks nothing."""
    for group in mutants.GROUPS:
        assert group.faults
        assert all(fault.breaks for fault in group.faults.values())
