# SPDX-License-Identifier: GPL-2.0-or-later
"""What the lab's tests share: the kernel, and the command as a user calls it."""

import os
import subprocess
from pathlib import Path

import pytest
from lab_helpers import COMMAND, Lab
from nvmptcp_lab.build import Kernel, ensure_kernel


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """The reference kernel, built if need be."""
    return ensure_kernel()


@pytest.fixture
def lab(kernel: Kernel, tmp_path: Path) -> Lab:
    """`nvmptcp-lab ARGUMENTS…`, run in a directory of the test's own, its TMPDIR too."""

    def run(
        *arguments: object, env: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*COMMAND, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=600,
            env={**(env or os.environ), "TMPDIR": str(tmp_path)},
        )

    return run
