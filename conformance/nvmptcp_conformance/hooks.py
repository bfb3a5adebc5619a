# SPDX-License-Identifier: GPL-2.0-or-later
"""Shell commands of the profile. What they print is kept in the directory of the results."""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .errors import UsageError

DEFAULT_TIMEOUT = 60  # seconds


def run(name: str, command: str, directory: Path, *, timeout: float = DEFAULT_TIMEOUT,
        environment: Mapping[str, str] | None = None) -> None:
    """Run a hook; its output is added to `hook-NAME.txt`. UsageError if it fails or takes too long,
    and then nothing of it is left running.
    """
    log = directory / f"hook-{name}.txt"
    with log.open("a") as output:
        output.write(f"$ {command}\n")
        output.flush()
        process = subprocess.Popen(command, shell=True, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise UsageError(f"the hook {name} didn't end within {timeout:g} s; what it printed:"
                             f" {log}") from None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code:
        raise UsageError(f"the hook {name} ended with exit code {code}; what it printed: {log}")
