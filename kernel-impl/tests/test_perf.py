# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab perf`: the result's schema, its figures, and that they repeat."""

import json
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import Lab, one_line_error


def _cell(lab: Lab, directory: Path, *arguments: object) -> dict[str, Any]:
    done = lab("perf", *arguments, "--json", "out.json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((directory / "out.json").read_text())
    return found


def test_result_holds_what_was_run_and_null_where_nothing_was(lab: Lab, tmp_path: Path) -> None:
    result = _cell(lab, tmp_path, "--transport", "tcp", "--paths", 2, "--iopolicy", "round-robin",
                   "--controllers-per-path", 2, "--rate", "100mbit", "--delay", "1ms",
                   "--bs", "32k", "--rw", "randread", "--iodepth", 8, "--numjobs", 2,
                   "--runtime", 2)
    assert result["write_mib_s"] is None
    assert result["write_latency_ms"] is None
    # Two links of 100 Mbit/s: within 2 % of what they carry, and by Little's law 16 blocks of
    # 32 KiB wait some 22 ms.
    assert 0.98 < result["read_mib_s"] / result["limit_mib_s"]["read"] <= 1
    assert 18 < result["read_latency_ms"]["mean"] < 26
    flows = result["subflows"]["randread"]
    received = sum(flow["bytes_received"] for flow in flows) / 2**20 / 2
    assert received == pytest.approx(result["read_mib_s"], rel=0.03)
    assert {flow["token"] for flow in flows} == {None}
    fio = json.loads((tmp_path / result["fio"]["randread"]).read_text())
    assert fio["jobs"][0]["read"]["bw_bytes"] / 2**20 == pytest.approx(
        result["read_mib_s"], abs=0.01)


def test_one_association_fills_four_links_both_ways(lab: Lab, tmp_path: Path) -> None:
    """One MPTCP connection to one port; the other three subflows join."""
    result = _cell(lab, tmp_path, "--transport", "mptcp", "--ports", 1, "--runtime", 5)
    for direction in ("read", "write"):
        assert result[f"{direction}_mib_s"] >= 0.97 * result["limit_mib_s"][direction]
    tokens = [flow["token"] for flow in result["subflows"]["randwrite"]
              if flow["bytes_sent"] > 2**20]
    assert len(tokens) == 4
    assert len(set(tokens)) == 1
    assert None not in tokens


def test_lossless_cell_repeats(lab: Lab, tmp_path: Path) -> None:
    """Whatever the random numbers are."""
    arguments = ("--transport", "mptcp", "--iopolicy", "queue-depth", "--runtime", 10,
                 "--controllers-per-path", 9)
    first, second = (_cell(lab, tmp_path, *arguments, "--seed", seed) for seed in (1, 2))
    for direction in ("read_mib_s", "write_mib_s"):
        assert first[direction] == pytest.approx(second[direction], rel=0.005)


def test_same_seed_same_run(lab: Lab, tmp_path: Path) -> None:
    """Under loss, all that differs between two runs are random numbers, MPTCP's tokens too."""
    def run(seed: int) -> dict[str, Any]:
        result = _cell(lab, tmp_path, "--transport", "mptcp", "--topology", "four-gigabit-lossy",
                       "--rw", "randwrite", "--runtime", 1, "--seed", seed)
        return {name: value for name, value in result.items() if name != "wall_seconds"}

    first, again, other = run(1), run(1), run(2)
    assert first == again
    assert first["write_mib_s"] != other["write_mib_s"]


def test_asymmetric_paths_from_a_file(lab: Lab, tmp_path: Path) -> None:
    result = _cell(lab, tmp_path, "--topology", "one-slow-path", "--ports", 1, "--runtime", 4,
                   "--rw", "randread")
    carried = {flow["remote"]: flow["bytes_received"] for flow in result["subflows"]["randread"]}
    assert carried["10.0.4.2"] < 0.6 * carried["10.0.1.2"]
    assert result["read_mib_s"] > 0.9 * result["limit_mib_s"]["read"]


def test_without_native_multipath(lab: Lab, tmp_path: Path) -> None:
    """One scheduler alone: nvme_core.multipath=N, and MPTCP still uses all links."""
    result = _cell(lab, tmp_path, "--transport", "mptcp", "--ports", 1, "--runtime", 3,
                   "--module-option", "nvme_core.multipath=N")
    assert result["read_mib_s"] >= 0.97 * result["limit_mib_s"]["read"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["--paths", "0"], "paths: must be a whole number from 1 to 16"),
    (["--rate", "1gb"], "rate: '1gb' is not a rate"),
    (["--loss", "2"], "loss: '2' is not a loss"),
    (["--rw", "trim"], "--rw trim"),
    (["--bs", "big"], "--bs big"),
    (["--ports", "5"], "--ports 5: there are only 4 paths"),
    (["--topology", "four-gigabit", "--rate", "1gbit"], "--rate: not together with --topology"),
    (["--runtime", "0"], "below 1"),
    (["--seed", "1", "--real-time"], "--seed: not together with --real-time"),
])
def test_bad_options(lab: Lab, arguments: list[str], words: str) -> None:
    done = lab("perf", *arguments)
    assert done.returncode == 2
    assert words in one_line_error(done)


def test_missing_fio_is_named_with_its_package(lab: Lab, tmp_path: Path) -> None:
    import os

    path = tmp_path / "bin"
    path.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for file in Path(directory).glob("*"):
            if file.name != "fio" and not (path / file.name).exists():
                (path / file.name).symlink_to(file)
    done = lab("perf", "--runtime", 1, env={**os.environ, "PATH": str(path)})
    assert done.returncode == 1
    assert "fio" in one_line_error(done)
    assert "package fio" in one_line_error(done)
