# SPDX-License-Identifier: GPL-2.0-or-later
"""Several kernels under one virtual clock, with a switch between them for each path.

The clock and the switches are a process of ours (`calendar/`), built when it is first needed. Only
one kernel runs at a time, so all of them are pinned to one CPU.
"""

import contextlib
import hashlib
import math
import os
import re
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import boot, source
from .errors import LabError

SOURCES = Path(__file__).with_name("calendar")
COMPILER = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
# All in one session, which Linux schedules as one (autogroups): on a busy machine the CPU goes from
# one to the next, not to somebody else each time.
SESSION: dict[str, Any] = {"process_group": 0}
LONGEST_WAIT = 3600  # s, at a time: poll(2) takes 24 days at most
CLOCK_LOST = re.compile("Kernel panic - not syncing: .*time-travel")  # its clock is gone


def calendar_program() -> Path:
    """The clock and the switches, compiled. Raises LabError."""
    hashed = hashlib.sha256(repr(COMPILER).encode())
    for file in sorted(SOURCES.glob("*.[ch]")):
        hashed.update(file.read_bytes())
    cache = source.cache_dir()
    program = cache / "calendar" / hashed.hexdigest()[:16] / "calendar"
    if program.exists():
        return program
    with source.clear_errors(cache):
        program.parent.mkdir(parents=True, exist_ok=True)
        with source.scratch(cache) as directory:
            try:
                done = subprocess.run(
                    [*COMPILER, "-o", str(directory / "calendar"),
                     *map(str, sorted(SOURCES.glob("*.c")))], capture_output=True, text=True)
            except FileNotFoundError:
                raise LabError("gcc is missing: install the packages gcc and libc6-dev"
                               " (`make setup` does)") from None
            if done.returncode:
                raise LabError(f"{SOURCES} can't be compiled:\n{boot.tail(done.stderr)}")
            (directory / "calendar").replace(program)
    return program


def run(guests: Mapping[str, boot.Guest], paths: int, stdout: Any) -> dict[str, boot.Result]:
    """Boot all, each with a device for each path, and wait until all have powered off.

    guests: by name, such as `target`; their virtual clock and random numbers are given here. The
    first one's time-out holds for all. As soon as one fails the others are stopped, too. Raises
    LabError that names it and where the kernels' logs are; KeyboardInterrupt passes through once
    all processes are gone.
    """
    directory = Path(tempfile.mkdtemp(prefix="nvmptcp-"))
    try:
        return _run(guests, paths, directory, stdout)
    except LabError as error:
        kept = _keep_logs(guests, directory)
        raise type(error)(f"{error}\n(the kernels' logs are in {kept})") from None
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(guests: Mapping[str, boot.Guest], paths: int, directory: Path,
         stdout: Any) -> dict[str, boot.Result]:
    cpu, lock = boot.pick_cpu()
    with contextlib.ExitStack() as stack:
        stack.enter_context(boot.terminal_kept())
        if lock:
            stack.enter_context(lock)
        calendar = _calendar(stack, list(guests), paths, directory, cpu)
        kernels = {}
        for number, (name, guest) in enumerate(guests.items(), 1):
            (directory / name).mkdir()
            kernels[name] = stack.enter_context(boot.booted(
                _member(guest, name, number, paths), directory / name, cpu, stdout, None,
                **SESSION))
        return _wait(guests, kernels, calendar, directory)


def _calendar(stack: contextlib.ExitStack, names: list[str], paths: int, directory: Path,
              cpu: int) -> "subprocess.Popen[bytes]":
    """The process that has the clock, once its sockets are there. Raises LabError."""
    def prepare() -> None:
        boot.dies_with_parent()
        os.sched_setaffinity(0, {cpu})

    words = stack.enter_context((directory / "calendar.log").open("wb"))
    calendar = stack.enter_context(boot.process(
        [str(calendar_program()), str(paths), str(boot.SEEDED_START), *names],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words, cwd=directory,
        preexec_fn=prepare, **SESSION))
    assert calendar.stdout
    with calendar.stdout as pipe:
        if pipe.readline() != b"ready\n":
            calendar.wait()
            raise LabError(f"the virtual clock: {_words(directory)}")
    return calendar


def _words(directory: Path) -> str:
    return (directory / "calendar.log").read_text(errors="replace").strip()


def _member(guest: boot.Guest, name: str, number: int, paths: int) -> boot.Guest:
    devices = [f"virtio_uml.device={name}-path{path}:1" for path in range(1, paths + 1)]
    return replace(
        guest, clock=f"ext:{number}:clock",
        # the same seed would give all kernels the same random numbers
        seed=guest.seed and (guest.seed << 8) + number,
        # A packet that has been sent is the sender's no more, as on a veth pair.
        kernel_options=[*guest.kernel_options, "virtio_net.napi_tx=N", *devices])


def _wait(guests: Mapping[str, boot.Guest], kernels: "Mapping[str, subprocess.Popen[bytes]]",
          calendar: "subprocess.Popen[bytes]", directory: Path) -> dict[str, boot.Result]:
    timeout = next(iter(guests.values())).timeout
    end = time.monotonic() + timeout if timeout else math.inf
    results: dict[str, boot.Result] = {}
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for name, process in [*kernels.items(), ("", calendar)]:
            descriptor = os.pidfd_open(process.pid)
            stack.callback(os.close, descriptor)
            selector.register(descriptor, selectors.EVENT_READ, name)
        while len(results) < len(kernels):
            ended = selector.select(min(LONGEST_WAIT, max(0, end - time.monotonic())))
            for key, _ in ended:
                selector.unregister(key.fileobj)
                name = key.data
                # Without a clock all kernels panic: it is to be named, not one of them.
                log = _log(name, directory) if name else ""
                if (not name or CLOCK_LOST.search(log)) and (code := calendar.wait()):
                    words = _words(directory) or f"exit code {code}"
                    raise LabError(f"the virtual clock ended: {words}")
                if name:
                    results[name] = _result(name, guests[name], directory, log, False)
            if not ended and time.monotonic() >= end:
                late = next(name for name in guests if name not in results)
                _result(late, guests[late], directory, _log(late, directory), True)
    return results


def _log(name: str, directory: Path) -> str:
    return (directory / name / boot.KERNEL_LOG).read_text(errors="replace")


def _result(name: str, guest: boot.Guest, directory: Path, log: str,
            timed_out: bool) -> boot.Result:
    try:
        found = boot.result(guest, directory / name, log, timed_out)
    except LabError as error:
        raise type(error)(f"{name}: {error}") from None
    if found.report:
        raise LabError(f"{name}: the guest kernel complained:\n{found.report}")
    if found.exit_code:
        raise LabError(f"{name} failed in the guest (exit code {found.exit_code})")
    return found


def _keep_logs(guests: Mapping[str, boot.Guest], directory: Path) -> Path:
    """A directory with each kernel's log."""
    kept = Path(tempfile.mkdtemp(prefix="nvmptcp-logs-"))
    for name in guests:
        log = directory / name / boot.KERNEL_LOG
        if log.exists():
            shutil.copyfile(log, kept / f"{name}.log")
    return kept
