# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-conformance` as tests call it."""

import subprocess
import sys
from pathlib import Path

Done = subprocess.CompletedProcess[str]


def run(*arguments: object, cwd: Path | None = None) -> Done:
    """Run it; `arguments` are made strings."""
    return subprocess.run([sys.executable, "-m", "nvmptcp_conformance.cli", *map(str, arguments)],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
                          cwd=cwd)


def error(*arguments: object, cwd: Path | None = None) -> str:
    """The one line of a command that fails with exit code 2."""
    done = run(*arguments, cwd=cwd)
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line.removeprefix("nvmptcp-conformance: error: ")
