# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-spec` as a user sees it; verdicts and the traceability matrix."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nvmptcp_spec import verdicts
from spec_helpers import Checkout, checkout, req

TEST = "tests/test_it.py::test_it"


@pytest.fixture
def made(tmp_path: Path) -> Checkout:
    made = checkout(tmp_path)
    made.chapter(req() + "\n" + req("TCPV-SEC-001", "A host may.", level="may", title="Free")
                 + "\n" + req("TCPV-SEC-002", verify="inspection", untested="Needs two people."))
    assert made.run("accept").returncode == 0
    return made


def note(made: Checkout, outcome: str, ident: str = "TCPV-TSAS-001") -> None:
    file = made.root / "run.json"
    file.write_text(json.dumps({"requirements": {
        ident: {"outcome": outcome, "tests": {TEST: outcome}}}}))
    done = made.run("verdicts", str(file))
    assert done.returncode == 0, done.stderr


def test_the_installed_command() -> None:
    command = Path(sys.executable).parent / "nvmptcp-spec"
    helped = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    assert helped.returncode == 0
    for verb in ("list", "show", "check", "accept", "generate", "trace", "verdicts"):
        assert f"\n    {verb} " in helped.stdout
    bad = subprocess.run([command, "nonsense"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2


def test_list(made: Checkout) -> None:
    assert [line.split()[0] for line in made.run("list").stdout.splitlines()] == [
        "TCPV-SEC-001", "TCPV-SEC-002", "TCPV-TSAS-001"]
    assert made.run("list", "--level", "may").stdout.startswith("TCPV-SEC-001  may ")
    (only,) = json.loads(made.run("list", "--area", "tsas", "--json").stdout)
    assert (only["id"], only["page"], only["line"]) == ("TCPV-TSAS-001", "spec/one.rst", 4)


def test_show(made: Checkout) -> None:
    note(made, "passed")
    text = made.run("show", "TCPV-TSAS-001").stdout
    assert "A host shall do it." in text
    assert f"test       {TEST} (tests/test_it.py:3): passed" in text
    unknown = made.run("show", "TCPV-TSAS-002")
    assert (unknown.returncode, unknown.stderr) == (
        2, "nvmptcp-spec: error: TCPV-TSAS-002: no such requirement: see `nvmptcp-spec list`\n")


def test_a_malformed_requirement_is_no_traceback(made: Checkout) -> None:
    made.chapter(req(level=None))
    done = made.run("list")
    assert done.returncode == 1
    assert done.stderr.startswith("nvmptcp-spec: error: spec/one.rst:4: TCPV-TSAS-001: no :level:")


def test_generate(made: Checkout) -> None:
    assert made.run("generate").stdout.count("written") == 3
    assert made.run("generate", "header").stdout == (
        "spec/include/nvme_tcp_variant.h: is up to date\n")
    assert "TCP Variant" in made.run("generate", "tables").stdout


def test_trace(made: Checkout) -> None:
    before = json.loads(made.run("trace", "--json").stdout)
    assert {r["id"]: r["verdict"] for r in before["requirements"]} == {
        "TCPV-SEC-001": "no test", "TCPV-SEC-002": "no test", "TCPV-TSAS-001": "not run"}
    note(made, "passed")
    summary = json.loads(made.run("trace", "--json").stdout)["summary"]
    assert summary == {"requirements": 3, "shall": 2, "should": 0, "may": 1, "with a test": 1,
                       "without a test, reason given": 1,
                       "without a test, no reason given": 1, "passed": 1,
                       "failed": 0, "skipped": 0, "not run": 0}
    # a second test that hasn't run yet takes the verdict back
    first = (made.root / "tests/test_it.py").read_text()
    made.tests(first.replace("test_it", "test_more"), "test_b")
    assert "not run: 1" in made.run("trace").stdout


def test_verdicts_are_of_one_kernel(made: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    note(made, "passed")
    text = (made.root / verdicts.FILE).read_text()
    note(made, "passed")
    assert (made.root / verdicts.FILE).read_text() == text  # no dates
    note(made, "failed", "TCPV-SEC-001")
    assert set(verdicts.read(made.root)) == {"TCPV-TSAS-001", "TCPV-SEC-001"}
    monkeypatch.setattr(verdicts, "_kernel_identity", lambda: {"source": "other", "series": "1"})
    note(made, "failed", "TCPV-SEC-001")
    assert set(verdicts.read(made.root)) == {"TCPV-SEC-001"}
    note(made, "passed", "TCPV-SEC-009")  # gone from the text
    assert "TCPV-SEC-009" not in verdicts.read(made.root)


@pytest.mark.parametrize(("text", "what"), [
    ("{", "run.json:1: not JSON"), ("{}", "no requirements with outcome"),
    ('{"requirements": {"TCPV-SEC-001": {"outcome": "fine", "tests": {}}}}', "outcome 'fine'"),
    (None, "No such file"),
])
def test_bad_verdicts(text: str | None, what: str, made: Checkout) -> None:
    file = made.root / "run.json"
    if text is not None:
        file.write_text(text)
    done = made.run("verdicts", str(file))
    assert done.returncode == 1
    assert what in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_checkout(tmp_path: Path) -> None:
    done = Checkout(tmp_path).run("list")
    assert done.returncode == 2
    assert "no checkout of the project (no conf.py)" in done.stderr
