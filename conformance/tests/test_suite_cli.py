# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-conformance` without a target, and that the suite agrees with the proposal.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nvmptcp_conformance.suite.chapters import CHAPTERS

SPEC = Path(__file__).parents[2] / "spec"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "nvmptcp_conformance.cli", *arguments],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def error(*arguments: str) -> str:
    """The one line of a command that fails with exit code 2."""
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line.removeprefix("nvmptcp-conformance: error: ")


def test_list() -> None:
    cases = json.loads(run("list", "--json").stdout)
    known = json.loads((SPEC / "requirements.lock.json").read_text())
    assert len(cases) >= 20
    for case in cases:
        assert case["requirements"], case
        assert set(case["requirements"]) <= set(known), case
    assert [case["section"] for case in cases] == sorted(case["section"] for case in cases)


def test_list_of_a_requirement_and_of_a_section() -> None:
    text = run("list", "--requirement", "TCPV-CONN-013").stdout
    assert text == ("7 Connections\n  TCPV-CONN-013   pdus_are_cut_anywhere\n"
                    "  TCPV-CONN-013   icreq_byte_by_byte\n")
    only = json.loads(run("list", "--section", "6", "--json").stdout)
    assert {case["chapter"] for case in only} == {"Discovery"}


@pytest.mark.parametrize("option", [("--section", "99"), ("--requirement", "TCPV-NONE-001")])
def test_nothing_to_list(option: tuple[str, str]) -> None:
    assert error("list", *option).startswith(f"{option[0]} {option[1]}: no test; see")


def test_chapters_are_those_of_the_proposal() -> None:
    """Fails if a chapter moved or was renamed."""
    toctree = re.findall(r"^   ([\w-]+)$", (SPEC / "index.rst").read_text(), re.MULTILINE)
    for chapter in CHAPTERS.values():
        assert toctree.index(chapter.name) + 1 == chapter.number
        title = re.search(r"^(.+)\n===", (SPEC / f"{chapter.name}.rst").read_text(), re.MULTILINE)
        assert title is not None
        assert title[1] == chapter.title


def test_explain() -> None:
    text = run("explain", "TCPV-DISC-001").stdout
    assert text.startswith("TCPV-DISC-001  A discovery controller shall not report")
    assert re.search(r"^  sent:      Get Log Page", text, re.MULTILINE)
    assert re.search(r"^  expected:  no two TCP entries", text, re.MULTILINE)


def test_explain_what_has_no_test_or_does_not_exist() -> None:
    assert "No test of this command" in run("explain", "TCPV-TSAS-004").stdout
    assert error("explain", "TCPV-TSAS-999").startswith("TCPV-TSAS-999: no such requirement")


def test_json_can_not_be_written(tmp_path: Path) -> None:
    report = tmp_path / "none" / "report.json"
    assert error("target", "--traddr", "127.0.0.1", "--json", str(report)).startswith(f"{report}: ")
