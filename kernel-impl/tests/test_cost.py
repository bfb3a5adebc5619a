# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab cost`: both transports measured in turn. How much it is depends on the machine."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from lab_helpers import Lab, one_line_error


def _may_sample() -> bool:
    """A container may forbid it."""
    return subprocess.run(["perf", "stat", "-e", "cpu-clock:u", "true"],
                          capture_output=True).returncode == 0


def test_both_transports_in_turn(lab: Lab, tmp_path: Path) -> None:
    done = lab("cost", "--rounds", 1, "--runtime", 3, "--paths", 2, "--rw", "randwrite",
               "--json", "out.json")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    (found,) = result["rounds"]["randwrite"]
    for transport in ("tcp", "mptcp"):
        # A GiB is 16,385 packets of at most 64 KiB, and at most 741,456 of 1448 bytes with as many
        # acknowledgements.
        assert 16_385 < found[transport]["packets"] < 2 * 741_456
        assert found[transport]["cpu_seconds"] > 0
    assert found["ratio"] == pytest.approx(
        found["mptcp"]["cpu_seconds"] / found["tcp"]["cpu_seconds"])
    assert f"{found['ratio']:.2f}" in done.stdout


def test_functions_of_the_guest_kernel(lab: Lab, tmp_path: Path) -> None:
    done = lab("cost", "--rounds", 1, "--runtime", 3, "--rw", "randread", "--functions", 4000,
               "--json", "out.json")
    if not _may_sample():
        assert done.returncode == 1
        assert "perf can't sample here" in one_line_error(done)
        return
    assert done.returncode == 0, done.stderr
    rows = {row["function"]: row
            for row in json.loads((tmp_path / "out.json").read_text())["functions"]["randread"]}
    kernel = rows.pop("(the guest's kernel, all functions)")
    for transport in ("tcp", "mptcp"):
        own = sum(row[transport] for name, row in rows.items() if not name.startswith("("))
        assert own == pytest.approx(kernel[transport], rel=0.05)
    # Only MPTCP calls its own functions; modules are among what is found.
    (sendmsg,) = [row for name, row in rows.items() if name == "mptcp_sendmsg"]
    assert sendmsg["mptcp"] > sendmsg["tcp"] == 0
    assert any(name.startswith("nvmet_tcp_") for name in rows)


@pytest.mark.parametrize(("arguments", "words"), [
    (("--rw", "trim"), "--rw trim: must be of read, write, randread, randwrite"),
    (("--runtime", "1"), "--runtime 1: must be above 1"),
])
def test_usage(lab: Lab, arguments: tuple[str, ...], words: str) -> None:
    done = lab("cost", *arguments)
    assert done.returncode == 2
    assert words in one_line_error(done)


def test_without_perf_functions_are_refused(lab: Lab, tmp_path: Path) -> None:
    """A path that has what the lab itself needs, but no perf."""
    for command in ("fio", "ip", "insmod"):
        (tmp_path / command).symlink_to(shutil.which(command, path="/usr/sbin:/usr/bin:/sbin:/bin")
                                        or command)
    done = lab("cost", "--functions", 5, env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "perf is missing: install the package linux-perf" in one_line_error(done)
