# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Native multipath, ANA and congestion: subflow groups."""

import pytest

from ..layers import discovery
from ..target import Target, entries_of, place
from .verdict import NotApplicable, check


@pytest.mark.requirement("TCPV-MPIO-005")
def test_members_of_a_group_are_alike(target: Target) -> None:
    """Entries of a subflow group agree in ADRFAM, TRSVCID and SECTYPE.

    Sent: Get Log Page for the Discovery log page.
    Expected: entries of an NVM subsystem with the same SFGID other than 0h have the same ADRFAM,
    TRSVCID and SECTYPE.
    """
    groups: dict[tuple[str, int], list[discovery.DiscoveryLogEntry]] = {}
    for entry in entries_of(target.log):
        if int(entry.tsas.tcpv) == 1 and entry.tsas.sfgid:
            key = discovery.text(entry.subnqn), int(entry.tsas.sfgid)
            groups.setdefault(key, []).append(entry)
    pairs = {key: entries for key, entries in groups.items() if len(entries) > 1}
    if not pairs:
        raise NotApplicable("no two entries of the log have the same SFGID other than 0h")
    for (nqn, sfgid), entries in pairs.items():
        found = {(entry.adrfam, place(entry)[1], int(entry.tsas.sectype)) for entry in entries}
        check(len(found) == 1, f"{nqn}, SFGID {sfgid:X}h: (ADRFAM, TRSVCID, SECTYPE) is one of"
                               f" {sorted(found)}")
