# SPDX-License-Identifier: GPL-2.0-or-later
"""Landlock (landlock(7)): a guest that can't write to the user's files, whatever it mounts.

hostfs acts with the user's own rights, and a guest's root may remount it writable. Where the
machine's kernel has Landlock, the lab takes those rights away from the guest's process.
"""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # same numbers on all architectures
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

# Access rights by the Landlock ABI that brought them: all that change something on disk.
_WRITE_FILE = 1 << 1
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13  # ABI 2
_TRUNCATE = 1 << 14  # ABI 3

_libc = ctypes.CDLL(None, use_errno=True)


class _RulesetAttr(ctypes.Structure):
    _fields_ = [("handled_access_fs", ctypes.c_uint64)]


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def abi() -> int:
    """The Landlock ABI of this machine's kernel; 0 where it has none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, 1)))


def restrict_writes(allowed: Iterable[Path]) -> None:
    """Let this process and its children write below `allowed` and to devices, nowhere else.

    Does nothing where the kernel has no Landlock. Raises OSError.
    """
    version = abi()
    if not version:
        return
    files = _WRITE_FILE | (_TRUNCATE if version >= 3 else 0)
    access = files | _MAKE_AND_REMOVE | (_REFER if version >= 2 else 0)
    attr = _RulesetAttr(access)
    ruleset = _check(_libc.syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.sizeof(attr), 0))
    for path in [*allowed, Path("/dev")]:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = access if path.is_dir() else files
        rule = _PathBeneathAttr(rights, fd)
        _check(_libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0))
        os.close(fd)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
