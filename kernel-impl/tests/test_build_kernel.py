# SPDX-License-Identifier: GPL-2.0-or-later
"""Building for real, on the warm cache: what is kept, what is refused, what is left behind."""

import difflib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_helpers import heed_interrupts
from nvmptcp_lab import build, series, source
from nvmptcp_lab.build import Kernel
from nvmptcp_lab.errors import LabError, UsageError

LAB = Path(sys.executable).with_name("nvmptcp-lab")


@pytest.fixture
def changed_series(tmp_path: Path, kernel: Kernel) -> Path:
    """The series and one patch more, that no cache knows: of a file that isn't compiled."""
    assert kernel
    directory = tmp_path / "series"
    shutil.copytree(series.SERIES, directory)
    (directory / "9999-test.patch").write_text(
        "Subject: test\n---\n--- /dev/null\n+++ b/nvmptcp-test\n@@ -0,0 +1 @@\n"
        f"+{tmp_path} {time.time_ns()}\n"
    )
    return directory


def lab(*args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(LAB), *args], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **environment},
    )


def in_namespace(prefix: str, *args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the lab where `prefix` may mount what it likes, as an ordinary user."""
    probe = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no user namespaces on this machine")
    script = f"set -e\n{prefix}\nexec {shlex.join([str(LAB), *args])}"
    return subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, timeout=300,
        check=False, env={**os.environ, **environment},
    )


def one_line(done: "subprocess.CompletedProcess[str]") -> str:
    """The error, which must be all of what went wrong, on one line."""
    assert done.returncode == 1, done.stderr
    errors = [li for li in done.stderr.splitlines() if "error" in li or "Traceback" in li]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("nvmptcp-lab: error: "), done.stderr
    return errors[0]


def test_cached_kernel_is_found_at_once(kernel: Kernel) -> None:
    before = kernel.image.stat()
    lines: list[str] = []
    again = build.ensure_kernel(say=lines.append)
    assert (again, lines) == (kernel, [])
    assert kernel.image.stat().st_mtime_ns == before.st_mtime_ns
    assert {m.name for m in kernel.modules.iterdir()} >= {"nvme-tcp.ko", "nvmet-tcp.ko"}


def test_source_of_the_kernel_is_the_patched_one(kernel: Kernel) -> None:
    tree = build.source_tree(say=lambda _: None)
    assert kernel.source == tree
    pristine = source.cached(source.cache_dir(), source.load_pin())
    assert pristine
    touched = {name for patch in series.load(series.SERIES) for name in patch.files()}
    assert touched
    for name in touched:
        there = (pristine.tree / name).is_file()
        assert not there or (tree / name).read_bytes() != (pristine.tree / name).read_bytes(), name
    assert (tree / "MAINTAINERS").samefile(pristine.tree / "MAINTAINERS") or (
        "MAINTAINERS" in touched
    )


def compiled_objects() -> dict[str, int]:
    """When each object file of the default profile's build trees was written."""
    return {str(path): path.stat().st_mtime_ns
            for path in (source.cache_dir() / "work").glob("*/obj-default/**/*.o")}


def test_changed_series_reuses_objects_and_builds_wait_for_one_another(
    changed_series: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from pathlib import Path; from nvmptcp_lab import build; "
        "print(build.ensure_kernel(series_dir=Path(sys.argv[1])).image)"
    )
    command = [sys.executable, "-c", code, str(changed_series)]
    # The build tree may hold another series: bring it to one that differs in a single file.
    other = shutil.copytree(changed_series, tmp_path / "other")
    first = subprocess.run([*command[:-1], str(other)], capture_output=True, text=True, check=True)
    (changed_series / "9999-test.patch").write_text(
        (changed_series / "9999-test.patch").read_text().replace("+/", "+once more /"))
    before = compiled_objects()
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    (image, words), (image2, words2) = (process.communicate(timeout=300) for process in both)
    assert image == image2
    assert Path(image.strip()).is_file(), words
    told = sorted((words, words2), key=len)
    assert "another build is running" in told[0]
    assert "built in" in told[1]
    assert "built in" not in told[0]
    after = compiled_objects()
    renewed = [name for name, stamp in after.items() if before.get(name) != stamp]
    assert len(after) > 1000
    assert len(renewed) < 0.1 * len(after), renewed
    for built in (image, first.stdout):
        shutil.rmtree(Path(built.strip()).parent)


def test_killed_build_does_not_count_and_leaves_no_process(changed_series: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from nvmptcp_lab import build; "
        "build.ensure_kernel(series_dir=Path(sys.argv[1]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(changed_series)], stderr=subprocess.PIPE, text=True,
        preexec_fn=heed_interrupts,
    )
    assert process.stderr
    for line in process.stderr:
        if line.startswith("source "):
            break
    time.sleep(1.5)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert process.returncode != 0
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert build.cached_kernel(series_dir=changed_series) is None
    assert not list(source.cache_dir().glob("tmp-*"))


def test_unknown_profile_names_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"profile fast: .*there are: debug, default"):
        build.ensure_kernel("fast")


def test_symbol_that_the_source_does_not_have_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: Kernel
) -> None:
    assert kernel
    config = tmp_path / "config"
    shutil.copytree(series.CONFIG, config)
    with (config / "default.config").open("a") as fragment:
        fragment.write("CONFIG_NVME_OVER_PIGEON=y\n")
    monkeypatch.setattr(series, "CONFIG", config)
    with pytest.raises(LabError, match=r"doesn't give CONFIG_NVME_OVER_PIGEON=y \(is n\)"):
        build.ensure_kernel(say=lambda _: None)


def test_code_that_does_not_compile_is_quoted(changed_series: Path) -> None:
    found = source.cached(source.cache_dir(), source.load_pin())
    assert found
    name = "lib/bust_spinlocks.c"  # small, always compiled, and no matter of the series
    old = (found.tree / name).read_text().splitlines(keepends=True)
    new = [*old, "int x = nonsense;\n"]
    diff = "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))
    (changed_series / "9999-test.patch").write_text(f"Subject: test\n---\n{diff}")
    with pytest.raises(LabError) as caught:
        build.ensure_kernel(series_dir=changed_series, say=lambda _: None)
    assert f"make all failed: {name}:{len(new)}:9: error: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert build.cached_kernel(series_dir=changed_series) is None


def test_read_only_cache(tmp_path: Path) -> None:
    done = in_namespace(
        f"mount -t tmpfs -o ro none {tmp_path}", "build", XDG_CACHE_HOME=str(tmp_path)
    )
    assert "Read-only file system" in one_line(done)
    assert "set XDG_CACHE_HOME" in done.stderr


def test_small_disk_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    done = in_namespace(
        f"mount -t tmpfs -o size=8m none {tmp_path}",
        "build", XDG_CACHE_HOME=str(tmp_path),
    )
    assert "disk full" in one_line(done)


def test_disk_that_fills_up_while_compiling(changed_series: Path, tmp_path: Path) -> None:
    """The disk of the object files has room for 100 files, not for a kernel."""
    found = source.cached(source.cache_dir(), source.load_pin())
    assert found
    objects = source.cache_dir() / "work" / found.ident / "obj-default"
    code = (
        "import sys; from pathlib import Path; from nvmptcp_lab import build, errors\n"
        "try: build.ensure_kernel(series_dir=Path(sys.argv[1]))\n"
        "except errors.LabError as error: print(error)\n"
        "print(sorted(p.name for p in Path(sys.argv[2]).iterdir()))"
    )
    probe = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no user namespaces on this machine")
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c",
         f"mount -t tmpfs -o size=3g,nr_inodes=100 none {objects} && exec "
         + shlex.join([sys.executable, "-c", code, str(changed_series), str(objects)])],
        capture_output=True, text=True, timeout=200, check=False,
    )
    assert done.stdout.splitlines() == [
        f"disk full: {source.cache_dir()}: make room or set XDG_CACHE_HOME", "[]"
    ], done.stderr
    assert build.cached_kernel(series_dir=changed_series) is None


def test_kernel_src_that_is_nonsense(tmp_path: Path) -> None:
    done = lab("build", KERNEL_SRC=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == (
        f"nvmptcp-lab: error: KERNEL_SRC={tmp_path}: no Linux source tree (Makefile is missing)\n"
    )


def test_missing_compiler_is_named(tmp_path: Path) -> None:
    done = lab("build", PATH=str(tmp_path))
    assert "gcc" in one_line(done)


def test_bisect_names_the_patch_that_fails(tmp_path: Path) -> None:
    for number, old in ((1, "not what stands there"), (2, "nor this")):
        (tmp_path / f"000{number}-bad.patch").write_text(
            f"Subject: bad\n---\n--- a/README\n+++ b/README\n@@ -1 +1 @@\n-{old}\n+x\n"
        )
    done = lab("bisect", "--series", str(tmp_path), "--quiet")
    assert done.returncode == 1, done.stderr
    assert "0001-bad.patch  FAILS    FAILS       -       -" in done.stdout
    assert "README, hunk 1 at line 1" in done.stdout
    assert done.stdout.endswith("0 of 2 patches pass\n")


def test_disk_that_fills_up_while_the_source_is_copied(tmp_path: Path, kernel: Kernel) -> None:
    """The source is there; the disk has inodes for a few files only."""
    assert kernel
    found = source.cached(source.cache_dir(), source.load_pin())
    assert found
    tree = tmp_path / "nvmptcp" / "source" / found.ident
    done = in_namespace(
        f"mount -t tmpfs -o size=3g,nr_inodes=500 none {tmp_path}; mkdir -p {tree};"
        f"mount --bind {found.tree} {tree}", "build", XDG_CACHE_HOME=str(tmp_path),
    )
    assert "disk full" in one_line(done)
