# SPDX-License-Identifier: GPL-2.0-or-later
"""Chapter Addresses, joins and path loss: announcements, joins and their destinations.

The first tests use the local path manager, which joins announced addresses as far as `ip mptcp
limits` allows, the others the raw stack. What becomes of lost subflows is in test_path_loss.py.
"""

import time
from collections.abc import Iterator

import pytest
from scapy.compat import raw

from ...endpoints import mptcp_socket
from ...endpoints.host import DISCOVERY_NQN, EndError, Host
from ...endpoints.raw import Announcement, Connection, Segment, Subflow
from ...endpoints.raw.packets import local_address
from ...layers import discovery, mptcp, nvme_tcp
from ...target import Target, endpoint, entries_of, place
from ..verdict import ConceptualPass, Inconclusive, NotApplicable, check
from .associations import (
    SETTLE,
    Disk,
    Middlebox,
    RawQueue,
    Scratch,
    announced,
    host_on,
    join,
    outcome,
    raw_admin_queue,
    raw_connection,
    raw_io_queue,
    reachable,
    start_join,
    stays_quiet,
)

CNTLID = 78  # byte of the Identify Controller data structure


def joined(host: Host, seconds: float = SETTLE) -> mptcp_socket.Info:
    """The state of a connection after the time for joins. Inconclusive if none could be made."""
    time.sleep(seconds)
    state = mptcp_socket.info(host.socket)
    check(state is not None, "the connection fell back to TCP")
    assert state
    if not (state.addresses_accepted_max and state.joined_max):
        raise Inconclusive("this machine joins no address: `ip mptcp limits set"
                           " add_addr_accepted 8 subflows 8`")
    return state


@pytest.fixture
def adda_port(mptcp_port: Target) -> Target:
    """A port that accepts subflows to further addresses."""
    mptcp_port.require("adda")
    return mptcp_port


@pytest.mark.requirement("TCPV-PATH-001")
def test_announced_addresses_accept_joins(adda_port: Target) -> None:
    """With ADDA, each announced address can be joined.

    Sent: an Admin Queue over MPTCP, and a join to each address that the target announces.
    Expected: each join becomes an established subflow, and the connection goes on.
    """
    with adda_port.admin_queue() as (host, _):
        state = joined(host)
        if not state.addresses_accepted:
            raise NotApplicable(f"no address was announced within {SETTLE:g} s")
        expected = 1 + min(state.addresses_accepted, state.joined_max)
        number = mptcp_socket.established(host.socket)
        check(number >= expected, f"announced addresses that were tried:"
                                  f" {state.addresses_accepted}; established subflows, the first"
                                  f" included: {number}")
        host.keep_alive()


@pytest.mark.requirement("TCPV-PATH-002")
def test_no_announcements_without_adda(mptcp_port: Target) -> None:
    """Without ADDA, no address is announced.

    Sent: an Admin Queue over MPTCP.
    Expected: no ADD_ADDR within 2 s.
    """
    mptcp_port.exclude("adda")
    with mptcp_port.admin_queue() as (host, _):
        accepted = joined(host).addresses_accepted
        check(not accepted, f"announced addresses: {accepted}")


@pytest.mark.requirement("TCPV-PATH-008")
def test_joins_lead_to_the_same_controller(adda_port: Target) -> None:
    """The CNTLID doesn't change when subflows join.

    Sent: Identify Controller, ten times once the subflows have joined.
    Expected: CNTLID is that of the completion of Connect.
    """
    with adda_port.admin_queue() as (host, cntlid):
        joined(host)
        if mptcp_socket.established(host.socket) < 2:
            raise NotApplicable("no subflow has joined")
        for _ in range(10):
            found = int.from_bytes(host.identify_controller()[CNTLID:CNTLID + 2], "little")
            check(found == cntlid, f"CNTLID {found:X}h, and {cntlid:X}h at Connect")


# Joins that are accepted


@pytest.mark.requirement("TCPV-PATH-015")
@pytest.mark.parametrize("first_ended", [False, True], ids=["beside the first", "after the first"])
def test_join_at_the_own_address(joinable_port: Target, first_ended: bool) -> None:
    """The destination of the first subflow can be joined.

    Sent: an Admin Queue over MPTCP; a join to the destination of its first subflow, from another
    port number; where the name of the test says so, one more after the first subflow was reset;
    Keep Alive by each subflow.
    Expected: each join becomes an established subflow; each command succeeds.
    """
    with raw_admin_queue(joinable_port) as queue:
        join(queue.connection)
        if first_ended:
            queue.connection.subflows[0].reset()
            join(queue.connection)
        queue.works_by(*queue.connection.alive)


@pytest.mark.requirement("TCPV-PATH-001")
@pytest.mark.parametrize("backup", [False, True], ids=["regular", "backup"])
def test_each_announced_address_accepts_a_join(joinable_adda_port: Target, backup: bool) -> None:
    """With ADDA, each announced address can be joined, also as a backup.

    Sent: an Admin Queue over MPTCP, and a join to one announced address after the other, each left
    by MP_TCPRST before the next one; Keep Alive by each subflow.
    Expected: each join becomes an established subflow; each command succeeds.
    """
    with raw_admin_queue(joinable_adda_port) as queue:
        for address in further_addresses(queue.connection):
            subflow = join(queue.connection, address.address, port=address.port or None,
                           backup=backup)
            queue.works_by(subflow)
            subflow.reset(mptcp.MPTCPReset(reason=0))


@pytest.mark.requirement("TCPV-PATH-007")
def test_group_accepts_joins(joinable_port: Target) -> None:
    """Each entry of the subflow group can be joined.

    Sent: an Admin Queue over MPTCP, and a join to the TRADDR and TRSVCID of each entry of its
    subflow group; Keep Alive by each subflow.
    Expected: each join becomes an established subflow; each command succeeds.
    """
    joinable_port.require("groups")
    sfgid = joinable_port.entry.tsas.sfgid
    members = {place(entry) for entry in entries_of(joinable_port.log)
               if entry.tsas.sfgid == sfgid and is_multipath(entry)}
    if len(members) < 2:
        raise NotApplicable(f"the discovery log has one entry with SFGID {sfgid:X}h")
    with raw_admin_queue(joinable_port) as queue:
        for traddr, trsvcid in sorted(members):
            subflow = join(queue.connection, traddr, port=int(trsvcid))
            queue.works_by(subflow)
            subflow.reset(mptcp.MPTCPReset(reason=0))


@pytest.mark.requirement("TCPV-PATH-012")
@pytest.mark.usefixtures("serves_afterwards")
def test_maxsf_is_granted(joinable_port: Target) -> None:
    """A connection may have MAXSF subflows, also once more after one was lost.

    Sent: an Admin Queue over MPTCP, and joins until it has MAXSF subflows; one of them is reset,
    and one more join is sent; Keep Alive by each subflow.
    Expected: each join becomes an established subflow; each command succeeds.
    """
    joinable_port.require("maxsf")
    most = int(joinable_port.entry.tsas.maxsf)
    with raw_admin_queue(joinable_port) as queue:
        while len(queue.connection.alive) < most:
            join(queue.connection)
        queue.connection.alive[-1].reset(mptcp.MPTCPReset(reason=0))
        stays_quiet(queue.connection)
        join(queue.connection)
        queue.works_by(*queue.connection.alive)


@pytest.mark.requirement("TCPV-PATH-008")
def test_cntlid_by_each_subflow(joinable_port: Target) -> None:
    """The CNTLID is the same by whatever subflow the host asks.

    Sent: Identify Controller on the first subflow of an Admin Queue and on one to each address that
    can be joined.
    Expected: CNTLID is that of the completion of Connect.
    """
    with raw_admin_queue(joinable_port) as queue:
        join(queue.connection)
        if joinable_port.feature("adda").value:
            for address in further_addresses(queue.connection):
                join(queue.connection, address.address, port=address.port or None)
        for subflow in queue.connection.alive:
            queue.send_by(subflow)
            found = int.from_bytes(queue.host.identify_controller()[CNTLID:CNTLID + 2], "little")
            check(found == queue.cntlid, f"by subflow {subflow.index} CNTLID {found:X}h, and"
                                         f" {queue.cntlid:X}h at Connect")


@pytest.mark.requirement("TCPV-PATH-008")
@pytest.mark.usefixtures("raw")
def test_portid_does_not_change(target: Target) -> None:
    """The PORTIDs in the Discovery log don't depend on joined subflows.

    Sent: Get Log Page to the Discovery controller over MPTCP, before and after a join, the second
    time by the joined subflow.
    Expected: each entry has the same PORTID both times.
    """
    address = target.address
    with raw_connection(target, mptcp=False, traddr=address.discovery_traddr,
                        trsvcid=address.discovery_trsvcid) as connection:
        if not connection.mptcp:
            raise NotApplicable(f"the Discovery controller uses TCP: {connection.fell_back}")
        host = host_on(connection)
        queue = RawQueue(target, connection, host, 0, host.initialize())
        host.connect(DISCOVERY_NQN, address.hostnqn)
        host.enable()
        host.wait_ready()
        before = portids(host.discovery_log())
        queue.send_by(join(connection))
        after = portids(host.discovery_log())
        check(before == after, f"PORTIDs {before} before the join, {after} after it")


def portids(log: discovery.DiscoveryLog) -> list[int]:
    """PORTID of each entry."""
    return [entry.portid for entry in log.entries]


@pytest.fixture
def joinable_adda_port(joinable_port: Target) -> Target:
    """A port that accepts subflows to further addresses, with more than one in a connection."""
    joinable_port.require("adda")
    return joinable_port


def further_addresses(connection: Connection) -> list[Announcement]:
    """The announced addresses that this machine can send to."""
    return reachable(announced(connection))


def is_multipath(entry: discovery.DiscoveryLogEntry) -> bool:
    """TCPV is 1h."""
    return int(entry.tsas.tcpv) == 1


# Joins, and other SYNs, that are refused


@pytest.mark.requirement("TCPV-PATH-005")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("options", [[], [mptcp.MPCapableSYN()]], ids=["plain", "MP_CAPABLE"])
def test_announced_address_is_for_joins_only(joinable_adda_port: Target,
                                             options: list[mptcp.MPTCPOption]) -> None:
    """An announced address accepts joins and nothing else.

    Sent: while a connection is open, a SYN without MP_JOIN to each of its announced addresses where
    no port listens; where that is answered, ICReq.
    Expected: a reset. An acceptance that is followed by a reset before any PDU, and no answer at
    all, are as safe.
    """
    target = joinable_adda_port
    ports = {place(entry) for entry in entries_of(target.log)}
    with raw_admin_queue(target) as queue:
        addresses = [(a.address, a.port or target.address.trsvcid)
                     for a in further_addresses(queue.connection)]
        closed = [(a, port) for a, port in addresses if (a, str(port)) not in ports]
        if not closed:
            raise NotApplicable("a port listens at each announced address")
        answers = {endpoint(*where): answer_to_icreq(target, *where, options) for where in closed}
        queue.host.keep_alive()
    served = [f"{where}: {answer}" for where, answer in answers.items()
              if answer not in ("reset", "accepted, then reset", "no answer")]
    check(not served, "; ".join(served))
    if odd := [f"{where}: {answer}" for where, answer in answers.items() if answer != "reset"]:
        raise ConceptualPass("; ".join(odd))


def answer_to_icreq(target: Target, traddr: str, trsvcid: int,
                    options: list[mptcp.MPTCPOption]) -> str:
    """What becomes of a connection attempt, and of ICReq on it."""
    try:
        with raw_connection(target, mptcp=False, traddr=traddr, trsvcid=trsvcid,
                            options=options) as connection:
            host = host_on(connection)
            try:
                host.send(raw(nvme_tcp.ICReq()))
                return f"accepted, then {host.receive().name}"
            except TimeoutError:
                return "accepted"
            except (EndError, ConnectionError):
                return "accepted, then reset"
    except ConnectionRefusedError:
        return "reset"
    except TimeoutError:
        return "no answer"


@pytest.mark.requirement("TCPV-PATH-006")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("elsewhere", ["port number", "address"])
def test_join_elsewhere_is_refused(joinable_port: Target, elsewhere: str) -> None:
    """Joins to destinations that don't belong to the connection are refused.

    Sent: joins with the right token and HMAC to the port's address and other port numbers (those of
    other entries, and the next one), or to the addresses of entries outside of the subflow group
    that aren't announced; then Keep Alive.
    Expected: none becomes an established subflow; the command succeeds.
    """
    target = joinable_port
    with raw_admin_queue(target) as queue:
        time.sleep(SETTLE)
        known = {(a.address, a.port or target.address.trsvcid) for a in queue.connection.announced}
        foreign = sorted(set(foreign_places(target, elsewhere)) - known)
        if not foreign:
            raise NotApplicable("the discovery log has no entry at another address that is neither"
                                " in the subflow group nor announced")
        for traddr, trsvcid in foreign:
            subflow = start_join(queue.connection, traddr, port=trsvcid)
            result = outcome(queue.connection, subflow)
            check(result != "established", f"a join to {endpoint(traddr, trsvcid)} became a"
                                           f" subflow")
        queue.works_by(queue.connection.subflows[0])


def foreign_places(target: Target, elsewhere: str) -> Iterator[tuple[str, int]]:
    """Destinations that joins of a connection to the target's port must not lead to, unless they
    are announced.
    """
    own = (target.address.traddr, target.address.trsvcid)
    if elsewhere == "port number":
        yield own[0], own[1] + 1
    for entry in entries_of(target.log):
        traddr, trsvcid = place(entry)
        grouped = bool(target.entry.tsas.sfgid) and entry.tsas.sfgid == target.entry.tsas.sfgid
        if (traddr, int(trsvcid)) != own and not (grouped and is_multipath(entry)) and (
                (traddr == own[0]) == (elsewhere == "port number")):
            yield traddr, int(trsvcid)


@pytest.mark.requirement("TCPV-PATH-009")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("kind", ["one bit wrong", "of a closed connection",
                                  "at an announced address"])
def test_unknown_token(joinable_port: Target, kind: str) -> None:
    """A join with a token that nobody knows is reset.

    Sent: a SYN with MP_JOIN, whose token is that of an open connection with one bit changed, also
    to an announced address, or that of a connection that was aborted; then Keep Alive.
    Expected: a reset, with whatever reason; the command succeeds. No answer is as safe.
    """
    with raw_admin_queue(joinable_port) as queue:
        connection = queue.connection
        token, remote = connection.peer_token ^ 1, None
        if kind == "of a closed connection":
            with raw_connection(joinable_port) as other:
                host_on(other).initialize()
                token = other.peer_token
                other.fastclose()
            time.sleep(SETTLE)
        elif kind == "at an announced address":
            joinable_port.require("adda")
            remote = further_addresses(connection)[0].address
        result = outcome(connection, start_join(connection, remote, token=token))
        queue.works_by(connection.subflows[0])
        if result == "no answer":
            raise ConceptualPass("no answer")
        check(result == "reset by the peer", f"the SYN was answered by SYN/ACK ({result})")


@pytest.mark.requirement("TCPV-PATH-010")
@pytest.mark.usefixtures("raw", "serves_afterwards")
@pytest.mark.parametrize("kind", ["port number", "address", "wrong HMAC"])
def test_controller_does_not_join(mptcp_port: Target, kind: str) -> None:
    """The controller opens no subflow, though the host announces where it could.

    Sent: ADD_ADDR with another port number of the host, with another address of it, or with a wrong
    HMAC; Keep Alive before and after.
    Expected: no SYN within 2 s; each command succeeds.
    """
    with raw_admin_queue(mptcp_port) as queue:
        connection = queue.connection
        queue.host.keep_alive()
        first = connection.subflows[0].local
        address = other_local_address(connection) if kind == "address" else first.address
        with connection.stack.listen(address, 0) as listener:
            since = connection.mark()
            connection.announce(address, 9, listener.getsockname().port,
                                hmac=bytes(8) if kind == "wrong HMAC" else None)
            stays_quiet(connection)
            syns = [f"{p.segment.source.address}:{p.segment.source.port}"
                    for p in connection.stack.log.since(since)
                    if not p.sent and "S" in p.segment.flags and "A" not in p.segment.flags]
        check(not syns, f"a SYN came from {', '.join(syns)}")
        queue.host.keep_alive()


def other_local_address(connection: Connection) -> str:
    """An address of this machine beside that of the first subflow. NotApplicable if none is known.
    """
    time.sleep(SETTLE)
    for address in connection.announced:
        local = local_address(address.address)
        if local != connection.subflows[0].local.address:
            return local
    raise NotApplicable("no announced address leads to another address of this machine")


# What doesn't harm a connection


@pytest.mark.requirement("TCPV-PATH-013")
@pytest.mark.usefixtures("serves_afterwards")
@pytest.mark.parametrize("failure", ["unknown token", "wrong HMAC", "reset", "no third packet"])
def test_failed_join_harms_nothing(joinable_port: Target, failure: str) -> None:
    """A join that fails leaves the connection and its other subflows as they are.

    Sent: an Admin Queue with two subflows; a join with an unknown token or a wrong HMAC, one that
    the host resets after the SYN/ACK, or one whose third packet gets lost for good; then Keep Alive
    by each of the two subflows.
    Expected: each command succeeds; no subflow is closed.
    """
    breaking = False

    def out(subflow: Subflow, segment: Segment) -> Segment | None:
        return None if breaking and subflow.join and segment.find(mptcp.MPJoinACK) else segment

    with raw_admin_queue(joinable_port, Middlebox(out)) as queue:
        connection = queue.connection
        join(connection)
        good = list(connection.alive)
        breaking = failure in ("reset", "no third packet")
        failed = start_join(
            connection, token=connection.peer_token ^ 1 if failure == "unknown token" else None,
            hmac=bytes(20) if failure == "wrong HMAC" else None)
        if breaking:
            connection.wait("SYN/ACK", lambda: failed.alive, joinable_port.address.timeout)
            if failure == "reset":
                failed.reset(mptcp.MPTCPReset(reason=0))
        stays_quiet(connection)
        check(all(subflow.alive for subflow in good), f"subflows: {connection.subflows}")
        queue.works_by(*good)


@pytest.mark.requirement("TCPV-PATH-014")
@pytest.mark.parametrize("signal", ["MP_JOIN", "MP_PRIO", "MP_PRIO on the first subflow"])
def test_backup_is_respected(joinable_port: Target, scratch: Scratch, signal: str) -> None:
    """The controller sends no data on a backup subflow while there is another one.

    Sent: I/O queue 1 with two subflows, one of which is set to backup by its MP_JOIN, or by MP_PRIO
    on it; then two Read commands.
    Expected: both succeed, and all data come by the other subflow.
    """
    with raw_io_queue(joinable_port) as queue:
        connection = queue.connection
        second = join(connection, backup=signal == "MP_JOIN")
        spare = connection.subflows[0] if signal.endswith("first subflow") else second
        if signal != "MP_JOIN":
            spare.send("A", options=[mptcp.MPPrio(backup=1), *connection.ack_options()])
        spare.backup = True
        stays_quiet(connection)
        disk, since = Disk.on(queue, scratch), connection.mark()
        check(disk.read() == disk.read(), "two Read commands brought different data")
        brought = sum(len(p.segment.payload) for p in connection.stack.log.since(since, connection)
                      if not p.sent and p.subflow is spare)
        check(not brought, f"{brought} bytes came by the backup subflow")
