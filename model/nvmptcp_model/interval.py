# SPDX-License-Identifier: GPL-2.0-or-later
"""The confidence interval of a median, from the order of the values alone.

No distribution is assumed: half of all values lie below the median, so how many of n do is
binomial (David & Nagaraja, Order Statistics, §7.1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
LEAST = 6  # values; with fewer not even the least and the greatest enclose it so surely


@dataclass(frozen=True)
class Interval:
    """Where the median lies with that confidence."""

    median: float
    low: float
    high: float

    @property
    def precision(self) -> float:
        """Half its width, as a share of the median; 0 where all values are the same."""
        half = (self.high - self.low) / 2
        return half / abs(self.median) if self.median else (math.inf if half else 0.0)


def rank(count: int) -> int:
    """How many of `count` ordered values to leave out at each end. Raises ValueError below LEAST.
    """
    if count < LEAST:
        raise ValueError(f"{count} values are too few: {LEAST} at least")
    tail, left = 0.0, -1
    while tail + math.comb(count, left + 1) / 2**count <= (1 - CONFIDENCE) / 2:
        left += 1
        tail += math.comb(count, left) / 2**count
    return left


def of(values: Sequence[float]) -> Interval:
    """Raises ValueError below LEAST values."""
    ordered, left = sorted(values), rank(len(values))
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return Interval(median, ordered[left], ordered[-1 - left])
