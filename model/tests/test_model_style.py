# SPDX-License-Identifier: GPL-2.0-or-later
"""The C++ sources are formatted as ns-3 formats its own."""

import subprocess
import sys
from pathlib import Path

from nvmptcp_model.backend import ROOT


def test_sources_are_formatted() -> None:
    sources = [path for pattern in ("*/*.h", "*/*.cc")
               for path in sorted((ROOT / "model").glob(pattern))]
    assert len(sources) > 50
    done = subprocess.run([Path(sys.executable).with_name("clang-format"), "--dry-run", "-Werror",
                           *sources], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
