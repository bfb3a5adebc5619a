# SPDX-License-Identifier: GPL-2.0-or-later
"""Requirements of the chapter Keep alive and error recovery timing, on the reference kernel.

All times are of the guest's clock, which doesn't depend on the machine.
"""

import pytest
from nvmptcp_lab.build import Kernel
from requirements.situations import Situation, admin_commands, payload_length, run
from scapy.layers.inet import TCP
from scapy.packet import Packet

KEEP_ALIVE = 0x18  # opcode
KATO, IDLE = 5, 60  # of guest/timers.py; seconds
PATHS = "paths = 2"


@pytest.fixture(scope="module")
def idle(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("timers", "idle", tmp_path_factory.mktemp("idle"), topology=PATHS, capture=True)


@pytest.fixture(scope="module")
def only_signals(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("timers", "only_signals", tmp_path_factory.mktemp("signals"), topology=PATHS)


@pytest.fixture(scope="module")
def recovery(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return run("timers", "recovery", tmp_path_factory.mktemp("recovery"), topology=PATHS,
               capture=True)


@pytest.mark.requirement("TCPV-TIME-001")
def test_keep_alive_does_not_multiply(idle: Situation) -> None:
    """Keep Alive commands of an idle minute, on the Admin Queue's connection, put together from all
    subflows. Fails if two subflows make more of them than one.
    """
    assert [[count for _, _, count in span["queues"]] for span in idle.data["spans"]] == [
        [1, 1], [2, 2]]
    admin_queues = idle.connections[::2]
    counts = [sum(command.opcode == KEEP_ALIVE for command in admin_commands(connection))
              for connection in admin_queues]
    assert len(counts) == 2
    assert counts[0] >= IDLE // KATO
    assert counts[0] == counts[1]


@pytest.mark.requirement("TCPV-TIME-002")
def test_mptcp_signals_do_not_restart_the_timer(only_signals: Situation) -> None:
    """A join and an announcement each second, and no command. Fails if the association outlives
    the timer, which the Connect command may have restarted once; with commands it does.
    """
    assert only_signals.data["ended"] != "nothing"
    assert only_signals.data["joins"] >= KATO - 1
    assert KATO <= only_signals.data["seconds"] <= 2 * KATO + 1
    assert only_signals.data["with_commands"] == "nothing"


@pytest.mark.requirement("TCPV-TIME-003")
def test_default_of_kato(idle: Situation) -> None:
    """Of associations with the MPTCP variant. Fails if it is shorter than 5 s."""
    assert all(span["kato"] >= 5 for span in idle.data["spans"])


@pytest.mark.requirement("TCPV-TIME-005")
def test_nothing_is_sent_after_recovery_has_begun(recovery: Situation) -> None:
    """The paths return after the recovery began. Fails if the host sends data on a connection of
    the former association from then on; before, it sent them again and again.
    """
    data = recovery.data
    assert data["waited"] <= 2 * KATO + 1
    assert data["state"] == "live"
    assert data["whole"]
    former = {_ends(segment) for segment in recovery.between(0, data["recovery_at"])}
    assert _data_sent(recovery, former, data["cut_at"], data["recovery_at"])
    assert not _data_sent(recovery, former, data["recovery_at"])
    new = {_ends(segment) for segment in recovery.between(data["restored_at"])} - former
    assert _data_sent(recovery, new, data["restored_at"])


Ends = tuple[str, int, str, int]


def _ends(segment: Packet) -> Ends:
    return segment.src, segment[TCP].sport, segment.dst, segment[TCP].dport


def _data_sent(situation: Situation, subflows: set[Ends], start: float,
               end: float = float("inf")) -> list[Packet]:
    """What the host sent with payload on some subflows in a time span."""
    return [segment for segment in situation.between(start, end)
            if segment[TCP].dport == 4420 and _ends(segment) in subflows
            and payload_length(segment)]
