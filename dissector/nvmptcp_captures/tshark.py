# SPDX-License-Identifier: GPL-2.0-or-later
"""tshark as an ordinary user calls it, with the plugin in the personal folder or without it."""

import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .stored import DISSECTOR

PLUGIN = "nvme_mptcp"
BUILT = DISSECTOR.parent / "build" / "dissector" / "plugins"
NOBODY = 65534
# As root tshark loads no personal plugins.
_DROP: dict[str, Any] = {} if os.geteuid() else {
    "user": NOBODY, "group": NOBODY, "extra_groups": []}
SECONDS = 300  # a run that takes longer hangs
MEMORY = 2 << 30  # bytes of address space: tests hold small captures
# An assertion in a dissector is reported, and not by the exit code.
_COMPLAINT = re.compile(r"Dissector bug|assertion|ERROR:|CRITICAL|Sanitizer")
DIGESTS = ("-o", "nvme-tcp.check_hdgst:TRUE", "-o", "nvme-tcp.check_ddgst:TRUE")


# Stock tshark's, on corrupted MPTCP options.
_STOCK_BUG = re.compile(r'packet-tcp\.c:\d+: failed assertion "DISSECTOR_ASSERT_NOT_REACHED"')


class DissectionError(Exception):
    """tshark ended badly; its own words."""


@dataclass(frozen=True)
class Cost:
    """What a run took."""

    cpu_seconds: float  # user
    peak_kib: int  # resident
    cut_short: bool = False  # it was stopped before its end


@dataclass(frozen=True)
class Tshark:
    """A user of Wireshark's programs, whose home is `home`."""

    home: Path

    def run(self, program: str, *arguments: object, keep: bool = True) -> str:
        """Run a program, with all that it needs in its arguments.

        Returns its standard output, if it is to be kept. Raises DissectionError where it fails,
        crashes, finds a bug in itself, runs on or takes more than MEMORY.
        """
        words = [require(program), *map(str, arguments)]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                stdout=subprocess.PIPE if keep else subprocess.DEVNULL, text=True,
                errors="replace", env=self._environment(), cwd="/", timeout=SECONDS,
                preexec_fn=_limit_memory, **_DROP)
        except subprocess.TimeoutExpired:
            raise DissectionError(f"{shlex.join(words)}: no end after {SECONDS} s") from None
        complaints = [line for line in done.stderr.splitlines()
                      if _COMPLAINT.search(line) and not _STOCK_BUG.search(line)]
        if done.returncode or complaints:
            raise DissectionError(
                f"{shlex.join(words)}: {done.returncode}: {complaints or done.stderr[-2000:]}")
        return done.stdout or ""

    def start(self, program: str, *arguments: object) -> subprocess.Popen[bytes]:
        """A program that runs on, with pipes to its standard input and output."""
        return subprocess.Popen(
            [require(program), *map(str, arguments)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self._environment(), cwd="/",
            preexec_fn=_limit_memory, **_DROP)

    def cost(self, *arguments: object, limit: int | None = None) -> Cost:
        """Run tshark and drop what it prints; stop it after `limit` seconds of CPU time.

        Raises DissectionError.
        """
        words = [require("tshark"), *map(str, arguments)]
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=self._environment(), cwd="/",
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)))
            if limit else None, **_DROP)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cut_short = limit is not None and process.returncode == -signal.SIGKILL
        if process.returncode and not cut_short:
            raise DissectionError(f"{shlex.join(words)}: {process.returncode}")
        return Cost(used.ru_utime, used.ru_maxrss, cut_short)

    def _environment(self) -> Mapping[str, str]:
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8",
                "TZ": "UTC"}

    def plugin_directory(self) -> Path:
        """Where tshark looks for this user's dissectors."""
        for line in self.run("tshark", "-G", "folders").splitlines():
            if line.startswith("Personal Plugins:"):
                return Path(line.split(":", 1)[1].strip()) / "epan"
        raise DissectionError("tshark -G folders names no folder for personal plugins")

    def install(self, plugin: Path) -> None:
        """Put a dissector into this user's folder. Raises DissectionError if tshark refuses it."""
        directory = self.plugin_directory()
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(plugin, directory)
        if plugin.stem not in self.run("tshark", "-G", "plugins"):
            raise DissectionError(f"{plugin}: tshark doesn't load it")

    def fields(self, capture: Path, names: Sequence[str],
               *options: object) -> list[dict[str, list[str]]]:
        """For each frame, all values of each field."""
        stdout = self.run(
            "tshark", "-n", "-r", capture, "-T", "fields", "-E", "separator=/t",
            "-E", "occurrence=a", "-E", "aggregator=|", *options,
            *(word for name in names for word in ("-e", name)))
        return [{name: column.split("|") if column else []
                 for name, column in zip(names, line.split("\t"), strict=True)}
                for line in stdout.splitlines()]


def built_plugin() -> Path:
    """The plugin as `make dissector` leaves it. Raises FileNotFoundError."""
    found = list(BUILT.rglob(f"{PLUGIN}.so"))
    if not found:
        raise FileNotFoundError(f"{BUILT}: no {PLUGIN}.so there: run `make dissector`")
    return found[0]


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def require(program: str) -> str:
    """The path of one of the programs that the tests need. Raises FileNotFoundError."""
    packages = {"tshark": "tshark", "editcap": "wireshark-common", "mergecap": "wireshark-common",
                "randpkt": "wireshark-common", "cmake": "cmake"}
    found = shutil.which(program)
    if not found:
        raise FileNotFoundError(f"{program} isn't there: install the package {packages[program]}")
    return found


def edit(source: Path, target: Path, *options: object, frames: Iterable[int | str] = ()) -> Path:
    """A capture changed by editcap(1). `frames` (numbers, or "FIRST-LAST") are taken out, or kept
    with the option -r.
    """
    subprocess.run([require("editcap"), *map(str, options), source, target, *map(str, frames)],
                   check=True, capture_output=True)
    target.chmod(0o644)
    return target
