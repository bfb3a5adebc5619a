# SPDX-License-Identifier: GPL-2.0-or-later
"""The Technical Proposal as PDF and DOCX: numbered, complete, with line numbers and live links."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from docx import Document
from docx.oxml.ns import qn
from lxml import etree, html
from nvmptcp_docs import docx

TITLE = "Multipath TCP variant of the NVMe TCP transport"


@pytest.fixture(scope="session")
def single_page(built: Path) -> Any:
    """The HTML that the DOCX is made of, the measure of what has to be in both."""
    return html.parse(str(built / "singlehtml" / "spec" / "index.html"),
                      html.HTMLParser(encoding="utf-8")).getroot()


@pytest.fixture(scope="session")
def pages(built: Path) -> list[str]:
    """The text of the PDF, page by page, laid out as printed."""
    text = subprocess.run(["pdftotext", "-layout", built / "tp" / "nvmptcp-tp.pdf", "-"],
                          capture_output=True, text=True, check=True).stdout
    return text.split("\f")[:-1]


@pytest.fixture(scope="session")
def document(built: Path) -> Any:
    return Document(str(built / "tp" / "nvmptcp-tp.docx"))


def _captions(single_page: Any, kind: str) -> list[str]:
    """Captions with their numbers, as the site shows them."""
    found = single_page.xpath("//figcaption | //table/caption")
    texts = [re.sub(r"\s+", " ", node.text_content()).replace("¶", "").strip() for node in found]
    return [text for text in texts if text.startswith(f"{kind} ")]


def _headings(single_page: Any) -> list[str]:
    """Clause number and title of the two upper levels."""
    found = single_page.xpath("//article//h2 | //article//h3")
    return [re.sub(r"\s+", " ", node.text_content()).replace("¶", "").strip() for node in found]


def test_pdf_front(pages: list[str]) -> None:
    assert TITLE in re.sub(r"\s+", " ", pages[0])
    assert "Revision" in pages[0]
    assert "Contents" in pages[1]


def test_pdf_headers_and_footers(pages: list[str]) -> None:
    for number, page in enumerate(pages[1:], 2):
        assert TITLE in page.strip().splitlines()[0], f"page {number}"
        assert f"Page {number} of {len(pages)}" in page.strip().splitlines()[-1]


def test_pdf_references_resolve(pages: list[str]) -> None:
    assert "??" not in "".join(pages)


def test_pdf_lines_are_numbered(pages: list[str]) -> None:
    """Each page of text counts from 1, without a gap."""
    numbered = 0
    for page in pages[1:]:
        numbers = [int(n) for n in re.findall(r"^ {0,6}(\d{1,2})(?= {2,}\S| *$)", page, re.M)]
        numbered += bool(numbers) and numbers[0] == 1 and len(numbers) > 5
    assert numbered > len(pages) / 2


@pytest.mark.parametrize("kind", ["Figure", "Table"])
def test_captions_count_up_and_are_the_same_everywhere(
        single_page: Any, pages: list[str], document: Any, kind: str) -> None:
    captions = _captions(single_page, kind)
    numbers = [int(caption.split()[1]) for caption in captions]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 5
    printed = re.findall(rf"^.*?{kind} (\d+): ", "".join(pages), re.M)
    assert sorted(set(map(int, printed))) == numbers
    word = [paragraph.text for paragraph in document.paragraphs
            if paragraph.style.name in ("Table Caption", "Image Caption")]
    assert [int(text.split()[1].rstrip(":")) for text in word if text.startswith(kind)] == numbers


def test_pdf_has_every_clause(single_page: Any, pages: list[str]) -> None:
    contents = re.sub(r"\s+", " ", " ".join(pages[1:6]))
    for heading in _headings(single_page):
        number = heading.split()[0]
        assert re.match(r"\d+(\.\d+)*\.$", number)
        assert f" {number.rstrip('.')} {heading.split()[1]}" in contents, heading


def test_docx_headings_are_numbered_by_word(single_page: Any, document: Any) -> None:
    expected = [heading.split(" ", 1)[1] for heading in _headings(single_page)]
    found = [re.sub(r"\s+", " ", p.text).strip() for p in document.paragraphs
             if p.style.name in ("Heading 1", "Heading 2")]
    assert found == expected
    for level in (1, 2, 3):
        numbering = document.styles[f"Heading {level}"].element.pPr.find(qn("w:numPr"))
        assert numbering.find(qn("w:numId")).get(qn("w:val")) == "9000"


def test_docx_lines_are_numbered(document: Any) -> None:
    for section in document.sections:
        numbers = section._sectPr.find(qn("w:lnNumType"))
        assert numbers.get(qn("w:countBy")) == "1"
        assert numbers.get(qn("w:restart")) == "newPage"


def test_docx_header_and_footer(document: Any) -> None:
    section = document.sections[0]
    assert TITLE in section.header.paragraphs[0].text
    fields = [node.text.strip() for node in
              section.footer.paragraphs[0]._p.iter(qn("w:instrText"))]
    assert fields == ["PAGE", "NUMPAGES"]


def test_docx_links_lead_somewhere(single_page: Any, document: Any) -> None:
    body = document.element.body
    marks = {mark.get(qn("w:name")) for mark in body.iter(qn("w:bookmarkStart"))}
    anchors = [link.get(qn("w:anchor")) for link in body.iter(qn("w:hyperlink"))
               if link.get(qn("w:anchor"))]
    assert set(anchors) <= marks
    in_page = single_page.xpath("//article//a[contains(@class,'reference') and "
                                "contains(@class,'internal') and starts-with(@href,'#')]")
    assert len(anchors) > 0.9 * len(in_page) > 20  # the rest: the contents, back references


def test_docx_properties_stand_in_the_order_of_the_schema(document: Any) -> None:
    """Word calls a document with another order damaged."""
    for root in (document.element, document.styles.element):
        for name, order in docx.ORDER.items():
            for properties in root.iter(qn(f"w:{name}")):
                places = [order.split().index(etree.QName(child).localname)
                          for child in properties]
                assert places == sorted(places)
                assert name == "sectPr" or len(set(places)) == len(places)


def test_docx_tables_have_borders(single_page: Any, document: Any) -> None:
    assert len(document.tables) == len(single_page.xpath("//article//table"))
    for table in document.tables:
        assert table._tbl.tblPr.find(qn("w:tblBorders")) is not None


def test_docx_diagrams_have_the_size_of_their_text(document: Any) -> None:
    diagrams = document.inline_shapes
    assert len(diagrams) > 10
    for diagram in diagrams:
        (blip,) = diagram._inline.iter(qn("a:blip"))
        pixels = document.part.related_parts[blip.get(qn("r:embed"))].image.px_width
        assert diagram.width.inches <= pixels / docx.DIAGRAM_DPI
        assert diagram.height.inches < 9  # with its caption on one page


def test_references_show_the_clause_number(single_page: Any, pages: list[str]) -> None:
    """On paper a title alone leads nowhere."""
    headings = {re.sub(r"\s+", " ", node.text_content()).replace("¶", "").strip()
                for level in range(2, 7) for node in single_page.xpath(f"//article//h{level}")}
    shown = {node.text_content() for node in single_page.xpath(
        "//article//a[contains(@class,'internal')]/span[contains(@class,'std-ref')]")}
    numbered = [text for text in shown if " §" in text]
    assert len(numbered) > 5
    for text in numbered:
        title, number = text.rsplit(" §", 1)
        assert f"{number}. {title}" in headings
    assert "§" in "".join(pages)
