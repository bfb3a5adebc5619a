# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab selftest`: the kernel's own tests pass, and a bad one is seen."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_helpers import Lab, leftover_processes, one_line_error
from nvmptcp_lab import build, selftest
from nvmptcp_lab.errors import LabError
from nvmptcp_lab.selftest import (
    SCRIPTS,
    Bench,
    Case,
    Job,
    Outcome,
    compare,
    parse_tap,
    rerun,
    verdict,
)


def script(directory: Path, body: str, name: str = "made_up") -> Path:
    path = directory / f"{name}.sh"
    path.write_text(f"#!/bin/sh\necho TAP version 13\n{body}\n")
    path.chmod(0o755)
    return path


def run(lab: Lab, *arguments: object) -> dict[str, Any]:
    """The outcomes by script of a run that is to end well."""
    done = lab("selftest", "--json", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return {found["script"]: found for found in json.loads(done.stdout)["outcomes"]}


def test_series_and_mptcp_tests_pass(lab: Lab) -> None:
    outcomes = run(lab, "nvme", "pm_netlink", "mptcp_sockopt")
    for name, least in (("nvme", 23), ("pm_netlink", 20), ("mptcp_sockopt", 10)):
        found = outcomes[name]
        assert found["problem"] == "", name
        assert len(found["cases"]) >= least, name
        assert {case["status"] for case in found["cases"]} == {"passed"}, name


def test_two_paths_carry_their_sum(lab: Lab) -> None:
    """The script's limit is 1% above what is usual, unpatched too: a miss gets a second try."""
    try:
        found = run(lab, "simult_flows")
    except AssertionError:
        found = run(lab, "simult_flows", "--seed", 2)
    cases = found["simult_flows"]["cases"]
    assert len(cases) >= 8
    assert {case["status"] for case in cases} == {"passed"}


def test_failure_and_skip_are_shown_by_name(lab: Lab, tmp_path: Path) -> None:
    script(tmp_path, "echo 1..3; echo ok 1 good; echo not ok 2 broken wire;"
           " echo 'ok 3 no such tool # SKIP'; exit 1")
    done = lab("selftest", "./made_up.sh", "--output", "logs")
    assert done.returncode == 1
    assert "made_up (patched): failed: broken wire" in done.stdout
    assert "made_up (patched): skipped: no such tool" in done.stdout
    counts = next(li for li in done.stdout.splitlines() if li.startswith("made_up  "))
    assert counts.split()[1:6] == ["patched", "3", "1", "1", "1"]
    assert "broken wire" in (tmp_path / "logs" / "made_up-patched.log").read_text()


@pytest.mark.parametrize(("body", "words"), [
    ("echo 1..2; echo ok 1 first", "1 cases of 2 planned"),
    ("echo ok 1 first", "no plan"),
    ("echo 1..1; echo ok 1 first; exit 3", "exit code 3, though no case failed"),
    ("echo 1..1; echo ok 1 first; echo 'WARNING: made up' >/dev/kmsg", "the guest kernel complain"),
    ("echo 1..1; sleep 1; echo ok 1 late; while :; do :; done", "no end after 5 s"),
    ("echo 1..1; echo 'Bail out! no room'", "Bail out! no room"),
])
def test_script_that_ends_badly(lab: Lab, tmp_path: Path, body: str, words: str) -> None:
    script(tmp_path, body)
    done = lab("selftest", "./made_up.sh", "--timeout", 5 if "no end" in words else 120)
    assert done.returncode == 1
    assert words in done.stdout
    assert leftover_processes(tmp_path) == []


def test_compare_tells_a_regression(lab: Lab, tmp_path: Path) -> None:
    """A script that passes only where the series' own function is missing."""
    script(tmp_path, "echo 1..2; echo ok 1 same;"
           " grep -q mptcp_sock_set_nodelay /proc/kallsyms && printf 'not '; echo ok 2 differs")
    done = lab("selftest", "--compare", "./made_up.sh", "--reruns", 1)
    assert done.returncode == 1
    assert ("made_up: differs: unpatched passed, patched failed; rerun: 1 and 0 of 1 passed:"
            " REGRESSION") in done.stdout
    assert "same:" not in done.stdout
    assert done.stdout.splitlines()[-1] == ("1 of 2 cases end alike on both kernels, 1 listed"
                                            " above: regressions: 1")


def test_compare_needs_results(lab: Lab, tmp_path: Path) -> None:
    """Two kernels on which a script does nothing are not alike."""
    script(tmp_path, "exit 0")
    done = lab("selftest", "--compare", "./made_up.sh")
    assert done.returncode == 1
    assert "made_up: no results on the unpatched kernel" in one_line_error(done)


def test_link_carries_the_first_packet(lab: Lab, tmp_path: Path) -> None:
    """The script doesn't keep the kernel's link watch from its turn, though it never sleeps."""
    script(tmp_path, r"""
        echo 1..5
        for n in $(seq 5); do
            ip netns add a; ip netns add b
            ip link add va netns a type veth peer name vb netns b
            ip -n a addr add 10.0.0.1/24 dev va; ip -n a link set va up
            ip -n b addr add 10.0.0.2/24 dev vb; ip -n b link set vb up
            ms=$(nsenter --net=/run/netns/b ping -q -c 1 -W 5 10.0.0.1 |
                 sed -n 's,^rtt.*= \([0-9]*\).*,\1,p')
            [ "$ms" -lt 500 ] || printf 'not '
            echo "ok $n answer after $ms ms"
            ip netns del a; ip netns del b
        done
    """)
    done = lab("selftest", "./made_up.sh")
    assert done.returncode == 0, done.stdout


def outcome_of(kernel: str, *cases: str, problem: str = "") -> Outcome:
    """What one rerun said: "case=status"."""
    return Outcome("join", kernel, [Case(*case.split("=")) for case in cases], problem, 1, True)


def test_compare_case_by_case() -> None:
    old = outcome_of("unpatched", "a=passed", "b=failed", "c=failed", "d=passed", "e=passed")
    new = outcome_of("patched", "a=passed", "b=failed", "c=passed", "d=skipped")
    found = {(item.case, item.regression) for item in compare([old, new])}
    assert found == {("b", False), ("c", False), ("d", True), ("e", True)}
    panic = outcome_of("patched", *(f"{case.name}={case.status}" for case in old.cases),
                       problem="the guest kernel died")
    assert {(item.case, item.regression) for item in compare([old, panic])} == {
        ("b", False), ("c", False), ("as a whole", True)}
    assert compare([panic]) == []  # nothing to compare it with


@pytest.mark.parametrize(("reruns", "unpatched", "patched", "is_worse"), [
    (1, 1, 0, True),  # all that is known says so
    (1, 0, 0, False),
    (4, 4, 0, True),
    (4, 4, 1, False),
    (8, 8, 8, False),
    (8, 8, 5, False),  # p = 0.10
    (8, 8, 4, True),  # p = 0.04
    (8, 4, 0, True),
    (8, 1, 0, False),
    (8, 3, 8, False),
    (8, 0, 0, False),
])
def test_how_many_passes_fewer_are_a_regression(
    reruns: int, unpatched: int, patched: int, is_worse: bool
) -> None:
    assert selftest.worse(reruns, unpatched, patched) is is_worse


def test_what_is_run_again_and_what_that_says() -> None:
    old = outcome_of("unpatched", "flaky=passed", "broken=passed", "gone=passed", "both=failed",
                     "better=failed", "skip=passed")
    new = outcome_of("patched", "flaky=failed", "broken=failed", "both=failed", "better=passed",
                     "skip=skipped")
    bench = Bench("unpatched", None, Path()), Bench("patched", None, Path())  # type: ignore[arg-type]
    jobs = [Job(one, replace(SCRIPTS["mptcp_join"], name="join"), seed=1) for one in bench]
    asked: list[Job] = []

    def run(again: Sequence[Job], problem: str = "") -> list[Outcome]:
        asked.extend(again)
        return [outcome_of(job.bench.label, "flaky=passed", "both=failed",
                           f"broken={'failed' if job.bench.label == 'patched' else 'passed'}",
                           problem=problem if job.bench.label == "patched" else "")
                for job in again]

    found = {item.case: item for item in rerun(compare([old, new]), jobs, 3, run)}
    assert {job.cases for job in asked} == {("flaky", "broken", "gone", "both")}
    assert [(job.bench.label, job.seed) for job in asked] == [
        (label, seed) for seed in (2, 3, 4) for label in ("unpatched", "patched")]
    # A case that a rerun doesn't come to stays what it was.
    assert {case for case, item in found.items() if item.regression} == {"broken", "gone", "skip"}
    assert (found["flaky"].unpatched_passes, found["flaky"].patched_passes) == (3, 3)
    assert verdict([old, new], list(found.values())) == (
        "0 of 6 cases end alike on both kernels, 6 listed above: regressions: 3")

    # A complaint of the kernel in a rerun counts, whatever the cases say.
    again = rerun(compare([old, new]), jobs, 3, lambda todo: run(todo, "a WARNING"))
    assert [item.patched for item in again if item.case == "reruns as a whole"] == ["a WARNING"]
    assert again[-1].regression


def test_verdict_when_all_is_well() -> None:
    both = [outcome_of(kernel, "a=passed", "b=skipped") for kernel in ("unpatched", "patched")]
    assert verdict(both, compare(both)) == (
        "2 of 2 cases end alike on both kernels: patched is as unpatched")


def test_tap_of_both_dialects() -> None:
    cases, problem = parse_tap(
        "ok 9 before the header\nTAP version 13\n1..6\n"
        "ok 1 - join: first: one # time=12ms\n"
        "ok 2 - join: second # SKIP time=3ms\n"
        "ok 3 - join: third # IGNORE Flaky time=3ms\n"
        "not ok 4 - join: fourth # time=3ms\n"
        "ok 5 fifth \nok 6 # SKIP needs a tool\n# Totals: pass:2\n", "join")
    assert problem == ""
    assert cases == [
        Case("first: one", "passed"), Case("second", "skipped"), Case("third", "ignored", "Flaky"),
        Case("fourth", "failed"), Case("fifth", "passed"),
        Case("needs a tool", "skipped", "needs a tool"),
    ]
    assert parse_tap("TAP version 13\n1..0 # SKIP needs root\n", "x") == (
        [Case("all of it", "skipped", "needs root")], "")
    twice = parse_tap("KTAP version 1\n1..2\nok 1 x\nnot ok 2 x\n", "x")[0]
    assert twice == [Case("x", "passed"), Case("x (2)", "failed")]


def test_list_names_everything(lab: Lab) -> None:
    done = lab("selftest", "--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(selftest.SCRIPTS)


@pytest.mark.parametrize(("arguments", "words"), [
    (["nothing"], "nothing: no such selftest"),
    (["./nothing.sh"], "./nothing.sh: not an executable file"),
    (["nvme", "--unpatched"], "nvme: only the series has it"),
    (["diag", "diag"], "named twice"),
    (["diag", "--jobs", "0"], "--jobs 0: must be above 0"),
    (["diag", "--compare", "--unpatched"], "not allowed with"),
])
def test_bad_options(lab: Lab, arguments: list[str], words: str) -> None:
    done = lab("selftest", *arguments)
    assert done.returncode == 2
    assert words in one_line_error(done)


def test_missing_tool_is_named_by_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "packages.txt"
    listed.write_text("netcow  netcow-9  optional: the kernel's selftests\nfio  fio-9  perf\n")
    monkeypatch.setattr(build, "PACKAGES", listed)
    with pytest.raises(LabError, match=r"are missing: netcow: `make setup`"):
        selftest.check_tools()
