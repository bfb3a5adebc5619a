# SPDX-License-Identifier: GPL-2.0-or-later
"""What `doctor` finds, with the machine as it is and with things taken away from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nvmptcp_lab import build

LAB = Path(sys.executable).with_name("nvmptcp-lab")


def doctor(**environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(LAB), "doctor", "--json"], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )


def test_a_machine_that_can_run_the_lab() -> None:
    build.ensure_kernel()
    done = doctor()
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert findings["boot"]["ok"]
    assert "system calls a second" in findings["speed"]["detail"]
    assert findings["gcc"] == {
        "name": "gcc", "ok": True, "required": True, "detail": "needed for build", "remedy": "",
    }


def test_missing_programs_are_named_by_package(tmp_path: Path) -> None:
    for program in Path("/usr/bin").iterdir():
        if program.name not in ("flex", "dumpcap"):
            (tmp_path / program.name).symlink_to(program)
    done = doctor(PATH=str(tmp_path))
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 1
    assert findings["flex"]["remedy"] == "apt-get install flex"
    assert findings["flex"]["detail"] == "missing; needed for build"
    assert findings["tshark"]["remedy"] == "apt-get install tshark"
    assert findings["bison"]["ok"]


def test_no_kernel_yet_and_no_room(tmp_path: Path) -> None:
    probe = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no user namespaces on this machine")
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c",
         f"mount -t tmpfs -o size=8m none {tmp_path} && exec {LAB} doctor"],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )
    assert done.returncode == 1
    words = {line.split()[1]: line for line in done.stdout.splitlines()}
    assert words["disk"].startswith("MISS")
    assert "make room" in words["disk"]
    assert words["kernel"].startswith("note")
    assert "not built yet" in words["kernel"]
