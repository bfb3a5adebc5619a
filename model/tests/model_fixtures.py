# SPDX-License-Identifier: GPL-2.0-or-later
"""What the model's tests share: the build, and the command as a user calls it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nvmptcp_model.backend import ROOT, default_build

Model = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def built() -> Path:
    """The directory of the model's programs, renewed by `make model`."""
    users = {k: v for k, v in os.environ.items() if k not in ("MAKELEVEL", "MAKEFLAGS")}
    done = subprocess.run(["make", "model"], cwd=ROOT, capture_output=True, text=True, env=users)
    assert done.returncode == 0, done.stdout + done.stderr
    return default_build()


@pytest.fixture
def model(built: Path, tmp_path: Path) -> Model:
    """`nvmptcp-model ARGUMENTS…` in a directory of the test's own, with results kept there."""

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "nvmptcp_model.cli", "--build", built, *map(str, arguments)],
            cwd=tmp_path, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)

    return run
