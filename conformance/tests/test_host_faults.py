# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a host on the kernel's sockets against a user-space one: it passes without a fault,
and each fault is found by a test of the requirement that it breaks. Every requirement has a fault,
here or on the raw stack.
"""

from typing import Any

import pytest
from in_guest import in_guest
from mutants import broken, catches
from nvmptcp_conformance.softhost.faults import FAULTS
from nvmptcp_conformance.softhost.raw_faults import RAW_FAULTS
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Side

BROKEN = broken(FAULTS)
BROKEN_RAW = {ident for fault in RAW_FAULTS.values() for ident in fault.breaks}


@pytest.fixture(scope="module")
def good() -> Any:
    """The results of the soft host."""
    return in_guest("host_in_guest", "soft")


@pytest.fixture(scope="module")
def faults() -> Any:
    """Fault → results."""
    return in_guest("host_in_guest", "faults")


def test_without_a_fault(good: Any) -> None:
    """Fails if the suite finds a fault where there is none, or if a test doesn't apply."""
    assert len(good) >= 50
    assert not [(result["test"], result["reason"]) for result in good
                if result["verdict"] != "pass"]


@pytest.mark.parametrize(("fault", "ident"), BROKEN, ids=["-".join(pair) for pair in BROKEN])
def test_fault_is_found(faults: Any, fault: str, ident: str) -> None:
    """Fails if the tests of the requirement let the fault pass."""
    assert any(catches(result, ident) for result in faults[fault]), faults[fault]


def test_false_claims() -> None:
    """Fails if the suite believes a profile that claims the contrary of what the host has."""
    found = {result["test"]: result["verdict"] for result in in_guest("host_in_guest", "claims")}
    assert found == {f"claim[{name}]": "fail"
                     for name in ("mptcp", "discovery", "hdgst", "ddgst", "tls")}


def test_each_requirement_has_a_fault() -> None:
    """Fails if the suite tests a requirement that no fault breaks."""
    tested = {ident for case in plugin.cases(sides=[Side.HOST]) for ident in case.requirements}
    assert tested == {ident for _, ident in BROKEN} | BROKEN_RAW
