# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Native multipath, ANA and congestion: subflow groups."""

import time

import pytest

from ...endpoints import raw
from ...endpoints.subsystem import DISCOVERY_NQN
from ...host_under_test import NQN, SECOND_NQN, HostUnderTest, Stage
from ..verdict import NotApplicable, check
from .raw_stage import SETTLE, RawStage, further
from .test_paths import announced, subflows

GROUP = 1
SECOND_ID = 11  # address ID


def places(stage: Stage, nqn: str = NQN) -> list[str]:
    """The addresses of the Admin Queues of an NVM subsystem."""
    return [seen.queue.local[0] for seen in stage.instrument.of(nqn, 0)]


@pytest.mark.requirement("TCPV-FAIR-002")
def test_no_two_subflows_on_one_path(mptcp_host: HostUnderTest, stage: Stage) -> None:
    """No two subflows of a connection have the same addresses.

    Sent: announcements of addresses.
    Expected: the subflows of each connection differ in source or destination address.
    """
    stage.listen(mptcp_host.listen, *mptcp_host.further)
    stage.trigger()
    admin, io = stage.queues()
    announced([admin, *io])
    for seen in (admin, *io):
        pairs = [(local[0], remote[0]) for local, remote in subflows(stage, [seen])]
        check(len(set(pairs)) == len(pairs), f"{seen.describe()}: subflows {sorted(pairs)}")


@pytest.mark.requirement("TCPV-MPIO-006")
@pytest.mark.usefixtures("discovering_host")
def test_groups_are_local_to_a_subsystem(stage: Stage) -> None:
    """Entries with different SUBNQNs are in no group, though their SFGIDs are equal.

    Sent: a Discovery log page with entries for two NVM subsystems, both with SFGID 1h.
    Expected: the host opens an association with each of them.
    """
    stage.listen()
    stage.discover(stage.entry(sfgid=GROUP), stage.entry(nqn=SECOND_NQN, sfgid=GROUP))
    check(bool(places(stage) and places(stage, SECOND_NQN)),
          f"associations: {len(places(stage))} and {len(places(stage, SECOND_NQN))}:"
          f" {stage.describe()}")


@pytest.mark.requirement("TCPV-MPIO-007")
def test_one_association_for_a_group(discovering_host: HostUnderTest, stage: Stage) -> None:
    """A subflow group gets one association.

    Sent: a Discovery log page with entries for two addresses, both with SFGID 1h.
    Expected: the host opens one association.
    """
    addresses = discovering_host.listen, discovering_host.second_address()
    stage.listen(*addresses)
    stage.discover(*(stage.entry(traddr=each, sfgid=GROUP) for each in addresses))
    stage.queues()
    check(len(places(stage)) == 1, f"associations at {', '.join(places(stage))}")


@pytest.mark.requirement("TCPV-MPIO-008")
def test_another_entry_of_the_group(discovering_host: HostUnderTest, stage: Stage) -> None:
    """Where the port of an entry can't be reached, another one of the group is tried.

    Sent: a Discovery log page with entries for two addresses, both with SFGID 1h. The log is read
    at the second, where a Discovery controller is; at the first nothing listens for NVM subsystems.
    Expected: the host opens an association with the one that answers.
    """
    first, second = discovering_host.second_address(), discovering_host.listen
    stage.listen(second)
    stage.discover(*(stage.entry(traddr=each, sfgid=GROUP) for each in (first, second)))
    check(bool(stage.instrument.of(DISCOVERY_NQN)), stage.describe())
    check(places(stage) == [second], f"no association with {second}: {stage.describe()}")


@pytest.mark.requirement("TCPV-MPIO-009")
def test_groups_need_mptcp(discovering_host: HostUnderTest, stage: Stage) -> None:
    """Where the Admin Queue has fallen back, the group is none.

    Sent: a Discovery log page with entries for two addresses, both with SFGID 1h, and SYN/ACKs
    without MP_CAPABLE at both. (Where the host opens one association only for two entries without
    a group, the test is not applicable.)
    Expected: the host opens an association with each.
    """
    addresses = discovering_host.listen, discovering_host.second_address()
    with discovering_host.stage() as plain:
        plain.listen(*addresses, mptcp=False)
        plain.discover(*(plain.entry(traddr=each) for each in addresses))
        number = len(places(plain))
    if number < 2:
        raise NotApplicable(f"the host opens {number} association for two entries with SFGID 0h")
    stage.listen(*addresses, mptcp=False)
    stage.discover(*(stage.entry(traddr=each, sfgid=GROUP) for each in addresses))
    check(set(places(stage)) == set(addresses), f"associations at {', '.join(places(stage))}")


@pytest.mark.requirement("TCPV-FAIR-002")
def test_addresses_announced_twice(raw_stage: RawStage) -> None:
    """No two subflows have the same addresses where these are announced twice.

    Sent: ADD_ADDR for a further address; when it is joined, ADD_ADDR for the same and for the
    destination of the first subflow, with other address IDs.
    Expected: the subflows of each connection differ in source or destination address.
    """
    addresses = further(raw_stage.dut)
    raw_stage.listen_raw(joins_at=addresses)
    raw_stage.trigger()
    admin, io = raw_stage.queues()
    raw_stage.wait_for_joins()
    for seen in (admin, *io):
        connection: raw.Connection = seen.queue.transport
        for number, address in enumerate((*addresses, seen.queue.local[0]), SECOND_ID):
            connection.announce(address, number)
            time.sleep(SETTLE)
        pairs = [(each.remote.address, each.local.address) for each in connection.subflows
                 if each.ended is None]
        check(len(set(pairs)) == len(pairs), f"{seen.describe()}: subflows {sorted(pairs)}")
