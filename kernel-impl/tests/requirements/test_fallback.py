# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Fallback to TCP, on the reference kernel."""

import pytest
from nvmptcp_conformance.layers import mptcp
from nvmptcp_lab.build import Kernel
from requirements.guest.fallback import EAGER, SILENT
from requirements.situations import Situation, payload_length, run
from scapy.layers.inet import TCP
from scapy.packet import Packet

ICREQ_SIZE = 128  # bytes
ALL_FELL_BACK = [[0, "tcp", 1], [1, "tcp", 1]]


@pytest.fixture(scope="module")
def without_mpreq(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("fallback", "without_mpreq", tmp_path_factory.mktemp("without"),
               topology="paths = 2")


@pytest.fixture(scope="module")
def again(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("fallback", "again", tmp_path_factory.mktemp("again"), topology="paths = 2")


@pytest.fixture(scope="module")
def with_mpreq(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("fallback", "with_mpreq", tmp_path_factory.mktemp("with"), topology="paths = 2",
               capture=True)


@pytest.fixture(scope="module")
def after_data(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("fallback", "after_data", tmp_path_factory.mktemp("after"), topology="paths = 1",
               capture=True)


@pytest.mark.requirement("TCPV-FALL-001", "TCPV-FALL-002")
@pytest.mark.parametrize("removed", ["SYN", "third ACK", "data"])
@pytest.mark.parametrize("attribute", ["adda", "dcsr"])
def test_fallback_before_data(without_mpreq: Situation, attribute: str, removed: str) -> None:
    """MPTCP is removed, as early or late as it can be before data. Fails if host or controller
    gives the connection up, if it isn't TCP then, or if DCSR makes a difference.
    """
    assert without_mpreq.data[f"{attribute}, {removed}"] == {"queues": ALL_FELL_BACK, "whole": True}


@pytest.mark.requirement("TCPV-FALL-002")
@pytest.mark.parametrize("attribute", ["adda", "dcsr"])
def test_host_of_tcp(without_mpreq: Situation, attribute: str) -> None:
    """Fails if a port with TCPV 1h and without MPREQ refuses a host that has no MPTCP."""
    assert without_mpreq.data[f"{attribute}, nothing"] == {"queues": ALL_FELL_BACK, "whole": True}


def exchange(segments: list[Packet], port: int) -> list[tuple[str, str, int]]:
    """(sender, flags, payload) of the segments from and to a port of the host."""
    return [("host" if segment[TCP].sport == port else "target", str(segment[TCP].flags),
             payload_length(segment))
            for segment in segments if port in (segment[TCP].sport, segment[TCP].dport)]


@pytest.mark.requirement("TCPV-FALL-004")
def test_refusal_with_mpreq(with_mpreq: Situation) -> None:
    """The handshake is that of MPTCP, the ICReq comes without it. Fails if the controller answers
    by a PDU, or leaves the connection open.
    """
    (syn, _), = with_mpreq.with_option(mptcp.MPCapableSYN, with_mpreq.data["begin"])
    segments = exchange(with_mpreq.between(with_mpreq.data["begin"]), syn[TCP].sport)
    assert ("target", "SA", 0) in segments
    assert ("host", "PA", ICREQ_SIZE) in segments
    assert sum(length for sender, _, length in segments if sender == "target") == 0
    assert [flags for sender, flags, _ in segments if sender == "target"][-1] == "RA"
    assert not with_mpreq.data["connected"]
    assert with_mpreq.data["left"] == []


@pytest.mark.requirement("TCPV-FALL-004", "TCPV-FALL-005")
def test_early_refusal(with_mpreq: Situation) -> None:
    """SYNs without MP_CAPABLE. Fails if the controller waits for an ICReq before it resets the
    connection, or answers one that comes at once.
    """
    assert with_mpreq.data["silent"] == with_mpreq.data["eager"] == "reset"
    assert exchange(with_mpreq.segments, SILENT) == [
        ("host", "S", 0), ("target", "SA", 0), ("host", "A", 0), ("target", "RA", 0)]
    eager = exchange(with_mpreq.segments, EAGER)
    assert eager[-1] == ("target", "RA", 0)
    assert sum(length for sender, _, length in eager if sender == "target") == 0


@pytest.mark.requirement("TCPV-FALL-011")
def test_another_try_after_reconnecting(again: Situation) -> None:
    """Fails if a controller whose connections fell back stays with TCP after a reset."""
    assert again.data == {"before": ALL_FELL_BACK, "after": [[0, "mptcp", 2], [1, "mptcp", 2]],
                          "state": "live"}


@pytest.mark.requirement("TCPV-FALL-006", "TCPV-FALL-010", "TCPV-FALL-012")
@pytest.mark.parametrize("direction", ["to target", "to host"])
def test_fallback_after_data(after_data: Situation, direction: str) -> None:
    """A box changes data on the only subflow of a port with MPREQ and DCSR: MP_FAIL, an infinite
    mapping, TCP. Fails if the command ends with an error, if either side closes this connection or
    the other one, or starts error recovery.
    """
    result = after_data.data[direction]
    assert result["before"] == [[0, "mptcp", 1], [1, "mptcp", 1]]
    fails = list(after_data.with_option(mptcp.MPFail, result["begin"], result["end"]))
    assert fails, "no DSS checksum has failed"
    sender = {"to target": "10.0.1.2", "to host": "10.0.1.1"}[direction]
    assert {segment.src for segment, _ in fails} >= {sender}
    assert result["infinite"] == 1
    assert result["after"] == [[0, "mptcp", 1], [1, "tcp", 1]]
    assert result["changed"], "the box has changed nothing"
    assert result["whole"]
    assert result["state"] == "live"
    assert after_data.data["log"] == []
