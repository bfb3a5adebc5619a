# SPDX-License-Identifier: GPL-2.0-or-later
"""The patch series: read it, apply it to copies of the files it touches, bring a tree in step."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError
from .source import IMPL, Source, listing

SERIES = IMPL / "series"
CONFIG = IMPL / "config"


@dataclass(frozen=True)
class Patch:
    path: Path
    content: bytes

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def change(self) -> bytes:
        """The patch without its message."""
        start = re.search(rb"^(?:diff --git |--- \S)", self.content, re.MULTILINE)
        return self.content[start.start():] if start else self.content

    def files(self) -> list[str]:
        """Every file that the patch reads or writes."""
        found: dict[str, None] = {}
        for line in self.content.decode(errors="replace").splitlines():
            match = re.match(r"(?:---|\+\+\+) (?:[ab]/)([^\t\n]+)", line) or re.match(
                r"(?:rename|copy) (?:from|to) (.+)", line
            )
            if match:
                found[match.group(1)] = None
            elif binary := re.match(r"diff --git a/(\S+) b/(\S+)$", line):
                found |= dict.fromkeys(binary.groups())
        for name in found:
            if name.startswith("/") or ".." in Path(name).parts:
                raise LabError(f"{self.path}: names a file outside of the tree: {name}")
        if not found:
            raise LabError(f"{self.path}: no patch in it (no --- a/… and +++ b/… lines)")
        return list(found)


def load(directory: Path | None) -> list[Patch]:
    """The patches of a directory in order; None: an unpatched kernel."""
    if directory is None:
        return []
    if not directory.is_dir():
        raise LabError(f"{directory}: no such directory: the series is expected there")
    try:
        return [Patch(p, p.read_bytes()) for p in sorted(directory.glob("*.patch"))]
    except OSError as error:
        raise LabError(f"{error.filename}: {error.strerror}") from error


def lab_patches() -> list[Patch]:
    """What the lab's own kernel needs and Linux doesn't: applied first."""
    return load(CONFIG)


def digest(patches: Iterable[Patch]) -> str:
    """What the patches change. Names and messages don't count: rewording builds nothing anew."""
    whole = hashlib.sha256()
    for patch in patches:
        whole.update(hashlib.sha256(patch.change).digest())
    return whole.hexdigest()


def apply(patches: Sequence[Patch], pristine: Path, staging: Path) -> list[str]:
    """Patch copies of the touched files in `staging`; returns the touched files."""
    touched = list(dict.fromkeys(name for patch in patches for name in patch.files()))
    for name in touched:
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        if (pristine / name).is_file():
            shutil.copy(pristine / name, staging / name)
    for patch in patches:
        try:
            done = subprocess.run(
                ["patch", "-p1", "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch",
                 "--reject-file=-"],
                cwd=staging, input=patch.content, capture_output=True, check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError as error:
            raise LabError("patch not found: install the package patch") from error
        if done.returncode:
            output = (done.stdout + done.stderr).decode(errors="replace")
            if "No space left" in output:
                raise LabError(f"disk full: {staging}: make room or set XDG_CACHE_HOME")
            if patch.path.parent == CONFIG and "previously applied" in output:
                continue  # a tree of the user's own may have the lab's change
            raise LabError(f"{patch.path}: doesn't apply{_where(output)}")
    return touched


def _where(output: str) -> str:
    """The first file and hunk that failed, from patch's own words."""
    name = ""
    for line in output.splitlines():
        if match := re.match(r"(?:checking|patching) file '?([^']+?)'?$", line):
            name = match.group(1)
        elif match := re.match(r"Hunk #(\d+) (?:FAILED|ignored) at (\d+)", line):
            return f": {name}, hunk {match.group(1)} at line {match.group(2)}"
        elif "previously applied" in line:
            return f": {name} has it already"
        elif match := re.match(r"\|--- a/(\S+)", line):  # patch shows it where no file fits
            return f": {match.group(1)} is not in this source"
    return ": " + (output.strip().splitlines() or ["no reason given"])[-1]


def _write(target: Path, origin: Path) -> bool:
    """Bring one file in step; a new time of change makes make(1) see it."""
    if target.is_file() and target.read_bytes() == origin.read_bytes():
        if (target.stat().st_mode ^ origin.stat().st_mode) & 0o111 == 0:
            return False
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".nvmptcp-new")
    shutil.copy(origin, fresh)  # never in place: the file may be a hard link to the pristine one
    fresh.replace(target)
    return True


def bring_in_step(work: Path, source: Source, staging: Path, touched: Sequence[str]) -> int:
    """Make work/tree = source + what was patched in staging; returns how many files changed."""
    tree, state = work / "tree", work / "state.json"
    if source.external:
        copied = _copy_external(work, source)
    elif not tree.is_dir():
        copied = _clone(source.tree, tree)
    else:
        copied = 0
    before: list[str] = json.loads(state.read_text()) if state.exists() else []
    state.write_text(json.dumps(sorted({*before, *touched})))
    for name in dict.fromkeys([*before, *touched]):
        origin = staging / name if name in touched else source.tree / name
        if origin.is_file():
            copied += _write(tree / name, origin)
        elif (tree / name).is_file():
            (tree / name).unlink()
            copied += 1
    state.write_text(json.dumps(sorted(touched)))
    return copied


def _clone(pristine: Path, tree: Path) -> int:
    """A tree of hard links: quick, and patched files are replaced, never written through."""
    fresh = tree.with_name("tree.new")
    try:
        for how in ("-al", "-a"):
            shutil.rmtree(fresh, ignore_errors=True)
            done = subprocess.run(
                ["cp", how, str(pristine), str(fresh)], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                fresh.rename(tree)
                return 1
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    reason = done.stderr.strip().splitlines()[-1]
    if "No space left" in reason:
        raise LabError(f"disk full: {tree}: make room or set XDG_CACHE_HOME")
    raise LabError(f"can't copy the source: {reason}")


def _copy_external(work: Path, source: Source) -> int:
    """Copy what changed in somebody's own tree since the last time."""
    tree, seen_file = work / "tree", work / "seen.json"
    tree.mkdir(parents=True, exist_ok=True)
    seen: dict[str, list[int]] = json.loads(seen_file.read_text()) if seen_file.exists() else {}
    now = listing(source.tree)
    patched: set[str] = set()
    if (work / "state.json").exists():
        patched = set(json.loads((work / "state.json").read_text()))
    copied = 0
    for name, stat in now.items():
        if seen.get(name) == list(stat) or name in patched:
            continue
        origin, target = source.tree / name, tree / name
        if origin.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.symlink_to(os.readlink(origin))
        elif origin.is_file():
            copied += _write(target, origin)
    for name in seen.keys() - now.keys():
        (tree / name).unlink(missing_ok=True)
        copied += 1
    seen_file.write_text(json.dumps(now))
    return copied
