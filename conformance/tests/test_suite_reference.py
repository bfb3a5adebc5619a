# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a target against the reference kernel: each port has exactly the verdicts that are
due to it.
"""

from typing import Any

import pytest
from in_guest import in_guest
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Side
from reference_verdicts import CONCEPTUAL, NOT_APPLICABLE, WITHOUT_TCPV, expected, named

MPTCP_PORTS = tuple(NOT_APPLICABLE)
PASSED = "pass", "conceptual pass"
# Nothing of the kernel can show them; reference_verdicts.py says why.
NEVER = "CLOS-007", "MPIO-004", "MPIO-005", "PATH-007", "TLS-003"
# Requirements whose tests apply to the kernel, and pass.
APPLY = (
    "CLOS-001", "CLOS-002", "CLOS-004", "CLOS-005", "CLOS-006", "COMP-001", "COMP-002", "CONN-002",
    "CONN-006", "CONN-009", "CONN-012", "CONN-013", "DISC-001", "FALL-002", "FALL-004", "FALL-005",
    "FALL-006", "FALL-010", "FALL-012", "INTG-001", "INTG-002", "INTG-004", "INTG-005", "INTG-006",
    "LOSS-001", "LOSS-002", "LOSS-003", "LOSS-006", "LOSS-007", "MPIO-002", "PATH-001", "PATH-002",
    "PATH-005", "PATH-006", "PATH-008", "PATH-009", "PATH-010", "PATH-012", "PATH-013", "PATH-014",
    "PATH-015", "SEC-001", "SEC-002", "SEC-003", "SEC-007", "SEC-008", "TIME-002", "TSAS-001",
    "TSAS-002", "TSAS-003", "TSAS-008")


@pytest.fixture(scope="module")
def reports() -> Any:
    """Name of a port or situation → exit code, output, results."""
    return in_guest("suite_in_guest")


@pytest.mark.parametrize("port", MPTCP_PORTS)
def test_verdicts(reports: Any, port: str) -> None:
    """Fails if any test has another verdict than expected."""
    report = reports[port]
    wrong = [(result["test"], expected(port, result["test"]), result["verdict"], result["reason"])
             for result in report["results"]
             if result["verdict"] != expected(port, result["test"])]
    assert report["results"]
    assert not wrong
    assert report["code"] == 0, report["said"]


def test_each_expectation_is_of_a_test(reports: Any) -> None:
    """Fails if a test that is named in the table isn't there, or wasn't run."""
    names = [name for table in (CONCEPTUAL, *NOT_APPLICABLE.values()) for tests in table.values()
             for name in tests]
    run = {result["test"] for port in MPTCP_PORTS for result in reports[port]["results"]}
    assert not [name for name in names if not any(named(test, {name}) for test in run)]


def test_port_without_the_variant(reports: Any) -> None:
    """Fails unless exactly the tests that don't need TCPV 1h apply to a legacy port."""
    report = reports["legacy"]
    verdicts = {result["test"]: result["verdict"] for result in report["results"]}
    assert len(verdicts) == len(reports["adda"]["results"])
    assert {test for test, verdict in verdicts.items() if verdict in PASSED} == {
        test for test in verdicts if named(test, WITHOUT_TCPV)}, report["said"]
    assert set(verdicts.values()) == {"pass", "not applicable"}
    assert report["code"] == 0


def test_reasons(reports: Any) -> None:
    """Fails if a verdict other than pass comes without a reason."""
    for port in (*MPTCP_PORTS, "legacy"):
        for result in reports[port]["results"]:
            assert bool(result["reason"]) == (result["verdict"] != "pass"), result


@pytest.mark.parametrize("ident", [
    pytest.param(f"TCPV-{ident}", marks=pytest.mark.requirement(f"TCPV-{ident}"))
    for ident in APPLY])
def test_requirement(reports: Any, ident: str) -> None:
    """Fails if a test of the requirement fails, or if none applies to any port."""
    verdicts = [result["verdict"] for port in (*MPTCP_PORTS, "legacy")
                for result in reports[port]["results"] if ident in result["requirements"]]
    assert set(verdicts) <= {*PASSED, "not applicable"}
    assert set(verdicts) & set(PASSED)


def test_each_requirement_is_expected() -> None:
    """Fails if the suite tests a target for a requirement of which nothing is said here."""
    tested = {ident for case in plugin.cases(sides=[Side.TARGET]) for ident in case.requirements}
    assert tested == {f"TCPV-{ident}" for ident in (*APPLY, *NEVER)}


def test_claim_of_mptcp(reports: Any) -> None:
    """Fails if --require-mptcp lets a port without MPTCP pass."""
    report = reports["claimed"]
    assert report["code"] == 1
    failed = {result["test"] for result in report["results"] if result["verdict"] == "fail"}
    assert "claim[mptcp]" in failed
    assert "variant_is_true" in failed


@pytest.mark.parametrize(("situation", "says"), [
    ("refused", "10.0.1.2:4999: not reachable: Connection refused"),
    ("silent", "10.0.1.99:4420: not reachable: "),
    ("wrong NQN", "10.0.1.2:4420: the discovery log has no entry for this address with nqn."),
])
def test_no_target(reports: Any, situation: str, says: str) -> None:
    report = reports[situation]
    assert report["code"] == 2
    assert report["said"].startswith(f"nvmptcp-conformance: error: {says}")
    assert report["said"].count("\n") == 1
