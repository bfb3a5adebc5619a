# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab perf run`: results, interruption, workers elsewhere, devices and events."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import COMMAND, heed_interrupts, leftover_processes, one_line_error
from nvmptcp_conformance.perf import lab_cell
from nvmptcp_conformance.perf.scenario import Settings
from nvmptcp_lab.build import ensure_kernel
from nvmptcp_lab.errors import LabError
from tiny_scenario import TINY

Perf = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def perf(tmp_path: Path) -> Perf:
    """`nvmptcp-lab perf ARGUMENTS…` in a directory of the test's own, with results kept there."""
    ensure_kernel()

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(_command(*arguments), cwd=tmp_path, env=_environment(tmp_path),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=300, preexec_fn=heed_interrupts)

    return run


def _command(*arguments: object) -> list[str]:
    cache = ["--cache", "kept"] if "run" in arguments else []
    return [*COMMAND, "perf", *map(str, arguments), *cache]


def _environment(directory: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(directory)}


def _results(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "perf-out" / "results.json").read_text())
    return {cell["name"]: cell for cell in found["cells"]}


def test_results_and_what_is_kept(perf: Perf, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    done = perf("run", "tiny.toml", "--runs", 2)
    assert done.returncode == 0, done.stderr
    assert "4 runs, 0 of them kept from before" in done.stderr
    assert "[4/4]" in done.stderr
    found = _results(tmp_path)
    # One path of 100 Mbit/s against two.
    tcp, mptcp = (found[f"transport {name}"]["figures"]["read_mib_s"]["median"]
                  for name in ("tcp", "mptcp"))
    assert tcp == pytest.approx(11.4, rel=0.02)
    assert 1.9 < mptcp / tcp < 2
    assert found["transport mptcp"]["figures"]["read_mib_s"]["runs"] == 2
    assert found["transport mptcp"]["flows"] == 2
    figures = found["transport mptcp"]["figures"]
    assert figures["drops"]["max"] == 0
    # Data, and some headers.
    sent = figures["sent_bytes"]["median"] / 2**20
    assert 1 < sent / (figures["read_mib_s"]["median"] * 1) < 1.2
    with (tmp_path / "perf-out" / "results.csv").open() as file:
        rows = {(row["cell"], row["figure"]): row for row in csv.DictReader(file)}
    assert float(rows["transport tcp", "read_mib_s"]["median"]) == tcp
    for name in ("tiny.png", "tiny.svg"):
        assert (tmp_path / "perf-out" / name).stat().st_size > 2000
    written = (tmp_path / "perf-out" / "results.json").read_text()
    again = perf("run", "tiny.toml", "--runs", 2)
    assert "4 runs, 4 of them kept from before" in again.stderr
    assert (tmp_path / "perf-out" / "results.json").read_text() == written
    # A damaged result is measured again, and comes out the same.
    victim = sorted((tmp_path / "kept").glob("*.json"))[0]
    victim.write_text(victim.read_text()[:100])
    repaired = perf("run", "tiny.toml", "--runs", 2)
    assert "4 runs, 3 of them kept from before" in repaired.stderr
    assert (tmp_path / "perf-out" / "results.json").read_text() == written


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_keeps_what_is_done_and_goes_on_from_there(
        tmp_path: Path, number: int, code: int) -> None:
    ensure_kernel()
    # The second run is far from its end when the first one is there.
    (tmp_path / "long.toml").write_text(TINY.replace("runtime = 1", "runtime = [1, 3600]")
                                        .replace('["tcp", "mptcp"]', '"tcp"'))
    process = subprocess.Popen(
        _command("run", "long.toml", "--jobs", 1), cwd=tmp_path, env=_environment(tmp_path),
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
    assert process.stderr
    for line in process.stderr:
        if line.startswith("[1/2]"):
            break
    process.send_signal(number)
    rest = process.stderr.read()
    assert process.wait(60) == code, rest
    assert "1 of 2 runs are kept: the same command goes on from there" in rest
    assert "Traceback" not in rest
    assert leftover_processes(tmp_path) == []
    assert list(tmp_path.glob("nvmptcp-*/")) == []
    assert len(list((tmp_path / "kept").iterdir())) == 1
    done = subprocess.run(_command("run", "long.toml", "--only", "runtime 1", "--list"),
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "long: Tiny\n  runtime 1\n"
    done = subprocess.run(_command("run", "long.toml", "--only", "runtime 1"), cwd=tmp_path,
                          env=_environment(tmp_path), capture_output=True, text=True)
    assert "1 runs, 1 of them kept from before" in done.stderr


def test_a_cell_that_fails_is_named_and_the_others_are_kept(perf: Perf, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(TINY.replace('transport = ["tcp", "mptcp"]', "") + """
[[case.options]]
name = "bad"
association = { transport = "tcp", connect_options = "no_such_option" }
[[case.options]]
name = "good"
association = { transport = "tcp" }
""")
    done = perf("run", "bad.toml", "--jobs", 1)
    assert done.returncode == 1
    error = one_line_error(done)
    assert "1 of 2 runs failed, the others are kept" in error
    assert "bad: bad, seed 1" in error
    assert "/dev/nvme-fabrics" in done.stderr or "Invalid argument" in done.stderr
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """A Dask scheduler with one worker, as on other machines."""
    ensure_kernel()
    address = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    options: dict[str, Any] = {"cwd": tmp_path, "stdout": subprocess.DEVNULL,
                               "stderr": subprocess.DEVNULL, "env": _environment(tmp_path)}
    started = [subprocess.Popen([*dask, "scheduler", "--host", "127.0.0.1", "--port", "0",
                                 "--no-dashboard", "--scheduler-file", str(address)], **options)]
    try:
        end = time.monotonic() + 60
        while not address.exists() and time.monotonic() < end:
            time.sleep(0.1)
        started.append(subprocess.Popen(
            [*dask, "worker", "--scheduler-file", str(address), "--no-nanny", "--nthreads", "1",
             "--no-dashboard"], **options))
        yield json.loads(address.read_text())["address"]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_workers_of_a_scheduler_elsewhere(perf: Perf, scheduler: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    done = perf("run", "tiny.toml", "--scheduler", scheduler)
    assert done.returncode == 0, done.stderr
    assert set(_results(tmp_path)) == {"transport tcp", "transport mptcp"}
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_bonding_segments_and_events_do_what_they_say(perf: Perf, tmp_path: Path) -> None:
    (tmp_path / "devices.toml").write_text("""
title = "Devices"
topology = { paths = 2, rate = "100mbit" }
fio = { runtime = 3, iodepth = 8, numjobs = 1, timeline_ms = 10 }
[[case.what]]
name = "balance-rr"
association = { transport = "tcp", ports = 1 }
devices = { bonding = "balance-rr" }
[[case.what]]
name = "802.3ad"
association = { transport = "tcp", ports = 1 }
devices = { bonding = "802.3ad" }
[[case.what]]
name = "cut"
association = { ports = 1 }
event = [{ at = 1, path = 2, link = "down" }, { at = 2, path = 2, link = "up" }]
[[case.what]]
name = "slower"
association = { transport = "tcp", ports = 1 }
event = [{ at = 1, path = 1, rate = "10mbit" }, { at = 2, path = 1, rate = "100mbit" }]
""")
    done = perf("run", "devices.toml")
    assert done.returncode == 0, done.stderr
    found = _results(tmp_path)
    one_path = 11.4
    bandwidth = {name: cell["figures"]["read_mib_s"]["median"] for name, cell in found.items()}
    # One connection: packet by packet over both paths, or over the one that its hash picks.
    assert bandwidth["balance-rr"] > 1.5 * one_path
    assert bandwidth["802.3ad"] == pytest.approx(one_path, rel=0.03)
    # With few I/Os in flight the cut path's subflow holds up some of them until it times out.
    for name, least, most in (("cut", 0.1, 0.6), ("slower", 0.05, 0.15)):
        series = found[name]["timeline"]["mib_s"]
        assert len(series) == 300
        before, while_it_lasts = sum(series[20:100]) / 80, sum(series[130:200]) / 70
        assert least < while_it_lasts / before < most, name
    assert found["cut"]["figures"]["gap_ms"]["median"] < 1000


def test_a_worker_with_another_kernel_refuses() -> None:
    ensure_kernel()
    with pytest.raises(LabError, match=r"the worker has kernel .*, not other"):
        lab_cell.LabBackend("default", "other").measure(Settings(), 1)


def test_several_hosts_one_of_them_without_mptcp(perf: Perf, tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text("""
title = "Hosts"
topology = { paths = 2, rate = "100mbit" }
association = { ports = 1, hosts = 2, tcp_hosts = 1 }
fio = { runtime = 2, iodepth = 16, numjobs = 1 }
""")
    done = perf("run", "hosts.toml")
    assert done.returncode == 0, done.stderr
    figures = {name: figure["median"] for name, figure in
               _results(tmp_path)["all"]["figures"].items()}
    # The host without MPTCP has a part of the first path only.
    assert 1 < figures["host2_mib_s"] < 11.5 < figures["host1_mib_s"]
    assert 0.9 * figures["read_mib_s"] < figures["host1_mib_s"] + figures["host2_mib_s"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["run", "missing"], "missing: no such scenario file, nor one of"),
    (["run", "failures", "--only", "nothing"], "--only nothing: no cell has these words"),
    (["run", "tiny.toml", "sub/tiny.toml"], "a scenario named tiny is given twice"),
    (["run", "tiny.toml", "--scheduler", "tcp://127.0.0.1:1"], "no Dask scheduler answers"),
    (["--runtime", "3", "run", "tiny.toml"], "--runtime: not together with perf run"),
])
def test_bad_options(perf: Perf, tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("tiny.toml", "sub/tiny.toml"):
        (tmp_path / name).write_text(TINY)
    done = perf(*arguments)
    assert done.returncode == 2
    assert words in one_line_error(done)
