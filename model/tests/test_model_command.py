# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-model`: runs, what is kept, packets and time series, sweeps, validation, bad input."""

import csv
import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from model_fixtures import Model
from tiny_scenario import TINY

pytest_plugins = ("model_fixtures",)

ONE_PATH = 11.4  # MiB/s of 100 Mbit/s


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)


def _error(done: "subprocess.CompletedProcess[str]") -> str:
    """The last line, which is the only one that begins with the command's name."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("nvmptcp-model: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def _cells(directory: Path) -> dict[str, Any]:
    found = json.loads((directory / "results.json").read_text())
    return {cell["name"]: cell for cell in found["cells"]}


def test_results_and_what_is_kept(model: Model, tmp_path: Path) -> None:
    done = model("run", "tiny.toml", "--seeds", 2)
    assert done.returncode == 0, done.stderr
    assert "4 runs, 0 of them kept from before; ns-3 model, build " in done.stderr
    cells = _cells(tmp_path / "model-out")
    tcp, mptcp = (cells[f"transport {name}"] for name in ("tcp", "mptcp"))
    assert tcp["figures"]["read_mib_s"]["median"] == pytest.approx(ONE_PATH, rel=0.03)
    assert 1.8 < mptcp["figures"]["read_mib_s"]["median"] / ONE_PATH < 2
    assert 0.45 < mptcp["figures"]["path1_share"]["median"] < 0.55
    assert (tcp["flows"], mptcp["flows"]) == (1, 2)
    for name in ("tiny.png", "tiny.svg"):
        assert (tmp_path / "model-out" / name).stat().st_size > 2000
    again = model("run", "tiny.toml", "--seeds", 2)
    assert "4 runs, 4 of them kept from before" in again.stderr
    assert _cells(tmp_path / "model-out") == cells


def test_ipv6_paths_carry_a_little_less(model: Model, tmp_path: Path) -> None:
    done = model("run", "tiny.toml", "--set", "topology.family=ipv6")
    assert done.returncode == 0, done.stderr
    cells = _cells(tmp_path / "model-out")
    tcp, mptcp = (cells[f"transport {name}"]["figures"] for name in ("tcp", "mptcp"))
    # headers are 20 bytes longer in each segment of 1448
    assert tcp["read_mib_s"]["median"] == pytest.approx(ONE_PATH * 1428 / 1448, rel=0.01)
    assert 1.8 < mptcp["read_mib_s"]["median"] / ONE_PATH < 2
    assert 0.45 < mptcp["path1_share"]["median"] < 0.55


def test_the_same_seed_gives_the_same_result(model: Model, tmp_path: Path) -> None:
    results = []
    for cache in ("one", "two"):
        done = model("run", "tiny.toml", "--set", "topology.loss=1%", "--cache", cache)
        assert done.returncode == 0, done.stderr
        figures = {name: cell["figures"] for name, cell in _cells(tmp_path / "model-out").items()}
        for of_cell in figures.values():
            of_cell.pop("memory_mib")
        results.append(figures)
    assert results[0] == results[1]
    assert results[0]["transport tcp"]["drops"]["median"] > 0


def test_packets_and_time_series(model: Model, tmp_path: Path) -> None:
    done = model("run", "tiny.toml", "--only", "mptcp", "--pcap", "out", "--trace", "out",
                 "--set", "fio.iodepth=1")
    assert done.returncode == 0, done.stderr
    captured = list((tmp_path / "out").glob("seed1*.pcap"))
    assert captured
    assert all(path.stat().st_size > 1000 for path in captured)
    series = tmp_path / "out" / "seed1"
    with (series / "subflow_bytes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len({row["flow"] for row in rows}) >= 2
    plotted = model("plot", series)
    assert plotted.returncode == 0, plotted.stderr
    assert (series / "cwnd.svg").stat().st_size > 2000


def test_a_sweep_adds_seeds_until_it_is_sure(model: Model, tmp_path: Path) -> None:
    options = ["--only", "transport tcp", "--set", 'topology.loss=["0%", "2%"]',
               "--output", "sweep"]
    done = model("sweep", "tiny.toml", *options, "--precision", "25%")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "sweep" / "sweep.csv").open() as file:
        rows = {row["cell"]: row for row in csv.DictReader(file)}
    sure, unsure = (rows[f"loss {loss}, transport tcp"] for loss in ("0%", "2%"))
    assert (sure["runs"], float(sure["precision"])) == ("6", 0)
    assert 0 < float(unsure["precision"]) <= 0.25
    assert float(unsure["low"]) <= float(unsure["median"]) <= float(unsure["high"])
    more = model("sweep", "tiny.toml", *options, "--precision", "0.01%", "--most", 8)
    assert more.returncode == 1
    assert "1 of 2 cells are not within 0.0% after 8 seeds" in _error(more)
    assert "of them kept from before" in more.stderr


def test_validation_fails_for_what_is_not_listed(model: Model, tmp_path: Path) -> None:
    cells = ["depths", "--only", "tcp queue-depth, 1 a path, bs 4k, iodepth 1"]
    done = model("validate", *cells, "--json")
    found = json.loads(done.stdout)
    assert {check["figure"] for check in found["checks"]} >= {"read_mib_s", "read_p50_ms",
                                                             "read_p99_ms", "path1_share"}
    place = f"{found['checks'][0]['scenario']}: {found['checks'][0]['cell']}"
    inside = next(check["figure"] for check in found["checks"] if check["inside"])
    (tmp_path / "stale.toml").write_text(
        f'[[cause]]\ntext = "none"\n[cause.cells]\n"{place}" = ["{inside}"]\n')
    stale = model("validate", *cells, "--deviations", "stale.toml")
    assert stale.returncode == 1
    assert f"STALE {place}: {inside} is inside" in stale.stdout


def test_cost_grows_no_faster_than_links(model: Model, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    done = model("benchmark", "--repeat", 1, "--output", "out", "--series", "links")
    assert done.returncode == 0, done.stderr
    (line,) = json.loads((tmp_path / "out" / "benchmark.json").read_text())["lines"]
    assert all(point["events"] > 0 for point in line["points"])
    assert line["cpu"]["slope"] > 0
    each = [point["events"] / point["x"] for point in line["points"]]
    assert all(after < 1.05 * before for before, after in itertools.pairwise(each)), (
        "a link costs no more for being one of many")


def test_ecn_is_off_accepted_or_asked_for(model: Model) -> None:
    tiny = ("run", "tiny.toml", "--only", "mptcp", "--set")
    for value in (0, 1, 2):
        done = model(*tiny, f'topology.sysctl={{"net.ipv4.tcp_ecn" = {value}}}')
        assert done.returncode == 0, done.stderr
    wrong = model(*tiny, 'topology.sysctl={"net.ipv4.tcp_ecn" = 3}')
    assert wrong.returncode == 2
    assert "sysctl.net.ipv4.tcp_ecn: must be 0, 1 or 2, not 3" in wrong.stderr


@pytest.mark.parametrize("sysctl", [
    '"net.ipv4.tcp_congestion_control" = "bbr"', '"net.ipv4.tcp_congestion_control" = "reno"',
    '"net.ipv4.tcp_rto_min_us" = 5000', '"net.mptcp.stale_loss_cnt" = 1'])
def test_sysctls_take_effect(model: Model, tmp_path: Path, sysctl: str) -> None:
    """Fails if a run with loss has the same figures with the sysctl and without."""
    figures: list[list[Any]] = []
    for more in ((), ("--set", f"topology.sysctl={{{sysctl}}}")):
        out = tmp_path / f"out{len(figures)}"
        done = model("run", "tiny.toml", "--only", "mptcp", "--output", out,
                     "--set", 'topology.path=[{}, {loss="2%"}]', "--set", "fio.runtime=3",
                     "--set", 'event=[{at=0.5, path=2, loss="100%"}]', *more)
        assert done.returncode == 0, done.stderr
        figures.append([cell["figures"] for cell in _cells(out).values()])
    assert figures[0] != figures[1]


def test_the_examples_are_drawn(model: Model, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    done = model("examples", "--output", "out")
    assert done.returncode == 0, done.stderr
    for name in ("first", "failure", "policies"):
        picture = (tmp_path / "out" / f"nvme-mptcp-{name}.svg").read_text()
        # the target's address on the last link: MPTCP, or a policy, has used it
        assert "10.0.4.2" in picture
    assert "policies: MPTCP: " in done.stdout


def test_interrupted_it_ends_with_its_runs(built: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "nvmptcp_model.cli", "--build", built, "run", "tiny.toml", "--only",
         "mptcp", "--set", "fio.runtime=[1, 3600]", "--jobs", "1", "--cache", "kept"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    assert process.stderr
    for line in process.stderr:
        if line.startswith("[1/2]"):
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(60) == 130, rest
    assert "1 of 2 runs are kept: the same command goes on from there" in rest
    assert "Traceback" not in rest
    assert len(list((tmp_path / "kept").glob("*.json"))) == 1


@pytest.mark.parametrize(("arguments", "words"), [
    (["run", "missing"], "missing: no such scenario file, nor one of block-sizes"),
    (["run", "tiny.toml", "--set", "fio.bs=big"], "--set fio.bs: string should match pattern"),
    (["run", "tiny.toml", "--set", "fio.bs"], "--set fio.bs: write KEY=VALUE"),
    (["run", "tiny.toml", "--set", "a b=1"], "--set a b=1: 'a b' is no key"),
    (["run", "tiny.toml", "--set", "fio.bs=[4k, 8k]"], "--set fio.bs=[4k, 8k]: no list; words"),
    (["run", "tiny.toml", "--set", "fio.colour=1"], "--set fio.colour: unknown key"),
    (["run", "tiny.toml", "--attribute", "Rate=1"], "write ns3::CLASS::ATTRIBUTE=VALUE"),
    (["run", "tiny.toml", "--attribute", "ns3::NetemNetDevice::Colour=1"],
     "ns3::NetemNetDevice::Colour"),
    (["run", "tiny.toml", "--attribute", "ns3::NetemNetDevice::Rate=fast"],
     "ns3::NetemNetDevice::Rate"),
    (["run", "tiny.toml", "--attribute", "ns3::NvmeTcpTarget::CommandTime=soon"],
     "attributes.ns3::NvmeTcpTarget::CommandTime: can't be soon: Can't Parse Time soon"),
    (["run", "tiny.toml", "--attribute", "ns3::NvmeTcpTarget::InCapsuleDataSize=x"],
     "attributes.ns3::NvmeTcpTarget::InCapsuleDataSize: can't be x: Attribute value"),
    (["run", "tiny.toml", "--set", "topology.mptcp.scheduler=best", "--only", "mptcp"],
     "scheduler"),
    (["run", "tiny.toml", "--trace", "out"], "--trace: of a single cell, but there are 2"),
    (["run", "tiny.toml", "--only", "nothing"], "--only nothing: no cell has these words"),
    (["sweep", "tiny.toml", "--runs", "3"], "--runs 3 --most 100: at least 6 runs"),
    (["sweep", "tiny.toml", "--figures", "speed"], "--figures speed: no figure is called that"),
    (["sweep", "tiny.toml", "--figures", "gap_ms"], "gap_ms: tiny: transport tcp has none"),
    (["sweep", "tiny.toml", "--precision", "0%"], "--precision 0%: no interval is that small"),
    (["plot", "tiny.toml"], "neither a result set of `perf run` nor fio's JSON"),
    (["validate", "tiny.toml", "--kernel", "tiny.toml"], "neither a result set"),
])
def test_bad_input_is_one_line(model: Model, arguments: list[str], words: str) -> None:
    done = model(*arguments)
    assert done.returncode == 2, done.stderr
    assert words in _error(done)


def test_a_wrong_option_is_named_below_the_usage(model: Model) -> None:
    done = model("sweep", "tiny.toml", "--precision", "0")
    assert done.returncode == 2
    assert "--precision: '0' is not a percentage" in done.stderr.splitlines()[-1]


def test_without_a_build(tmp_path: Path, model: Model) -> None:
    done = model("--build", tmp_path, "run", "tiny.toml")
    assert done.returncode == 1
    assert "nvme-mptcp-cell: No such file or directory: run `make model` first" in _error(done)


def test_a_plot_names_the_line_that_is_no_time_series(model: Model, tmp_path: Path) -> None:
    (tmp_path / "cwnd.csv").write_text("seconds,flow,value\n0,a,1\n1,a\n")
    done = model("plot", tmp_path)
    assert done.returncode == 2
    assert "cwnd.csv:3: not seconds, flow, value" in _error(done)
