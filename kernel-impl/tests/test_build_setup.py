# SPDX-License-Identifier: GPL-2.0-or-later
"""`make` and the set-up script, on a machine that is set up and on one that is not."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from nvmptcp_lab.source import IMPL

ROOT = IMPL.parent


def run(*command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    # a user's make: one that `make test` starts would announce its directories
    users = {k: v for k, v in os.environ.items() if k not in ("MAKELEVEL", "MAKEFLAGS")}
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={**users, **environment},
    )


def test_make_lists_its_targets() -> None:
    bare, asked = run("make"), run("make", "help")
    assert bare.returncode == 0
    assert bare.stdout == asked.stdout
    shown = set(re.findall(r"^  make ([\w-]+)", bare.stdout, re.M))
    assert shown == set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert shown >= {"setup", "kernel", "reproduce", "test", "clean"}


def test_second_setup_costs_nothing() -> None:
    run("make", "setup")
    stamp = (ROOT / ".venv" / ".setup-done").stat().st_mtime_ns
    done = run("make", "setup")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (ROOT / ".venv" / ".setup-done").stat().st_mtime_ns == stamp


def test_without_rights_the_command_to_run_is_printed(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces on this machine")
    for program in Path("/usr/bin").iterdir():
        if program.name not in ("flex", "bc", "sudo"):
            (tmp_path / program.name).symlink_to(program)
    done = run("unshare", "-U", "tools/setup", PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        "setup: error: no right to install packages. As root: apt-get update && "
        "apt-get install -y --no-install-recommends flex bc\n"
    )
