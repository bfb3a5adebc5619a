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


@pytest.mark.timeout(600)
def test_benchmark(dissector: Tshark, tmp_path: Path) -> None:
    """A small one: of so short runs the ratios say nothing, but that stock tshark was stopped."""
    small = {"mib": 2, "tcp-mib": 2, "large-mib": 96, "stock-limit": 1, "repeats": 1}
    done = subprocess.run(
        [sys.executable, "-m", "nvmptcp_captures.benchmark",
         *(word for name, value in small.items() for word in (f"--{name}", str(value))),
         "--captures", tmp_path, "--json", tmp_path / "out.json"], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert "error" not in done.stderr
    figures = json.loads((tmp_path / "out.json").read_text())
    large = "large, MPTCP, headers only"
    assert set(figures) == {"MPTCP", "MPTCP, headers only", "TCP", large}
    for name, each in figures.items():
        assert each["cpu"] > 0.001
        assert each["memory"] > 0.01
        assert each["stock_cut_short"] == (name == large)
    lines = [line for line in done.stdout.splitlines() if line.startswith(large)]
    assert [("MiB), user CPU s" in line, " >" in line, " <" in line) for line in lines] == [
        (True, True, True), (False, True, True)]


@pytest.mark.parametrize("option", [["--mib", "0"], ["--repeats", "-1"], ["--stock-limit", "x"],
                                    ["--size", "3"]])
def test_benchmark_usage(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        benchmark.main(option)
    assert caught.value.code == 2
    assert option[0] in capsys.readouterr().err
