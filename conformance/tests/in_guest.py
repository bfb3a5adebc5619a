# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a module of this directory in the lab's guest."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from nvmptcp_lab.build import ensure_kernel

HERE = Path(__file__).parent
LONGEST = 850  # seconds: less than pytest waits, so that a guest that hangs is stopped and told


def in_guest(module: str, *arguments: str) -> Any:
    """What it prints, as JSON."""
    ensure_kernel()
    done = subprocess.run(
        [sys.executable, "-m", "nvmptcp_lab.cli", "run", "--timeout", str(LONGEST), "--",
         "env", f"PYTHONPATH={HERE}", "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-m", module,
         *arguments],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
