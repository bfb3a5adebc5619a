# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Closing a connection, on the reference kernel.

The kernel's controller has a host in user space, the kernel's host a controller behind a proxy:
these end a connection as the step wants it. KATO is two minutes, so that no timer helps.
"""

import pytest
from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER, Connection, Mapping
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, run
from scapy.layers.inet import TCP
from scapy.packet import Packet

SOON = 1  # seconds
DSN_SPACE = 1 << 64


@pytest.fixture(scope="module")
def controller(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("close", "controller", tmp_path_factory.mktemp("controller"),
               topology="paths = 2", capture=True)


@pytest.fixture(scope="module")
def host(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    """The delay tells whether an acknowledgement was waited for."""
    return run("close", "host", tmp_path_factory.mktemp("host"),
               topology='paths = 2\ndelay = "5ms"', capture=True)


def _connections(situation: Situation, step: str) -> list[Connection]:
    """The connections that were opened in a step."""
    times = situation.data[step]
    return [connection for connection in situation.connections if connection.mappings
            and times["begin"] <= connection.mappings[0].packet.time < times["end"]]


def _data_fin(connection: Connection, sender: int) -> Mapping | None:
    return next((mapping for mapping in connection.mappings
                 if mapping.sender == sender and mapping.data_fin), None)


def _closing(situation: Situation, connection: Connection, sender: int,
             flag: str) -> list[list[Packet]]:
    """The segments by which `sender` closed the subflows with this TCP flag, a list a subflow."""
    found = []
    for subflow in connection.subflows:
        source, destination = subflow.ends if sender == INITIATOR else subflow.ends[::-1]
        found.append([
            segment for segment in situation.segments if flag in segment[TCP].flags
            and (segment.src, segment[TCP].sport) == source
            and (segment.dst, segment[TCP].dport) == destination])
    return found


@pytest.mark.requirement("TCPV-CLOS-001")
def test_data_fin_comes_after_the_last_pdu(host: Situation, controller: Situation) -> None:
    """The kernel's host disconnects. Fails if there is no DATA_FIN, or if data come after it."""
    for connection in (*_connections(host, "subflow"), *_connections(controller, "disconnect")):
        last = _data_fin(connection, INITIATOR)
        assert last
        length = len(connection.stream(INITIATOR))
        assert (last.dsn + last.payload_length - connection.first_dsn(INITIATOR)) % DSN_SPACE == (
            length)


@pytest.mark.xfail(strict=True, reason="nvme-tcp closes its sockets without lingering: MP_FASTCLOSE"
                   " follows DATA_FIN at once.")
@pytest.mark.requirement("TCPV-CLOS-001")
def test_the_acknowledgement_of_data_fin_is_waited_for(host: Situation) -> None:
    """The round-trip time is 10 ms. Fails if a subflow is closed before the DATA_ACK came."""
    for connection in _connections(host, "subflow"):
        last = _data_fin(connection, INITIATOR)
        assert last
        end = (last.dsn + last.length) % DSN_SPACE
        acknowledged = min(
            segment.time for segment, option in host.with_option(mptcp.DSS)
            if segment[TCP].sport == 4420 and option.flags.A and option.data_ack == end)
        closed = min(segment.time for flag in "FR"
                     for segments in _closing(host, connection, INITIATOR, flag)
                     for segment in segments if segment.time >= last.packet.time)
        assert acknowledged <= closed


@pytest.mark.requirement("TCPV-CLOS-002")
def test_fin_closes_a_subflow_only(controller: Situation, host: Situation) -> None:
    """The peer's path manager closes one subflow. Fails if the connection goes with it."""
    for situation, sport in ((controller, None), (host, 4420)):
        step = situation.data["subflow"]
        segments = situation.between(step["at"], step["end"])
        fins = [segment for segment in segments if segment[TCP].flags.F
                and (segment[TCP].sport == 4420) == (sport == 4420)]
        assert fins
        assert not [segment for segment in segments
                    if (option := mptcp.find_option(segment, mptcp.DSS)) and option.flags.F]
    assert controller.data["subflow"]["after"] == controller.data["subflow"]["before"] - 1
    assert host.data["subflow"]["before"] == [[0, "mptcp", 2], [1, "mptcp", 2]]
    assert host.data["subflow"]["after"] == [[0, "mptcp", 1], [1, "mptcp", 1]]
    assert host.data["subflow"]["whole"]
    assert host.data["subflow"]["state"] == "live"


@pytest.mark.requirement("TCPV-CLOS-003")
def test_data_fin_of_the_controller_ends_the_association(host: Situation) -> None:
    """On the Admin Queue, and no other signal. Fails if the host goes on until a timer expires."""
    admin_queue, _ = _connections(host, "end_stream")
    last = _data_fin(admin_queue, LISTENER)
    assert last
    assert not [segment for flag in "FR"
                for segments in _closing(host, admin_queue, LISTENER, flag) for segment in segments
                if segment.time <= last.packet.time]
    assert host.data["end_stream"]["noticed"] is not None
    assert host.data["end_stream"]["noticed"] <= SOON


@pytest.mark.requirement("TCPV-CLOS-004")
def test_data_fin_of_the_host_ends_the_connection(controller: Situation) -> None:
    """Fails if the controller keeps its socket until a timer expires."""
    (connection,) = _connections(controller, "end_stream")
    assert _data_fin(connection, INITIATOR)
    assert controller.data["end_stream"]["before"] == 1
    assert controller.data["end_stream"]["released"] is not None
    assert controller.data["end_stream"]["released"] <= SOON
    assert controller.data["disconnect"]["left"] == 0


@pytest.mark.requirement("TCPV-CLOS-005")
def test_an_abort_is_mp_fastclose(controller: Situation, host: Situation) -> None:
    """After a PDU of no known type, the peer doesn't close. Fails if a subflow is reset without
    MP_FASTCLOSE, or not at all.
    """
    for situation, step, sender in (
            (controller, "err", LISTENER), (host, "inject", INITIATOR)):
        connections = _connections(situation, step)
        assert connections
        for connection in connections:
            for resets in _closing(situation, connection, sender, "R"):
                assert resets
                # Later ones answer what was still under way, for there is no socket any more.
                option = mptcp.find_option(resets[0], mptcp.MPFastclose)
                assert option
                assert option.receiver_key == connection.keys[1 - sender]
    assert controller.data["err"]["host"] == "aborts"


@pytest.mark.requirement("TCPV-CLOS-006")
def test_mp_fastclose_is_a_reset(controller: Situation, host: Situation) -> None:
    """Of the host, and of the controller on the Admin Queue. Fails if it takes effect only when a
    timer expires, or if the peer ended the stream besides.
    """
    for situation, sender in ((controller, INITIATOR), (host, LISTENER)):
        connection = _connections(situation, "abort")[0]
        assert not _data_fin(connection, sender)
        assert any(mptcp.find_option(segment, mptcp.MPFastclose)
                   for segments in _closing(situation, connection, sender, "R")
                   for segment in segments)
    assert controller.data["abort"]["before"] == 1
    assert controller.data["abort"]["released"] is not None
    assert controller.data["abort"]["released"] <= SOON
    assert host.data["abort"]["noticed"] is not None
    assert host.data["abort"]["noticed"] <= SOON
