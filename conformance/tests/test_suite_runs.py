# SPDX-License-Identifier: GPL-2.0-or-later
"""The command against the kernel's target: captures, interruptions, profiles, a full disk."""

import re
from typing import Any

import pytest
from in_guest import in_guest
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Side

REPORTS = {"results.json", "junit.xml", "report.html"}


@pytest.fixture(scope="module")
def runs() -> Any:
    """What runs_in_guest.py prints."""
    return in_guest("runs_in_guest")


def verdicts(run: Any) -> dict[str, str]:
    return {test: verdict for test, verdict, _ in run["results"]}


def failures(run: Any) -> set[str]:
    return {test for test, verdict in verdicts(run).items() if verdict == "fail"}


def test_results_come_in_the_order_of_the_suite(runs: Any) -> None:
    """Fails if a test has no result, or another place than `list` shows."""
    known = [case.name for case in plugin.cases(sides=[Side.TARGET])
             if case.chapter.number and not case.destructive]
    assert list(verdicts(runs["all"])) == known
    assert all(verdicts(runs["all"]).values())
    assert runs["all"]["finished"]
    assert set(runs["all"]["files"]) >= REPORTS


def test_captures(runs: Any) -> None:
    """Fails if packets are missing, belong to others, or lost their order or resolution."""
    captures = {test: capture for test, _, capture in runs["all"]["results"]}
    assert captures["data_fin_ends_the_association"] == (
        "captures/close-data_fin_ends_the_association.pcapng")
    assert set(filter(None, captures.values())) == {
        name for name in runs["all"]["files"] if name.startswith("captures/")}
    found = runs["capture"]
    assert found["ports"] == [4420]
    assert 30 in found["options"]  # MPTCP
    assert found["packets"] > 20
    assert found["ordered"]
    assert found["resolution"] == 10**9
    assert 2 < found["seconds"] < 3  # the wait of this test


def test_no_captures_where_none_are_wanted(runs: Any) -> None:
    """Fails if packets are kept against --captures none, or of tests that passed."""
    for run in (runs["none"], runs["profile"]):
        assert not any(name.startswith("captures/") for name in run["files"])


def test_without_the_capability_the_rest_is_run(runs: Any) -> None:
    """Fails if the lack of CAP_NET_RAW isn't told once, or stops what doesn't need it."""
    run = runs["without the capability"]
    assert run["code"] == 0
    assert run["out"].count("need CAP_NET_RAW") == 1
    assert "no captures, and tests with raw packets are inconclusive: raw packets" in run["out"]
    assert verdicts(run) == verdicts(runs["none"])
    assert set(run["files"]) == REPORTS


def test_interruption_keeps_the_results(runs: Any) -> None:
    first = runs["interrupted"]["first"]
    assert first["code"] == 130
    assert first["err"].splitlines() == [
        "nvmptcp-conformance: the results so far are kept in /run/results/interrupted; --resume"
        " goes on", "nvmptcp-conformance: interrupted"]
    done = [verdict for verdict in verdicts(first).values() if verdict]
    assert 5 <= len(done) < len(first["results"])
    assert verdicts(first).keys() < verdicts(runs["all"]).keys()
    assert first["finished"] == ""
    assert set(first["files"]) >= REPORTS


def test_an_interrupted_run_is_not_overwritten(runs: Any) -> None:
    first, again = runs["interrupted"]["first"], runs["interrupted"]["again"]
    assert again["code"] == 2
    assert again["err"] == ("nvmptcp-conformance: error: /run/results/interrupted: holds an"
                            " interrupted run: --resume goes on with it, --restart drops it\n")
    assert again["results"] == first["results"]
    other = runs["interrupted"]["other port"]
    assert other["code"] == 2
    assert "the earlier run was of something else: address 10.0.1.2:4420, now 10.0.1.2:4421" in (
        other["err"])
    assert other["err"].count("\n") == 1
    assert other["results"] == first["results"]


def test_resume_runs_what_is_missing(runs: Any) -> None:
    """Fails if a test is run twice, or left out, or has another verdict than in one run."""
    first, resumed = runs["interrupted"]["first"], runs["interrupted"]["resumed"]
    assert resumed["code"] == 0
    whole = verdicts(runs["all"])
    assert verdicts(resumed) == {test: whole[test] for test in verdicts(first)}
    assert resumed["finished"]
    missing = [test for test, verdict in verdicts(first).items() if not verdict]
    printed = re.findall(r"^  [a-z ]+?  +(\S.*?)  TCPV-", resumed["out"], re.MULTILINE)
    assert printed == missing
    assert "TCPV-" not in runs["interrupted"]["once more"]["out"]


def test_failed_runs_only_those_again(runs: Any) -> None:
    """Fails if --failed runs another test, or keeps what the earlier run said of one."""
    before, after = runs["failed"]["before"], runs["failed"]["after"]
    assert (before["code"], after["code"]) == (1, 0)
    failed = failures(before)
    assert "pdu_format_version" in failed
    assert failed < set(verdicts(before))
    assert "captures/compatibility-pdu_format_version.pcapng" in before["files"]
    assert not [file for file in after["files"] if file.startswith("captures/")]
    assert after["out"].count("TCPV-") == len(failed)
    assert verdicts(after) == verdicts(before) | dict.fromkeys(failed, "pass")


def test_a_full_disk_ends_the_run_and_loses_nothing(runs: Any) -> None:
    run = runs["disk full"]
    assert run["code"] == 2
    assert run["err"].endswith("No space left on device; the results so far are kept in"
                               " /run/results/full; --resume goes on\n")
    assert run["err"].count("\n") == 1
    done = {test: verdict for test, verdict in verdicts(run).items() if verdict}
    assert done
    assert done.items() <= verdicts(runs["all"]).items()
    assert not any(name.startswith(".") or "/." in name for name in run["files"])


def test_profile_and_options(runs: Any) -> None:
    """Fails if an option doesn't override the profile, or if hooks or product are left out."""
    run = runs["profile"]
    assert run["code"] == 0, run["err"]
    assert run["out"].splitlines()[:2] == [
        "ACME Array 1.0", "10.0.1.2:4420  nqn.2026-11.org.example:nvmptcp"]
    assert verdicts(run) == {f"claim[{name}]": "pass"
                             for name in ("adda", "maxsf", "hdgst", "in_capsule")}
    assert runs["hooks"]["set_up"] == "$ echo up\nup\n"
    assert runs["hooks"]["clean_up"].startswith("$ echo down; ls\ndown\n")


def test_claims_are_checked_against_the_wire(runs: Any) -> None:
    """Fails if a claim that the wire contradicts passes, or one that it doesn't fails."""
    claims = runs["claims"]
    assert claims["code"] == 1
    assert verdicts(claims) == {"claim[dcsr]": "pass", **{
        f"claim[{name}]": "fail" for name in ("mptcp", "adda", "maxsf", "ddgst")}}
    assert "observed:    MPATTR has ADDA cleared, but the profile says `adda = t" in claims["out"]
    assert failures(runs["gated"]) >= {"announced_addresses_accept_joins",
                                       "joins_lead_to_the_same_controller"}
    assert "MPATTR has ADDA cleared, but the profile claims `adda`" in runs["gated"]["out"]
