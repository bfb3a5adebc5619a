# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Management visibility, on the reference kernel."""

import errno

import pytest
from nvmptcp_lab.build import Kernel
from requirements.guest.management import BURST
from requirements.situations import Situation, run

FEW = 3  # refusals of guest/management.py before the burst
TCP = [[0, "tcp", 1], [1, "tcp", 1]]


@pytest.fixture(scope="module")
def host(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("management", "host", tmp_path_factory.mktemp("host"), topology="paths = 3")


@pytest.fixture(scope="module")
def port(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("management", "port", tmp_path_factory.mktemp("port"), topology="paths = 2")


@pytest.fixture(scope="module")
def refusals(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("management", "refusals", tmp_path_factory.mktemp("refusals"),
               topology="paths = 2")


@pytest.mark.requirement("TCPV-MGMT-001")
@pytest.mark.parametrize(("asked", "shown"), [("None", "tcp"), ("tcp", "tcp"), ("mptcp", "mptcp"),
                                              ("fell back", "mptcp")])
def test_variant_asked_for(host: Situation, asked: str, shown: str) -> None:
    """Fails if the host shows what came of it instead."""
    assert host.data[asked]["variant"] == shown


@pytest.mark.requirement("TCPV-MGMT-002")
def test_protocol_in_effect(host: Situation) -> None:
    """Fails if a connection that fell back is shown as MPTCP, or another queue's protocol."""
    assert [protocol for _, protocol, _ in host.data["fell back"]["queues"]] == ["mptcp", "tcp"]
    assert [protocol for _, protocol, _ in host.data["mptcp"]["queues"]] == ["mptcp", "mptcp"]
    assert host.data["tcp"]["queues"] == TCP


@pytest.mark.requirement("TCPV-MGMT-003")
def test_number_of_subflows(host: Situation) -> None:
    """Fails if the number isn't that of the established subflows, also after one was lost."""
    for case, expected in (("fell back", [1, 3]), ("mptcp", [3, 3]), ("lost a subflow", [2, 3])):
        assert sorted(flows for _, _, flows in host.data[case]["queues"]) == expected
        assert host.data[case]["subflows"] == expected


@pytest.mark.requirement("TCPV-MGMT-004")
def test_addresses_of_subflows(host: Situation) -> None:
    """Fails if ss(8) doesn't list each subflow with both addresses."""
    assert host.data["mptcp"]["addresses"] == [
        [f"10.0.{path}.1", f"10.0.{path}.2"] for path in (1, 1, 2, 2, 3, 3)]


@pytest.mark.requirement("TCPV-MGMT-005")
@pytest.mark.parametrize("further", [0, 1, 2])
def test_limit_of_subflows(host: Situation, further: int) -> None:
    """Three are possible. Fails if a connection has more than the administrator allows."""
    assert host.data["limited"][str(further)] == [
        [0, "mptcp", further + 1], [1, "mptcp", further + 1]]


@pytest.mark.requirement("TCPV-MGMT-006")
def test_port_with_tcp_only(port: Situation) -> None:
    """A port of MPTCP is set to TCP. Fails if it still answers MP_CAPABLE or reports TCPV 1h."""
    assert port.data["only TCP"] == {"queues": TCP, "whole": True, "answered": 0, "tcpv": [0]}


@pytest.mark.requirement("TCPV-MGMT-007")
def test_refused_connections(refusals: Situation) -> None:
    """At accept and at the ICReq. Fails if one of them is not counted, if a connection that uses
    MPTCP is, or if they count for another port, too.
    """
    assert refusals.data["few"] == FEW
    assert refusals.data["accepted"] == refusals.data["burst"]
    assert refusals.data["other"] == 0


@pytest.mark.requirement("TCPV-MGMT-007")
def test_refused_connections_in_a_burst(refusals: Situation) -> None:
    """More than the kernel logs. Fails if the number right after a burst isn't that of refusals."""
    assert refusals.data["burst"] == FEW + BURST
    assert 0 < refusals.data["logged"] < FEW + BURST


def test_the_count_of_refusals_stays(refusals: Situation) -> None:
    """Fails if it can be written, or if it begins anew when the port is closed and opened."""
    assert refusals.data["write"] in {errno.EACCES, errno.EPERM}
    assert refusals.data["opened again"] == FEW + BURST + 1


@pytest.mark.requirement("TCPV-MGMT-008")
def test_no_change_under_open_connections(port: Situation) -> None:
    """Fails if an attribute of an open port can be changed, or a connection changes by the try."""
    assert set(port.data["writes"].values()) == {errno.EACCES}
    assert port.data["kept"] == {"tcp_variant": "mptcp", "mptcp_attrs": "adda"}
    assert port.data["before"] == port.data["after"]
    assert port.data["before"]["queues"] == [[0, "mptcp", 2], [1, "mptcp", 2]]
    assert port.data["whole"]


@pytest.mark.requirement("TCPV-MGMT-009")
def test_subflows_seen_from_the_target(host: Situation) -> None:
    """Fails if ss(8) at the target lists a connection that fell back as MPTCP, or another number of
    subflows than the host has.
    """
    assert host.data["fell back"]["target"] == [3]
    assert host.data["mptcp"]["target"] == [3, 3]
    assert host.data["lost a subflow"]["target"] == [2, 3]
