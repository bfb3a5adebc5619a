# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Discovery: the Discovery log page as a whole."""

import pytest

from ..layers import discovery
from ..target import Target, entries_of, place
from .verdict import check


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
