# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab reproduce`, whole but with short runs: the full ones are the README's command."""

import json
from pathlib import Path

from lab_helpers import Lab, one_line_error
from nvmptcp_lab import reproduce


def test_reproduce_checks_measures_and_reports(lab: Lab, tmp_path: Path) -> None:
    done = lab("reproduce", "--runtime", 3, "--seeds", 1)
    results = json.loads((tmp_path / "reproduce-out" / "results.json").read_text())
    assert results["discovery"]["ok"]
    assert results["integrity"]["ok"], results["integrity"]
    lossless = [row for row in results["rows"] if "lossy" not in row["name"]]
    assert [row["name"] for row in lossless if not row["ok"]] == []
    assert done.returncode == (0 if results["ok"] else 1)
    for row in results["rows"]:
        assert row["name"] in done.stdout
    page = (tmp_path / "reproduce-out" / "index.html").read_text()
    assert page.count("data:image/svg+xml") == 2
    assert "http" not in page.replace("http-equiv", "")  # self-contained


def test_the_path_was_really_cut(lab: Lab, tmp_path: Path) -> None:
    """In the integrity pass path 2 carries nothing while it is down, and data again after."""
    from nvmptcp_lab.build import ensure_kernel

    found = reproduce.check_integrity(ensure_kernel())
    assert found["ok"], found
    down, up = (event["at"] for event in found["events"])

    def carried(path: int, begin: float, end: float) -> int:
        inside = [s["bytes"] for s in found["samples"] if begin <= s["at"] <= end]
        address = f"10.0.{path}.2"
        return int(inside[-1].get(address, 0) - inside[0].get(address, 0))

    assert carried(2, 0, down) > 2**20
    assert carried(2, down + 0.1, up) < 2**16
    assert carried(1, down + 0.1, up) > 2**20  # the others go on meanwhile
    assert carried(2, up, up + 10) > 2**20  # and it comes back


def test_output_directory_that_cannot_be(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = lab("reproduce", "--output", "file/sub")
    assert done.returncode == 2
    assert "--output file/sub" in one_line_error(done)
