# SPDX-License-Identifier: GPL-2.0-or-later
"""The suite against a user-space target: it passes without a fault, and each fault is found by a
test of the requirement that it breaks.
"""

from typing import Any

import pytest
from nvmptcp_conformance.suite import plugin
from soft_target import FAULTS
from test_suite_reference import NOT_APPLICABLE, by_verdict, in_guest

BROKEN = [(name, ident) for name, fault in FAULTS.items() for ident in fault.breaks]


@pytest.fixture(scope="module")
def reports() -> Any:
    """Fault → requirement → exit code, output, results."""
    return in_guest("faults")


def test_without_a_fault(reports: Any) -> None:
    """Fails if the suite finds a fault where there is none."""
    report = reports["none"]["all"]
    assert report["code"] == 0, report["said"]
    assert by_verdict(report, "not applicable") == NOT_APPLICABLE["adda"]


@pytest.mark.parametrize(("fault", "ident"), BROKEN, ids=["-".join(pair) for pair in BROKEN])
def test_fault_is_found(reports: Any, fault: str, ident: str) -> None:
    """Fails if the tests of the requirement let the fault pass."""
    report = reports[fault][ident]
    assert report["code"] == 1, report["said"]
    assert any(result["verdict"] == "fail" and ident in result["requirements"]
               for result in report["results"])


def test_each_requirement_has_a_fault() -> None:
    """Fails if the suite tests a requirement that no fault breaks."""
    tested = {ident for case in plugin.cases() for ident in case.requirements}
    assert tested == {ident for _, ident in BROKEN}
