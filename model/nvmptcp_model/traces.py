# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws the time series that `run --trace` leaves."""

import csv
from collections.abc import Sequence
from pathlib import Path

from nvmptcp_conformance.perf.plots import save
from nvmptcp_lab.errors import UsageError

HEADER = ["seconds", "flow", "value"]


def read(path: Path) -> dict[str, tuple[list[float], list[float]]]:
    """Times (s) and values of each flow. Raises UsageError: `FILE:LINE: what`."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    with path.open(newline="") as file:
        rows = csv.reader(file)
        if next(rows, None) != HEADER:
            raise UsageError(f"{path}:1: no time series: the header is not {','.join(HEADER)}")
        for row in rows:
            try:
                seconds, flow, value = row
                times, values = found.setdefault(flow, ([], []))
                times.append(float(seconds))
                values.append(float(value))
            except ValueError:
                raise UsageError(f"{path}:{rows.line_num}: not seconds, flow, value") from None
    return found


def write(files: Sequence[Path], directory: Path) -> list[Path]:
    """A plot for each file, named by it. Raises UsageError, OSError."""
    from matplotlib.figure import Figure

    written = []
    for path in files:
        figure = Figure(figsize=(10, 3.6))
        axes = figure.subplots()
        flows = read(path)
        for flow, (times, values) in flows.items():
            axes.step(times, values, where="post", linewidth=0.8, label=flow)
        axes.set_xlabel("s")
        axes.set_ylabel(f"{path.stem.replace('_', ' ')}, bytes")
        axes.spines[["top", "right"]].set_visible(False)
        if 0 < len(flows) <= 16:
            axes.legend(frameon=False, fontsize=7, ncols=2)
        written += save(figure, directory / path.stem)
    return written
