# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a target against a user-space one: it passes without a fault, and each fault is
found by a test of the requirement that it breaks.
"""

from typing import Any

import pytest
from in_guest import in_guest
from mutants import broken, catches
from nvmptcp_conformance.softtarget.faults import FAULTS
from nvmptcp_conformance.softtarget.raw_faults import RAW_FAULTS
from nvmptcp_conformance.softtarget.stream_faults import STREAM_FAULTS
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Side

# What a target on the kernel's sockets can't show: see test_suite_stream_faults.py.
ON_THE_RAW_STACK = {"TCPV-TLS-003"}
PASSED = "pass", "conceptual pass"
BROKEN = broken(FAULTS)


@pytest.fixture(scope="module")
def good() -> Any:
    """Configuration → results."""
    return in_guest("soft_in_guest", "good")


@pytest.fixture(scope="module")
def faults() -> Any:
    """Fault → results."""
    return in_guest("soft_in_guest", "faults")


def covered() -> set[str]:
    """The requirements that have tests."""
    return {ident for case in plugin.cases(sides=[Side.TARGET]) for ident in case.requirements}


def test_without_a_fault(good: Any) -> None:
    """Fails if the suite finds a fault where there is none, or can't tell."""
    wrong = [(name, result["test"], result["reason"]) for name, results in good.items()
             for result in results if result["verdict"] in ("fail", "inconclusive")]
    assert not wrong


def test_each_requirement_is_kept(good: Any) -> None:
    """Fails if the tests of a requirement apply to no configuration, so that none could pass."""
    passed = {ident for results in good.values() for result in results
              for ident in result["requirements"] if result["verdict"] in PASSED}
    assert passed == covered() - ON_THE_RAW_STACK


@pytest.mark.parametrize(("fault", "ident"), BROKEN, ids=["-".join(pair) for pair in BROKEN])
def test_fault_is_found(faults: Any, fault: str, ident: str) -> None:
    """Fails if the tests of the requirement let the fault pass."""
    assert any(catches(result, ident) for result in faults[fault]), faults[fault]


def test_each_requirement_has_a_fault() -> None:
    """Fails if the suite tests a requirement that no fault breaks."""
    mutants = [*FAULTS.values(), *RAW_FAULTS.values(), *STREAM_FAULTS.values()]
    assert covered() == {ident for fault in mutants for ident in fault.breaks}
