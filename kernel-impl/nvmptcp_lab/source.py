# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel source: Debian's package by apt in a private root, or any tree (KERNEL_SRC)."""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError, UsageError

Say = Callable[[str], None]

IMPL = Path(__file__).resolve().parent.parent  # kernel-impl/
PIN_FILE = IMPL / "source.toml"
MIRROR_VARIABLE = "NVMPTCP_DEBIAN_MIRROR"
APT_HELPER = "/usr/lib/apt/apt-helper"
KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
)
DEBIAN_SUITE = re.compile(
    r"(stable|oldstable|testing|unstable|sid|bullseye|bookworm|trixie|forky|duke)"
    r"(-(updates|backports|proposed-updates))?/?$"
)


@dataclass(frozen=True)
class Pin:
    """Which Debian package, exactly."""

    package: str
    version: str
    sha256: str
    suite: str

    @property
    def ident(self) -> str:
        return f"{self.package}_{self.version}"


@dataclass(frozen=True)
class Source:
    """A kernel tree that is never written to."""

    ident: str  # names the tree in the cache
    tree: Path
    digest: str  # stands for its content in the kernel's key
    external: bool  # KERNEL_SRC: may change under us


def load_pin(path: Path = PIN_FILE) -> Pin:
    try:
        data = tomllib.loads(path.read_text())
        return Pin(**{k: str(data[k]) for k in ("package", "version", "sha256", "suite")})
    except OSError as error:
        raise LabError(
            f"{path}: {error.strerror}: the lab runs from a checkout of the project "
            "(`make setup` installs it from there)"
        ) from error
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise LabError(f"{path}: {error}: package, version, sha256, suite are needed") from error


# --- the cache -----------------------------------------------------------------------------


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "nvmptcp"


@contextlib.contextmanager
def clear_errors(cache: Path) -> Iterator[None]:
    """Turn what a bad cache directory causes into one line that says what to do."""
    try:
        yield
    except OSError as error:
        advice = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = ": make room or set XDG_CACHE_HOME"
        elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR):
            advice = ": set XDG_CACHE_HOME to a directory that you can write to"
        where = error.filename or cache
        raise LabError(f"cache {cache}: {error.strerror} ({where}){advice}") from error


@contextlib.contextmanager
def locked(cache: Path, say: Say) -> Iterator[None]:
    """One build at a time; a second one waits and then finds the work done."""
    with clear_errors(cache):
        cache.mkdir(parents=True, exist_ok=True)
        handle = (cache / "lock").open("a+")
    with handle:
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    handle.seek(0)
                    say(f"another build is running (process {handle.read().strip()}): waiting")
                    told = True
                time.sleep(0.2)
        with clear_errors(cache):
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
        yield


def need_space(cache: Path, megabytes: int, what: str) -> None:
    free = shutil.disk_usage(cache).free >> 20
    if free < megabytes:
        raise LabError(
            f"disk full: {cache} has {free} MB free, {what} needs {megabytes} MB: "
            "make room or set XDG_CACHE_HOME"
        )


@contextlib.contextmanager
def scratch(cache: Path) -> Iterator[Path]:
    """A directory in the cache that is gone afterwards, whatever happens."""
    path = Path(tempfile.mkdtemp(prefix=f"tmp-{os.getpid()}-", dir=cache))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# --- Debian's package ----------------------------------------------------------------------


def _keyring() -> str:
    for path in KEYRINGS:
        if os.path.exists(path):
            return path
    raise LabError(
        "no Debian keys to check signatures with: install debian-archive-keyring, "
        "or set KERNEL_SRC=/path/to/linux"
    )


def mirrors() -> list[str]:
    """The Debian mirrors that this machine uses, as apt itself reads its sources."""
    own = os.environ.get(MIRROR_VARIABLE, "").strip()
    if own:
        return [own.rstrip("/")]
    try:
        listing = subprocess.run(
            ["apt-get", "indextargets", "--no-release-info",  # also those never fetched
             "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
            capture_output=True, text=True, check=False,
        )
    except FileNotFoundError as error:
        raise LabError("apt-get not found: set KERNEL_SRC=/path/to/linux (7.3)") from error
    found: list[str] = []
    for line in listing.stdout.splitlines():
        uri, suite, component = [*line.split(), "", ""][:3]
        uri = uri.rstrip("/")
        if component == "main" and DEBIAN_SUITE.match(suite) and not uri.startswith("cdrom:"):
            if uri not in found:
                found.append(uri)
    if not found:
        raise LabError(
            f"this machine's apt knows no Debian mirror: set {MIRROR_VARIABLE}=http://…/debian "
            "or KERNEL_SRC=/path/to/linux"
        )
    return found


def _family(package: str) -> tuple[str, int]:
    """linux-source-7.3 → linux-source-7. and 3: what is newer in the same pool."""
    match = re.fullmatch(r"(.*\.)(\d+)", package)
    return (match.group(1), int(match.group(2))) if match else (package, 0)


def _numbers(version: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", version)]


class Apt:
    """apt with a root of its own: no root rights needed, nothing of the machine changes."""

    def __init__(self, root: Path, suite: str):
        self.root = root
        for part in ("lists/partial", "archives/partial", "download"):
            (root / part).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        (root / "list.sources").write_text(
            f"Types: deb\nURIs: {' '.join(mirrors())}\nSuites: {suite}\nComponents: main\n"
            f"Targets: Packages\nSigned-By: {_keyring()}\n"
        )
        # -c is read last, so proxies and the like of the machine stay, its hooks don't.
        # The sandbox user couldn't read a private root: as root, stay root.
        (root / "apt.conf").write_text(
            "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n"
            f'Dir::State "{root}/";\nDir::State::lists "{root}/lists";\n'
            f'Dir::State::status "{root}/status";\nDir::Cache "{root}/";\n'
            f'Dir::Cache::archives "{root}/archives";\n'
            f'Dir::Etc::sourcelist "{root}/list.sources";\n'
            'Dir::Etc::sourceparts "/dev/null";\nDir::Etc::preferences "/dev/null";\n'
            'Dir::Etc::preferencesparts "/dev/null";\nAPT::Sandbox::User "root";\n'
            'APT::Get::AllowUnauthenticated "false";\nAcquire::Retries "1";\n'
        )

    def command(self, tool: str, *args: str) -> list[str]:
        return [tool, "-c", str(self.root / "apt.conf"), "-q", *args]

    def run(self, tool: str, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(tool, *args), text=True, check=False, cwd=self.root / "download",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"},
        )

    def candidates(self, package: str) -> list[tuple[str, str]]:
        """(package, version) of the pool that can stand in, best first."""
        stem, minor = _family(package)
        names = [package]
        for name in self.run("apt-cache", "pkgnames", stem).stdout.split():
            if _family(name)[0] == stem and _family(name)[1] > minor:
                names.append(name)
        found: list[tuple[int, list[int], str, str]] = []
        for line in self.run("apt-cache", "madison", *names).stdout.splitlines():
            if line.count("|") >= 2:
                name, version, *_ = [part.strip() for part in line.split("|")]
                newest_first = [-n for n in _numbers(version)]
                found.append((_family(name)[1], newest_first, name, version))
        return list(dict.fromkeys((name, version) for *_, name, version in sorted(found)))


def _reason(output: str) -> str:
    """What apt complained of first."""
    errors = [line[2:].strip() for line in output.splitlines() if line.startswith(("E:", "W:"))]
    return (errors or output.strip().splitlines()[-1:] or ["no output"])[0]


def _find(apt: Apt, package: str, version: str) -> tuple[str, str, int, str]:
    """Where the package is: URI, file name, size, checksum (from the signed index)."""
    output = apt.run("apt-get", "download", "--print-uris", f"{package}={version}").stdout
    match = re.search(r"^'(\S+)' (\S+) (\d+) (\S+)$", output, re.M)
    if not match:
        raise LabError(f"{package} {version}: apt gives no address: {_reason(output)}")
    return match.group(1), match.group(2), int(match.group(3)), match.group(4)


def download(apt: Apt, uri: str, name: str, size: int, checksum: str, say: Say) -> Path:
    """Get and check a file; an interrupted download goes on where it stopped."""
    target = apt.root / "download" / name

    def done() -> int:
        return target.stat().st_size if target.exists() else 0

    def state() -> str:
        return f"{done() >> 20} of {size >> 20} MB"

    say(f"download {name}: {state()}")
    # Unlike `apt-get download`, this keeps what an earlier try has left.
    command = apt.command(APT_HELPER, "download-file", uri, str(target), checksum)
    while True:
        before = done()
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                command, cwd=target.parent, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=die_with_parent,
                env={**os.environ, "LC_ALL": "C"},
            )
            try:
                told = time.monotonic()
                while process.poll() is None:
                    time.sleep(0.1)
                    if time.monotonic() - told > 5:
                        told = time.monotonic()
                        say(f"download {name}: {state()}")
            finally:
                stop(process)
            log.seek(0)
            output = log.read()
        if process.returncode == 0 and target.exists():
            return target
        if "Hash Sum mismatch" in output:
            for path in target.parent.glob(f"{name}*"):
                path.unlink()
            if not before:  # else an earlier try may have left something wrong
                raise LabError(f"download of {name}: not the file that the mirror's index names")
        elif "No space left" in output:
            raise LabError(f"disk full: {target.parent}: make room or set XDG_CACHE_HOME")
        elif done() <= before:
            raise LabError(f"download of {name} failed: {_reason(output)}: try again, it resumes")


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _extract(deb: Path, package: str, target: Path, cache: Path, say: Say) -> None:
    say(f"unpack {deb.name}")
    with scratch(cache) as folder:
        pipe = (
            'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar -xO "./usr/src/$2.tar.xz" |'
            ' xz -dc -T0 | tar -x -C "$3" --strip-components=1'
        )
        done = subprocess.run(
            ["bash", "-c", pipe, "bash", str(deb), package, str(folder)],
            capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"},
        )
        if done.returncode or not (folder / "arch/um/Kconfig").exists():
            if "No space left" in done.stderr:
                raise LabError(f"disk full: {cache}: unpacking {deb.name}: make room")
            lines = done.stderr.strip().splitlines()
            raise LabError(f"{deb.name}: not a kernel source: {lines[0] if lines else 'empty'}")
        folder.chmod(0o755)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)


def _used_instead(cache: Path, pin: Pin) -> str:
    """The source that stood in for the pinned one earlier, if its tree is still there."""
    try:
        used = str(json.loads((cache / "source" / "instead.json").read_text())[pin.ident])
    except (OSError, ValueError, KeyError):
        return ""
    return used if (cache / "source" / used).is_dir() else ""


def cached(cache: Path, pin: Pin) -> Source | None:
    for ident in (pin.ident, _used_instead(cache, pin)):
        tree = cache / "source" / ident
        if ident and tree.is_dir():
            return Source(ident, tree, ident, external=False)
    return None


def fetch(cache: Path, pin: Pin, say: Say) -> Source:
    """The pinned source, from the cache or the mirror; call with the lock held."""
    there = cached(cache, pin)
    if there:
        if there.ident != pin.ident:
            say(f"notice: {there.ident} stands in for {pin.ident}")
        return there
    need_space(cache, 4500, "the kernel source and a build")
    apt = Apt(cache / "apt", pin.suite)
    say(f"look for {pin.package} in {pin.suite}")
    update = apt.run("apt-get", "update")
    candidates = apt.candidates(pin.package)
    if (pin.package, pin.version) in candidates:
        package, version = pin.package, pin.version
    else:
        newer = [
            (name, version) for name, version in candidates
            if name != pin.package or _numbers(version) > _numbers(pin.version)
        ]
        if not newer:
            failed = update.returncode or "\nW: " in update.stdout
            why = _reason(update.stdout) if failed else "not in the pool"
            raise LabError(
                f"{pin.package} {pin.version} can't be had ({why}): "
                f"set {MIRROR_VARIABLE} or KERNEL_SRC=/path/to/linux"
            )
        package, version = newer[0]
        say(
            f"notice: the mirror no longer has {pin.package} {pin.version}; "
            f"using {package} {version} (signed, but not the version that was tested)"
        )
    deb = download(apt, *_find(apt, package, version), say)
    if (package, version) == (pin.package, pin.version) and _sha256(deb) != pin.sha256:
        deb.unlink()
        raise LabError(
            f"{deb.name}: its sha256 is not the one of kernel-impl/source.toml: not used"
        )
    ident = f"{package}_{version}"
    tree = cache / "source" / ident
    _extract(deb, package, tree, cache, say)
    if ident != pin.ident:
        (cache / "source" / "instead.json").write_text(json.dumps({pin.ident: ident}))
    shutil.rmtree(apt.root, ignore_errors=True)
    return Source(ident, tree, ident, external=False)


# --- any other tree ------------------------------------------------------------------------

# What a build leaves in a tree, and what isn't source.
_GENERATED_DIRS = {".git", "generated"}
_GENERATED_FILES = re.compile(
    r"^\.|\.(o|a|ko|so|mod|mod\.c|cmd|order|symvers|lex\.c|tab\.[ch]|orig|rej|patch)$|"
    r"^(modules\..*|vmlinux.*|linux|System\.map|Module\.symvers)$"
)


def listing(tree: Path) -> dict[str, tuple[int, int]]:
    """Source files of a tree: path → size and time of change."""
    found: dict[str, tuple[int, int]] = {}
    stack = [("", str(tree))]
    while stack:
        prefix, folder = stack.pop()
        for entry in os.scandir(folder):
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _GENERATED_DIRS and name != "include/config":
                    stack.append((name + "/", entry.path))
            elif not _GENERATED_FILES.search(entry.name):
                stat = entry.stat(follow_symlinks=False)
                found[name] = (stat.st_size, stat.st_mtime_ns)
    return found


def external(path: str) -> Source:
    """The tree that KERNEL_SRC names. Only read."""
    tree = Path(path).expanduser().resolve()
    if not tree.is_dir():
        raise UsageError(f"KERNEL_SRC={path}: no such directory: give a Linux source tree")
    for needed in ("Makefile", "Kconfig", "arch/um/Kconfig", "net/mptcp/protocol.c"):
        if not (tree / needed).is_file():
            raise UsageError(f"KERNEL_SRC={path}: no Linux source tree ({needed} is missing)")
    try:
        content = json.dumps(sorted(listing(tree).items()))
    except OSError as error:
        raise UsageError(f"KERNEL_SRC={path}: {error.strerror}: {error.filename}") from error
    ident = "tree-" + hashlib.sha256(str(tree).encode()).hexdigest()[:12]
    return Source(ident, tree, hashlib.sha256(content.encode()).hexdigest(), external=True)


_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """For Popen(preexec_fn=): end when the lab is killed, too. PR_SET_PDEATHSIG."""
    _libc.prctl(1, signal.SIGTERM)


def stop(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """End a child that has a session of its own, with all its children."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def say_to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
