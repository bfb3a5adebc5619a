# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Native multipath, ANA and congestion: ANA states, subflow groups."""

from itertools import permutations

import pytest

from ...endpoints.host import Host
from ...endpoints.raw.packets import local_address
from ...layers import discovery, nvme
from ...target import Target, entries_of, place
from ..verdict import Inconclusive, NotApplicable, check
from .associations import (
    Steered,
    announced,
    host_on,
    join,
    raw_admin_queue,
    raw_connection,
    reachable,
)

ANA_LOG, ANA_LOG_SIZE = 0x0C, 4_096  # bytes that are read of it
CMIC, ANA = 76, 8  # byte of the Identify Controller data structure, and a bit of it


def groups_of(target: Target) -> dict[tuple[str, int], list[discovery.DiscoveryLogEntry]]:
    """NQN and SFGID of each subflow group with more than one entry, and these."""
    found: dict[tuple[str, int], list[discovery.DiscoveryLogEntry]] = {}
    for entry in entries_of(target.log):
        if int(entry.tsas.tcpv) == 1 and entry.tsas.sfgid:
            key = discovery.text(entry.subnqn), int(entry.tsas.sfgid)
            found.setdefault(key, []).append(entry)
    return {key: entries for key, entries in found.items() if len(entries) > 1}


@pytest.mark.requirement("TCPV-MPIO-005")
def test_members_of_a_group_are_alike(target: Target) -> None:
    """Entries of a subflow group agree in ADRFAM, TRSVCID and SECTYPE.

    Sent: Get Log Page for the Discovery log page.
    Expected: entries of an NVM subsystem with the same SFGID other than 0h have the same ADRFAM,
    TRSVCID and SECTYPE.
    """
    groups = groups_of(target)
    if not groups:
        raise NotApplicable("no two entries of the log have the same SFGID other than 0h")
    for (nqn, sfgid), entries in groups.items():
        found = {(entry.adrfam, place(entry)[1], int(entry.tsas.sectype)) for entry in entries}
        check(len(found) == 1, f"{nqn}, SFGID {sfgid:X}h: (ADRFAM, TRSVCID, SECTYPE) is one of"
                               f" {sorted(found)}")


@pytest.mark.requirement("TCPV-MPIO-004")
@pytest.mark.usefixtures("serves_afterwards")
def test_each_member_of_a_group_accepts_joins(joinable_port: Target) -> None:
    """A connection to any port of a subflow group can be joined at any other one.

    Sent: for each two ports of each subflow group of the NVM subsystem, a connection to the one and
    a join to the other; ICReq by the first subflow, Connect by the joined one.
    Expected: each join becomes an established subflow, and Connect succeeds.
    """
    groups = [sorted({place(entry) for entry in entries})
              for (nqn, _), entries in groups_of(joinable_port).items()
              if nqn == joinable_port.nqn]
    if not groups:
        raise NotApplicable(f"no two entries of {joinable_port.nqn} have the same SFGID other than"
                            " 0h")
    for here, there in (pair for group in groups for pair in permutations(group, 2)):
        check_route(*here)
        behaviour = Steered()
        with raw_connection(joinable_port, behaviour, traddr=here[0],
                            trsvcid=int(here[1])) as connection:
            host = host_on(connection)
            host.initialize()
            behaviour.on = join(connection, there[0], port=int(there[1])).index
            host.connect(joinable_port.nqn, joinable_port.address.hostnqn)


def check_route(traddr: str, trsvcid: str) -> None:
    """Inconclusive if this machine can't send there."""
    try:
        local_address(traddr)
    except OSError as error:
        raise Inconclusive(f"{traddr} {trsvcid}: {error.strerror or error}") from error


def ana_states(host: Host) -> bytes:
    """The ANA log page: its header and descriptors, as far as they are read. What is behind them is
    undefined.
    """
    page = host.read(nvme.GetLogPage(lid=ANA_LOG, numdl=ANA_LOG_SIZE // 4 - 1), ANA_LOG_SIZE)
    end, groups = 16, int.from_bytes(page[8:10], "little")
    for _ in range(groups):
        end += 32 + 4 * int.from_bytes(page[end + 4:end + 8], "little")  # NNSID
    return page[:end]


@pytest.mark.requirement("TCPV-MPIO-002")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("situation", ["own address", "announced addresses", "first subflow lost"])
def test_ana_states_by_each_subflow(joinable_port: Target, situation: str) -> None:
    """ANA states don't depend on the subflows.

    Sent: Get Log Page for the ANA log page on an Admin Queue with one subflow; then by each subflow
    after a join to the port's address or to each announced one, or after the loss of the first.
    Expected: the same log page each time.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        if not queue.host.identify_controller()[CMIC] & ANA:
            raise NotApplicable("CMIC: the NVM subsystem doesn't report ANA states")
        alone = ana_states(queue.host)
        if situation == "announced addresses":
            joinable_port.require("adda")
            for address in reachable(announced(connection)):
                join(connection, address.address, port=address.port or None)
        else:
            join(connection)
        if situation == "first subflow lost":
            queue.works_by(*connection.alive)
            connection.subflows[0].reset()
        for subflow in connection.alive:
            queue.send_by(subflow)
            check(ana_states(queue.host) == alone,
                  f"by the subflow to {subflow.remote.address} other ANA states than before")
