# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Transport Specific Address Subtype: what the entries of the discovery log say."""

import pytest

from ...endpoints import mptcp_socket
from ...layers.registry import Mpattr, Tcpv
from ...target import Target, entries_of, place
from ..verdict import Failed, Inconclusive, NotApplicable, check

DEFINED = sum(Mpattr)


@pytest.mark.requirement("TCPV-TSAS-001")
def test_variant_is_true(mptcp_port: Target) -> None:
    """A port that reports TCPV 1h accepts MPTCP connections.

    Sent: a SYN with MP_CAPABLE to the TRADDR and TRSVCID of the entry, then ICReq, Connect, and
    the commands that enable the controller.
    Expected: the connection is MPTCP from the beginning to the end, and each command succeeds.
    """
    with mptcp_port.connection() as host:
        first = mptcp_socket.info(host.socket)
    check(first is not None, "the connection fell back to TCP in the handshake")
    with mptcp_port.admin_queue() as (host, _):
        host.keep_alive()
        check(mptcp_socket.info(host.socket) is not None, "the connection fell back to TCP later")


@pytest.mark.requirement("TCPV-TSAS-001")
def test_variant_is_true_of_each_entry(target: Target) -> None:
    """Each port that has TCPV 1h in the log accepts MPTCP connections.

    Sent: a SYN with MP_CAPABLE to the TRADDR and TRSVCID of each TCP entry with TCPV 1h, whatever
    its SUBTYPE.
    Expected: each connection is MPTCP.
    """
    ports = sorted({place(entry) for entry in entries_of(target.log)
                    if int(entry.tsas.tcpv) == Tcpv.MPTCP})
    if not ports:
        raise NotApplicable("no entry of the log has TCPV 1h")
    for traddr, trsvcid in ports:
        try:
            sock = mptcp_socket.open_socket(traddr, int(trsvcid), target.address.timeout)
        except ConnectionRefusedError:
            raise Failed(f"{traddr} {trsvcid}: the connection is refused") from None
        except OSError as error:
            raise Inconclusive(f"{traddr} {trsvcid}: {error.strerror or error}") from error
        with sock:
            check(mptcp_socket.info(sock) is not None,
                  f"{traddr} {trsvcid}: the connection fell back to TCP in the handshake")


@pytest.mark.requirement("TCPV-TSAS-002")
def test_dependent_fields(target: Target) -> None:
    """MPATTR, MAXSF and SFGID are zero where TCPV is 0h.

    Sent: Get Log Page for the Discovery log page.
    Expected: MPATTR, MAXSF and SFGID are 0h in each TCP entry whose TCPV is 0h.
    """
    entries = [entry for entry in entries_of(target.log) if int(entry.tsas.tcpv) == Tcpv.TCP]
    if not entries:
        raise NotApplicable(f"none of the {len(target.log.entries)} entries has TCPV 0h")
    for entry in entries:
        tsas = entry.tsas
        check(not (int(tsas.mpattr) or tsas.maxsf or tsas.sfgid),
              f"{' '.join(place(entry))}: TCPV 0h, but MPATTR {int(tsas.mpattr):02X}h,"
              f" MAXSF {tsas.maxsf}, SFGID {tsas.sfgid:X}h")


@pytest.mark.requirement("TCPV-TSAS-003")
def test_reserved(target: Target) -> None:
    """Reserved bits and bytes of TSAS are zero.

    Sent: Get Log Page for the Discovery log page.
    Expected: bits 7:3 of MPATTR and bytes 255:6 of TSAS are 0h in each entry of the port.
    """
    for entry in entries_of(target.log):
        if place(entry) != place(target.entry):
            continue  # it may come from a registration
        spare = int(entry.tsas.mpattr) & ~DEFINED
        check(not spare, f"{' '.join(place(entry))}: MPATTR has reserved bits set: {spare:02X}h")
        used = [f"byte {6 + at}: {byte:02X}h" for at, byte in enumerate(entry.tsas.reserved6)
                if byte]
        check(not used, f"{' '.join(place(entry))}: TSAS, {', '.join(used)}")


@pytest.mark.requirement("TCPV-TSAS-008")
def test_entries_of_a_port_agree(target: Target) -> None:
    """All entries of a port have the same TCPV, MPATTR and MAXSF.

    Sent: Get Log Page for the Discovery log page.
    Expected: entries with the same TRADDR and TRSVCID agree in TCPV, MPATTR and MAXSF, whatever
    their SUBTYPE.
    """
    by_port: dict[tuple[str, str], set[tuple[int, int, int]]] = {}
    for entry in entries_of(target.log):
        tsas = entry.tsas
        by_port.setdefault(place(entry), set()).add(
            (int(tsas.tcpv), int(tsas.mpattr), tsas.maxsf))
    for port, found in by_port.items():
        check(len(found) == 1, f"{' '.join(port)}: (TCPV, MPATTR, MAXSF) is one of {sorted(found)}")
