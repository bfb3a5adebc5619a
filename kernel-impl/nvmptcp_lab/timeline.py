# SPDX-License-Identifier: GPL-2.0-or-later
"""What fio completed when, from its latency logs."""

import itertools
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read(logs: Iterable[Path], begin_ms: int, bin_ms: int, seconds: float) -> dict[str, Any]:
    """Completions in intervals of `bin_ms`, from fio's logs of single completions.

    logs: with lines of time of day (ms), latency (ns), direction, bytes, and more (fio(1), "Log
    File Formats"). begin_ms: the time of day that counts as 0. Returns lists by interval:
    `completions`, `mib_s`, `mean_ms` and `max_ms` of latency (0 where nothing was completed); and
    the longest time without a completion, `gap_ms` from `gap_at` s on.
    """
    completed: list[tuple[int, float, int]] = []
    for log in logs:
        for line in log.read_text().splitlines():
            words = line.split(",")
            completed.append((int(words[0]) - begin_ms, int(words[1]) / 1e6, int(words[3])))
    completed.sort()
    intervals: list[list[tuple[float, int]]] = [
        [] for _ in range(-(-round(seconds * 1000) // bin_ms))]
    for at, latency_ms, size in completed:
        # The drain at the end, when nothing new is issued, is no part of it.
        if 0 <= at < len(intervals) * bin_ms:
            intervals[at // bin_ms].append((latency_ms, size))
    end = round(seconds * 1000)
    # fio takes a moment to start: its first completion ends no gap.
    moments = [at for at, _, _ in completed if at <= end] or [0]
    gap, begin = max((after - before, before)
                     for before, after in itertools.pairwise([*moments, end]))
    return {
        "bin_ms": bin_ms,
        "completions": [len(part) for part in intervals],
        "mib_s": [round(sum(size for _, size in part) / 2**20 / bin_ms * 1000, 2)
                  for part in intervals],
        "mean_ms": [round(statistics.fmean(ms for ms, _ in part), 3) if part else 0
                    for part in intervals],
        "max_ms": [round(max((ms for ms, _ in part), default=0), 3) for part in intervals],
        "gap_ms": gap, "gap_at": begin / 1000,
    }
