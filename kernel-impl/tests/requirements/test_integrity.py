# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Integrity and TLS, on the reference kernel."""

import errno
import itertools

import pytest
from nvmptcp_conformance.layers import mptcp, mptcp_stream, nvme_tcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, run
from scapy.layers.inet import TCP

PORT, DCSR_PORT = 4420, 4421  # of guest/integrity.py
HDGST, DDGST = 1, 2  # bits of DGST in ICReq and ICResp


@pytest.fixture(scope="module")
def digests(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("integrity", "digests", tmp_path_factory.mktemp("digests"), topology="paths = 1",
               capture=True)


@pytest.fixture(scope="module")
def unchecked(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("integrity", "unchecked", tmp_path_factory.mktemp("unchecked"),
               topology="paths = 1")


@pytest.fixture(scope="module")
def checksum_failure(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("integrity", "checksum_failure", tmp_path_factory.mktemp("failure"),
               topology="paths = 2")


@pytest.fixture(scope="module")
def header_digest(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("integrity", "header_digest", tmp_path_factory.mktemp("header_digest"),
               topology="paths = 2")


@pytest.fixture(scope="module")
def tls(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("integrity", "tls", tmp_path_factory.mktemp("tls"), topology="paths = 2")


def dgst(connection: mptcp_stream.Connection, sender: int) -> int:
    """DGST of the ICReq or the ICResp."""
    pdu = nvme_tcp.split_pdus(connection.stream(sender))[0][0]
    assert isinstance(pdu, (nvme_tcp.ICReq, nvme_tcp.ICResp))
    return int(pdu.dgst)


@pytest.mark.requirement("TCPV-INTG-001")
def test_digests_are_independent_of_checksums(digests: Situation) -> None:
    """All combinations. Fails if a digest is asked for or granted more or less often when there are
    DSS checksums, or if these depend on the digests.
    """
    seen = []
    for connection in digests.connections:
        checked = {mapping.checksum is not None for mapping in connection.mappings
                   if mapping.payload_length}
        assert len(checked) == 1
        seen.append((checked.pop(), dgst(connection, INITIATOR), dgst(connection, LISTENER)))
    wanted = itertools.product((False, True), (0, HDGST, DDGST, HDGST | DDGST))
    # two queues each
    assert seen == [(checked, bits, bits) for checked, bits in wanted for _ in range(2)]


@pytest.mark.requirement("TCPV-INTG-002")
def test_dcsr_sets_the_flag(digests: Situation) -> None:
    """Fails if an MP_CAPABLE of a port with DCSR lacks the flag A, to hosts that don't set it
    themselves; the control is that the port without DCSR doesn't set it.
    """
    assert not any(option.flags.A for _, option in digests.with_option(mptcp.MPCapableSYN))
    answers = [(segment[TCP].sport, bool(option.flags.A))
               for segment, option in digests.with_option(mptcp.MPCapableSYNACK)]
    assert answers == [(PORT, False)] * 8 + [(DCSR_PORT, True)] * 8


@pytest.mark.requirement("TCPV-INTG-004")
@pytest.mark.parametrize("where", [
    "with MP_CAPABLE", "first DSS", "later DSS", "joined subflow", "to the host"])
def test_mapping_without_checksum(unchecked: Situation, where: str) -> None:
    """A host or controller of our own leaves a checksum out. Fails if the kernel takes the data,
    or just does nothing; the control is that it takes data with a checksum.
    """
    assert unchecked.data["control"] == "data"
    assert unchecked.data[where] == "reset: Middlebox interference"


def test_connection_outlives_a_mapping_without_checksum(unchecked: Situation) -> None:
    """Fails if more than the subflow that brought it is closed."""
    assert unchecked.data["connection after it"] == "works"
    assert unchecked.data["queues"] == [[0, "mptcp", 1], [1, "mptcp", 1]]


@pytest.mark.requirement("TCPV-INTG-005", "TCPV-FALL-012")
@pytest.mark.parametrize("direction", ["to target", "to host"])
def test_checksum_failure_on_one_of_two_subflows(checksum_failure: Situation,
                                                 direction: str) -> None:
    """A box changes data on the second path. Fails if a command ends with an error (the situation
    would), if changed data are passed on, or if the connection is lost.
    """
    result = checksum_failure.data[direction]
    assert result["before"] == [[0, "mptcp", 2], [1, "mptcp", 2]]
    assert result["errors"] >= 1, "no DSS checksum has failed"
    assert result["after"] == [[0, "mptcp", 2], [1, "mptcp", 1]]
    assert result["wholes"] == [True] * 4
    assert result["state"] == "live"
    assert checksum_failure.data["log"] == []


@pytest.mark.requirement("TCPV-INTG-006")
def test_header_digest_error_found_by_the_controller(header_digest: Situation) -> None:
    """Two subflows, one PDU with a wrong digest. Fails if the PDU is answered, or if the connection
    or one of its subflows is still there.
    """
    assert len(header_digest.data["subflows"]) == 2
    assert header_digest.data.get("answer", "") == ""
    assert header_digest.data["gone"] is not None


@pytest.mark.requirement("TCPV-INTG-006")
def test_header_digest_error_found_by_the_host(header_digest: Situation) -> None:
    """A box changes a header on one of two paths. Fails if the host goes on with a subflow of the
    connection, or doesn't connect again.
    """
    assert header_digest.data["log"], "no header digest was wrong"
    assert header_digest.data["before"] == header_digest.data["after"] == 4
    assert header_digest.data["kept"] == []
    assert header_digest.data["whole"]


@pytest.mark.requirement("TCPV-TLS-003")
def test_port_without_tls_over_mptcp(tls: Situation) -> None:
    """Fails if a port opens, and so is reported, with TCPV 1h and TLS, whichever was set first; the
    control is that one with TLS and TCP does.
    """
    assert tls.data["opened"] == {"TLS, then MPTCP": errno.EOPNOTSUPP,
                                  "MPTCP, then TLS": errno.EOPNOTSUPP, "TLS": "opened"}


@pytest.mark.requirement("TCPV-TLS-004")
def test_host_without_tls_over_mptcp(tls: Situation) -> None:
    """Fails if a connection is begun, or TLS is dropped in silence; the control is that with TCP
    only the key is missing.
    """
    assert tls.data["connected"] == {"mptcp": errno.EINVAL, "tcp": errno.ENOKEY}
    assert tls.data["SYNs"] == 0
