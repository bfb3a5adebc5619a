# SPDX-License-Identifier: GPL-2.0-or-later
"""The forms of a report: nothing is lost, and what a device says is text and nothing else."""

import io
import json
import os
import re
import termios
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import junitparser
import pytest
from command import error, run
from nvmptcp_conformance import requirements, store
from nvmptcp_conformance.report import html, junit, terminal
from nvmptcp_conformance.report.document import UNTESTED, Document, Selection
from nvmptcp_conformance.suite.case import Outcome
from report_samples import IDS, NASTY, REASONS, document

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements, their text by ID, and links; fails where tags don't match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.tags: set[str] = set()
        self.text: dict[str | None, str] = {}
        self.links: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.links += [given["href"] or ""] if "href" in given else []
        self.references += [value or "" for name, value in attrs if name in ("src", "srcset")]
        if tag not in VOID:
            self.open.append((tag, given.get("id")))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, ident in self.open:
            if ident:
                self.text[ident] = self.text.get(ident, "") + data


def test_json_keeps_everything() -> None:
    for missing in (0, 3):
        before = document(missing=missing)
        assert Document.from_json(json.loads(json.dumps(before.as_json()))) == before


def test_verdict_of_a_requirement_is_the_worst() -> None:
    """Fails if a pass hides a failure of the same requirement, or "not applicable" a pass."""
    def verdict(*outcomes: Outcome) -> str:
        results = [replace(result, case=replace(result.case, requirements=("TCPV-TSAS-001",)))
                   for result in document().results if result.verdict in outcomes]
        changed = replace(document(), cases=[result.case for result in results],
                          by_key={result.case.key: result for result in results})
        return next(v.verdict for v in changed.verdicts() if v.ident == "TCPV-TSAS-001")

    assert verdict(Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE) == "fail"
    assert verdict(Outcome.PASS, Outcome.INCONCLUSIVE) == "inconclusive"
    assert verdict(Outcome.PASS, Outcome.CONCEPTUAL) == "conceptual pass"
    assert verdict(Outcome.PASS, Outcome.NOT_APPLICABLE) == "pass"
    assert verdict(Outcome.NOT_APPLICABLE) == "not applicable"


def test_each_requirement_of_the_side_has_a_verdict() -> None:
    verdicts = {verdict.ident: verdict for verdict in document().verdicts()}
    for ident, requirement in requirements.load().items():
        assert (ident in verdicts) == (requirement.actor != "host"), ident
    for outcome, ident in IDS.items():
        assert verdicts[ident].verdict == outcome
    rest = [verdict for ident, verdict in verdicts.items() if ident not in IDS.values()]
    assert all(verdict.verdict == UNTESTED and verdict.reason for verdict in rest)


@pytest.mark.parametrize(("selection", "ident", "why"), [
    (Selection(), "TCPV-COMP-001", "no result"),  # in the run, which was interrupted
    (Selection(), "TCPV-SEC-008", "destructive tests were left out"),
    (Selection(destructive=True), "TCPV-SEC-008", "no test"),
    (Selection(section=5), "TCPV-SEC-008", "not in this run"),
    (Selection(section=5), "TCPV-PATH-003", "not in this run")])
def test_why_a_requirement_is_not_tested(selection: Selection, ident: str, why: str) -> None:
    """Fails if the report gives a wrong reason for a requirement without a result."""
    found = {verdict.ident: verdict.reason
             for verdict in replace(document(missing=1), selection=selection).verdicts()}
    assert found[ident] == why



def test_html_is_whole_and_needs_nothing_else() -> None:
    text = html.render(document())
    page = Page(text)
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert page.references == []
    assert not re.search(r"url\(|@import|https?:", text)
    for link in page.links:
        assert link.removeprefix("#") in page.text or unquote(link) == "captures/a b#1.pcapng", link
    assert "captures/a%20b%231.pcapng" in page.links
    for result in document().results:
        shown = page.text[result.case.key]
        for words in (result.verdict, result.case.title, result.case.sent, result.case.expected,
                      requirements.load()[result.case.requirements[0]].statement):
            assert words in shown
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_html_of_an_interrupted_run_says_so() -> None:
    assert "3 of 8 tests have no result" in html.render(document(missing=3))
    assert "interrupted" not in html.render(document())


def test_junit_is_what_a_parser_expects() -> None:
    """Fails if a form that junitparser doesn't read, or a sum that doesn't fit, comes out."""
    xml = junitparser.JUnitXml.fromstring(junit.render(document(NASTY)).encode())
    cases = {case.name: case for suite in xml for case in suite}
    assert set(cases) == {outcome.replace(" ", "_") for outcome in REASONS}
    kinds = {name: [type(result).__name__ for result in case.result]
             for name, case in cases.items()}
    assert kinds == {"pass": [], "conceptual_pass": [], "fail": ["Failure"],
                     "not_applicable": ["Skipped"], "inconclusive": ["Error"]}
    assert cases["conceptual_pass"].system_out.startswith("Verdict: conceptual pass\nTCPV-FALL-004")
    assert "Observed: reset instead of MP_FAIL" in cases["conceptual_pass"].system_out
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (5, 1, 1, 1)
    for suite in xml:
        assert suite.tests == len(list(suite))
    assert cases["fail"].classname == "target.tsas"
    assert cases["fail"].time == 0.25
    assert "Packets: captures/a b#1.pcapng" in str(cases["fail"].result[0].text)


def test_a_device_can_not_write_into_the_reports() -> None:
    """Fails if text of a device becomes mark-up, or reaches the terminal as it is."""
    sample = document(NASTY)
    page = html.render(sample)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    junitparser.JUnitXml.fromstring(junit.render(sample).encode())
    out = io.StringIO()
    terminal.tree(sample, out)
    assert all(letter.isprintable() or letter == "\n" for letter in out.getvalue())
    assert "\\x1b[2J\\x07\\x00" in out.getvalue()


def test_terminal_tree() -> None:
    out = io.StringIO()
    terminal.tree(document(), out)
    lines = out.getvalue().splitlines()
    assert lines[:4] == ["ACME <Array> 4.2", "192.0.2.1:4420  nqn.2014-08.org.example:disk",
                         "TCPV 1h", "5 Transport Specific Address Subtype"]
    at = next(n for n, line in enumerate(lines) if line.startswith("  fail "))
    assert [line.split(":")[0].strip() for line in lines[at + 1:at + 5]] == [
        "requirement", "expected", "observed", "packets"]
    assert lines[-1] == "1 pass, 1 conceptual pass, 1 fail, 1 not applicable, 1 inconclusive"


def shown(raw_mode: bool, **environment: str) -> str:
    """What a run of two results prints on a terminal."""
    outer, inner = os.openpty()
    if raw_mode:
        attributes = termios.tcgetattr(inner)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(inner, termios.TCSANOW, attributes)
    with pytest.MonkeyPatch.context() as patch, os.fdopen(inner, "w") as stream:
        patch.setenv("TERM", "xterm")
        patch.delenv("NO_COLOR", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        printer = terminal.Terminal(2, "auto", stream)
        for result in document().results[:2]:
            printer.begin(result.case)
            printer.result(result)
        print("END", file=stream, flush=True)
        text = ""
        while not text.endswith(("END\r\n", "END\n")):
            text += os.read(outer, 65536).decode()
    os.close(outer)
    return text


def test_colours_and_progress_on_a_terminal() -> None:
    """Fails if a person gets no colours, or a file or a person who doesn't want them gets some."""
    text = shown(False)
    assert "\x1b[32mpass" in text
    assert "[2/2] conceptual_pass" in text
    without = shown(False, NO_COLOR="1")
    assert "[2/2] conceptual_pass" in without
    assert "\x1b[3" not in without
    for plain in (shown(False, TERM="dumb"), shown(True)):
        assert "\x1b" not in plain


def test_verb_report(tmp_path: Path) -> None:
    """Fails if a form can't be made again of the results that were kept."""
    sample = document()
    file = tmp_path / "results.json"
    store.write(file, json.dumps(sample.as_json()))
    tree = io.StringIO()
    terminal.tree(sample, tree)
    assert run("report", tmp_path).stdout == tree.getvalue()
    assert run("report", file, "--format", "junit").stdout == junit.render(sample)
    assert json.loads(run("report", file, "--format", "json").stdout) == sample.as_json()
    done = run("report", tmp_path, "--format", "html", "-o", tmp_path / "again.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "again.html").read_text() == html.render(sample)
    assert error("report", tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"
    assert error("report", tmp_path, "-o", tmp_path / "no" / "file").startswith(
        f"{tmp_path / 'no' / 'file'}: ")
