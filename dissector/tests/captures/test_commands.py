# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that make captures and measure the plugin, and what must not get into captures."""

import json
import lzma
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from nvmptcp_captures import benchmark, record
from nvmptcp_captures.stored import DISSECTOR, Capture
from nvmptcp_captures.tshark import Tshark


def test_capture_tells_nothing_of_the_machine(capture: Capture) -> None:
    """Neither by its metadata nor by memory that the target sends unasked."""
    data = lzma.decompress(capture.packed.read_bytes()) + capture.expected_file.read_bytes()
    for word in (platform.release(), str(Path.home()), str(DISSECTOR.parent)):
        assert word.encode() not in data


def test_unknown_capture(capsys: pytest.CaptureFixture[str]) -> None:
    assert record.main(["no-such-capture"]) == 2
    assert "no-such-capture: no such capture; there are four-paths, " in capsys.readouterr().err


def test_benchmark(dissector: Tshark, tmp_path: Path) -> None:
    """A small one: of so short runs the ratios say nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "nvmptcp_captures.benchmark", "--mib", "2", "--repeats", "1",
         "--captures", tmp_path, "--json", tmp_path / "out.json"], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert "error" not in done.stderr
    figures = json.loads((tmp_path / "out.json").read_text())
    assert set(figures) == {"mptcp", "mptcp, headers only", "tcp"}
    assert all(ratio > 0.01 for each in figures.values() for ratio in each.values())
    for name in figures:
        assert f"{name}, CPU s " in done.stdout


@pytest.mark.parametrize("option", [["--mib", "0"], ["--repeats", "-1"], ["--size", "3"]])
def test_benchmark_usage(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        benchmark.main(option)
    assert caught.value.code == 2
    assert option[0] in capsys.readouterr().err
