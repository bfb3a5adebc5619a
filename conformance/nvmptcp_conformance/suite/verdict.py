# SPDX-License-Identifier: GPL-2.0-or-later
"""How a test says what it found. A test that says nothing has passed."""


class Verdict(Exception):
    """What a test found, other than a plain pass; the text says what was observed."""


class Failed(Verdict):
    """The requirement isn't kept; the text says what was observed."""


class ConceptualPass(Verdict):
    """The reaction differs from the text, but is as safe; the text says how it differs."""


class NotApplicable(Verdict):
    """The requirement doesn't concern this device; the text says what proves it."""


class Inconclusive(Verdict):
    """The test couldn't be done, for a reason on this side."""


def check(kept: bool, observed: str) -> None:
    """Raise Failed unless what the test expects holds."""
    if not kept:
        raise Failed(observed)
