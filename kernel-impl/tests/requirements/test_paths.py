# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Addresses, joins and path loss, on the reference kernel.

Path i joins 10.0.i.1 (host) and 10.0.i.2 (target); the port is at 10.0.1.2.
"""

import pytest
from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, io_commands, run
from scapy.layers.inet import TCP

SIZE, OFFSET, BLOCK = 1 << 20, 4 << 20, 512  # of guest/paths.py: loss; bytes


@pytest.fixture(scope="module")
def announced(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("paths", "announced", tmp_path_factory.mktemp("announced"), capture=True)


@pytest.fixture(scope="module")
def refused(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("paths", "refused", tmp_path_factory.mktemp("refused"))


@pytest.fixture(scope="module")
def without_adda(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("paths", "without_adda", tmp_path_factory.mktemp("without"), capture=True)


@pytest.fixture(scope="module")
def strangers(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("paths", "strangers", tmp_path_factory.mktemp("strangers"))


@pytest.fixture(scope="module")
def loss(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    # with a rate: where nothing queues, all data may take the first path
    return run("paths", "loss", tmp_path_factory.mktemp("loss"),
               topology='paths = 4\nrate = "1gbit"', capture=True)


@pytest.fixture(scope="module")
def last(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("paths", "last", tmp_path_factory.mktemp("last"), topology="paths = 2")


@pytest.fixture(scope="module")
def backup(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("paths", "backup", tmp_path_factory.mktemp("backup"), topology="paths = 2")


@pytest.mark.requirement("TCPV-PATH-001", "TCPV-PATH-012")
def test_each_announced_address_is_joined(announced: Situation) -> None:
    """One announced address, later three; MAXSF and the limit are 4. Fails if one isn't joined."""
    assert announced.data["before"] == [[0, "mptcp", 2], [1, "mptcp", 2]]
    assert announced.data["after"] == [[0, "mptcp", 4], [1, "mptcp", 4]]
    addresses = {option.address for segment, option in announced.with_option(mptcp.AddAddr)
                 if segment.src == "10.0.1.2" and not option.echo}
    joined = {segment.src for segment, _ in announced.with_option(mptcp.MPJoinSYNACK)}
    assert addresses == joined == {"10.0.2.2", "10.0.3.2", "10.0.4.2"}


@pytest.mark.requirement("TCPV-PATH-004")
def test_joins_go_to_the_port_of_the_first_subflow(announced: Situation) -> None:
    """Fails if a join goes elsewhere, or if addresses were announced with a port number."""
    assert not list(announced.with_option(mptcp.AddAddrPort))
    ports = [segment[TCP].dport for segment, _ in announced.with_option(mptcp.MPJoinSYN)]
    assert ports
    assert set(ports) == {4420}


@pytest.mark.requirement("TCPV-PATH-003")
def test_withdrawal_is_signalled_on_each_connection(announced: Situation) -> None:
    """The endpoint of 10.0.2.2, address ID 2, is deleted. Fails if a connection isn't told."""
    told = {(segment.dst, segment[TCP].dport) for segment, option in announced.with_option(
        mptcp.RemoveAddr, announced.data["withdrawn_at"]) if 2 in option.address_ids}
    assert not list(announced.with_option(mptcp.RemoveAddr, 0, announced.data["withdrawn_at"]))
    first = {subflow.ends[0] for connection in announced.connections
             for subflow in connection.subflows[:1]}
    assert len(told) == 2  # admin queue and I/O queue
    assert told < first
    assert announced.data["withdrawn"] == [[0, "mptcp", 3], [1, "mptcp", 3]]
    assert announced.data["whole"]


@pytest.mark.requirement("TCPV-PATH-008")
def test_joins_change_neither_controller_nor_port(announced: Situation) -> None:
    """Identify Controller and the log, with two subflows and with four. Fails if they differ."""
    assert len(set(announced.data["cntlids"])) == 1
    before, after = announced.data["portids"]
    assert before == after
    assert 1 in before


@pytest.mark.requirement("TCPV-PATH-010")
def test_the_controller_joins_nothing(announced: Situation) -> None:
    """The host announces its addresses; the target's limits are the documented ones. Fails if a
    SYN with MP_JOIN comes from the target.
    """
    from_host = {option.address for segment, option in announced.with_option(mptcp.AddAddr)
                 if segment.src == "10.0.1.1" and not option.echo}
    assert len(from_host) >= 3
    assert {segment.src for segment, _ in announced.with_option(mptcp.MPJoinSYN)} == {
        "10.0.2.1", "10.0.3.1", "10.0.4.1"}


def addresses(situation: Situation, end: str, start: float, until: float,
              echo: bool = False) -> set[str]:
    """What one end (".1": host, ".2": target) announced or echoed in a time span."""
    return {option.address for segment, option in situation.with_option(
        mptcp.AddAddr, start, until)
        if segment.src.endswith(end) and bool(option.echo) is echo}


@pytest.mark.requirement("TCPV-PATH-010")
def test_the_controller_joins_nothing_whatever_its_namespace(without_adda: Situation) -> None:
    """As before, with the limits of a host and an endpoint for subflows in the target's namespace,
    on ports with and without ADDA. The control is that the target has taken note of the addresses.
    """
    start, adda_at = without_adda.data["announces_at"], without_adda.data["adda_at"]
    joins = without_adda.with_option(mptcp.MPJoinSYN, start)
    assert {segment.src for segment, _ in joins} == {"10.0.3.1"}
    for begin, end in ((start, adda_at), (adda_at, float("inf"))):
        host = addresses(without_adda, ".1", begin, end)
        assert host == {"10.0.2.1", "10.0.3.1", "10.0.4.1"}
        assert addresses(without_adda, ".2", begin, end, echo=True) == host


@pytest.mark.requirement("TCPV-PATH-002")
def test_nothing_is_announced_without_adda(without_adda: Situation) -> None:
    """The port has no attribute; its namespace has three addresses to announce. The control is
    another port, with ADDA, and one address.
    """
    assert without_adda.data["queues"] == [[0, "mptcp", 1], [1, "mptcp", 1]]
    assert not addresses(without_adda, ".2", 0, without_adda.data["adda_at"])
    assert addresses(without_adda, ".2", without_adda.data["adda_at"], float("inf")) == {"10.0.3.2"}
    assert without_adda.data["queues with ADDA"] == [[0, "mptcp", 2], [1, "mptcp", 2]]


@pytest.mark.requirement("TCPV-PATH-005")
def test_an_announced_address_takes_joins_only(strangers: Situation) -> None:
    """Fails if a connection is opened there; the same SYN is accepted at a port's address."""
    assert strangers.data["refused"]["plain SYN, announced address"] == "reset"
    assert strangers.data["refused"]["MP_CAPABLE, announced address"] == "reset"
    assert strangers.data["accepted"]["plain SYN, port"] == "syn/ack"


@pytest.mark.requirement("TCPV-PATH-006")
def test_a_join_elsewhere_is_refused(strangers: Situation) -> None:
    """An address of the target that is neither announced nor a port's. Fails if a SYN/ACK comes."""
    assert strangers.data["refused"]["neither announced nor a port"] == "reset"
    assert strangers.data["accepted"]["join, 10.0.3.2:4420"] == "syn/ack"


@pytest.mark.requirement("TCPV-PATH-006")
@pytest.mark.parametrize("listener", ["port", "port, other TRSVCID", "another service"])
def test_a_join_outside_the_group_is_refused(strangers: Situation, listener: str) -> None:
    """Ports of the NVM subsystem that are in no subflow group, and a listener that isn't NVMe's."""
    assert strangers.data["outside"][listener] == "reset"


@pytest.mark.requirement("TCPV-PATH-006", "TCPV-PATH-015")
def test_joins_of_a_port_without_group_and_adda(strangers: Situation) -> None:
    """Fails if its connection can be joined at a port of a group, or at an address that is
    announced on connections to other ports, or cannot be joined at its own.
    """
    assert strangers.data["alone"] == {"10.0.4.2": "syn/ack", "10.0.1.2": "reset",
                                       "10.0.3.2": "reset"}


@pytest.mark.requirement("TCPV-PATH-007")
def test_a_join_at_each_port_of_the_group_is_accepted(strangers: Situation) -> None:
    """Fails if the handshake at one of the three ports isn't completed, HMACs and all."""
    for destination in ("10.0.1.2:4420", "10.0.2.2:4420", "10.0.4.2:4421"):
        assert strangers.data["accepted"][f"join, {destination}"] == "syn/ack"
        assert strangers.data["accepted"][f"HMAC, {destination}"] == "joined"


@pytest.mark.requirement("TCPV-PATH-009")
def test_an_unknown_token_is_answered_by_a_reset(strangers: Situation) -> None:
    """At a port and at an announced address; with the right token both accept (see above)."""
    assert strangers.data["refused"]["unknown token, port"] == "reset"
    assert strangers.data["refused"]["unknown token, announced address"] == "reset"


@pytest.mark.requirement("TCPV-PATH-013")
def test_failed_joins_harm_nothing(strangers: Situation, refused: Situation) -> None:
    """The controller refuses joins; the host's joins are refused, or have no answer for 10 s."""
    assert strangers.data["unharmed"] == {"queues": True, "subflows": True, "transfer": True}
    assert refused.data["before"] == refused.data["after"] == [[0, "mptcp", 2], [1, "mptcp", 2]]
    assert refused.data["whole"]
    assert refused.data["state"] == "live"
    assert refused.data["log"] == []


@pytest.mark.requirement("TCPV-PATH-014")
def test_backup_is_respected(backup: Situation) -> None:
    """The controller sends nothing to the host's backup address; the host sends to 10.0.2.2 until
    it becomes a backup by MP_PRIO.
    """
    assert backup.data["queues"] == [[0, "mptcp", 3], [1, "mptcp", 3]]
    for flows in backup.data["carried"]:
        assert sum(flow["bytes_received"] for flow in flows) > SIZE
        assert sum(flow["bytes_received"] for flow in flows if flow["local"] == "10.0.1.11") == 0
    before, after = (sum(flow["bytes_sent"] for flow in flows if flow["remote"] == "10.0.2.2")
                     for flows in backup.data["carried"])
    assert before > 0
    assert after == 0


@pytest.mark.requirement("TCPV-LOSS-001")
def test_lost_subflows_are_no_transport_error(loss: Situation) -> None:
    """Three of four subflows go, one after the other. Fails if the association is recovered."""
    assert loss.data["queues"] == [[[0, "mptcp", count], [1, "mptcp", count]]
                                   for count in (4, 3, 1)]
    assert loss.data["state"] == "live"
    assert not [line for line in loss.data["log"] if "mapped" not in line
                and "creating" not in line and "new ctrl" not in line]


@pytest.mark.requirement("TCPV-LOSS-002")
def test_commands_outlive_their_subflow(loss: Situation) -> None:
    """Fails if data are damaged, if a command fails, or if a write is sent twice as a command."""
    assert loss.data["whole"] == [True, True, True]
    _, queue = loss.connections
    first = OFFSET // BLOCK
    blocks = sorted(
        block for command in io_commands(queue) if command.opcode == 1
        for block in range(command.slba, command.slba + command.nlb + 1) if block >= first)
    assert blocks == list(range(first, first + 2 * SIZE // BLOCK))


@pytest.mark.requirement("TCPV-LOSS-003")
@pytest.mark.parametrize(("sender", "lost", "since"), [
    (INITIATOR, "10.0.3.2", "write_at"), (LISTENER, "10.0.4.2", "read_at")])
def test_data_of_a_lost_subflow_are_sent_again(
    loss: Situation, sender: int, lost: str, since: str
) -> None:
    """What went out on a path while it dropped everything is found again on other paths."""
    _, queue = loss.connections
    sent: set[int] = set()
    again: set[int] = set()
    for mapping in queue.mappings:
        if mapping.sender != sender or not mapping.payload_length:
            continue
        dsns = range(mapping.dsn, mapping.dsn + mapping.payload_length)
        if lost not in (mapping.packet.src, mapping.packet.dst):
            again.update(dsns)
        elif mapping.packet.time >= loss.data[since]:
            sent.update(dsns)
    assert sent
    assert sent <= again


@pytest.mark.xfail(strict=True, reason="Linux's path manager opens a subflow again only when an"
                   " endpoint or an announcement is added.")
@pytest.mark.requirement("TCPV-LOSS-008")
def test_a_lost_subflow_is_replaced(loss: Situation) -> None:
    """Nothing is wrong with the paths any more; 20 s pass."""
    assert loss.data["later"] == loss.data["queues"][0]


@pytest.mark.requirement("TCPV-LOSS-004")
def test_a_connection_without_subflows_is_given_up(last: Situation) -> None:
    """The host is configured to wait 7 s, its KATO is far longer; then it connects anew."""
    assert last.data["without"] == [[0, "mptcp", 0], [1, "mptcp", 0]]
    assert 6.9 < last.data["waited"] < 7.5
    assert last.data["recovered"] is not None


@pytest.mark.requirement("TCPV-LOSS-005")
def test_default_of_the_wait(last: Situation) -> None:
    """net.mptcp.close_timeout of a new network namespace. Fails if it is longer than a minute."""
    assert 0 < last.data["default"] <= 60


@pytest.mark.requirement("TCPV-LOSS-006")
def test_a_connection_without_subflows_can_be_joined(last: Situation) -> None:
    """Fails if the join is refused, or if NVMe noticed anything."""
    assert last.data["rejoin"] == {
        "empty": [[0, "mptcp", 0], [1, "mptcp", 0]],
        "rejoined": [[0, "mptcp", 1], [1, "mptcp", 1]], "whole": True, "quiet": True}


@pytest.mark.requirement("TCPV-LOSS-007")
def test_the_controller_releases_a_connection_without_subflows(last: Situation) -> None:
    """KATO is 5 s, restarted at most once by earlier commands; MPTCP itself would wait 600 s."""
    assert last.data["established"] == last.data["kept"] == 2
    assert any("(5 seconds) expired" in line for line in last.data["expired"])
    assert last.data["released"] is not None
    assert last.data["released"] <= 2 * 5
