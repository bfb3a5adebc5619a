# SPDX-License-Identifier: GPL-2.0-or-later
"""In which of the guest kernel's functions its CPU time goes, sampled by Linux perf.

A guest is a process of this machine: perf samples where its instruction pointer stands, and the
guest's own /proc/kallsyms, modules included, tells the function.
"""

import bisect
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import perf, verbs
from .build import Kernel
from .errors import LabError

FREQUENCY = 1999  # samples a second: a prime, so that it doesn't run in step with a timer
KERNEL = "(the guest's kernel, all functions)"
OUTSIDE = "(below the guest: this machine's kernel)"
UNKNOWN = "(fio and other user space)"
_SAMPLE = re.compile(r"PERF_RECORD_SAMPLE\(IP, 0x[0-9a-f]+\): \d+/\d+: 0x([0-9a-f]+)")
_FARTHEST = 1 << 16  # bytes from a function's begin: beyond is none


def require_perf() -> None:
    """Raises LabError where perf is missing or may not sample."""
    verbs.require("perf")
    tried = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock:u", "-o", "/dev/null", "true"],
                           capture_output=True, text=True)
    if tried.returncode:
        words = " ".join(tried.stderr.split())
        raise LabError(f"perf can't sample here (kernel.perf_event_paranoid?): {words}")


def sample(kernel: Kernel, cell: perf.Cell) -> Counter[str]:
    """Samples by function, while the cell runs in real time, its set-up included."""
    with tempfile.TemporaryDirectory(prefix="nvmptcp-cell-") as name:
        directory = Path(name)
        data = directory / "perf.data"
        recorders: list[subprocess.Popen[bytes]] = []

        def record(pid: int) -> None:
            recorders.append(subprocess.Popen(
                ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-p", str(pid),
                 "-o", str(data)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))

        guest = perf.prepare(kernel, cell, directory, real_time=True, started=record)
        symbols = directory / "symbols"
        try:
            perf.run_one_kernel(replace(guest, command=[
                "sh", "-c", f'cat /proc/kallsyms >{symbols}; exec "$@"', "sh", *guest.command]),
                directory)
        finally:
            words = b"".join(recorder.communicate()[1] for recorder in recorders)
        dumped = subprocess.run(["perf", "script", "-D", "-i", str(data)], capture_output=True,
                                text=True)
        if dumped.returncode:
            raise LabError(f"perf: {words.decode(errors='replace').strip()}"
                           f" {dumped.stderr.strip()}")
        return _count(dumped.stdout, symbols.read_text())


def _count(dump: str, symbols: str) -> Counter[str]:
    found = sorted((int(address, 16), name) for address, kind, name in
                   (line.split()[:3] for line in symbols.splitlines()) if kind in "tTwW")
    addresses = [address for address, _ in found]
    counted: Counter[str] = Counter()
    for match in _SAMPLE.finditer(dump):
        pointer = int(match[1], 16)
        index = bisect.bisect(addresses, pointer) - 1
        if pointer >> 63:
            counted[OUTSIDE] += 1
        elif index >= 0 and pointer - addresses[index] < _FARTHEST:
            counted[found[index][1]] += 1
        else:
            counted[UNKNOWN] += 1
    if not counted:
        raise LabError("perf took no samples of the guest")
    return counted


def compare(samples: Mapping[str, Counter[str]], seconds: Mapping[str, float],
            number: int) -> list[dict[str, Any]]:
    """CPU ms a GiB by transport: the guest's kernel, what is outside of it, and so many of its
    functions, those first that differ most.

    seconds: CPU seconds a GiB of each transport, which the samples are shares of.
    """
    def row(name: str, counts: Mapping[str, int]) -> dict[str, Any]:
        return {"function": name, **{
            transport: round(1000 * seconds[transport] * count / samples[transport].total(), 2)
            for transport, count in counts.items()}}

    outside = (OUTSIDE, UNKNOWN)
    kernel = {transport: counted.total() - sum(counted[name] for name in outside)
              for transport, counted in samples.items()}
    names = sorted({name for counted in samples.values() for name in counted} - {*outside})
    rows = [row(name, {transport: counted[name] for transport, counted in samples.items()})
            for name in (*outside, *names)]
    return [row(KERNEL, kernel), *rows[:2],
            *sorted(rows[2:], key=lambda row: -abs(row["mptcp"] - row["tcp"]))[:number]]
