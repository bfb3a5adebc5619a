# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a host against the reference kernel: exactly the verdicts that are due to it."""

from typing import Any

import pytest
from in_guest import in_guest
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Side

# The kernel leaves reading the discovery log to user space, and has no setting to require MPTCP.
NEEDS_DISCOVERY = {
    "reserved_variants_are_tcp[02h]", "reserved_variants_are_tcp[80h]",
    "reserved_variants_are_tcp[FFh]", "reserved_bits_are_ignored[mpattr]",
    "reserved_bits_are_ignored[bytes]", "mpattr_needs_the_variant", "group_needs_the_variant",
    "security_does_not_depend_on_the_variant[required]",
    "security_does_not_depend_on_the_variant[not_required]", "mptcp_where_the_entry_has_it",
    "registered_variant", "registered_dependent_fields", "no_tcp_where_it_is_refused", "maxsf",
    "groups_are_local_to_a_subsystem", "one_association_for_a_group",
    "another_entry_of_the_group", "groups_need_mptcp", "checksum_downgrade"}
NEEDS_REQUIREMENT = {"required_mptcp"}
NEEDS_TERMINATION_REQUESTS = {  # which Linux doesn't send
    "abort_is_fastclose", "termination_requests_may_arrive"}
NO_CLAIM = {"claim[tls]"}  # without discovery nothing tells the host to use TLS
NOT_APPLICABLE = NO_CLAIM | NEEDS_DISCOVERY | NEEDS_REQUIREMENT | NEEDS_TERMINATION_REQUESTS
# What Linux doesn't do, both a "should".
FAILED = {
    # nvme-tcp closes its sockets without lingering: MP_FASTCLOSE follows DATA_FIN at once.
    "acknowledgement_of_data_fin_is_waited_for",
    # The path manager of Linux joins an address when it is announced, and not again later.
    "subflows_come_back"}
# Requirements whose tests apply to the kernel, and pass.
PASSED = (
    "CLOS-002", "CLOS-003", "CLOS-006", "COMP-002", "CONN-001", "CONN-003", "CONN-004", "CONN-005",
    "CONN-007", "CONN-008", "CONN-012", "CONN-013", "DISC-008", "DISC-009", "FAIR-002", "FALL-001",
    "FALL-010", "FALL-011", "FALL-012", "INTG-001", "INTG-004", "INTG-005", "INTG-006", "LOSS-001",
    "LOSS-002", "LOSS-003", "MGMT-001", "MGMT-002", "MGMT-003", "MGMT-005", "PATH-004", "PATH-013",
    "PATH-014", "SEC-002", "SEC-003", "SEC-004", "SEC-005", "SEC-009", "TIME-001", "TIME-003")


@pytest.fixture(scope="module")
def results() -> Any:
    """What host_in_guest.py prints."""
    return in_guest("host_in_guest", "kernel")


def test_verdicts(results: Any) -> None:
    """Fails if any test has another verdict than expected, or was left out."""
    every = {case.name for case in plugin.cases(sides=[Side.HOST])}
    found = {result["test"]: (result["verdict"], result["reason"]) for result in results}
    expected = {name: "not applicable" if name in NOT_APPLICABLE else
                "fail" if name in FAILED else "pass" for name in every}
    assert {name: verdict for name, (verdict, _) in found.items()} == expected, found


def test_reasons(results: Any) -> None:
    """Fails if "not applicable" comes without what proves it."""
    for result in results:
        assert bool(result["reason"]) == (result["verdict"] != "pass"), result


@pytest.mark.parametrize("ident", [
    pytest.param(f"TCPV-{ident}", marks=pytest.mark.requirement(f"TCPV-{ident}"))
    for ident in PASSED])
def test_requirement(results: Any, ident: str) -> None:
    """Fails if no test of the requirement applies, or one doesn't pass."""
    verdicts = {result["verdict"] for result in results if ident in result["requirements"]}
    assert verdicts == {"pass"}
