# SPDX-License-Identifier: GPL-2.0-or-later
"""Do something in another network namespace of the guest."""

import contextlib
import ctypes
import os
from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def entering(name: str | None) -> list[str]:
    """What to put in front of a command that is to run in namespace `name`; None: in this one."""
    return ["nsenter", f"--net=/run/netns/{name}"] if name else []


@contextlib.contextmanager
def inside(name: str | None) -> Iterator[None]:
    """Run the body in namespace `name`. Sockets that the kernel makes there stay there.

    None: in this one.
    """
    if not name:
        yield
        return
    before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    inner = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(inner)
        yield
    finally:
        _enter(before)
        os.close(inner)
        os.close(before)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
