# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's command line as the tests call it, and what they look at afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

Lab = Callable[..., "subprocess.CompletedProcess[str]"]

COMMAND = [sys.executable, "-m", "nvmptcp_lab.cli"]


def heed_interrupts() -> None:
    """For `preexec_fn`: a test run that was started in the background ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def leftover_processes(directory: Path, seconds: float = 10) -> list[int]:
    """What is still there, when it had some time to die, of guests started with TMPDIR=directory.

    A guest is one process, and one more for each address space in it, all in one session: those
    whose session leader is gone count, too.
    """
    end = time.monotonic() + seconds
    while (found := _guest_processes(directory)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _guest_processes(directory: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                name = (entry / "comm").read_text().strip()
                orphan = name == "uml-userspace" and not Path(
                    f"/proc/{os.getsid(int(entry.name))}").exists()
            except OSError:
                continue
            if orphan or f"NVMPTCP_RUN={directory}/".encode() in command:
                found.append(int(entry.name))
    return found


def one_line_error(done: "subprocess.CompletedProcess[str]") -> str:
    """The error of a command that failed as it should: one line, no traceback."""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(lines) == 1, done.stderr
    return lines[0]
