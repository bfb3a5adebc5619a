# SPDX-License-Identifier: GPL-2.0-or-later
"""All gates of the specification. Each finding is a Problem; none can be switched off.

| gate | fails for |
|---|---|
| sphinx, requirement | a chapter or a requirement that is malformed; an ID used twice |
| keyword | shall, should, may or must outside of a requirement |
| registry | a malformed spec/registry.toml |
| generated | a committed file that the registry or the chapters would make differently |
| kernel | a kernel series that says something else than the registry |
| freshness | a lock file that isn't what the chapters say |
| governance | a change without version bump or entry in the change log |
| untested | a "shall" with neither a test nor a reason |
| tests | a test that names an unknown requirement |
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import generate, governance, kernel_series, registry
from .errors import SpecError, UsageError
from .problem import Problem
from .reader import ROOT, Requirement, read

TestMap = dict[str, dict[str, str]]  # requirement → test → file:line
REGISTRY = "spec/registry.toml"
NO_TESTS = 5  # pytest's exit code


def check(root: Path = ROOT, base: str | None = None) -> tuple[dict[str, Requirement],
                                                                list[Problem]]:
    """Run every gate: the requirements, and everything that is wrong."""
    spec = read(root)
    problems = list(spec.problems)
    problems += check_registry(root)
    if line := generate.first_difference(root / generate.REQUIREMENTS,
                                         generate.requirements(spec.requirements)):
        problems.append(Problem(generate.REQUIREMENTS, line, "generated", "isn't what the chapters"
                                " say: run `nvmptcp-spec generate`"))
    problems += _guarded(root, "freshness", governance.check_freshness(root, spec.requirements))
    problems += _guarded(root, "governance",
                         governance.check_governance(root, spec.requirements, base))
    try:
        tests = collect_tests(root)
        problems += check_tests(spec.requirements, tests)
    except SpecError as error:
        problems.append(_as_problem(root, "tests", error))
    return spec.requirements, sorted(set(problems))


def check_registry(root: Path) -> Iterator[Problem]:
    """Gates registry, generated and kernel."""
    try:
        data = registry.load(root / REGISTRY)
    except SpecError as error:
        yield _as_problem(root, "registry", error)
        return
    for path, line in generate.stale(root, data):
        yield Problem(path, line, "generated", "isn't what spec/registry.toml says: run"
                                               " `nvmptcp-spec generate`")
    yield from kernel_series.check(root, data)


def collect_tests(root: Path) -> TestMap:
    """Which tests name which requirements, asked of pytest. SpecError if it can't collect."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "map.json"
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
             "--requirement-map", str(out)],
            cwd=root, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "NO_COLOR": "1"},  # whatever CI says of colours
        )
        if run.returncode not in (0, NO_TESTS) or not out.is_file():
            said = (run.stdout + run.stderr).splitlines()
            errors = (line for form in ("E  ", "ERROR|.*error", ".") for line in said
                      if re.match(form, line))
            raise SpecError(f"pytest can't collect the tests: {' '.join(next(errors, '').split())}")
        found: TestMap = json.loads(out.read_text())
        return found


def check_tests(requirements: Mapping[str, Requirement], tests: TestMap) -> Iterator[Problem]:
    """Gates untested and tests."""
    for r in requirements.values():
        by = sorted(tests.get(r.id, {}))
        if r.level == "shall" and not by and not r.untested:
            yield Problem(r.page, r.line, "untested",
                          f"{r.id}: a shall without a test (mark one with"
                          f' @pytest.mark.requirement("{r.id}")) or a reason (:untested:)')
        elif by and r.untested:
            yield Problem(r.page, r.line, "untested",
                          f"{r.id}: says why there's no test, but {by[0]} is one")
    for ident, by_test in tests.items():
        if ident not in requirements:
            for test, place in by_test.items():
                path, _, line = place.rpartition(":")
                yield Problem(path, int(line), "tests",
                              f"{test} names an unknown requirement {ident}")


def _guarded(root: Path, gate: str, found: Iterator[Problem]) -> list[Problem]:
    """A gate's findings; a malformed file of its own is one of them."""
    try:
        return list(found)
    except UsageError:
        raise
    except SpecError as error:
        return [_as_problem(root, gate, error)]


def _as_problem(root: Path, gate: str, error: SpecError) -> Problem:
    """`file:line: what`, with the file seen from the root."""
    text = str(error).removeprefix(f"{root}/")
    match = re.match(r"(\S+?):(\d+): (.*)", text, re.DOTALL)
    if match:
        return Problem(match[1], int(match[2]), gate, match[3])
    return Problem("", 0, gate, text)
