# SPDX-License-Identifier: GPL-2.0-or-later
"""The Technical Proposal as DOCX, from the page of single_page.py.

Pandoc converts; before, what only a browser needs is taken out of the page, and after, Word gets
what HTML doesn't have: numbered heading styles, page headers and footers, line numbers, caption
fields.
"""

import copy
import re
import tempfile
from pathlib import Path
from typing import Any

import pypandoc
from docx import Document
from docx.enum.section import WD_ORIENT
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Mm, Pt, RGBColor
from lxml import etree, html
from PIL import Image

TEXT_FONT, HEADING_FONT, CODE_FONT = "Times New Roman", "Arial", "Courier New"
DETAILS = "Requirement Details"
LEVELS = 5
DIAGRAM_DPI = 192  # PlantUML's diagrams are made for 96: sharp in print
DIAGRAM_SCALE = 0.75  # as in the PDF
TEXT_WIDTH_IN = 6.3
# Decoration of the theme, and what a screen does: none of it means anything in Word.
DROPPED = ("//script", "//style", "//a[contains(@class,'headerlink')]",
           "//*[contains(@class,'section-number')]", "//button",
           "//*[contains(@class,'toctree-wrapper')]/p[contains(@class,'caption')]")


def _article(page: Path) -> Any:
    tree = html.parse(str(page), html.HTMLParser(encoding="utf-8"))
    found = tree.xpath("//article[@id='furo-main-content'] | //*[@role='main']")
    if not found:
        raise OSError(f"{page}: no article found in it")
    return found[0]


def prepare(page: Path) -> tuple[str, Any]:
    """The page's title, and its article, fit for Pandoc."""
    article = _article(page)
    for path in DROPPED:
        for node in article.xpath("." + path):
            node.drop_tree()
    for image in article.iter("img"):
        path = (page.parents[1] / image.get("src")).resolve()
        with Image.open(path) as picture:
            inches = min(picture.width / DIAGRAM_DPI * DIAGRAM_SCALE, TEXT_WIDTH_IN)
        image.set("src", str(path))
        image.set("width", f"{inches:.2f}in")  # Pandoc reads no style
    # The line below a requirement.
    for node in article.xpath(".//span[contains(@class,'reqmeta')]"):
        node.set("data-custom-style", DETAILS)
    # A paragraph of its own around an image hides the figure's caption from Pandoc.
    for paragraph in article.xpath(".//figure/p[contains(@class,'plantuml')]"):
        paragraph.drop_tag()
    for caption in article.xpath(".//figcaption//p"):
        caption.drop_tag()
    # The title page has the title; clauses become level 1, as in the PDF.
    title = ""
    for heading in article.xpath(".//h1"):
        if not title:
            title = heading.text_content().strip()
            heading.drop_tree()
    for level in range(2, 7):
        for heading in article.xpath(f".//h{level}"):
            heading.tag = f"h{level - 1}"
    _mend_links(article)
    return title, article


def _mend_links(article: Any) -> None:
    """Point links at the identifiers that Pandoc keeps, those of headings and blocks."""
    names = {node.get("id") for node in article.iter() if node.get("id")}
    for link in article.xpath(".//a[@href]"):
        target = re.sub(r"^#document-.*#", "#", link.get("href"))
        link.set("href", target)
        if target.startswith("#") and target[1:] not in names:
            link.drop_tag()  # to a page of the site that isn't a part of the proposal
        elif not re.match(r"#|https?:|mailto:", target):
            link.drop_tag()


def _field(paragraph: Any, instruction: str, shown: str, size: Pt | None = None) -> None:
    for kind, text in (("begin", None), (None, instruction), ("separate", None), ("", shown),
                       ("end", None)):
        run = paragraph.add_run()
        if size:
            run.font.size = size
        if kind is None:
            element = OxmlElement("w:instrText")
            element.set(qn("xml:space"), "preserve")
            element.text = f" {text} "
        elif kind == "":
            run.text = text
            continue
        else:
            element = OxmlElement("w:fldChar")
            element.set(qn("w:fldCharType"), kind)
        run._r.append(element)


def _number_headings(document: Any) -> None:
    """Tie a multilevel list to the heading styles: clause numbers that Word keeps itself."""
    numbering = document.part.numbering_part.element
    levels = "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="decimal"/>'
        f'<w:pStyle w:val="Heading{level + 1}"/><w:suff w:val="tab"/>'
        f'<w:lvlText w:val="{".".join(f"%{n + 1}" for n in range(level + 1))}"/>'
        f'<w:lvlJc w:val="left"/><w:pPr><w:ind w:left="{432 + 144 * level}"'
        f' w:hanging="{432 + 144 * level}"/></w:pPr></w:lvl>' for level in range(LEVELS))
    abstract = parse_xml(f'<w:abstractNum {nsdecls("w")} w:abstractNumId="9000">'
                         f'<w:multiLevelType w:val="multilevel"/>{levels}</w:abstractNum>')
    first_num = numbering.find(qn("w:num"))
    if first_num is None:
        numbering.append(abstract)
    else:
        first_num.addprevious(abstract)
    numbering.append(parse_xml(f'<w:num {nsdecls("w")} w:numId="9000">'
                               '<w:abstractNumId w:val="9000"/></w:num>'))
    for level in range(LEVELS):
        properties = document.styles[f"Heading {level + 1}"].element.get_or_add_pPr()
        properties.append(parse_xml(f'<w:numPr {nsdecls("w")}><w:ilvl w:val="{level}"/>'
                                    '<w:numId w:val="9000"/></w:numPr>'))


def _fonts(document: Any) -> None:
    black = RGBColor(0, 0, 0)
    for style in document.styles:
        if style.type not in (1, 2) or not hasattr(style, "font"):
            continue
        heading = style.name.startswith(("Heading", "Title", "Subtitle", "TOC Heading"))
        code = style.name in ("Source Code", "Verbatim Char")
        name = HEADING_FONT if heading else CODE_FONT if code else TEXT_FONT
        if style.name in ("Normal", "Body Text", "First Paragraph", "Compact") or heading or code:
            style.font.name = name
            fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
            for theme in ("asciiTheme", "hAnsiTheme", "eastAsiaTheme", "cstheme"):
                fonts.attrib.pop(qn(f"w:{theme}"), None)
            fonts.set(qn("w:cs"), name)
        if heading:
            style.font.color.rgb = black
            style.font.bold = True
    for name, size in (("Heading 1", 14), ("Heading 2", 12), ("Heading 3", 11), ("Heading 4", 10),
                       ("Heading 5", 10), ("Title", 24), ("Verbatim Char", 9)):
        document.styles[name].font.size = Pt(size)
    for name in ("Normal", "Body Text", "Compact", "First Paragraph"):
        document.styles[name].font.size = Pt(10)
    if DETAILS in document.styles:
        document.styles[DETAILS].font.size = Pt(8)
    for name in ("Title", "Subtitle", "TOC Heading"):
        properties = document.styles[name].element.get_or_add_pPr()
        properties.append(OxmlElement("w:suppressLineNumbers"))
    contents = document.styles["TOC Heading"]
    contents.paragraph_format.page_break_before = True
    # It is based on a heading's style, but isn't a clause.
    contents.element.get_or_add_pPr().append(parse_xml(
        f'<w:numPr {nsdecls("w")}><w:numId w:val="0"/></w:numPr>'))
    for name, space in (("Title", Mm(60)), ("Subtitle", Mm(6))):
        document.styles[name].paragraph_format.space_before = space
        document.styles[name].paragraph_format.alignment = WD_ALIGN_PARAGRAPH.LEFT
    document.styles["Subtitle"].font.size = Pt(12)
    for name in ("Table Caption", "Image Caption"):
        style = document.styles[name]
        style.font.name, style.font.size, style.font.bold = HEADING_FONT, Pt(9), True
        style.font.italic = False
        style.paragraph_format.space_before = Pt(10 if name == "Table Caption" else 2)
        style.paragraph_format.keep_with_next = name == "Table Caption"
        style.paragraph_format.alignment = WD_ALIGN_PARAGRAPH.CENTER
    figure = document.styles["Captioned Figure"].paragraph_format
    figure.alignment, figure.keep_with_next = WD_ALIGN_PARAGRAPH.CENTER, True


def _tidy(document: Any) -> None:
    """Drop the empty paragraphs that HTML's anchors became; what they mark stays."""
    for paragraph in list(document.element.body.iterchildren(qn("w:p"))):
        marks = [child for child in paragraph if child.tag in (qn("w:bookmarkStart"),
                                                               qn("w:bookmarkEnd"))]
        properties = paragraph.find(qn("w:pPr"))
        others = len(paragraph) - len(marks) - (properties is not None)
        section = properties is not None and properties.find(qn("w:sectPr")) is not None
        if not others and not section:
            for mark in marks:
                paragraph.addprevious(mark)
            paragraph.getparent().remove(paragraph)


def _drop_dead_links(document: Any) -> None:
    """Keep the text of links whose target Pandoc dropped, such as those back from a citation."""
    body = document.element.body
    names = {mark.get(qn("w:name")) for mark in body.iter(qn("w:bookmarkStart"))}
    for link in list(body.iter(qn("w:hyperlink"))):
        name = link.get(qn("w:anchor"))
        if name is not None and name not in names:
            for child in list(link):
                link.addprevious(child)
            link.getparent().remove(link)


def _borders(document: Any) -> None:
    """Lines around the cells of each table, the first row repeated on each page."""
    for table in document.tables:
        properties = table._tbl.tblPr
        lines = "".join(f'<w:{side} w:val="single" w:sz="4" w:space="0" w:color="808080"/>'
                        for side in ("top", "left", "bottom", "right", "insideH", "insideV"))
        for old in properties.findall(qn("w:tblBorders")):
            properties.remove(old)
        properties.append(parse_xml(f'<w:tblBorders {nsdecls("w")}>{lines}</w:tblBorders>'))
        for row in table.rows:
            rule = row._tr.get_or_add_trPr()
            if rule.find(qn("w:cantSplit")) is None:
                rule.append(OxmlElement("w:cantSplit"))
            if rule.find(qn("w:tblHeader")) is not None:
                for run in row._tr.iter(qn("w:r")):
                    run.get_or_add_rPr().append(OxmlElement("w:b"))
        for paragraph in table._tbl.iter(qn("w:p")):
            properties = paragraph.get_or_add_pPr()
            for old in properties.findall(qn("w:spacing")):
                properties.remove(old)
            properties.insert_element_before(
                parse_xml(f'<w:spacing {nsdecls("w")} w:before="30" w:after="30"/>'),
                "w:ind", "w:jc", "w:rPr")
            for run in paragraph.iter(qn("w:r")):
                size = run.get_or_add_rPr()
                if size.find(qn("w:sz")) is None:
                    size.append(parse_xml(f'<w:sz {nsdecls("w")} w:val="18"/>'))


def _captions(document: Any) -> None:
    """Turn the number of a caption into a field, so that Word can list and renumber."""
    for paragraph in document.paragraphs:
        if paragraph.style.name not in ("Table Caption", "Image Caption", "Caption"):
            continue
        match = re.match(r"(Figure|Table|Listing) (\d+)\s*", paragraph.text)
        if not match:
            continue
        rest = paragraph.text[match.end():]
        for run in list(paragraph.runs):
            run._r.getparent().remove(run._r)
        paragraph.add_run(f"{match[1]} ")
        _field(paragraph, f"SEQ {match[1]} \\* ARABIC", match[2])
        paragraph.add_run(f": {rest}")


def _pages(document: Any, title: str, release: str) -> None:
    """A4, header and footer with title, revision and page numbers, line numbers by the page."""
    for section in document.sections:
        section.orientation = WD_ORIENT.PORTRAIT
        section.page_width, section.page_height = Mm(210), Mm(297)
        section.left_margin = section.right_margin = Mm(25)
        section.top_margin, section.bottom_margin = Mm(28), Mm(25)
        section.different_first_page_header_footer = True
        width = section.page_width - section.left_margin - section.right_margin
        small = Pt(8)
        for part, left, right in ((section.header, title, release),
                                  (section.footer, "Technical Proposal, draft for discussion",
                                   None)):
            paragraph = part.paragraphs[0]
            paragraph.text = ""
            paragraph._p.get_or_add_pPr().append(OxmlElement("w:suppressLineNumbers"))
            paragraph.paragraph_format.tab_stops.add_tab_stop(width, alignment=2)  # right
            run = paragraph.add_run(f"{left}\t{right or 'Page '}")
            run.font.size = small
            if right is None:
                _field(paragraph, "PAGE", "1", small)
                paragraph.add_run(" of ").font.size = small
                _field(paragraph, "NUMPAGES", "1", small)
            edge = "bottom" if right else "top"
            paragraph._p.get_or_add_pPr().append(parse_xml(
                f'<w:pBdr {nsdecls("w")}><w:{edge} w:val="single" w:sz="4" w:space="1"'
                ' w:color="808080"/></w:pBdr>'))
        section._sectPr.append(parse_xml(
            f'<w:lnNumType {nsdecls("w")} w:countBy="1" w:restart="newPage"/>'))


# The children of Word's property elements, in the order of the schema (ECMA-376 part 1, 17).
ORDER = {
    "sectPr": "headerReference footerReference footnotePr endnotePr type pgSz pgMar paperSrc"
              " pgBorders lnNumType pgNumType cols formProt vAlign noEndnote titlePg textDirection"
              " bidi rtlGutter docGrid",
    "pPr": "pStyle keepNext keepLines pageBreakBefore framePr widowControl numPr"
           " suppressLineNumbers pBdr shd tabs suppressAutoHyphens kinsoku wordWrap overflowPunct"
           " topLinePunct autoSpaceDE autoSpaceDN bidi adjustRightInd snapToGrid spacing ind"
           " contextualSpacing mirrorIndents suppressOverlap jc textDirection textAlignment"
           " textboxTightWrap outlineLvl divId cnfStyle rPr sectPr pPrChange",
    "rPr": "rStyle rFonts b bCs i iCs caps smallCaps strike dstrike outline shadow emboss imprint"
           " noProof snapToGrid vanish webHidden color spacing w kern position sz szCs highlight u"
           " effect bdr shd fitText vertAlign rtl cs em lang eastAsianLayout specVanish oMath",
    "tblPr": "tblStyle tblpPr tblOverlap bidiVisual tblStyleRowBandSize tblStyleColBandSize tblW"
             " jc tblCellSpacing tblInd tblBorders shd tblLayout tblCellMar tblLook tblCaption"
             " tblDescription",
}
_REPEATABLE = ("headerReference", "footerReference")


def _sort_properties(root: Any) -> None:
    """Word refuses documents with properties in another order, or twice; the last one counts."""
    for name, order in ORDER.items():
        names = order.split()
        for properties in root.iter(qn(f"w:{name}")):
            kept: dict[Any, Any] = {}
            for child in list(properties):
                tag = etree.QName(child).localname
                kept[(tag, len(kept)) if tag in _REPEATABLE else tag] = child
                properties.remove(child)
            for child in sorted(kept.values(),
                                key=lambda child: names.index(etree.QName(child).localname)):
                properties.append(child)


def _contents(document: Any) -> None:
    """Fill the table of contents with links, for readers that don't update fields."""
    body = document.element.body
    block = body.find(qn("w:sdt"))
    if block is None:
        return
    content = block.find(qn("w:sdtContent"))
    paragraphs = content.findall(qn("w:p"))
    holder = paragraphs[-1]
    entries = []
    numbers = [0] * LEVELS
    for paragraph in document.paragraphs:
        match = re.fullmatch(r"Heading ([1-5])", paragraph.style.name)
        if not match:
            continue
        level = int(match[1])
        numbers[level - 1] += 1
        numbers[level:] = [0] * (LEVELS - level)
        if level > 2:
            continue
        mark = paragraph._p.getprevious()
        while mark is not None and mark.tag != qn("w:bookmarkStart"):
            mark = mark.getprevious() if mark.tag == qn("w:bookmarkEnd") else None
        inner = paragraph._p.find(qn("w:bookmarkStart"))
        mark = inner if inner is not None else mark
        number = ".".join(map(str, numbers[:level]))
        entries.append((level, number, paragraph.text,
                        mark.get(qn("w:name")) if mark is not None else None))
    runs = list(holder)
    end = next(run for run in reversed(runs) if run.find(qn("w:fldChar")) is not None)
    # The placeholder between the field's "separate" and its "end".
    separated = False
    for run in runs:
        mark = run.find(qn("w:fldChar"))
        if run is end:
            break
        if separated:
            holder.remove(run)
        elif mark is not None and mark.get(qn("w:fldCharType")) == "separate":
            separated = True
    previous = holder
    for level, number, text, name in entries:
        line = parse_xml(f'<w:p {nsdecls("w")}><w:pPr><w:suppressLineNumbers/><w:spacing'
                         f' w:before="{60 if level == 1 else 0}" w:after="20"/><w:ind'
                         f' w:left="{(level - 1) * 400}"/></w:pPr></w:p>')
        run = parse_xml(f'<w:r {nsdecls("w")}><w:t xml:space="preserve"/></w:r>')
        run.find(qn("w:t")).text = f"{number}  {text}"
        if name:
            link = parse_xml(f'<w:hyperlink {nsdecls("w")}/>')
            link.set(qn("w:anchor"), name)
            link.append(run)
            line.append(link)
        else:
            line.append(run)
        previous.addnext(line)
        previous = line
    holder.get_or_add_pPr().append(OxmlElement("w:suppressLineNumbers"))
    closing = parse_xml(f'<w:p {nsdecls("w")}><w:pPr><w:suppressLineNumbers/></w:pPr></w:p>')
    holder.remove(end)
    closing.append(copy.deepcopy(end))
    previous.addnext(closing)
    # The text begins on a page of its own.
    closing.append(parse_xml(f'<w:r {nsdecls("w")}><w:br w:type="page"/></w:r>'))


def convert(page: Path, target: Path, release: str) -> None:
    """Write `target` from the HTML `page`. Raises OSError and RuntimeError (Pandoc)."""
    title, article = prepare(page)
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "page.html"
        source.write_bytes(html.tostring(article, encoding="utf-8"))
        pypandoc.convert_file(
            str(source), "docx", format="html", outputfile=str(target),
            extra_args=["--toc", "--toc-depth=2", f"--metadata=title:{title}",
                        f"--metadata=subtitle:Technical Proposal, number to be assigned. {release}",
                        "--metadata=lang:en-GB"])
    document = Document(str(target))
    _fonts(document)
    _number_headings(document)
    _tidy(document)
    _drop_dead_links(document)
    _borders(document)
    _captions(document)
    _contents(document)
    _pages(document, title, release)
    for root in (document.element, document.styles.element,
                 *(part._element for section in document.sections
                   for part in (section.header, section.footer))):
        _sort_properties(root)
    document.save(str(target))
