# SPDX-License-Identifier: GPL-2.0-or-later
"""Applying the series, and keeping a build tree in step with it."""

import os
from pathlib import Path

import pytest
from nvmptcp_lab import series
from nvmptcp_lab.errors import LabError
from nvmptcp_lab.source import Source

NEEDED = ("Makefile", "Kconfig", "arch/um/Kconfig", "net/mptcp/protocol.c")


def patch(directory: Path, name: str, file: str, old: str, new: str) -> Path:
    """A patch that replaces the only line of a file; empty: the file is not there."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    before = ["/dev/null", "0,0", ""] if not old else [f"a/{file}", "1", f"-{old}\n"]
    after = ["/dev/null", "0,0", ""] if not new else [f"b/{file}", "1", f"+{new}\n"]
    path.write_text(
        f"Subject: {name}\n---\ndiff --git a/{file} b/{file}\n--- {before[0]}\n+++ {after[0]}\n"
        f"@@ -{before[1]} +{after[1]} @@\n{before[2]}{after[2]}"
    )
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in NEEDED:
        file = tmp_path / "linux" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name}\n")
    return tmp_path / "linux"


def content(tree: Path) -> dict[str, str]:
    return {
        str(p.relative_to(tree)): p.read_text() for p in sorted(tree.rglob("*")) if p.is_file()
    }


def step(tmp_path: Path, source: Source, directory: Path | None) -> Path:
    """Bring the build tree in step with a series, as a build does."""
    staging = tmp_path / f"staging-{len(list(tmp_path.iterdir()))}"
    staging.mkdir()
    touched = series.apply(series.load(directory), source.tree, staging)
    (tmp_path / "work").mkdir(exist_ok=True)
    series.bring_in_step(tmp_path / "work", source, staging, touched)
    return tmp_path / "work" / "tree"


def test_rewording_a_patch_builds_nothing_anew(tmp_path: Path) -> None:
    patch(tmp_path / "a", "0001-one.patch", "Makefile", "old", "new")
    patch(tmp_path / "b", "0001-other-words.patch", "Makefile", "old", "new")
    patch(tmp_path / "c", "0001-one.patch", "Makefile", "old", "newer")
    one, reworded, changed = (series.load(tmp_path / name) for name in "abc")
    assert one[0].content != reworded[0].content
    assert series.digest(one) == series.digest(reworded)
    assert series.digest(one) != series.digest(changed)


def test_broken_patch_is_named_with_file_and_hunk(tmp_path: Path, tree: Path) -> None:
    patch(tmp_path / "s", "0001-good.patch", "Makefile", "Makefile", "new")
    bad = patch(tmp_path / "s", "0002-bad.patch", "net/mptcp/protocol.c", "not there", "x")
    (tmp_path / "staging").mkdir()
    with pytest.raises(LabError) as caught:
        series.apply(series.load(tmp_path / "s"), tree, tmp_path / "staging")
    assert str(caught.value) == f"{bad}: doesn't apply: net/mptcp/protocol.c, hunk 1 at line 1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("words\n", "no patch in it"),
        ("--- a/../../etc/x\n+++ b/../../etc/x\n@@ -0,0 +1 @@\n+x\n", "outside of the tree"),
        ("--- a/Makefile\n+++ b/Makefile\n@@ garbage\n", "doesn't apply"),
        ("--- a/no/such\n+++ b/no/such\n@@ -1 +1 @@\n-a\n+b\n", "doesn't apply: no/such"),
    ],
)
def test_what_is_no_patch_is_named(tmp_path: Path, tree: Path, text: str, complaint: str) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "0001-odd.patch").write_text(text)
    (tmp_path / "staging").mkdir()
    with pytest.raises(LabError, match=complaint) as caught:
        series.apply(series.load(tmp_path / "s"), tree, tmp_path / "staging")
    assert "0001-odd.patch" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_was_applied_before_is_no_fault_of_a_lab_patch_only(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "CONFIG", tmp_path / "lab")
    for directory in (tmp_path / "lab", tmp_path / "s"):
        patch(directory, "one.patch", "Makefile", "before", "Makefile")
    source = Source("x", tree, "x", external=False)
    assert content(step(tmp_path, source, tmp_path / "lab")) == content(tree)
    with pytest.raises(LabError, match=r"one\.patch: doesn't apply: Makefile has it already"):
        step(tmp_path, source, tmp_path / "s")


def test_series_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no such directory"):
        series.load(tmp_path / "nowhere")


@pytest.mark.parametrize("external", [False, True])
def test_tree_follows_the_series_and_leaves_the_source_alone(
    tmp_path: Path, tree: Path, external: bool
) -> None:
    source = Source("x", tree, "x", external)
    before = content(tree)
    one, two = tmp_path / "one", tmp_path / "two"
    patch(one, "0001-a.patch", "Makefile", "Makefile", "changed")
    patch(one, "0002-b.patch", "new.c", "", "new")
    patch(two, "0001-c.patch", "Kconfig", "Kconfig", "")

    work = step(tmp_path, source, one)
    assert content(work) == {**before, "Makefile": "changed\n", "new.c": "new\n"}
    untouched = (work / "arch/um/Kconfig").stat().st_mtime_ns
    patched = (work / "Makefile").stat().st_mtime_ns

    step(tmp_path, source, one)  # nothing changed: nothing for make to rebuild
    assert (work / "Makefile").stat().st_mtime_ns == patched

    step(tmp_path, source, two)
    assert content(work) == {k: v for k, v in before.items() if k != "Kconfig"}
    assert (work / "Makefile").stat().st_mtime_ns > patched  # went back, yet is newer than objects
    assert (work / "arch/um/Kconfig").stat().st_mtime_ns == untouched

    step(tmp_path, source, None)
    assert content(work) == before
    assert content(tree) == before


def test_own_tree_is_copied_again_where_it_changed(tmp_path: Path, tree: Path) -> None:
    source = Source("x", tree, "x", external=True)
    (tree / "net/mptcp/old.c").write_text("old\n")
    (tree / "net/mptcp/pm.o").write_text("left by a build\n")
    (tree / "include/config").mkdir(parents=True)
    (tree / "include/config/auto.conf").write_text("left by a build\n")
    work = step(tmp_path, source, None)
    assert not (work / "net/mptcp/pm.o").exists()
    assert not (work / "include/config").exists()
    built = (work / "Makefile").stat().st_mtime_ns

    (tree / "net/mptcp/old.c").unlink()
    (tree / "Kconfig").write_text("edited\n")
    os.utime(tree / "Kconfig", ns=(1, 1))  # older than any object: a copy with this time is missed
    step(tmp_path, source, None)
    assert (work / "Kconfig").read_text() == "edited\n"
    assert (work / "Kconfig").stat().st_mtime_ns > built
    assert not (work / "net/mptcp/old.c").exists()
    assert (work / "Makefile").stat().st_mtime_ns == built
