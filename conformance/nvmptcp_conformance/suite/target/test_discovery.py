# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Discovery: the Discovery log page as a whole."""

import pytest

from ...endpoints.host import Host
from ...layers import discovery, nvme
from ...layers.registry import Mpattr, Tcpv
from ...target import Target, discovery_controller, entries_of, place
from ..verdict import NotApplicable, check

CHANGES = 8  # bytes of GENCTR, at the beginning of the log


def log_bytes(host: Host, start: int, size: int) -> bytes:
    """A part of the Discovery log page."""
    dwords = size // 4 - 1
    return host.read(nvme.GetLogPage(numdl=dwords & 0xFFFF, numdu=dwords >> 16, lpo=start), size)


@pytest.mark.requirement("TCPV-DISC-001")
def test_one_entry_for_a_port(target: Target) -> None:
    """A port has one entry, not one for each variant.

    Sent: Get Log Page for the Discovery log page.
    Expected: no two TCP entries with the same ADRFAM, TRADDR, TRSVCID and SUBNQN differ in TCPV,
    MPATTR, MAXSF or SFGID.
    """
    seen: dict[tuple[int, tuple[str, str], str], tuple[int, ...]] = {}
    for entry in entries_of(target.log):
        nqn, tsas = discovery.text(entry.subnqn), entry.tsas
        fields = (int(tsas.tcpv), int(tsas.mpattr), int(tsas.maxsf), int(tsas.sfgid))
        before = seen.setdefault((entry.adrfam, place(entry), nqn), fields)
        check(before == fields, f"{' '.join(place(entry))} {nqn}: two entries, (TCPV, MPATTR,"
                                f" MAXSF, SFGID) {before} and {fields}")


@pytest.mark.requirement("TCPV-DISC-001")
@pytest.mark.parametrize("size", [discovery.ENTRY_SIZE, 256], ids=["by entries", "by 256 bytes"])
def test_log_in_pieces(target: Target, size: int) -> None:
    """A log that is read in pieces is the one that is read at once.

    Sent: Get Log Page for the whole Discovery log page, and for pieces of it, one after the other:
    of 1,024 bytes, which is an entry, or of 256, which is a TSAS.
    Expected: the pieces make up the whole, with TSAS in each entry.
    """
    with discovery_controller(target.address) as host:
        whole = bytes(host.discovery_log())
        parts = [log_bytes(host, start, size) for start in range(0, len(whole), size)]
    found = b"".join(parts)
    wrong = next((at for at, pair in enumerate(zip(whole, found, strict=True))
                  if pair[0] != pair[1]), None)
    check(wrong is None, f"byte {wrong} of the log differs when it is read {size} bytes at once")


@pytest.mark.requirement("TCPV-DISC-001", "TCPV-COMP-001")
def test_log_is_the_same_over_either_variant(target: Target) -> None:
    """The log doesn't depend on the protocol that it is read over.

    Sent: Get Log Page for the Discovery log page over an MPTCP connection, and over a TCP
    connection.
    Expected: the same log, but for GENCTR.
    """
    here = (target.address.discovery_traddr, str(target.address.discovery_trsvcid))
    if any(place(entry) == here and int(entry.tsas.tcpv) == Tcpv.MPTCP
           and int(entry.tsas.mpattr) & Mpattr.MPREQ for entry in entries_of(target.log)):
        raise NotApplicable("MPATTR has MPREQ set: connections over TCP are refused")
    logs = []
    for mptcp in (True, False):
        with discovery_controller(target.address, mptcp=mptcp) as host:
            logs.append(bytes(host.discovery_log())[CHANGES:])
    wrong = next((at + CHANGES for at, pair in enumerate(zip(*logs, strict=False))
                  if pair[0] != pair[1]), None)
    check(len(logs[0]) == len(logs[1]) and wrong is None,
          f"{len(logs[0])} and {len(logs[1])} bytes, the first that differs is {wrong}")
