# SPDX-License-Identifier: GPL-2.0-or-later
"""The virtual clock of several kernels and the switches between them, without any kernel."""

import random
import select
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from calendar_kernel import GET, GET_TOD, RECEIVE, SECONDS, TRANSMIT, VRING_KICK, Clock, Device
from nvmptcp_lab.separate import calendar_program

START = 1_795_219_200_000_000_000

Run = Callable[..., "subprocess.Popen[str]"]


def _frame(to: int, sender: int, text: bytes) -> bytes:
    return bytes([2, 0, 0, 0, 1, to, 2, 0, 0, 0, 1, sender]) + b"\x08\x00" + text


@pytest.fixture
def calendar(tmp_path: Path) -> Iterator[Run]:
    """Start the program in tmp_path, and wait for its sockets."""
    processes = []

    def start(paths: int, *names: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen([calendar_program(), str(paths), str(START), *names],
                                   cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        processes.append(process)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def _error(process: "subprocess.Popen[str]") -> str:
    """The line it ends with."""
    _, words = process.communicate(timeout=10)
    assert process.returncode == 1
    assert len(words.splitlines()) == 1
    return words.strip()


def _booted(directory: Path, count: int) -> list[Clock]:
    """So many clocks, all at time 0; the first one's turn is over, the last one's is not."""
    clocks = [Clock(directory, number) for number in range(1, count + 1)]
    for clock in clocks:
        clock.started()
        if clock is not clocks[-1]:
            clock.wait(0)
    return clocks


def test_turns_go_by_time_whoever_comes_first(calendar: Run, tmp_path: Path) -> None:
    calendar(1, "target", "host1")
    host, target = Clock(tmp_path, 2), Clock(tmp_path, 1)  # the second before the first
    target.started()
    target.wait(500)
    host.started()
    host.wait(300)
    assert host.turn() == 300
    assert host.free_until == 500  # it may go on until the target has something to do
    host.wait(900)
    assert target.turn() == 500
    target.wait(2000)
    assert host.turn() == 900
    assert host.now == 900


def test_of_equals_who_waits_longest_has_the_turn(calendar: Run, tmp_path: Path) -> None:
    calendar(1, "target", "host1", "host2")
    clocks = _booted(tmp_path, 3)
    clocks[-1].wait(0)
    order: list[int] = []
    for _ in range(6):
        clock = clocks[len(order) % 3]
        assert clock.turn() == 0
        order.append(clock.number)
        clock.wait(0)
    assert order == [1, 2, 3, 1, 2, 3]


def test_the_clock_never_goes_back(calendar: Run, tmp_path: Path) -> None:
    """Many turns at random times: each is the earliest that was asked for, and none is before
    another."""
    calendar(1, "target", "host1", "host2")
    clocks = _booted(tmp_path, 3)
    choose, running, now = random.Random(1), clocks[-1], 0
    wanted = {clock.number: 0 for clock in clocks}
    for _ in range(500):
        time = now + choose.choice([0, 0, 1, 256, 10**6])
        wanted[running.number] = time
        running.wait(time)
        first = min(wanted.values())
        ready = [clock for clock in clocks if wanted[clock.number] == first]
        sockets, _, _ = select.select([clock.socket for clock in ready], [], [], SECONDS)
        (running,) = [clock for clock in ready if clock.socket in sockets]
        assert running.turn() == first >= now
        now = first
        others = [at for number, at in wanted.items() if number != running.number]
        assert running.free_until == min(others)


def test_a_request_in_the_past_ends_it_with_a_line(calendar: Run, tmp_path: Path) -> None:
    process = calendar(1, "target")
    (clock,) = _booted(tmp_path, 1)
    clock.wait(1000)
    assert clock.turn() == 1000
    clock.wait(999)
    assert _error(process) == "kernel 1 asks for 999 ns, but it is 1000 ns already"


def test_sleeping_for_ever_is_told(calendar: Run, tmp_path: Path) -> None:
    process = calendar(1, "target", "host1")
    first, second = _booted(tmp_path, 2)
    second.wait(2**63 - 1)
    assert first.turn() == 0
    first.wait(2**63 - 1)
    assert "all kernels sleep for ever" in _error(process)


def test_wall_clocks_agree(calendar: Run, tmp_path: Path) -> None:
    calendar(1, "target", "host1")
    first, second = _booted(tmp_path, 2)
    second.wait(7000)
    assert first.turn() == 0
    first.wait(8000)
    assert second.turn() == 7000
    second.send(GET_TOD)
    assert second.receive() == (0, START + 7000)
    second.send(GET)
    assert second.receive() == (0, 7000)


def test_a_frame_arrives_at_the_senders_time(calendar: Run, tmp_path: Path) -> None:
    """The sender runs up to 400 ns, the receiver has asked for 900: it gets its turn at 400."""
    calendar(1, "target", "host1")
    target, host = _booted(tmp_path, 2)
    mine, theirs = Device(tmp_path, "host1-path1"), Device(tmp_path, "target-path1")
    theirs.buffers(2)
    host.wait(100)
    assert target.turn() == 0
    target.wait(900)
    assert host.turn() == 100
    host.propagate(400)  # it has gone on by itself, as free_until lets it
    frame = _frame(1, 2, b"a capsule")
    mine.put(frame)
    mine.kick(TRANSMIT)
    assert theirs.called() == RECEIVE
    assert target.now == 400
    target.request(target.now)  # its interrupt
    assert mine.called() == TRANSMIT  # the buffer is free again
    mine.answered()  # only now may the sender go on
    assert host.free_until == 400
    host.wait(401)
    assert target.turn() == 400
    assert theirs.frames() == [frame]


def test_the_sender_waits_for_the_receivers_request(calendar: Run, tmp_path: Path) -> None:
    """An interrupt that isn't answered: the receiver may not have asked for its turn yet."""
    calendar(1, "target", "host1")
    mine, theirs = Device(tmp_path, "host1-path1"), Device(tmp_path, "target-path1")
    theirs.buffers(1)
    mine.put(_frame(1, 2, b"a capsule"))
    mine.kick(TRANSMIT)
    assert theirs.interrupted() == RECEIVE
    found, _, _ = select.select([mine.socket, mine.calls], [], [], 0.3)
    assert found == []


def test_the_switch_learns_who_is_where(calendar: Run, tmp_path: Path) -> None:
    calendar(2, "target", "host1", "host2")
    devices = [Device(tmp_path, f"{name}-path1") for name in ("target", "host1", "host2")]
    other_path = Device(tmp_path, "target-path2")
    for device in (*devices, other_path):
        device.buffers(4)

    def send(sender: int, frame: bytes, to: list[int]) -> None:
        devices[sender].put(frame)
        devices[sender].kick(TRANSMIT)
        for number in to:
            assert devices[number].called() == RECEIVE
        assert devices[sender].called() == TRANSMIT
        devices[sender].answered()
        for number, device in enumerate(devices):
            assert device.frames() == ([frame] if number in to else [])

    send(1, _frame(11, 22, b"to nobody it knows"), [0, 2])
    send(0, _frame(22, 11, b"an answer"), [1])
    send(2, _frame(11, 33, b"another host"), [0])
    everybody = b"\xff" * 6 + bytes([2, 0, 0, 0, 1, 22]) + b"\x08\x06" + b"ARP"
    send(1, everybody, [0, 2])
    assert other_path.frames() == []


def test_frames_wait_for_buffers(calendar: Run, tmp_path: Path) -> None:
    """More frames than the receiver has buffers: none is lost, and their order stays."""
    calendar(1, "target", "host1")
    target, host = Device(tmp_path, "target-path1"), Device(tmp_path, "host1-path1")
    target.buffers(2)
    frames = [_frame(1, 2, bytes([number])) for number in range(5)]
    for frame in frames:
        host.put(frame)
    host.kick(TRANSMIT)
    assert target.may_be_silent()
    assert [target.called(), target.called(), host.called()] == [RECEIVE, RECEIVE, TRANSMIT]
    host.answered()
    assert target.frames() == frames[:2]
    assert not target.may_be_silent()
    target.buffers(5)
    frames.append(_frame(1, 2, b"one that must not overtake"))
    host.put(frames[-1])
    host.kick(TRANSMIT)
    assert host.called() == TRANSMIT
    host.answered()
    target.kick(RECEIVE)
    assert target.called() == RECEIVE
    target.answered()
    assert target.frames() == frames[2:]
    assert target.may_be_silent()


def test_a_kernel_that_goes_leaves_the_clock_to_the_others(calendar: Run, tmp_path: Path) -> None:
    process = calendar(1, "target", "host1")
    target, host = _booted(tmp_path, 2)
    host.wait(500)
    assert target.turn() == 0
    target.socket.close()  # in its turn
    assert host.turn() == 500
    assert process.poll() is None
    host.socket.close()
    assert process.wait(10) == 0


@pytest.mark.parametrize(("number", "why"), [
    (3, "a kernel that isn't awaited came: number 3"),
    (0, "a kernel that isn't awaited came: number 0")])
def test_a_stranger_ends_it_with_a_line(calendar: Run, tmp_path: Path, number: int,
                                        why: str) -> None:
    process = calendar(1, "target", "host1")
    Clock(tmp_path, number)
    assert _error(process) == why


def test_an_address_outside_of_the_memory_ends_it_with_a_line(calendar: Run, tmp_path: Path,
                                                              ) -> None:
    process = calendar(1, "target", "host1")
    device = Device(tmp_path, "host1-path1")
    device.put(b"x" * 60)
    place = (1 << 20)  # the first descriptor of the queue to transmit
    device.memory[place:place + 8] = (1 << 40).to_bytes(8, "little")
    device.kick(TRANSMIT)
    assert _error(process) == ("host1, path 1: address 0x10000000000 is outside of the kernel's"
                               " memory")


def test_an_unknown_request_ends_it_with_a_line(calendar: Run, tmp_path: Path) -> None:
    process = calendar(1, "target")
    device = Device(tmp_path, "target-path1")
    device.ask(99, b"")
    assert _error(process) == "target, path 1: request 99 is unknown"


def test_a_queue_that_is_not_there_ends_it_with_a_line(calendar: Run, tmp_path: Path) -> None:
    process = calendar(1, "target")
    device = Device(tmp_path, "target-path1")
    device.ask(VRING_KICK, (7).to_bytes(4, "little") + bytes(4))
    assert _error(process) == "target, path 1: there is no queue 7"


def test_usage_is_told() -> None:
    done = subprocess.run([calendar_program()], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: calendar ")
