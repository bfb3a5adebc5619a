# SPDX-License-Identifier: GPL-2.0-or-later
"""The two ways in which a command of the specification ends badly."""


class SpecError(Exception):
    """Something is wrong in the tree: one line with `file:line`. Exit code 1."""

    exit_code = 1


class UsageError(SpecError):
    """What the user gave can't be used. Exit code 2."""

    exit_code = 2
