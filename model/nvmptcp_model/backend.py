# SPDX-License-Identifier: GPL-2.0-or-later
"""The ns-3 model as backend of the runner: one process a run, which computes and is gone."""

import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvmptcp_conformance.perf.lab_cell import lab_cell
from nvmptcp_conformance.perf.scenario import Settings
from nvmptcp_lab import perf
from nvmptcp_lab.errors import LabError, UsageError

from .cell import document
from .schema import ModelSettings

ROOT = Path(__file__).parents[2]
PROGRAM, LIBRARY = "nvme-mptcp-cell", "libnvme-mptcp.so"
USAGE = 2  # the program's exit code for what its input can't be
# Of NS_ABORT_MSG, NS_FATAL_ERROR, NS_ASSERT_MSG; while nothing is simulated they have no time.
_FATAL = re.compile(r'\bmsg="(.*)", (?:\+|file=)')
# What ns-3 says, without the attribute's name, of a value that it can't read.
_UNREADABLE = re.compile(r'Attribute value "(.*)" is not properly formatted|Can\'t Parse Time (.*)')

_running: set[int] = set()
_lock = threading.Lock()


def default_build() -> Path:
    """Where `make model` puts the program, unless NVMPTCP_MODEL_BUILD names another directory."""
    return Path(os.environ.get("NVMPTCP_MODEL_BUILD") or ROOT / "build" / "model")


@functools.cache
def digest(build: Path) -> str:
    """A hash of program and library, which name the ns-3 they need. Raises LabError."""
    hashed = hashlib.sha256()
    for name in (PROGRAM, LIBRARY):
        try:
            hashed.update((build / name).read_bytes())
        except OSError as error:
            raise LabError(f"{build / name}: {error.strerror}: run `make model` first") from None
    return hashed.hexdigest()[:16]


@dataclass(frozen=True)
class ModelBackend:
    """The program in the directory `build`; `runner.Backend` has the meaning of the methods.

    pcap, trace: directories for packets and time series of each run.
    """

    build: Path
    digest: str
    pcap: Path | None = None
    trace: Path | None = None

    @classmethod
    def of(cls, build: Path, pcap: Path | None = None, trace: Path | None = None) -> "ModelBackend":
        return cls(build, digest(build), pcap, trace)

    @property
    def source(self) -> str:
        return f"ns-3 model, build {self.digest}"

    def key(self, settings: Settings, seed: int) -> str:
        text = json.dumps([document(_model(settings), seed), self.digest], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def measure(self, settings: Settings, seed: int) -> dict[str, Any]:
        if digest(self.build) != self.digest:
            raise LabError(f"the worker has build {digest(self.build)}, not {self.digest}: give it"
                           " the same checkout, and `make model`")
        text = json.dumps(document(
            _model(settings), seed, str(self.pcap / f"seed{seed}") if self.pcap else None,
            str(self._traces(seed)) if self.trace else None))
        result, usage = run_program(self.build / PROGRAM, text)
        return {**perf.described(lab_cell(settings)), "seed": seed, **result,
                "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
                "peak_memory_kib": usage.ru_maxrss}

    def stop(self) -> None:
        with _lock:
            for pid in _running:
                os.kill(pid, signal.SIGTERM)

    def _traces(self, seed: int) -> Path:
        assert self.trace
        directory = self.trace / f"seed{seed}"
        directory.mkdir(parents=True, exist_ok=True)
        return directory


def _model(settings: Settings) -> ModelSettings:
    """Scenarios of the lab have fewer tables."""
    if isinstance(settings, ModelSettings):
        return settings
    return ModelSettings.model_validate(settings.model_dump())


def run_program(program: Path, text: str) -> tuple[dict[str, Any], Any]:
    """Give a cell's JSON to the program. Returns its result and its resource usage (getrusage(2)).

    Raises UsageError or LabError with the program's own last words.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, \
            tempfile.TemporaryFile() as stderr:
        stdin.write(text.encode())
        stdin.seek(0)
        try:
            with _lock:
                process = subprocess.Popen([program], stdin=stdin, stdout=stdout, stderr=stderr)
                _running.add(process.pid)
        except OSError as error:
            raise LabError(f"{program}: {error.strerror}: run `make model` first") from None
        _, status, usage = os.wait4(process.pid, 0)
        with _lock:
            _running.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        stdout.seek(0)
        stderr.seek(0)
        if process.returncode:
            words = last_words(stderr.read().decode(errors="replace"))
            raise _unreadable(words, text) or _error(process.returncode, words)
        try:
            result: dict[str, Any] = json.load(stdout)
        except ValueError as error:
            raise LabError(f"{program.name} printed no JSON: {error}") from None
        return result, usage


def last_words(stderr: str) -> str:
    """What a program that failed said last; ns-3's fatal errors have their text in a line of it."""
    fatal = _FATAL.findall(stderr)
    if fatal:
        return str(fatal[-1])
    said = [line for line in stderr.splitlines() if line]
    return said[-1].removeprefix(f"{PROGRAM}: ") if said else "it said nothing"


def _unreadable(words: str, text: str) -> UsageError | None:
    """An error that names the attribute of the cell `text` whose value ns-3 can't read, if any."""
    found = _UNREADABLE.fullmatch(words)
    value = found and (found[1] or found[2])
    for name, given in json.loads(text)["attributes"].items():
        if given == value:
            return UsageError(f"attributes.{name}: can't be {value}: {words}")
    return None


def _error(code: int, words: str) -> LabError:
    if code == USAGE:
        return UsageError(words)
    if code < 0:
        return LabError(f"{PROGRAM} ended by {signal.Signals(-code).name}; its last words: {words}")
    return LabError(f"{PROGRAM}: {words}")
