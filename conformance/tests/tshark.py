# SPDX-License-Identifier: GPL-2.0-or-later
"""tshark's decoding of packets, to compare ours with."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_SEPARATOR = "|"


def decode(capture: Path, fields: Sequence[str]) -> list[dict[str, list[str]]]:
    """For each packet of a capture, the values of each field that tshark found, in order."""
    if not shutil.which("tshark"):
        raise FileNotFoundError("tshark isn't there: install the Debian package tshark")
    done = subprocess.run(
        ["tshark", "-n", "-r", str(capture), "-T", "fields", "-E", "separator=/t",
         "-o", "nvme-tcp.check_hdgst:TRUE", "-o", "nvme-tcp.check_ddgst:TRUE",
         "-E", "occurrence=a", "-E", f"aggregator={_SEPARATOR}",
         *(word for field in fields for word in ("-e", field))],
        capture_output=True, text=True, check=True)
    return [
        {field: column.split(_SEPARATOR) if column else []
         for field, column in zip(fields, line.split("\t"), strict=True)}
        for line in done.stdout.splitlines()]


def number(value: str) -> int:
    """A number or a Boolean as any version of tshark prints it."""
    words = {"True": 1, "False": 0}
    return words[value] if value in words else int(value, 0)
