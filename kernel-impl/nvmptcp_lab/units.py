# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates, times and percentages as tc(8) writes them, read strictly."""

import re

_RATE = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_TIME = {"us": 1, "ms": 1_000, "s": 1_000_000}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([a-z%]*)")


def _split(text: object, units: dict[str, int], what: str) -> float:
    example = f"{what}, such as {{}}"
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if not match or match[2] not in units:
        known = ", ".join(units)
        raise ValueError(f"{text!r} is not {example.format(_EXAMPLES[what])} (units: {known})")
    return float(match[1]) * units[match[2]]


_EXAMPLES = {"a rate": '"1000mbit"', "a time": '"5ms"', "a loss": '"0.5%"',
             "a percentage": '"5%"'}


def rate(text: object) -> int:
    """Bits per second. Raises ValueError, also for a rate of 0 (tc would read it as no limit)."""
    value = round(_split(text, _RATE, "a rate"))
    if value <= 0:
        raise ValueError(f"{text!r}: a rate must be above 0; leave the key out for no limit")
    return value


def microseconds(text: object) -> int:
    """A time in microseconds. Raises ValueError."""
    return round(_split(text, _TIME, "a time"))


def percent(text: object, what: str = "a loss") -> float:
    """0 to 100, of a loss or `a percentage`. Raises ValueError."""
    value = _split(text, {"%": 1}, what)
    if value > 100:
        raise ValueError(f"{text!r} is more than 100%")
    return value
