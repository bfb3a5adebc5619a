# SPDX-License-Identifier: GPL-2.0-or-later
"""The `req` directive and the keyword gate: what is wrong is named with file and line."""

from pathlib import Path

import pytest
from nvmptcp_spec.problem import Problem
from nvmptcp_spec.reader import Requirement, Spec, read
from spec_helpers import Checkout, checkout, req

# name → the requirement, the line within it that is named, what is said
BAD = {
    "no-id": (req("", text="A host shall a.").replace("   :id: \n", ""), 0, "no ID"),
    "odd-id": (req("TCPV-TSAS-1"), 1, "TCPV-TSAS-1: not an ID of the form"),
    "odd-area": (req("TCPV-XXXX-001"), 1, "TCPV-XXXX-001: not an ID of the form"),
    "no-level": (req("TCPV-TSAS-010", level=None), 0, "no :level: (shall, should, may)"),
    "odd-level": (req("TCPV-TSAS-011", level="must"), 3, "level 'must' is none of shall"),
    "no-actor": (req("TCPV-TSAS-012", actor=None), 0, "no :actor:"),
    "odd-actor": (req("TCPV-TSAS-013", actor="switch"), 4, "actor 'switch' is none of"),
    "no-verify": (req("TCPV-TSAS-014", verify=None), 0, "no :verify:"),
    "odd-verify": (req("TCPV-TSAS-015", verify="hope"), 6, "verify 'hope' is none of"),
    "no-version": (req("TCPV-TSAS-016", version=None), 0, "version '' is no number"),
    "odd-version": (req("TCPV-TSAS-017", version="0"), 2, "version '0' is no number"),
    "no-clause": (req("TCPV-TSAS-018", rests_on=None), 0, "no :rests_on:"),
    "no-reason": (req("TCPV-TSAS-019", verify="untestable"), 0, "not testable, but no :untested:"),
    "no-text": (req("TCPV-TSAS-020", text=""), 0, "no text"),
    "no-keyword": (req("TCPV-TSAS-021", text="A host does it."), 0, "0 normative keywords"),
    "two-keywords": (req("TCPV-TSAS-022", text="A host shall a, and should b."), 0,
                     "2 normative keywords (shall, should)"),
    "forbidden-word": (req("TCPV-TSAS-023", text="A host shall do what it must."), 0,
                         "2 normative keywords (shall, must)"),
    "other-keyword": (req("TCPV-TSAS-024", level="should"), 3,
                      "level is should, the text says shall"),
    "unknown-option": (req("TCPV-TSAS-025", colour="red"), 0, 'unknown option: "colour"'),
    "second-use": (req("TCPV-TSAS-001"), 1,
                   "TCPV-TSAS-001: the ID is used twice, first in spec/one.rst:4"),
}

GOOD = {
    "negative": req("TCPV-PATH-001", text="A host shall not do it."),
    "literal": req("TCPV-PATH-002", level="may", text="A host may send ``must``."),
    "lists": req("TCPV-PATH-003", text="A host shall, in this order:\n\n   - a\n   - b"),
    "reason": req("TCPV-PATH-004", verify="untestable", untested="No way to see it."),
    "empty-reason": req("TCPV-PATH-005", untested=""),
}

KEYWORDS = {
    "paragraph": ("A host does.\nIt must do it.\n", 5, "must"),
    "item": ("- One.\n- Two\n  that shall be.\n", 6, "shall"),
    "cell": (".. list-table::\n\n   * - a\n     - It should.\n", 7, "should"),
    "capital": ("May it do so?\n", 4, "may"),
    "title": ("What a host shall do\n--------------------\n\nText.\n", 4, "shall"),
}
FREE = ("``shall`` and :literal:`must` are literals.\n\n::\n\n   it should\n\n"
        ".. may be a comment\n\nPublished in May 2021. Mayor, shallow, mustard.\n")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """All examples in one build, each a chapter of its own."""
    made: Checkout = checkout(tmp_path_factory.mktemp("requirements"))
    for name, (text, _, _) in BAD.items():
        made.chapter(text, f"z-{name}")
    for name, text in GOOD.items():
        made.chapter(text, f"good-{name}")
    for name, (text, _, _) in KEYWORDS.items():
        made.chapter(text, f"keyword-{name}")
    made.chapter(FREE, "keyword-free")
    return read(made.root)


def problems_of(spec: Spec, chapter: str) -> list[Problem]:
    return [p for p in spec.problems if p.path == f"spec/{chapter}.rst"]


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_requirement_is_named_with_its_line(case: str, spec: Spec) -> None:
    _, line, what = BAD[case]
    (found,) = problems_of(spec, f"z-{case}")
    assert what in found.what
    assert found.line == 4 + line
    assert found.gate == ("sphinx" if case == "unknown-option" else "requirement")


@pytest.mark.parametrize("case", GOOD)
def test_a_good_requirement_is_none_of_them(case: str, spec: Spec) -> None:
    assert problems_of(spec, f"good-{case}") == []
    assert sum(r.page == f"spec/good-{case}.rst" for r in spec.requirements.values()) == 1


@pytest.mark.parametrize("case", KEYWORDS)
def test_a_keyword_outside_of_a_requirement_is_found(case: str, spec: Spec) -> None:
    _, line, word = KEYWORDS[case]
    (found,) = problems_of(spec, f"keyword-{case}")
    assert (found.gate, found.line) == ("keyword", line)
    assert found.what.startswith(f"'{word}' outside of a requirement")


def test_literals_comments_and_months_are_free(spec: Spec) -> None:
    assert problems_of(spec, "keyword-free") == []


def test_what_is_read(spec: Spec) -> None:
    assert spec.requirements["TCPV-TSAS-001"] == Requirement(
        "TCPV-TSAS-001", "A title", 1, "shall", "host", "RFC 8684 §3.1", "wire", "",
        "A host shall do it.", "spec/one.rst", 4)
    assert spec.requirements["TCPV-PATH-003"].statement == "A host shall, in this order: a b"
    # a malformed one isn't there
    assert "TCPV-TSAS-010" not in spec.requirements


def test_without_configuration_it_is_one_line(tmp_path: Path) -> None:
    from nvmptcp_spec.errors import SpecError

    with pytest.raises(SpecError, match=r"conf\.py: .*conf\.py"):
        read(tmp_path)
