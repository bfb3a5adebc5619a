# SPDX-License-Identifier: GPL-2.0-or-later
"""The plugin's reassembler by itself: streams cut and damaged at random, and fuzzed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEEDS = 20
FUZZ_RUNS = 20_000


def _run(*command: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return subprocess.run([*map(str, command)], cwd=cwd, env=environment, text=True,
                          capture_output=True, check=False)


def _build(folder: Path, target: str, *options: str) -> Path:
    for step in (["cmake", "-S", ROOT / "dissector", "-B", folder, *options],
                 ["cmake", "--build", folder, "--target", target]):
        done = _run(*step)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / target


def test_streams_cut_and_damaged_at_random() -> None:
    # Not in build/dissector, where other tests build the plugin at the same time.
    done = _run(_build(ROOT / "build" / "core", "test_core"), SEEDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{SEEDS} seeds, ")


@pytest.mark.timeout(300)
def test_fuzzing_finds_nothing(tmp_path: Path) -> None:
    fuzzer = _build(ROOT / "build" / "fuzz", "fuzz_connection",
                    "-DCMAKE_C_COMPILER=clang", "-DNM_FUZZ=ON")
    seeds = shutil.copytree(ROOT / "dissector" / "fuzz" / "seeds", tmp_path / "seeds")
    done = _run(fuzzer, f"-runs={FUZZ_RUNS}", "-seed=1", "-max_len=16384", "-timeout=30",
                "-rss_limit_mb=2048", f"-artifact_prefix={tmp_path}/", seeds, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
