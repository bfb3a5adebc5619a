# SPDX-License-Identifier: GPL-2.0-or-later
"""The suite against the soft target on the raw stack: it passes without a fault, and each fault is
found by a test of each requirement that it breaks.
"""

from typing import Any

import pytest
from in_guest import in_guest
from nvmptcp_conformance.softtarget.raw_faults import RAW_FAULTS
from suite_raw_in_guest import GOOD

BROKEN = [(name, ident) for name, fault in RAW_FAULTS.items() for ident in fault.breaks]
# A "should", without which a connection is as safe.
CONCEPTUAL = {"TCPV-FALL-005"}


@pytest.fixture(scope="module")
def results() -> Any:
    """Target → results."""
    return in_guest("suite_raw_in_guest", "faults")


@pytest.mark.parametrize("name", GOOD)
def test_without_a_fault(results: Any, name: str) -> None:
    """Fails if the suite finds a fault where there is none, or if nothing applies."""
    verdicts = [result["verdict"] for result in results[name]]
    assert "pass" in verdicts
    assert not [(result["test"], result["verdict"], result["reason"]) for result in results[name]
                if result["verdict"] not in ("pass", "not applicable")]


@pytest.mark.parametrize(("fault", "ident"), BROKEN, ids=["-".join(pair) for pair in BROKEN])
def test_fault_is_found(results: Any, fault: str, ident: str) -> None:
    """Fails if the tests of the requirement let the fault pass."""
    expected = "conceptual pass" if ident in CONCEPTUAL else "fail"
    assert any(result["verdict"] == expected and ident in result["requirements"]
               for result in results[fault]), results[fault]
