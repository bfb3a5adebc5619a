# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab perf compare`, its input, and the plots and timelines of results."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import COMMAND, one_line_error
from nvmptcp_conformance.perf import plots
from nvmptcp_conformance.perf.results import CellResult, Figure, ResultSet, load
from nvmptcp_lab import timeline


def _compare(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, "perf", "compare", *map(str, arguments)],
                          capture_output=True, text=True, timeout=60)


def _cell(name: str, bandwidth: float, p99: float, **more: Any) -> CellResult:
    figures = {"read_mib_s": Figure.of([bandwidth - 1, bandwidth, bandwidth + 1]),
               "read_p99_ms": Figure.of([p99]), "read_iops": Figure.of([0])}
    return CellResult("s", name, more.pop("axes", {"case": name}), figures,
                      more.pop("limit_mib_s", {"read": 500.0}), **more)


def _set(directory: Path, *cells: CellResult) -> Path:
    directory.mkdir()
    ResultSet("a kernel", {"s": {"title": "Some"}}, cells).write(directory)
    return directory


def _fio(path: Path, jobs: dict[str, int]) -> Path:
    """What fio 3.x writes, with a warning in front of it as on a terminal."""
    none = {"total_ios": 0}
    path.write_text("fio: a warning\n" + json.dumps({
        "fio version": "fio-3.33",
        "jobs": [{"jobname": name, "read": {
            "total_ios": 10, "bw_bytes": mib_s * 2**20, "iops": 8.0 * mib_s,
            "clat_ns": {"mean": 2e6, "max": 9e6,
                        "percentile": {"50.000000": 1500000, "99.000000": 4000000}}},
            "write": none} for name, mib_s in jobs.items()]}))
    return path


def test_the_same_passes_and_less_than_tolerated_fails(tmp_path: Path) -> None:
    before = _set(tmp_path / "a", _cell("x", 100, 10), _cell("y", 50, 1))
    same = _compare(before, before)
    assert same.returncode == 0, same.stderr
    assert "REGRESSED" not in same.stdout
    after = _set(tmp_path / "b", _cell("x", 96, 10.4), _cell("y", 50, 1.2))
    done = _compare(before, after / "results.json")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "REGRESSED" in line]
    assert line.startswith("s: y")
    assert "read_p99_ms" in line
    assert " 1.200 " in line
    assert "more than 5.0%" in line
    assert "100.00 (99.0-101.0)" in done.stdout
    assert _compare(before, after, "--tolerance", "25%").returncode == 0
    assert _compare(before, after, "--figures", "read_mib_s").returncode == 0
    assert _compare(before, after, "--figures", "read_mib_s", "--tolerance", "3%").returncode == 1
    # The other way around it is an improvement of the latency.
    assert _compare(after, before).returncode == 0


def test_what_is_missing_is_no_pass(tmp_path: Path) -> None:
    before = _set(tmp_path / "a", _cell("x", 100, 10), _cell("y", 50, 1))
    after = _set(tmp_path / "b", _cell("x", 100, 10), _cell("z", 50, 1))
    done = _compare(before, after)
    assert done.returncode == 1
    assert "missing afterwards: s: y" in done.stdout
    assert _compare(before, after, "--common").returncode == 0


def test_fio_of_ones_own(tmp_path: Path) -> None:
    first = _fio(tmp_path / "a.json", {"one": 100, "two": 200})
    second = _fio(tmp_path / "b.json", {"one": 100, "two": 150})
    done = _compare(first, second, "--as-json")
    assert done.returncode == 1
    found = {(one["cell"], one["figure"]): one for one in json.loads(done.stdout)["figures"]}
    assert found["fio: two", "read_mib_s"]["ratio"] == 0.75
    assert found["fio: two", "read_mib_s"]["regressed"]
    assert not found["fio: one", "read_p99_ms"]["regressed"]
    assert load(first).cells[0].figures["read_p99_ms"].median == 4
    # A result set and fio's file: by the cell's name.
    mine = _set(tmp_path / "set", _cell("one", 100, 4), _cell("two", 200, 4))
    assert _compare(mine, first).returncode == 0
    assert _compare(mine, second).returncode == 1
    # One cell each: those two, whatever their names are.
    alone = _fio(tmp_path / "c.json", {"alone": 100})
    assert _compare(_set(tmp_path / "d", _cell("x", 100, 4)), alone).returncode == 0


@pytest.mark.parametrize(("text", "words"), [
    (None, "can't read results: No such file or directory"),
    ("hello", "neither a result set of `perf run` nor fio's JSON"),
    ("[]", "neither a result set of `perf run` nor fio's JSON"),
    ('{"format": 1}', "neither a result set of `perf run` nor fio's JSON"),
    ('{"format": 99}', "format 99, but this program reads 1"),
    ('{"jobs": [{"jobname": "x"}]}', "neither a result set of `perf run` nor fio's JSON"),
    ('{"jobs": []}', "nothing to compare"),
])
def test_bad_input(tmp_path: Path, text: str | None, words: str) -> None:
    good = _set(tmp_path / "good", _cell("x", 100, 10))
    bad = tmp_path / "bad.json"
    if text is not None:
        bad.write_text(text)
    done = _compare(good, bad)
    assert done.returncode == 2
    assert words in one_line_error(done)
    assert _compare(good, good, "--tolerance", "5").returncode == 2


def test_result_sets_survive_writing_and_reading(tmp_path: Path) -> None:
    cell = _cell("x", 100, 10, flows=4, timeline={"bin_ms": 10, "mib_s": [1.5, 0, 2], "gap_ms": 3})
    directory = _set(tmp_path / "a", cell)
    assert load(directory).cells == (cell,)
    assert json.loads((directory / "results.json").read_text())["cells"][0]["flows"] == 4


def test_timeline_of_single_completions(tmp_path: Path) -> None:
    """Times of day in ms, latencies in ns, direction, bytes, offset, priority."""
    (tmp_path / "log_lat.1.log").write_text(
        "10103, 2000000, 0, 1048576, 0, 0\n10104, 4000000, 0, 1048576, 0, 0\n"
        "10500, 900000000, 0, 1048576, 0, 0\n")
    (tmp_path / "log_lat.2.log").write_text(
        "10108, 3000000, 0, 1048576, 0, 0\n10990, 1000000, 1, 2097152, 0, 0\n"
        "11200, 1000000, 0, 1048576, 0, 0\n")
    found = timeline.read(tmp_path.glob("log_lat.*"), 10000, 100, 1)
    assert found["completions"] == [0, 3, 0, 0, 0, 1, 0, 0, 0, 1]
    assert found["mib_s"][1] == 30
    assert found["mib_s"][9] == 20
    assert (found["mean_ms"][1], found["max_ms"][1]) == (3, 4)
    assert (found["gap_ms"], found["gap_at"]) == (490, 0.5)
    empty = timeline.read([], 10000, 100, 1)
    assert (empty["gap_ms"], sum(empty["completions"])) == (1000, 0)


@pytest.mark.parametrize(("cells", "words"), [
    ([_cell("x", 100, 10), _cell("y", 50, 1)], ["x", "y", "limit of the links"]),
    ([_cell(f"{n}", 100, n, axes={"who": "me", "fio.iodepth": f"iodepth {n}"}) for n in (1, 2, 4)],
     ["me", "p99 latency, ms", "in flight"]),
    ([_cell("x", 9, 1, timeline={"bin_ms": 10, "mib_s": [1, 0, 2], "gap_ms": 20})],
     ["without a completion 20 ms", "s (virtual)"]),
])
def test_plots_show_what_they_are_of_and_repeat(
        tmp_path: Path, cells: list[CellResult], words: list[str]) -> None:
    from matplotlib import rc_context

    found = ResultSet("k", {"s": {"title": "Some title"}}, tuple(cells))
    with rc_context({"svg.fonttype": "none"}):
        png, svg = plots.write(found, tmp_path)
        text = svg.read_text()
        plots.write(found, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_text() == text
    for word in ["Some title", *words]:
        assert word in text
