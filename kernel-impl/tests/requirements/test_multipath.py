# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Native multipath, ANA and congestion, on the reference kernel.

Two paths, two ports in one subflow group; connections in turn: to port 1 with one subflow, to
port 1, to port 2, and to port 1 with a DSCP.
"""

import pytest
from nvmptcp_conformance.layers import mptcp
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, run
from scapy.layers.inet import TCP

NON_OPTIMIZED, OPTIMIZED = 2, 1  # ANA states, NVMe Base Specification, ANA log page
TOS = 10 << 2  # of guest/multipath.py
ONE, BOTH, OTHER, WITH_DSCP = range(4)


@pytest.fixture(scope="module")
def group(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("multipath", "group", tmp_path_factory.mktemp("group"), topology="paths = 2",
               capture=True)


def _subflows(situation: Situation, number: int) -> list[int]:
    return [subflows for _, _, subflows in situation.data["connections"][number]["queues"]]


@pytest.mark.requirement("TCPV-MPIO-001")
def test_an_association_is_one_multipath_path(group: Situation) -> None:
    """Native multipath is on. Fails if subflows make controllers or paths of their own."""
    assert _subflows(group, ONE) == [1, 1]
    assert _subflows(group, BOTH) == [2, 2]
    for number in (ONE, BOTH):
        connection = group.data["connections"][number]
        assert connection["native"] == "Y"
        assert len(connection["controllers"]) == 1
        assert len(connection["paths"]) == 1
        assert connection["whole"]


@pytest.mark.requirement("TCPV-MPIO-002")
def test_ana_states_do_not_depend_on_subflows(group: Situation) -> None:
    """Port 1 is non-optimized, port 2 optimized. Fails if a subflow to the other port's address
    changes what is reported.
    """
    states = [connection["ana"]["1"] for connection in group.data["connections"][:3]]
    assert states == [NON_OPTIMIZED, NON_OPTIMIZED, OPTIMIZED]


@pytest.mark.requirement("TCPV-MPIO-004")
def test_a_group_keeps_its_promise(group: Situation) -> None:
    """The entries of both ports have one SFGID. Fails if a connection that was opened to one of
    them isn't joined at the other.
    """
    (first,), (second,) = group.data["logs"]
    assert first["sfgid"] == second["sfgid"] == 7
    assert {first["traddr"], second["traddr"]} == {"10.0.1.2", "10.0.2.2"}
    for number, joined in ((BOTH, "10.0.2.2"), (OTHER, "10.0.1.2")):
        connection = group.data["connections"][number]
        accepted = [segment.src for segment, _ in group.with_option(
            mptcp.MPJoinSYNACK, connection["begin"], connection["end"])]
        assert accepted == [joined] * len(connection["queues"])
        assert _subflows(group, number) == [2, 2]


@pytest.mark.requirement("TCPV-FAIR-002")
def test_no_two_subflows_have_the_same_addresses(group: Situation) -> None:
    """On none of the connections, those of discovery included."""
    assert any(len(connection.subflows) > 1 for connection in group.connections)
    for connection in group.connections:
        pairs = [tuple(end.address for end in subflow.ends) for subflow in connection.subflows]
        assert len(pairs) == len(set(pairs))


@pytest.mark.requirement("TCPV-FAIR-003")
def test_the_dscp_is_used_on_all_subflows(group: Situation) -> None:
    """Each segment from the host, SYNs included; without the option there is none."""
    plain, marked = (group.data["connections"][number] for number in (BOTH, WITH_DSCP))
    sent = [segment for segment in group.between(marked["begin"], marked["end"])
            if segment[TCP].dport == 4420]
    assert {segment.dst for segment in sent} == {"10.0.1.2", "10.0.2.2"}
    assert {(segment.dst, segment.tos) for segment in sent} == {
        ("10.0.1.2", TOS), ("10.0.2.2", TOS)}
    assert {segment.tos for segment in group.between(plain["begin"], plain["end"])} == {0}
