# SPDX-License-Identifier: GPL-2.0-or-later
"""Run fio in the guest and read its JSON."""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# An option: write how often each latency came, so that several fios' can be put together.
BINS = "--output-format=json+"


class FioError(Exception):
    """fio ended badly; its own words, in one line."""


def command(device: Path | None, output: Path, options: Sequence[str]) -> list[str]:
    """fio's command line. Options hold for all jobs, or from a `--name=` on for that job.

    device: None where each job has a `--filename` of its own: fio would add the two up. In virtual
    time fio's own TSC clock would hang it.
    """
    names = [f"--filename={device}"] if device else []
    clock = ["--clocksource=clock_gettime"] if os.environ.get("NVMPTCP_VIRTUAL_TIME") else []
    return ["fio", "--output-format=json", f"--output={output}", "--name=global", *clock,
            *names, "--direct=1", "--thread", "--group_reporting", *options]


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


def run(device: Path | None, output: Path, options: Sequence[str],
        meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run fio to its end, and `meanwhile` beside it. Raises FioError, also when an I/O failed."""
    process = subprocess.Popen(command(device, output, options), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    meanwhile()
    words, _ = process.communicate()
    if process.returncode:
        raise FioError(f"fio ended with {process.returncode}: {words.strip()}")
    data = result(output)
    for job in data["jobs"]:
        if job["error"]:
            raise FioError(f"fio job {job['jobname']}: error {job['error']}")
    return data
