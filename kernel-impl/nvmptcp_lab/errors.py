# SPDX-License-Identifier: GPL-2.0-or-later
"""The ways in which a command ends badly."""

import os
import sys

INTERRUPTED = 130  # 128 + SIGINT, as shells count


class LabError(Exception):
    """Something failed: a build, a run, a check. Printed as one line; exit code 1."""

    exit_code = 1


class UsageError(LabError):
    """What the user gave can't be used: an option, a topology, a scenario. Exit code 2."""

    exit_code = 2


def ending(program: str, error: BaseException, broken: int = 1) -> int:
    """Say in one line on standard error why a command ends; its exit code.

    `error`: one with an `exit_code`, KeyboardInterrupt, or OSError, whose code is `broken`. Nothing
    is said where the reader of the output has left, as `head` does.
    """
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, KeyboardInterrupt):
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    words, code = str(error), getattr(error, "exit_code", broken)
    if isinstance(error, OSError):  # a full disk, a directory that went away
        where = f"{error.filename}: " if error.filename else ""
        words = f"{where}{error.strerror or error}"
    print(f"{program}: error: {words}", file=sys.stderr)
    return int(code)
