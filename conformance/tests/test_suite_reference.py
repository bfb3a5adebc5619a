# SPDX-License-Identifier: GPL-2.0-or-later
"""The suite against the reference kernel: each port has exactly the verdicts that are due to it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nvmptcp_lab.build import ensure_kernel
from suite_in_guest import PORTS

HERE = Path(__file__).parent

# What isn't "pass". The rest has to be.
NEEDS_FALLBACK = {"queues_differ[mptcp-tcp]", "queues_differ[tcp-mptcp]", "tcp_is_accepted",
                  "other_connections_stay", "pdu_format_version"}
NEEDS_MPREQ = {"tcp_is_refused", "decision_is_taken_once"}
NEEDS_ADDA = {"announced_addresses_accept_joins", "joins_lead_to_the_same_controller"}
NO_ADDA, NO_DCSR = {"no_announcements_without_adda"}, {"dcsr_sets_the_flag"}
NO_TCP_ENTRY, NO_GROUP = {"dependent_fields"}, {"members_of_a_group_are_alike"}
WITHOUT_TCPV = {"reserved", "entries_of_a_port_agree", "one_entry_for_a_port", "record_format",
                "dependent_fields"}
NOT_APPLICABLE = {
    "adda": NEEDS_MPREQ | NO_ADDA | NO_DCSR | NO_TCP_ENTRY | NO_GROUP,
    "strict": NEEDS_FALLBACK | NO_ADDA | NO_TCP_ENTRY | NO_GROUP,
    "no adda": NEEDS_MPREQ | NEEDS_ADDA | NO_DCSR | NO_TCP_ENTRY | NO_GROUP,
}
# Limits of kernel-impl/README.md.
FAIL = {"no adda": NO_ADDA}

# Requirement → a port of the reference kernel where its tests apply and pass.
PASSED_AT = {
    "TCPV-TSAS-001": "adda", "TCPV-TSAS-002": "legacy", "TCPV-TSAS-003": "adda",
    "TCPV-TSAS-008": "adda", "TCPV-DISC-001": "adda", "TCPV-CONN-002": "adda",
    "TCPV-CONN-006": "adda", "TCPV-CONN-013": "adda", "TCPV-FALL-002": "adda",
    "TCPV-FALL-004": "strict", "TCPV-FALL-006": "strict", "TCPV-FALL-010": "adda",
    "TCPV-PATH-001": "adda", "TCPV-PATH-008": "adda", "TCPV-CLOS-004": "adda",
    "TCPV-CLOS-006": "adda", "TCPV-INTG-001": "strict", "TCPV-INTG-002": "strict",
    "TCPV-COMP-001": "adda", "TCPV-COMP-002": "adda",
}


def in_guest(what: str) -> Any:
    """What suite_in_guest.py prints."""
    ensure_kernel()
    done = subprocess.run(
        [sys.executable, "-m", "nvmptcp_lab.cli", "run", "--", "env", f"PYTHONPATH={HERE}",
         "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-m", "suite_in_guest", what],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def reports() -> Any:
    """Name of a port or situation → exit code, output, results."""
    return in_guest("kernel")


def by_verdict(report: Any, verdict: str) -> set[str]:
    return {result["test"] for result in report["results"] if result["verdict"] == verdict}


@pytest.mark.parametrize("port", PORTS)
def test_verdicts(reports: Any, port: str) -> None:
    """Fails if any test has another verdict than expected, or was left out."""
    every = {result["test"] for result in reports["adda"]["results"]}
    not_applicable = every - WITHOUT_TCPV if port == "legacy" else NOT_APPLICABLE[port]
    fail = FAIL.get(port, set())
    report = reports[port]
    assert by_verdict(report, "not applicable") == not_applicable, report["said"]
    assert by_verdict(report, "fail") == fail, report["said"]
    assert by_verdict(report, "pass") == every - not_applicable - fail, report["said"]
    assert report["code"] == (1 if fail else 0)


def test_reasons(reports: Any) -> None:
    """Fails if a verdict other than pass comes without a reason."""
    for port in PORTS:
        for result in reports[port]["results"]:
            assert bool(result["reason"]) == (result["verdict"] != "pass"), result


@pytest.mark.parametrize("ident", [
    pytest.param(ident, marks=pytest.mark.requirement(ident)) for ident in PASSED_AT])
def test_requirement(reports: Any, ident: str) -> None:
    """Fails if a test of the requirement doesn't apply or doesn't pass, or if there is none."""
    report = reports[PASSED_AT[ident]]
    verdicts = {result["test"]: result["verdict"] for result in report["results"]
                if ident in result["requirements"]}
    assert verdicts
    assert set(verdicts.values()) == {"pass"}, report["said"]


def test_failure_says_what_and_why(reports: Any) -> None:
    """Fails if a failure comes without requirement, expected, observed."""
    said = reports["no adda"]["said"]
    lines = said[said.index("fail "):].splitlines()[:4]
    assert lines[0].split() == ["fail", "no_announcements_without_adda", "TCPV-PATH-002"]
    starts = ["requirement: A controller whose port reports ADDA cleared", "expected:    no ADD_",
              "observed:    announced addresses: "]
    assert all(line.strip().startswith(start)
               for line, start in zip(lines[1:], starts, strict=True)), lines


def test_claim_of_mptcp(reports: Any) -> None:
    """Fails if --require-mptcp lets a port without MPTCP pass."""
    report = reports["claimed"]
    assert report["code"] == 1
    assert by_verdict(report, "fail") == by_verdict(reports["legacy"], "not applicable") - NO_GROUP


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
