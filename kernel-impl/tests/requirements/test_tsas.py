# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Transport Specific Address Subtype, on the reference kernel.

Three ports: "full" has every attribute, "bare" none, "plain" is one of TCP that had them all once.
Two NVM subsystems stand behind "full" and "bare", and "full" refers to "bare".
"""

import pytest
from nvmptcp_conformance.layers import discovery, registry
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, run

REFERRAL, NVM, CURRENT = 1, 2, 3  # SUBTYPE
ENOPROTOOPT = 92


@pytest.fixture(scope="module")
def logs(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("tsas", "logs", tmp_path_factory.mktemp("logs"))


def entries(situation: Situation, port: str) -> list[discovery.DiscoveryLogEntry]:
    log = discovery.DiscoveryLog(bytes.fromhex(situation.data["logs"][port]))
    assert log.entries, f"port {port} has no entries"
    return list(log.entries)


@pytest.mark.requirement("TCPV-TSAS-001")
def test_variant_is_true(logs: Situation) -> None:
    """Who asks for MPTCP gets it where the entry says so, also after MPTCP was switched off for new
    sockets. Fails if a port with TCPV 1h answers without MPTCP.
    """
    for port, protocols in logs.data["protocols"].items():
        for entry in entries(logs, port):
            if entry.subtype != REFERRAL:
                promised = entry.tsas.tcpv == registry.Tcpv.MPTCP
                assert protocols == ["mptcp" if promised else "tcp"] * 2, port
    assert logs.data["switched off"] == {"protocols": ["mptcp", "mptcp"], "tcpv": 1}


@pytest.mark.requirement("TCPV-TSAS-001")
def test_no_variant_without_mptcp(logs: Situation) -> None:
    """Fails if a port can be opened, and so report TCPV 1h, where MPTCP is switched off."""
    assert logs.data["late"] == f"refused: {ENOPROTOOPT}"


@pytest.mark.requirement("TCPV-TSAS-002")
def test_dependent_fields_of_tcp(logs: Situation) -> None:
    """Fails if what was set while the port was one of MPTCP is left in the entry."""
    for entry in entries(logs, "plain"):
        tsas = entry.tsas
        assert (tsas.tcpv, tsas.mpattr, tsas.maxsf, tsas.sfgid) == (0, 0, 0, 0)


@pytest.mark.requirement("TCPV-TSAS-003")
def test_reserved_is_zero(logs: Situation) -> None:
    """With all attributes, with none and in a referral. Fails if a reserved bit or byte is set; the
    control is that the defined ones are.
    """
    for port in ("full", "bare", "plain"):
        for entry in entries(logs, port):
            tsas = bytes(entry.tsas)
            assert len(tsas) == 256
            assert not tsas[2] & ~0x07
            assert not any(tsas[6:])
    full = entries(logs, "full")[1].tsas
    assert (full.mpattr, full.maxsf, full.sfgid) == (0x07, 255, 0xFFFF)


@pytest.mark.requirement("TCPV-TSAS-004")
def test_unknown_variant_is_tcp(logs: Situation) -> None:
    """nvme-cli knows no TCPV, so 1h is unknown to it. Fails if it skips the entries of a port with
    TCPV 1h, sees another transport in them, or uses anything but TCP.
    """
    stock = logs.data["stock"]
    assert [(record["trtype"], record["sectype"]) for record in stock["records"]] == [
        ("tcp", "none")] * 3
    assert stock["queues"] == [[[0, "tcp", 1], [1, "tcp", 1]]] * 2
    assert {entry.tsas.tcpv for entry in entries(logs, "bare")} == {registry.Tcpv.MPTCP}


@pytest.mark.requirement("TCPV-TSAS-008")
def test_entries_of_a_port_agree(logs: Situation) -> None:
    """Fails if the entries of the Discovery subsystem and of the two NVM subsystems differ."""
    for port, expected in (("full", (1, 7, 255)), ("bare", (1, 0, 0)), ("plain", (0, 0, 0))):
        own = [entry for entry in entries(logs, port) if entry.subtype != REFERRAL]
        assert {entry.subtype for entry in own} == {NVM, CURRENT}
        assert [(e.tsas.tcpv, e.tsas.mpattr, e.tsas.maxsf) for e in own] == [expected] * len(own)
    assert len([entry for entry in entries(logs, "full") if entry.subtype == NVM]) == 2
