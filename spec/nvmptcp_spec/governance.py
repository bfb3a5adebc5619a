# SPDX-License-Identifier: GPL-2.0-or-later
"""What may change in a requirement, and how: lock file, change log, versions.

The lock file has what was accepted last: of each requirement its version, level, actor and a
digest of its text. Two questions are kept apart. Freshness: is the lock what the chapters say?
Governance: is each difference allowed, that is, does it come with a version bump and an entry in
the change log? `nvmptcp-spec accept` writes the lock, and refuses what governance refuses.
"""

import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import tomlfile
from .errors import SpecError, UsageError
from .problem import Problem
from .reader import Requirement

LOCK = "spec/requirements.lock.json"
CHANGELOG = "spec/changelog.toml"
KINDS = ("changed", "renamed", "withdrawn")

Lock = dict[str, dict[str, str | int]]  # by ID


@dataclass(frozen=True)
class Change:
    """An entry of the change log."""

    id: str
    kind: str
    version: int | None  # changed: what it leads to
    to: str | None  # renamed: the new ID
    line: int


def lock_of(requirements: Mapping[str, Requirement]) -> Lock:
    """What the lock file says of these requirements."""
    return {
        r.id: {"version": r.version, "level": r.level, "actor": r.actor,
               "text": hashlib.sha256(r.statement.encode()).hexdigest()[:16]}
        for r in requirements.values()
    }


def lock_text(lock: Lock) -> str:
    """The lock file: a line for each requirement, so that a diff shows what changed."""
    lines = ",\n".join(f"  {json.dumps(i)}: {json.dumps(e)}" for i, e in sorted(lock.items()))
    return f"{{\n{lines}\n}}\n"


def read_lock(root: Path, revision: str | None = None) -> Lock | None:
    """The lock file of the tree or of a git revision; None if there is none."""
    path = root / LOCK
    if revision is None:
        if not path.is_file():
            return None
        return _parse_lock(path.read_text(), LOCK)
    if _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is None:
        raise UsageError(f"--base {revision}: no such revision of this repository")
    text = _git(root, "show", f"{revision}:./{LOCK}")
    return None if text is None else _parse_lock(text, f"{revision}:{LOCK}")


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints; None if it fails."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True,
                              check=False)
    except FileNotFoundError as error:
        raise SpecError("git not found: install the package git") from error
    return None if done.returncode else done.stdout


def _parse_lock(text: str, name: str) -> Lock:
    advice = "restore it from git"
    try:
        lock = json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"{name}:{error.lineno}: not JSON: {error.msg}: {advice}") from error
    keys = {"version", "level", "actor", "text"}
    if not isinstance(lock, dict):
        raise SpecError(f"{name}:1: an object is needed: {advice}")
    for number, (ident, entry) in enumerate(lock.items(), 2):
        if (not isinstance(entry, dict) or set(entry) != keys
                or not isinstance(entry["version"], int)):
            raise SpecError(f"{name}:{number}: {ident}: {', '.join(sorted(keys))} are needed:"
                            f" {advice}")
    return lock


def read_changelog(root: Path) -> list[Change]:
    """The change log. SpecError (`file:line: what`) for a malformed one."""
    top = tomlfile.load(root / CHANGELOG)
    changes = []
    for table in top.tables("change"):
        kind = table.choice("kind", KINDS)
        change = Change(
            table.need("id", str), kind,
            table.need("version", int) if kind == "changed" else None,
            table.need("to", str) if kind == "renamed" else None,
            table.line(),
        )
        table.need("reason", str)
        table.finish()
        changes.append(change)
    top.finish()
    return changes


def check_freshness(root: Path, requirements: Mapping[str, Requirement]) -> Iterator[Problem]:
    """Gate: the lock file is what the chapters say."""
    lock, want = read_lock(root), lock_of(requirements)
    if lock is None:
        yield Problem(LOCK, 0, "freshness", "is missing: run `nvmptcp-spec accept`")
        return
    different = sorted(i for i in {*lock, *want} if lock.get(i) != want.get(i))
    if different:
        more = f" and {len(different) - 3} more" if len(different) > 3 else ""
        yield Problem(LOCK, 0, "freshness", f"is out of date ({', '.join(different[:3])}{more}):"
                                            " run `nvmptcp-spec accept`")


def check_governance(root: Path, requirements: Mapping[str, Requirement],
                     base: str | None = None) -> Iterator[Problem]:
    """Gate: every difference to the accepted state is allowed.

    The accepted state is the lock file of the tree, or with `base` that of a git revision, which
    a hand-edited lock can't hide anything from.
    """
    changes = read_changelog(root)
    lock = read_lock(root, base) or {}
    yield from _entries(changes, requirements, lock)
    gone = {c.id for c in changes if c.kind != "changed"}
    bumps = {(c.id, c.version) for c in changes if c.kind == "changed"}
    for ident in lock:
        if ident not in requirements and ident not in gone:
            yield Problem(CHANGELOG, 0, "governance",
                          f"{ident} is gone (deleted or renamed): add a [[change]] of kind"
                          ' "withdrawn" or "renamed", with the reason')
    want = lock_of(requirements)
    for r in requirements.values():
        if r.id not in lock:
            if r.version != 1:
                yield _at(r, f"{r.id} is new: its version is {r.version}, not 1")
            continue
        yield from _changed(r, lock[r.id], want[r.id], bumps)


def _changed(r: Requirement, old: dict[str, str | int], new: dict[str, str | int],
             bumps: set[tuple[str, int | None]]) -> Iterator[Problem]:
    """One requirement against its accepted state."""
    before = int(old["version"])
    parts = [key for key in ("text", "level", "actor") if old[key] != new[key]]
    if parts and r.version == before:
        yield _at(r, f"{r.id}: {' and '.join(parts)} changed: set its version to {before + 1}")
    elif parts and r.version != before + 1:
        yield _at(r, f"{r.id}: the version after {before} is {before + 1}, not {r.version}")
    elif not parts and r.version != before:
        yield _at(r, f"{r.id}: version {r.version}, but nothing changed since version {before}")
    elif parts and (r.id, r.version) not in bumps:
        yield Problem(CHANGELOG, 0, "governance",
                      f'{r.id} version {r.version}: add a [[change]] of kind "changed", with the'
                      " reason")


def _entries(changes: list[Change], requirements: Mapping[str, Requirement],
             lock: Lock) -> Iterator[Problem]:
    """The change log agrees with the chapters."""
    seen: set[tuple[str, str, int | None]] = set()
    for c in changes:
        def wrong(what: str, line: int = c.line) -> Problem:
            return Problem(CHANGELOG, line, "governance", what)

        if (c.id, c.kind, c.version) in seen:
            yield wrong(f"{c.id}: the same entry is there already")
        seen.add((c.id, c.kind, c.version))
        if c.kind == "changed":
            now = requirements.get(c.id)
            if now and c.version is not None and not 2 <= c.version <= now.version:
                yield wrong(f"{c.id}: version {c.version} isn't within 2 to {now.version}")
        elif c.id in requirements:
            r = requirements[c.id]
            yield _at(r, f"{c.id} was {c.kind} ({CHANGELOG}:{c.line}): an ID isn't used again")
        if c.kind == "renamed" and c.to not in requirements and c.to not in {
            other.id for other in changes if other.kind != "changed"
        }:
            yield wrong(f"{c.id}: renamed to {c.to}, which isn't there")


def _at(r: Requirement, what: str) -> Problem:
    return Problem(r.page, r.line, "governance", what)
