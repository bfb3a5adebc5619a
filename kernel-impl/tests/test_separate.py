# SPDX-License-Identifier: GPL-2.0-or-later
"""Host and target as kernels of their own: `nvmptcp-lab perf --separate-kernels`."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import COMMAND, Lab, heed_interrupts, leftover_processes, one_line_error
from nvmptcp_conformance.perf.lab_cell import LabBackend, lab_cell
from nvmptcp_conformance.perf.scenario import Association, Settings
from nvmptcp_lab import boot, separate, separate_cell
from nvmptcp_lab.build import Kernel
from nvmptcp_lab.errors import LabError

SMALL = ("perf", "--separate-kernels", "--paths", 2, "--rate", "100mbit", "--delay", "1ms",
         "--bs", "32k", "--iodepth", 16, "--numjobs", 2, "--runtime", 1)


@pytest.fixture(autouse=True)
def _logs_go_with_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def _cell(lab: Lab, directory: Path, *arguments: object) -> dict[str, Any]:
    done = lab(*SMALL, *arguments, "--json", "out.json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((directory / "out.json").read_text())
    return found


def _fio(directory: Path, rw: str) -> dict[str, Any]:
    """fio's own figures, without what says when and where it ran."""
    found = json.loads((directory / f"out.json.fio-{rw}.json").read_text())
    jobs: dict[str, Any] = found["jobs"][0]
    return jobs


def test_one_association_fills_both_paths_and_repeats(lab: Lab, tmp_path: Path) -> None:
    arguments = ("--ports", 1, "--loss", "0.1%", "--rw", "randread,randwrite", "--seed", 5)
    first = _cell(lab, tmp_path, *arguments)
    runs = {rw: _fio(tmp_path, rw) for rw in ("randread", "randwrite")}
    for direction in ("read", "write"):
        limit = first["limit_mib_s"][direction]
        assert 0.5 * limit < first[f"{direction}_mib_s"] <= limit
    # A subflow on each path, and what netem of both kernels has counted.
    assert {flow["remote"] for flow in first["subflows"]["randread"] if flow["bytes_received"]} == {
        "10.0.1.2", "10.0.2.2"}
    carried = first["read_mib_s"] * 2**20
    assert first["counters"]["randread"]["netem.bytes"] > carried
    second = _cell(lab, tmp_path, *arguments)
    for result in (first, second):
        del result["wall_seconds"]
    assert second == first
    assert {rw: _fio(tmp_path, rw) for rw in runs} == runs


def test_several_hosts_share_the_targets_links(lab: Lab, tmp_path: Path) -> None:
    """Each host has links of its own; what they write together is what the target's links take."""
    result = _cell(lab, tmp_path, "--hosts", 2, "--ports", 1, "--rw", "randwrite", "--seed", 1)
    limit = result["limit_mib_s"]["write"]
    assert 0.9 * limit < result["write_mib_s"] <= limit
    shares = result["host_mib_s"]["randwrite"]
    assert len(shares) == 2
    assert min(shares) > 0.25 * sum(shares)
    assert {flow["local"] for flow in result["subflows"]["randwrite"]} == {
        "10.0.1.1", "10.0.2.1", "10.0.1.3", "10.0.2.3"}
    assert result["write_latency_ms"]["p50"] <= result["write_latency_ms"]["p99"]
    assert {path.name for path in tmp_path.glob("out.json.*")} == {
        "out.json.host1.fio-randwrite.json", "out.json.host2.fio-randwrite.json"}


def test_capture_has_both_ends(lab: Lab, tmp_path: Path) -> None:
    _cell(lab, tmp_path, "--rw", "randread", "--capture", "pcap", "--ports", 1)
    assert {path.name for path in (tmp_path / "pcap").iterdir()} == {
        f"{end}-path{path}.pcapng" for end in ("host", "target") for path in (1, 2)}
    assert all(path.stat().st_size > 100_000 for path in (tmp_path / "pcap").iterdir())


def _guests(kernel: Kernel, commands: dict[str, str], **options: Any) -> dict[str, boot.Guest]:
    return {name: boot.Guest(kernel, ["sh", "-c", command], **options)
            for name, command in commands.items()}


def _busy(kernel: Kernel, directory: Path,
          victim: Callable[[int], int]) -> dict[str, boot.Guest]:
    """Guests that would run for ever; once they do, one process is killed.

    victim: which one, from the process ID of the target's kernel.
    """
    guests = _guests(kernel, {"target": f": >{directory}/there; sleep 1000000",
                              "host1": "while :; do sleep 1000; done"}, writable=[directory])

    def kill_later(target: int) -> None:
        def kill() -> None:
            while not (directory / "there").exists():
                time.sleep(0.01)
            os.kill(victim(target), signal.SIGKILL)
        threading.Thread(target=kill).start()

    return {**guests, "target": replace(guests["target"], started=kill_later)}


def _logs(error: pytest.ExceptionInfo[LabError]) -> Path:
    """The directory that an error names as that of the logs."""
    return Path(str(error.value).rpartition("logs are in ")[2].rstrip(")"))


def test_a_kernel_that_dies_ends_the_run(kernel: Kernel, tmp_path: Path) -> None:
    """Killed in the midst of its work: the others would wait for it for ever."""
    guests = _busy(kernel, tmp_path, lambda target: target)
    with pytest.raises(LabError, match="target: the guest kernel died") as error:
        separate.run(guests, 1, None)
    for name in ("target", "host1"):
        assert "as init process" in (_logs(error) / f"{name}.log").read_text(errors="replace")
    assert leftover_processes(tmp_path) == []


def test_a_clock_that_dies_ends_the_run(kernel: Kernel, tmp_path: Path) -> None:
    """The kernels then panic, but it is the clock that is to be named."""
    def calendar(_target: int) -> int:
        (found,) = [int(entry.parent.name) for entry in Path("/proc").glob("[0-9]*/comm")
                    if entry.read_text() == "calendar\n"
                    and f"PPid:\t{os.getpid()}\n" in (entry.parent / "status").read_text()]
        return found

    guests = _busy(kernel, tmp_path, calendar)
    with pytest.raises(LabError, match="the virtual clock ended: exit code -9"):
        separate.run(guests, 1, None)
    assert leftover_processes(tmp_path) == []


def test_interruption_ends_all(kernel: Kernel, tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND, *map(str, SMALL), "--runtime", "100000"], cwd=tmp_path,
                          env={**os.environ, "TMPDIR": str(tmp_path)}, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True,
                          preexec_fn=heed_interrupts) as process:
        while not list(tmp_path.glob("nvmptcp-*/host1/kernel.log")) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=120)
    assert (process.returncode, words) == (130, "nvmptcp-lab: interrupted\n")
    assert leftover_processes(tmp_path) == []
    assert list(tmp_path.glob("nvmptcp-*[!k]")) == []  # but for the locks


def test_a_command_that_fails_ends_the_run(kernel: Kernel, tmp_path: Path) -> None:
    guests = _guests(kernel, {"target": "sleep 1000000", "host1": "exit 3"})
    with pytest.raises(LabError, match=r"host1 failed in the guest \(exit code 3\)"):
        separate.run(guests, 1, None)


def test_time_outs_hold_for_all(kernel: Kernel) -> None:
    guests = _guests(kernel, dict.fromkeys(("target", "host1"), "while :; do sleep 1000; done"),
                     timeout=3)
    with pytest.raises(boot.Timeout, match=r"target: no end after 3 s"):
        separate.run(guests, 1, None)


def test_kernels_have_one_clock_and_random_numbers_of_their_own(kernel: Kernel, tmp_path: Path,
                                                                ) -> None:
    command = "sleep 3; date +%s.%N >{0}/$0.time; cat /proc/sys/kernel/random/uuid >{0}/$0.uuid"
    guests = {name: boot.Guest(
        kernel, ["sh", "-c", command.format(tmp_path), name], writable=[tmp_path], seed=1)
        for name in ("target", "host1", "host2")}
    assert set(separate.run(guests, 1, None)) == set(guests)
    times = [float((tmp_path / f"{name}.time").read_text()) for name in guests]
    assert max(times) - min(times) < 0.01  # s, of their clock
    assert times[0] > boot.SEEDED_START / 1e9 + 3
    assert len({(tmp_path / f"{name}.uuid").read_text() for name in guests}) == 3


def test_a_topology_that_cannot_be_built_is_told(kernel: Kernel) -> None:
    guests = _guests(kernel, dict.fromkeys(("target", "host1"), "true"))
    guests["host1"] = replace(guests["host1"], script="ip link set no-such-device up || exit 1\n")
    with pytest.raises(LabError, match="host1: the topology could not be built"):
        separate.run(guests, 1, None)


def test_perf_run_can_ask_for_them_in_all_cells() -> None:
    """As a scenario does for some: the same cells are the same runs."""
    plain, apart = LabBackend("default", "a kernel"), LabBackend("default", "a kernel", True)
    asked = Settings(association=Association(separate_kernels=True))
    assert lab_cell(asked).separate_kernels
    assert apart.key(Settings(), 1) == plain.key(asked, 1) == apart.key(asked, 1)
    assert plain.key(Settings(), 1) != plain.key(asked, 1)


@pytest.mark.parametrize(("arguments", "words"), [
    (["--separate-kernels", "--real-time"], "--separate-kernels: not together with --real-time"),
    (["--hosts", 17], "--hosts 17: at most 16")])
def test_bad_options_are_told(lab: Lab, arguments: list[object], words: str) -> None:
    done = lab("perf", *arguments)
    assert done.returncode == 2
    assert words in one_line_error(done)


def test_latencies_of_several_hosts_are_one_distribution() -> None:
    """Two hosts, of which one is slower: percentiles over all completions, not means of both."""
    def job(latencies: dict[int, int], runtime: int) -> dict[str, Any]:
        count = sum(latencies.values())
        none = {"total_ios": 0}
        return {"write": none, "read": {
            "total_ios": count, "io_bytes": 4096 * count, "runtime": runtime, "clat_ns": {
                "max": max(latencies), "bins": {str(ns): n for ns, n in latencies.items()},
                "percentile": {"50.000000": 0, "99.000000": 0}}}}

    merged = separate_cell.merge_jobs([job({1000: 90, 2000: 8}, 1000), job({9000: 2}, 2000)])
    assert merged["write"]["total_ios"] == 0
    read = merged["read"]
    assert (read["total_ios"], read["iops"], read["bw_bytes"]) == (100, 50, 4096 * 50)
    assert read["clat_ns"] == {"mean": 1240, "max": 9000,
                               "percentile": {"50.000000": 1000, "99.000000": 9000}}
