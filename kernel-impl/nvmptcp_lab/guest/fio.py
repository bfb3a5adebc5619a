# SPDX-License-Identifier: GPL-2.0-or-later
"""Run fio in the guest and read its JSON."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class FioError(Exception):
    """fio ended badly; its own words, in one line."""


def command(device: Path, output: Path, options: Sequence[str]) -> list[str]:
    """fio's command line. In virtual time fio's own TSC clock would hang it."""
    clock = ["--clocksource=clock_gettime"] if os.environ.get("NVMPTCP_VIRTUAL_TIME") else []
    return ["fio", f"--filename={device}", "--direct=1", "--thread", "--group_reporting", *clock,
            "--output-format=json", f"--output={output}", *options]


def result(output: Path) -> dict[str, Any]:
    """The JSON that fio wrote to `output`. Raises FioError."""
    text = output.read_text() if output.exists() else ""
    start = text.find("{")  # fio's own warnings stand before it
    if start < 0:
        raise FioError(f"fio wrote no result: {text.strip() or 'nothing'}")
    try:
        data: dict[str, Any] = json.loads(text[start:])
    except json.JSONDecodeError as error:
        raise FioError(f"fio's result can't be read: {error}") from None
    return data


def run(device: Path, output: Path, options: Sequence[str]) -> dict[str, Any]:
    """Run fio to its end. Raises FioError, also when an I/O failed."""
    done = subprocess.run(command(device, output, options), capture_output=True, text=True)
    if done.returncode:
        raise FioError(f"fio ended with {done.returncode}: {(done.stderr + done.stdout).strip()}")
    data = result(output)
    for job in data["jobs"]:
        if job["error"]:
            raise FioError(f"fio job {job['jobname']}: error {job['error']}")
    return data
