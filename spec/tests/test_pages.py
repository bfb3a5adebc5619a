# SPDX-License-Identifier: GPL-2.0-or-later
"""What the directives put on the pages, in HTML and in LaTeX."""

import io
import json
import re
from pathlib import Path

import pytest
from nvmptcp_spec import registry, verdicts
from spec_helpers import Checkout, checkout, req
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

TEST = "tests/test_it.py::test_it"
PAGE = f"""\
See TCPV-TSAS-001, :need:`TCPV-TSAS-001`, ``TCPV-TSAS-001`` and TCPV-TSAS-099.

{req(title="Reserved values")}
.. registry-table:: tsas

.. registry-table:: mpattr

.. registry-table:: mpattr
   :keywords:

.. registry-table:: nonsense

See :numref:`registry-tsas`.

.. requirement-list::

.. traceability-matrix::
"""


def build(made: Checkout, builder: str) -> str:
    """Build the pages; returns the warnings."""
    out, warnings = made.root / "build" / builder, io.StringIO()
    with docutils_namespace():
        app = Sphinx(made.root, made.root, out, made.root / "build" / "doctrees", builder,
                     status=None, warning=warnings)
        app.build()
    return re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    made = checkout(tmp_path_factory.mktemp("pages"))
    made.chapter(PAGE)
    (made.root / verdicts.FILE).write_text(json.dumps({
        "kernel": {"source": "linux-7.3", "series": "abc"},
        "requirements": {"TCPV-TSAS-001": {"outcome": "passed", "tests": {TEST: "passed"}}}}))
    return made


@pytest.fixture(scope="module")
def warnings(made: Checkout) -> str:
    return build(made, "html")


@pytest.fixture(scope="module")
def html(made: Checkout, warnings: str) -> str:
    return (made.root / "build/html/spec/one.html").read_text()


def text(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


def test_a_requirement_is_a_clause(html: str) -> None:
    (clause,) = re.findall(r'<div class="requirement.*?</div>', html, re.DOTALL)
    assert 'id="TCPV-TSAS-001"' in clause
    assert text(clause) == (
        "TCPV-TSAS-001 Reserved values. A host shall do it. shall · host · verification: wire test"
        " · rests on RFC 8684 §3.1 · version 1")


def test_ids_become_links(html: str, warnings: str) -> None:
    paragraph = html[html.index("See "):html.index("</p>")]
    assert paragraph.count('href="#TCPV-TSAS-001"') == 2
    assert "<span class=\"pre\">TCPV-TSAS-001</span></code>" in paragraph
    assert "one.rst:4: WARNING: TCPV-TSAS-099: no such requirement" in warnings


def test_tables_are_those_of_the_registry(html: str, warnings: str) -> None:
    page = text(html)
    for field in registry.load().structures["tsas"].fields:
        if field.long_name:
            assert f"{field.name} {field.long_name}." in page
    assert "See Table 1 ." in page
    assert "Table 2 Bits of MPATTR" in page
    assert "mpreq 2 MPREQ Multipath TCP Required." in page
    assert "has no 'nonsense' (it has dim, discovery-entry," in warnings


def test_list_and_matrix(html: str) -> None:
    page = text(html)
    assert "TCPV-TSAS-001 Reserved values shall host wire" in page
    assert "TCPV-TSAS-001 shall wire test_it in tests/test_it.py: passed passed" in page
    assert "The verdicts are about linux-7.3 with series abc." in page
    assert html.count('href="#TCPV-TSAS-001"') == 4


def test_needs_json(made: Checkout, html: str) -> None:
    data = json.loads((made.root / "build/html/needs.json").read_text())
    (need,) = data["versions"][data["current_version"]]["needs"].values()
    assert (need["id"], need["level"], need["statement"]) == (
        "TCPV-TSAS-001", "shall", "A host shall do it.")


def test_a_change_elsewhere_renews_the_lists(made: Checkout, html: str) -> None:
    made.chapter(req("TCPV-TSAS-002", title="Another one"), "two")
    build(made, "html")
    (made.root / "spec/two.rst").unlink()
    assert "Another one shall host" in text((made.root / "build/html/spec/one.html").read_text())


def test_latex_is_plain_text_that_breaks(made: Checkout, html: str) -> None:
    build(made, "latex")
    (tex,) = [Path(p).read_text() for p in (made.root / "build/latex").glob("*.tex")]
    clause = tex[tex.index(r"\begin{sphinxuseclass}{requirement}"):]
    clause = clause[:clause.index(r"\end{sphinxuseclass}")]
    assert "tabular" not in clause
    assert r"\label{\detokenize{spec/one:TCPV-TSAS-001}}" in clause
    assert r"\DUrole{reqmeta}" in clause
    assert r"\newenvironment{sphinxclassrequirement}" in tex
    assert tex.count(r"\addtocounter{table}{-1}") == tex.count(r"\begin{longtable}") > 0
