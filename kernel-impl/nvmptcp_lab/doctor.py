# SPDX-License-Identifier: GPL-2.0-or-later
"""What this machine lacks, whether UML's fast mode works on it, and how fast the lab will run."""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import boot, build, sandbox, source
from .errors import LabError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

# System calls per second in the guest of the machine that the documented times were taken on.
REFERENCE_CALLS = 85_000
CALLS = 100_000


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. A required one that isn't ok fails `doctor`."""

    name: str
    ok: bool
    required: bool
    detail: str
    remedy: str = ""


def _packages() -> list[Finding]:
    found = []
    for package in build.packages():
        ok = package.present()
        detail = ("" if ok else "missing; ") + f"needed for {package.need}"
        remedy = "" if ok else f"apt-get install {package.name}"
        found.append(Finding(package.name, ok, package.required, detail, remedy))
    return found


def _room() -> list[Finding]:
    place = source.cache_dir()
    while not place.exists():
        place = place.parent
    need = 1 if build.cached_kernel() else 5
    free = shutil.disk_usage(place).free / 2**30
    disk = Finding(
        "disk", free >= need, True, f"{free:.1f} GB free for {source.cache_dir()}, {need} needed",
        "" if free >= need else "make room, or set XDG_CACHE_HOME",
    )
    writable = os.access(place, os.W_OK)
    cache = Finding(
        "cache", writable, True, f"{place} can{'' if writable else 'not'} be written to",
        "" if writable else "set XDG_CACHE_HOME to a directory of yours",
    )
    text = Path("/proc/meminfo").read_text()
    match = re.search(r"MemAvailable:\s+(\d+)", text)
    memory = int(match.group(1)) / 2**20 if match else 0.0
    ram = Finding(
        "memory", memory >= 1.5, True, f"{memory:.1f} GB available, 1.5 needed",
        "" if memory >= 1.5 else "close what needs memory",
    )
    return [disk, cache, ram]


def _isolation() -> list[Finding]:
    version = sandbox.abi()
    landlock = Finding(
        "landlock", version > 0, False,
        f"ABI {version}: the guest can't write outside of its directories" if version
        else "not in this kernel: a guest as root could write to your files",
        "" if version else "boot with lsm=landlock,…",
    )
    try:
        done = subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False)
        namespaces = done.returncode == 0
    except OSError:
        namespaces = False
    user = Finding(
        "user namespaces", namespaces, False,
        "usable" if namespaces else "not usable: tests of a full or read-only cache are skipped",
        "" if namespaces else "sysctl kernel.unprivileged_userns_clone=1",
    )
    return [landlock, user]


def _guest() -> list[Finding]:
    """Boot the kernel, if there is one: seccomp mode and speed can only be seen there."""
    kernel = build.cached_kernel()
    if kernel is None:
        return [
            Finding("kernel", False, False, "not built yet: seccomp mode and speed not tried",
                    "nvmptcp-lab build")
        ]
    started = time.monotonic()
    try:
        result = boot.run(boot.Guest(kernel, ["true"], timeout=60))
    except LabError as error:
        return [Finding("boot", False, True, str(error).splitlines()[0], "see nvmptcp-lab run")]
    seconds = time.monotonic() - started
    seccomp = bool(re.search(r"Checking that seccomp filters can be installed\.*\s*OK", result.log))
    booted = result.exit_code == 0 and not result.report
    findings = [
        Finding("boot", booted, True, f"Linux {kernel.release} up and down in {seconds:.2f} s",
                "" if booted else "nvmptcp-lab run -- true shows why"),
        Finding("seccomp mode", seccomp, False,
                "works" if seccomp else "doesn't: the guest uses ptrace, about 1.4 times slower",
                "" if seccomp else "allow seccomp filters in this container or machine"),
    ]
    # System calls are what UML makes dear; fio, ip and the kernel's own work scale with them.
    dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={CALLS // 2}", "status=none"]
    started = time.monotonic()
    boot.run(boot.Guest(kernel, dd, timeout=120))
    calls = CALLS / max(0.01, time.monotonic() - started - seconds)
    factor = calls / REFERENCE_CALLS
    findings.append(
        Finding("speed", True, False, f"{calls / 1000:.0f} thousand system calls a second: "
                f"runs take about {1 / factor:.1f} times as long as documented")
    )
    return findings


def report() -> list[Finding]:
    """Everything that was looked at, the cheap first."""
    machine, system = platform.machine(), platform.system()
    fits = machine == "x86_64" and system == "Linux"
    return [
        Finding("machine", fits, True, f"{system} {machine}, {len(os.sched_getaffinity(0))} CPUs",
                "" if fits else "the lab's kernel runs on x86_64 Linux"),
        Finding("python", sys.version_info >= (3, 11), True, platform.python_version()),
        *_packages(),
        *_room(),
        *_isolation(),
        *_guest(),
    ]


def as_text(findings: list[Finding]) -> str:
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        mark = "ok  " if finding.ok else "MISS" if finding.required else "note"
        remedy = f" -> {finding.remedy}" if finding.remedy else ""
        lines.append(f"{mark}  {finding.name:{width}}  {finding.detail}{remedy}")
    names = {package.name for package in build.packages()}
    missing = [f.name for f in findings if not f.ok and f.name in names]
    if missing:
        lines.append(f"install what is missing: apt-get install {' '.join(missing)}")
    return "\n".join(lines)


def add_parser(subparsers: "_SubParsersAction[Any]") -> None:
    doctor = subparsers.add_parser("doctor", help="what is missing here, and how fast it will run")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.set_defaults(func=run_doctor)


def run_doctor(args: argparse.Namespace) -> int:
    findings = report()
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        print(as_text(findings))
    return 1 if any(f.required and not f.ok for f in findings) else 0
