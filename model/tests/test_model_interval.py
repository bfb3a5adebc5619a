# SPDX-License-Identifier: GPL-2.0-or-later
"""Confidence intervals of medians: published ranks, and that they cover as often as they say."""

import random

import pytest
from nvmptcp_model import interval, sweep


# How many values to leave out at each end, at 95 %: the ranks of tables of order statistics.
@pytest.mark.parametrize(("count", "left"), [(6, 0), (8, 0), (9, 1), (12, 2), (20, 5), (25, 7),
                                             (50, 17), (100, 39)])
def test_ranks(count: int, left: int) -> None:
    assert interval.rank(count) == left


def test_too_few_values() -> None:
    with pytest.raises(ValueError, match="5 values are too few"):
        interval.of([1, 2, 3, 4, 5])


@pytest.mark.parametrize("count", [6, 9, 15, 30])
def test_the_median_lies_within_as_often_as_said(count: int) -> None:
    source = random.Random(count)
    found = [interval.of([source.expovariate(1) for _ in range(count)]) for _ in range(4000)]
    covered = sum(one.low <= 0.6931 <= one.high for one in found) / len(found)
    assert covered > interval.CONFIDENCE - 0.01


def test_precision() -> None:
    assert interval.of([2.0] * 6).precision == 0
    assert interval.of([1, 2, 2, 2, 2, 3]) == interval.Interval(2, 1, 3)
    assert interval.of([1, 2, 2, 2, 2, 3]).precision == 0.5
    assert interval.of([-1, 0, 0, 0, 0, 1]).precision == float("inf")


def test_seeds_grow_up_to_the_most() -> None:
    counts = [6]
    while counts[-1] < 30:
        counts.append(sweep.more(counts[-1], 30))
    assert counts == [6, 9, 13, 19, 28, 30]
