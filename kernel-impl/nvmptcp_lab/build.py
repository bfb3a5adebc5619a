# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the reference kernel for ARCH=um, once for each source + series + config + compiler."""

import argparse
import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import series, source
from .errors import LabError, UsageError
from .source import Say, Source, say_to_stderr

if TYPE_CHECKING:
    from argparse import _SubParsersAction

PACKAGES = source.IMPL.parent / "tools" / "packages.txt"
KEEP_KERNELS = 24
KEEP_TREES = 4
STEPS_GUESS = {"default": 1640, "debug": 1680}


@dataclass(frozen=True)
class Kernel:
    """A built kernel in the cache."""

    image: Path
    modules: Path  # the .ko files, flat
    key: str
    release: str
    profile: str
    source: Path  # the patched tree; there once source_tree() was called


@dataclass(frozen=True)
class Package:
    """A Debian package, and what shows that it is installed."""

    name: str
    probe: str  # a command, a file, or python:MODULE
    need: str
    required: bool

    def present(self) -> bool:
        if self.probe.startswith("/"):
            return os.path.exists(self.probe)
        if self.probe.startswith("python:"):
            return importlib.util.find_spec(self.probe.removeprefix("python:")) is not None
        path = os.environ.get("PATH", os.defpath)
        return bool(shutil.which(self.probe, path=f"{path}:/usr/sbin:/sbin"))


def packages() -> list[Package]:
    """What tools/packages.txt lists."""
    try:
        lines = PACKAGES.read_text().splitlines()
    except OSError as error:
        raise LabError(f"{PACKAGES}: {error.strerror}: run from a checkout") from error
    found = []
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name, probe, need = line.split(maxsplit=2)
            if need.startswith("fetch") and os.environ.get("KERNEL_SRC"):
                continue
            optional = need.startswith("optional: ")
            found.append(Package(name, probe, need.removeprefix("optional: "), not optional))
    return found


# --- what is to be built -------------------------------------------------------------------


def profiles() -> list[str]:
    return sorted(p.stem for p in series.CONFIG.glob("*.config") if p.stem != "base")


def read_config(profile: str) -> dict[str, str]:
    """Requested symbols: base, then the profile's own; "n" for those that must be off."""
    wanted: dict[str, str] = {}
    for path in (series.CONFIG / "base.config", series.CONFIG / f"{profile}.config"):
        try:
            lines = path.read_text().splitlines()
        except OSError as error:
            raise UsageError(
                f"profile {profile}: {error.strerror}: {path}; there are: {', '.join(profiles())}"
            ) from error
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                match = re.fullmatch(r"(CONFIG_\w+)=(\S.*)", line.strip())
                if not match:
                    raise LabError(f"{path}:{number}: not CONFIG_NAME=value: {line}")
                wanted[match.group(1)] = match.group(2)
    return wanted


def _compiler() -> str:
    try:
        done = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise LabError("gcc not found: install the package gcc, or run `make setup`") from error
    return done.stdout.splitlines()[0]


def _key(src: Source | str, patches: Sequence[series.Patch], wanted: dict[str, str]) -> str:
    parts = [
        src if isinstance(src, str) else src.digest,
        series.digest(patches),
        json.dumps(sorted(wanted.items())),
        _compiler(),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _load(folder: Path, cache: Path) -> Kernel | None:
    try:
        about = json.loads((folder / "kernel.json").read_text())
    except (OSError, ValueError):
        return None
    with contextlib.suppress(OSError):  # say when it was last used; a read-only cache is fine
        os.utime(folder)
    key = about["key"]
    return Kernel(
        folder / "linux", folder / "modules", key, about["release"], about["profile"],
        cache / "tree" / about["tree"] / "tree",
    )


def ensure_kernel(
    profile: str = "default",
    *,
    series_dir: Path | None = series.SERIES,
    say: Say = say_to_stderr,
) -> Kernel:
    """The kernel of the series (None: unpatched), built if it isn't in the cache."""
    return _ensure(profile, [*series.lab_patches(), *series.load(series_dir)], say)


def cached_kernel(
    profile: str = "default", *, series_dir: Path | None = series.SERIES
) -> Kernel | None:
    """The kernel of the series if it is in the cache: looks, and builds nothing."""
    return _cached(profile, [*series.lab_patches(), *series.load(series_dir)])


def _cached(profile: str, patches: Sequence[series.Patch]) -> Kernel | None:
    cache, pin, wanted = source.cache_dir(), source.load_pin(), read_config(profile)
    own_tree = os.environ.get("KERNEL_SRC", "")
    src = source.external(own_tree) if own_tree else source.cached(cache, pin)
    return _load(cache / "kernel" / _key(src or pin.ident, patches, wanted), cache)


def _ensure(profile: str, patches: Sequence[series.Patch], say: Say) -> Kernel:
    kernel = _cached(profile, patches)
    if kernel:
        return kernel
    cache, pin, wanted = source.cache_dir(), source.load_pin(), read_config(profile)
    own_tree = os.environ.get("KERNEL_SRC", "")
    building = [p for p in packages() if p.need.startswith(("build", "fetch"))]
    missing = [p.name for p in building if not p.present()]
    if missing:
        raise LabError(f"packages needed to build are missing: {' '.join(missing)}: `make setup`")
    with source.locked(cache, say), source.clear_errors(cache):
        started = time.monotonic()
        _sweep(cache)
        src = source.external(own_tree) if own_tree else source.fetch(cache, pin, say)
        key = _key(src, patches, wanted)
        kernel = _load(cache / "kernel" / key, cache)
        if kernel:  # another process was quicker
            return kernel
        kernel = _build(cache, src, patches, profile, wanted, key, say)
        seconds = time.monotonic() - started
        say(f"kernel {kernel.image} built in {seconds // 60:.0f} min {seconds % 60:.0f} s")
        return kernel


def _tree_key(src: Source | str, patches: Sequence[series.Patch]) -> str:
    content = src if isinstance(src, str) else src.digest
    return hashlib.sha256((content + series.digest(patches)).encode()).hexdigest()


def source_tree(
    *, series_dir: Path | None = series.SERIES, say: Say = say_to_stderr
) -> Path:
    """The patched source (`Kernel.source`), for what isn't the kernel itself, as selftests."""
    cache, pin = source.cache_dir(), source.load_pin()
    patches = [*series.lab_patches(), *series.load(series_dir)]
    own_tree = os.environ.get("KERNEL_SRC", "")
    with source.locked(cache, say), source.clear_errors(cache):
        src = source.external(own_tree) if own_tree else source.fetch(cache, pin, say)
        work = cache / "tree" / _tree_key(src, patches)
        if not (work / "complete").exists():
            with source.scratch(cache) as staging:
                touched = series.apply(patches, src.tree, staging)
                work.mkdir(parents=True, exist_ok=True)
                series.bring_in_step(work, src, staging, touched)
            (work / "complete").touch()
    return work / "tree"


def _sweep(cache: Path) -> None:
    """Leftovers of builds that were killed, and kernels not used for long."""
    for path in cache.glob("tmp-*-*"):
        if not Path("/proc", path.name.split("-")[1]).exists():
            shutil.rmtree(path, ignore_errors=True)
    kernels = sorted(cache.glob("kernel/*"), key=lambda p: p.stat().st_mtime)
    trees = sorted(cache.glob("tree/*"), key=lambda p: p.stat().st_mtime)
    old = [*kernels[:-KEEP_KERNELS], *trees[:-KEEP_TREES]]
    for path in old:
        if time.time() - path.stat().st_mtime > 86400:
            shutil.rmtree(path, ignore_errors=True)


# --- building ------------------------------------------------------------------------------


def _build(
    cache: Path, src: Source, patches: Sequence[series.Patch], profile: str,
    wanted: dict[str, str], key: str, say: Say,
) -> Kernel:
    work = cache / "work" / src.ident
    fresh = not (work / f"obj-{profile}" / "vmlinux").exists()
    if fresh:
        source.need_space(cache, 1000, "a kernel build")
    with source.scratch(cache) as staging:
        touched = series.apply(patches, src.tree, staging)
        work.mkdir(parents=True, exist_ok=True)
        say(f"source {src.ident}, {len(patches)} patches (the lab's own included)")
        series.bring_in_step(work, src, staging, touched)
    tree, obj = work / "tree", work / f"obj-{profile}"
    try:
        obj.mkdir(exist_ok=True)
        _configure(tree, obj, wanted, say)
        _compile(tree, obj, STEPS_GUESS.get(profile, 2000), say)
        folder = _install(cache, obj, {"key": key, "profile": profile, "source": src.ident,
                                       "tree": _tree_key(src, patches)})
    except (DiskFull, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        if fresh:  # what this build wrote is what fills the disk
            shutil.rmtree(obj, ignore_errors=True)
        raise LabError(f"disk full: {cache}: make room or set XDG_CACHE_HOME") from error
    kernel = _load(folder, cache)
    assert kernel
    return kernel


class DiskFull(LabError):
    """make(1) ran out of space."""


def _environment() -> dict[str, str]:
    """Nothing that an outer make or a cross build set; the same bytes on each machine."""
    drop = re.compile(r"(MAKE|MFLAGS|KBUILD|KCONFIG|KCFLAGS|CROSS_COMPILE$|ARCH$|SUBARCH$|O$|V$)")
    return {k: v for k, v in os.environ.items() if not drop.match(k)} | {
        "LC_ALL": "C", "KBUILD_BUILD_USER": "nvmptcp", "KBUILD_BUILD_HOST": "lab",
        "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
    }


def _configure(tree: Path, obj: Path, wanted: dict[str, str], say: Say) -> None:
    merged = obj / "wanted.config"
    merged.write_text("".join(f"{k}={v}\n" for k, v in wanted.items()))
    _make(tree, obj, ["allnoconfig"], {"KCONFIG_ALLCONFIG": str(merged)}, 0, say)
    final = {}
    for line in (obj / ".config").read_text().splitlines():
        if match := re.fullmatch(r"(CONFIG_\w+)=(.*)", line):
            final[match.group(1)] = match.group(2)
    wrong = [f"{k}={v} (is {final.get(k, 'n')})" for k, v in wanted.items()
             if final.get(k, "n") != v]
    if wrong:
        raise LabError(f"config: this source doesn't give {', '.join(wrong)}: see {merged}")


def _compile(tree: Path, obj: Path, guess: int, say: Say) -> None:
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    _make(tree, obj, [jobs, "all"], {}, 0 if (obj / "vmlinux").exists() else guess, say)


def _make(
    tree: Path, obj: Path, targets: list[str], extra: dict[str, str], guess: int, say: Say
) -> None:
    """Run make(1) with a counter, and keep its last words for the case that it fails."""
    log = obj / "make.log"
    live = sys.stderr.isatty() and say is say_to_stderr
    started = shown = time.monotonic()
    steps, tail = 0, deque[str](maxlen=400)
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(log.open("w"))
        make = subprocess.Popen(
            ["make", "-C", str(tree), "ARCH=um", f"O={obj}", "--no-print-directory", *targets],
            env=_environment() | extra, text=True, errors="replace", start_new_session=True,
            preexec_fn=source.die_with_parent, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        stack.callback(source.stop, make)
        assert make.stdout
        for line in make.stdout:
            out.write(line)
            tail.append(line.rstrip())
            if not re.match(r"  [A-Z]", line):
                continue
            steps += 1
            now = time.monotonic()
            if now - shown > (0.2 if live else 15):
                shown = now
                text = f"[{steps:5}{f'/~{max(guess, steps)}' if guess else ''}] {line.strip()}"
                if live:
                    print(f"\r\033[K{text[:78]}", end="", file=sys.stderr, flush=True)
                else:
                    say(f"{text}  ({now - started:.0f} s)")
        code = make.wait()
    if live and steps:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if code:
        if any("No space left on device" in line for line in tail):
            raise DiskFull("disk full")
        first = next((li for li in tail if re.search(r"\berror:|undefined reference|\*\*\*", li)),
                     tail[-1] if tail else "no output")
        first = first.replace(f"{tree}/", "")
        raise LabError(f"make {targets[-1]} failed: {first.strip()} (all of it: {log})")


def _install(cache: Path, obj: Path, about: dict[str, str]) -> Path:
    """Image and modules to a directory that appears complete or not at all."""
    target = cache / "kernel" / about["key"]
    target.parent.mkdir(exist_ok=True)
    with source.scratch(cache) as folder:
        (folder / "modules").mkdir()
        shutil.copy(obj / "linux", folder / "linux")
        shutil.copy(obj / ".config", folder / "config")
        modules = [obj / line.strip() for line in (obj / "modules.order").read_text().splitlines()]
        for module in modules:
            shutil.copy(module.with_suffix(".ko"), folder / "modules")
        stripped = subprocess.run(
            ["strip", "--strip-debug", str(folder / "linux"), *map(str, folder.glob("modules/*"))],
            capture_output=True, text=True, check=False,
        )
        if stripped.returncode:
            if "No space" in stripped.stderr:
                raise DiskFull("disk full")
            raise LabError(f"strip: {stripped.stderr.strip().splitlines()[0]}")
        release = (obj / "include/config/kernel.release").read_text().strip()
        (folder / "kernel.json").write_text(json.dumps({**about, "release": release}, indent=1))
        folder.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)
    return target


# --- bisectability -------------------------------------------------------------------------


@dataclass(frozen=True)
class PatchCheck:
    """What became of one patch on top of those before it: "ok", "-" (not tried) or the reason."""

    patch: str
    applies: str = "-"
    checkpatch: str = "-"
    builds: str = "-"
    boots: str = "-"

    @property
    def ok(self) -> bool:
        return {self.applies, self.checkpatch, self.builds, self.boots} == {"ok"}


def check_series(
    series_dir: Path = series.SERIES, *, profile: str = "default", say: Say = say_to_stderr
) -> list[PatchCheck]:
    """Each patch by itself: applies, is clean for checkpatch, builds and boots."""
    lab, patches = series.lab_patches(), series.load(series_dir)
    if not patches:
        raise LabError(f"{series_dir}: no patches to check")
    cache, own_tree = source.cache_dir(), os.environ.get("KERNEL_SRC", "")
    with source.locked(cache, say), source.clear_errors(cache):
        pin = source.load_pin()
        src = source.external(own_tree) if own_tree else source.fetch(cache, pin, say)
    checks = []
    for number, patch in enumerate(patches, 1):
        say(f"patch {number} of {len(patches)}: {patch.name}")
        found, step = {"checkpatch": _checkpatch(src.tree, patch)}, "applies"
        upto = [*lab, *patches[:number]]
        try:
            with source.locked(cache, say), source.scratch(cache) as staging:
                series.apply(upto, src.tree, staging)
            found["applies"], step = "ok", "builds"
            kernel = _ensure(profile, upto, say)
            found["builds"], step = "ok", "boots"
            found["boots"] = _boots(kernel)
        except LabError as error:
            found[step] = str(error)
        checks.append(PatchCheck(patch.name, **found))
        if found.get("applies") != "ok":
            break  # the rest stands on it
    return checks


def _checkpatch(tree: Path, patch: series.Patch) -> str:
    done = subprocess.run(
        ["perl", str(tree / "scripts/checkpatch.pl"), f"--root={tree}", "--strict", "--terse",
         "--no-summary", "--ignore", "MISSING_SIGN_OFF,NO_AUTHOR_SIGN_OFF", str(patch.path)],
        capture_output=True, text=True, check=False,
    )
    if done.returncode == 0:
        return "ok"
    lines = (done.stdout + done.stderr).strip().splitlines() or ["failed"]
    return f"{len(lines)}: {lines[0].removeprefix(f'{patch.path}:')}"


def _boots(kernel: Kernel) -> str:
    from . import boot  # it needs this module

    result = boot.run(boot.Guest(kernel, ["true"], timeout=120))
    if result.report:
        return result.report.splitlines()[0]
    return "ok" if result.exit_code == 0 else f"exit code {result.exit_code}"


# --- the command line ----------------------------------------------------------------------


def add_parser(subparsers: "_SubParsersAction[Any]") -> None:
    build = subparsers.add_parser("build", help="fetch, patch and build the reference kernel")
    build.add_argument("--profile", default="default", help=f"one of: {', '.join(profiles())}")
    build.add_argument("--unpatched", action="store_true", help="without the series")
    build.add_argument("--source", action="store_true", help="print where the patched source is")
    build.add_argument("--json", action="store_true", help="print what was built as JSON")
    build.add_argument("--quiet", action="store_true", help="print nothing but errors")
    build.set_defaults(func=run_build)

    bisect = subparsers.add_parser(
        "bisect", help="each patch of the series: applies, checkpatch, builds, boots"
    )
    bisect.add_argument("--profile", default="default", help=f"one of: {', '.join(profiles())}")
    bisect.add_argument("--series", type=Path, default=series.SERIES, metavar="DIR")
    bisect.add_argument("--json", action="store_true", help="print the table as JSON")
    bisect.add_argument("--quiet", action="store_true", help="print nothing but the table")
    bisect.set_defaults(func=run_bisect)


def run_build(args: argparse.Namespace) -> int:
    say: Say = (lambda _: None) if args.quiet else say_to_stderr
    kernel = ensure_kernel(
        args.profile, series_dir=None if args.unpatched else series.SERIES, say=say
    )
    if args.source:
        source_tree(series_dir=None if args.unpatched else series.SERIES, say=say)
        print(kernel.source)
    elif args.json:
        print(json.dumps({f: str(getattr(kernel, f)) for f in
                          ("image", "modules", "key", "release", "profile", "source")}))
    elif not args.quiet:
        print(kernel.image)
    return 0


def run_bisect(args: argparse.Namespace) -> int:
    say: Say = (lambda _: None) if args.quiet else say_to_stderr
    checks = check_series(args.series, profile=args.profile, say=say)
    total = len(series.load(args.series))
    if args.json:
        print(json.dumps([{**asdict(check), "ok": check.ok} for check in checks], indent=1))
    else:
        width = max(len(check.patch) for check in checks)
        print(f"{'patch':{width}}  applies  checkpatch  builds  boots")
        for check in checks:
            marks = [
                text if text in ("ok", "-") else "FAILS"
                for text in (check.applies, check.checkpatch, check.builds, check.boots)
            ]
            print(f"{check.patch:{width}}  {marks[0]:7}  {marks[1]:10}  {marks[2]:6}  {marks[3]}")
        for check in checks:
            for step in ("applies", "checkpatch", "builds", "boots"):
                text = getattr(check, step)
                if text not in ("ok", "-"):
                    print(f"{check.patch}: {step}: {text}")
        print(f"{sum(check.ok for check in checks)} of {total} patches pass")
    return 0 if len(checks) == total and all(check.ok for check in checks) else 1
