# SPDX-License-Identifier: GPL-2.0-or-later
"""How a test says what it found. A test that says nothing has passed."""


class Failed(Exception):
    """The requirement isn't kept; the text says what was observed."""


class NotApplicable(Exception):
    """The requirement doesn't concern this target; the text says what proves it."""


class Inconclusive(Exception):
    """The test couldn't be done, for a reason on this side."""


def check(kept: bool, observed: str) -> None:
    """Raise Failed unless what the test expects holds."""
    if not kept:
        raise Failed(observed)
