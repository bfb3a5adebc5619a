# SPDX-License-Identifier: GPL-2.0-or-later
"""The two ways in which a lab command ends badly."""


class LabError(Exception):
    """Something failed: a build, a run, a check. Printed as one line; exit code 1."""

    exit_code = 1


class UsageError(LabError):
    """What the user gave can't be used: an option, a topology, a scenario. Exit code 2."""

    exit_code = 2
