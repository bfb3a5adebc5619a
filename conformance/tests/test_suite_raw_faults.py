# SPDX-License-Identifier: GPL-2.0-or-later
"""The suite against the soft target on the raw stack: it passes without a fault, and each fault is
found by a test of each requirement that it breaks.
"""

from typing import Any

import pytest
from in_guest import in_guest
from mutants import broken, catches
from nvmptcp_conformance.softtarget.raw_faults import RAW_FAULTS
from suite_raw_in_guest import GOOD

BROKEN = broken(RAW_FAULTS)


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
    assert any(catches(result, ident) for result in results[fault]), results[fault]
