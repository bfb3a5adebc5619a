# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a host on the raw stack against the soft host on it: it passes without a fault, and
each fault is found by a test of each requirement that it breaks.
"""

from typing import Any

import pytest
from in_guest import in_guest
from mutants import broken, catches
from nvmptcp_conformance.softhost.raw_faults import RAW_FAULTS

BROKEN = broken(RAW_FAULTS)


@pytest.fixture(scope="module")
def good() -> Any:
    """The results of the soft host."""
    return in_guest("host_in_guest", "raw")


@pytest.fixture(scope="module")
def faults() -> Any:
    """Fault → results."""
    return in_guest("host_in_guest", "raw_faults")


def test_without_a_fault(good: Any) -> None:
    """Fails if the suite finds a fault where there is none, or if a test doesn't apply."""
    assert len(good) >= 40
    assert not [(result["test"], result["verdict"], result["reason"]) for result in good
                if result["verdict"] != "pass"]


@pytest.mark.parametrize(("fault", "ident"), BROKEN, ids=["-".join(pair) for pair in BROKEN])
def test_fault_is_found(faults: Any, fault: str, ident: str) -> None:
    """Fails if the tests of the requirement let the fault pass."""
    assert any(catches(result, ident) for result in faults[fault]), faults[fault]


def test_each_requirement_has_a_fault(good: Any) -> None:
    """Fails if a raw test is of a requirement that no fault breaks."""
    tested = {ident for result in good for ident in result["requirements"]}
    assert tested == {ident for _, ident in BROKEN}
