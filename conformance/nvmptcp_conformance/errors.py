# SPDX-License-Identifier: GPL-2.0-or-later
"""How a command of the conformance suite ends badly."""


class UsageError(Exception):
    """What the user gave can't be used, or the device can't be reached: one line. Exit code 2."""

    exit_code = 2


class KeptError(UsageError):
    """A run ended early, and what it found by then is kept; the text says where."""
