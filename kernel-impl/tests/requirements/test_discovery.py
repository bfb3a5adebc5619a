# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Discovery, on the reference kernel."""

import itertools

import pytest
from nvmptcp_conformance.layers import discovery, registry
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, run

REFERRAL, NVM = 1, 2  # SUBTYPE
EADDRINUSE = 98
# (TCPV, MPATTR, MAXSF, SFGID) as guest/discovery.py sets them; the log is read twice at first.
HISTORY = [(1, 1, 0, 0), (1, 1, 0, 0), (1, 3, 0, 0), (1, 3, 4, 0), (1, 3, 4, 5), (0, 0, 0, 0),
           (1, 0, 0, 0)]


@pytest.fixture(scope="module")
def log(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("discovery", "log", tmp_path_factory.mktemp("log"), topology="paths = 2")


@pytest.fixture(scope="module")
def direct(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("discovery", "direct", tmp_path_factory.mktemp("direct"), topology="paths = 2")


def pages(log: Situation) -> list[discovery.DiscoveryLog]:
    return [discovery.DiscoveryLog(bytes.fromhex(page)) for page in log.data["logs"]]


@pytest.mark.requirement("TCPV-DISC-001")
def test_one_entry_for_a_port(log: Situation) -> None:
    """A port of either variant on an address that is taken. Fails if it opens, by its own address
    or by the wildcard, or if a log has two entries of one port.
    """
    assert log.data["doubles"] == {"10.0.1.2 tcp": EADDRINUSE, "10.0.1.2 mptcp": EADDRINUSE,
                                   "0.0.0.0 tcp": EADDRINUSE}
    for page in [*pages(log), discovery.DiscoveryLog(bytes.fromhex(log.data["last"]))]:
        keys = [(e.trtype, e.adrfam, e.traddr, e.trsvcid, e.subnqn) for e in page.entries]
        assert len(keys) == len(set(keys)) == 3


@pytest.mark.requirement("TCPV-DISC-002")
def test_change_of_tsas_is_a_change_of_the_log(log: Situation) -> None:
    """Fails if GENCTR is the same for two logs with different TSAS; the control is that it is the
    same while nothing changes.
    """
    seen = []
    for page in pages(log):
        (tsas,) = (entry.tsas for entry in page.entries if entry.subtype == NVM)
        seen.append((tsas.tcpv, tsas.mpattr, tsas.maxsf, tsas.sfgid))
    assert seen == HISTORY
    counters = [page.genctr for page in pages(log)]
    assert counters[0] == counters[1]
    assert all(before < after for before, after in itertools.pairwise(counters[1:]))


@pytest.mark.requirement("TCPV-DISC-003")
def test_referral(log: Situation) -> None:
    """A referral to a port of MPTCP, of which the target has been told nothing. Fails if it has the
    TCPV of the port that refers.
    """
    for page in pages(log):
        (referral,) = (entry for entry in page.entries if entry.subtype == REFERRAL)
        assert discovery.text(referral.traddr) == "10.0.2.2"
        assert referral.tsas.tcpv == registry.Tcpv.TCP


@pytest.mark.requirement("TCPV-DISC-006")
def test_discovery_over_mptcp(direct: Situation) -> None:
    """Fails if a Discovery controller can't be reached over MPTCP."""
    assert direct.data["discovery"] == {"queues": [[0, "mptcp", 2]], "mp_capable": 1}


@pytest.mark.requirement("TCPV-DISC-008")
def test_administrator_selects_the_variant(direct: Situation) -> None:
    """One port, both settings. Fails if a setting has no effect."""
    assert direct.data["mptcp"] == {
        "queues": [[0, "mptcp", 2], [1, "mptcp", 2]], "mp_capable": 2}
    assert direct.data["tcp"] == {"queues": [[0, "tcp", 1], [1, "tcp", 1]], "mp_capable": 0}


@pytest.mark.requirement("TCPV-DISC-009")
def test_default_is_tcp(direct: Situation) -> None:
    """A connect without a setting to a port of MPTCP. Fails if MP_CAPABLE is sent."""
    assert direct.data["default"] == {"queues": [[0, "tcp", 1], [1, "tcp", 1]], "mp_capable": 0}
    assert direct.data["discovery, default"] == {"queues": [[0, "tcp", 1]], "mp_capable": 0}
