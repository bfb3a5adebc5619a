# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx directive `req`, a requirement: one sentence with an ID, kept by sphinx-needs.

Each becomes a need of type `req` in needs.json and a clause on the page. What is wrong with one
is a warning (`make docs` and `nvmptcp-spec check` fail for it) with file and line. IDs in running
text become links.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from sphinx_needs.api import InvalidNeedException, generate_need
from sphinx_needs.data import SphinxNeedsData

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.util.typing import ExtensionMetadata

AREAS = ("TSAS", "DISC", "CONN", "FALL", "PATH", "LOSS", "TIME", "CLOS", "INTG", "TLS", "MPIO",
         "FAIR", "MGMT", "COMP", "SEC")
ID = re.compile(rf"TCPV-(?:{'|'.join(AREAS)})-\d{{3}}")
ID_LIKE = re.compile(r"\bTCPV-[A-Z]+-\d+\b")
LEVELS = ("shall", "should", "may")
ACTORS = ("host", "controller", "discovery controller", "both")
VERIFICATIONS = {"wire": "wire test", "kernel": "test of the reference kernel",
                 "inspection": "inspection", "untestable": "not testable"}
KEYWORD = re.compile(r"\b(shall|should|may|must)\b", re.IGNORECASE)
MONTH = re.compile(r"\bMay(?=\s+\d)")
FIELDS = ("version", "level", "actor", "rests_on", "verify", "untested", "statement")
WARNING_TYPE = "nvmptcp"  # the subtype names the gate
SPEC_PAGES = "spec/"
STATIC = Path(__file__).parent / "static"

log = logging.getLogger(__name__)


class Requirement(SphinxDirective):
    """`.. req:: Title` with its options and, as content, the sentence."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = dict.fromkeys(
        ("id", "version", "level", "actor", "rests_on", "verify", "untested"),
        directives.unchanged,
    )

    def run(self) -> Sequence[nodes.Node]:
        parsed = self.parse_content_to_nodes()
        statement = " ".join(" ".join(node.astext() for node in parsed).split())
        problems = list(self._problems(parsed, statement))
        for option, what in problems:
            self._warn(what, option)
        if problems:
            return []
        ident = self.options["id"]
        fields = {name: self.options.get(name, "") for name in FIELDS if name != "statement"}
        try:
            # Only the record: the node is ours, sphinx-needs' own is a card.
            need = generate_need(
                self.config_of_needs(), SphinxNeedsData(self.env).get_schema(), "req",
                " ".join(self.arguments[0].split()), id=ident, docname=self.env.docname,
                lineno=self.get_source_info()[1], content="\n".join(self.content),
                statement=statement, **fields,
            )
        except InvalidNeedException as error:
            self._warn(f"{ident}: {error.message}", "id")
            return []
        SphinxNeedsData(self.env).add_need(need)
        return [self._clause(ident, parsed)]

    def config_of_needs(self) -> Any:
        """sphinx-needs' view of the configuration."""
        from sphinx_needs.config import NeedsSphinxConfig

        return NeedsSphinxConfig(self.config)

    def _warn(self, what: str, option: str | None) -> None:
        """Point at the line of the option, or at the directive."""
        line = self.get_source_info()[1]
        for offset, text in enumerate(self.block_text.splitlines()):
            if option and text.strip().startswith(f":{option}:"):
                line += offset
        log.warning(what, type=WARNING_TYPE, subtype="requirement",
                    location=(self.env.docname, line))

    def _problems(self, parsed: list[nodes.Node],
                  statement: str) -> Iterator[tuple[str | None, str]]:
        """What is wrong: the option it's about, and one line."""
        ident = self.options.get("id", "").strip()
        name = ident or f"requirement {self.arguments[0]!r}"
        if not ident:
            yield None, f"{name}: no ID: say :id: TCPV-<AREA>-<nnn>"
        elif not ID.fullmatch(ident):
            yield "id", (f"{name}: not an ID of the form TCPV-<AREA>-<nnn>, AREA one of"
                         f" {', '.join(AREAS)}")
        elif known := SphinxNeedsData(self.env).get_needs_mutable().get(ident):
            place = f"{self.env.doc2path(known['docname'] or '', base=False)}:{known['lineno']}"
            yield "id", f"{name}: the ID is used twice, first in {place}"
        for option, values in (("level", LEVELS), ("actor", ACTORS),
                               ("verify", tuple(VERIFICATIONS))):
            value = self.options.get(option, "")
            if not value:
                yield None, f"{name}: no :{option}: ({', '.join(values)})"
            elif value not in values:
                yield option, f"{name}: {option} {value!r} is none of {', '.join(values)}"
        version = self.options.get("version", "")
        if not re.fullmatch(r"[1-9]\d*", version):
            yield "version" if version else None, f"{name}: version {version!r} is no number from 1"
        if not self.options.get("rests_on"):
            yield None, f"{name}: no :rests_on: (the clauses that it rests on)"
        if self.options.get("verify") == "untestable" and not self.options.get("untested"):
            yield None, f"{name}: not testable, but no :untested: with the reason"
        if not statement:
            yield None, f"{name}: no text"
            return
        found = [word.lower() for text in _prose(parsed) for word in KEYWORD.findall(text)]
        if len(found) != 1:
            yield None, (f"{name}: {len(found)} normative keywords"
                         f"{' (' + ', '.join(found) + ')' if found else ''}: exactly one is needed")
        elif self.options.get("level") in LEVELS and found[0] != self.options["level"]:
            yield "level", f"{name}: level is {self.options['level']}, the text says {found[0]}"

    def _clause(self, ident: str, parsed: list[nodes.Node]) -> nodes.Node:
        """ID, title and sentence in one paragraph, the rest in a small line below."""
        lead: list[nodes.Node] = [
            nodes.target("", "", ids=[ident]),
            nodes.strong("", ident, classes=["reqid"]), nodes.Text(" "),
            nodes.emphasis("", f"{' '.join(self.arguments[0].split())}.", classes=["reqtitle"]),
            nodes.Text(" "),
        ]
        first, *rest = parsed
        if not isinstance(first, nodes.paragraph):
            first, rest = nodes.paragraph(), parsed
        first[0:0] = lead
        parts = [self.options["level"], self.options["actor"],
                 f"verification: {VERIFICATIONS[self.options['verify']]}",
                 f"rests on {self.options['rests_on']}", f"version {self.options['version']}"]
        if self.options.get("untested"):
            parts.append(f"not tested: {self.options['untested']}")
        small = nodes.paragraph("", "", nodes.inline("", " \N{MIDDLE DOT} ".join(parts),
                                                     classes=["reqmeta"]))
        together = nodes.raw("", "\\nopagebreak\n", format="latex")
        clause = nodes.container("", first, *rest, together, small, classes=["requirement"])
        self.set_source_info(clause)
        return clause


def _prose(parts: Sequence[nodes.Node]) -> Iterator[str]:
    """Running text, without literals."""
    skip = (nodes.literal, nodes.FixedTextElement, nodes.raw, nodes.comment, nodes.math)
    for part in parts:
        if isinstance(part, nodes.Text):
            yield part.astext()
        elif not isinstance(part, skip):
            yield from _prose(part.children)


def _is_clause(node: nodes.Node | None) -> bool:
    return isinstance(node, nodes.container) and "requirement" in node["classes"]


def check_keywords(app: "Sphinx", doctree: nodes.document) -> None:
    """Gate: no normative keyword outside of a requirement on the pages of the proposal."""
    if not app.env.docname.startswith(SPEC_PAGES):
        return
    for block in doctree.findall(nodes.TextElement):
        if not isinstance(block.parent, nodes.TextElement) and not _in_clause(block):
            for keyword in KEYWORD.findall(MONTH.sub("", " ".join(_prose([block])))):
                log.warning(
                    "%r outside of a requirement: make it a requirement, or say it without",
                    keyword.lower(), type=WARNING_TYPE, subtype="keyword",
                    location=(app.env.docname, _line_of(block, keyword)),
                )


def _in_clause(node: nodes.Node | None) -> bool:
    while node is not None and not _is_clause(node):
        node = node.parent
    return node is not None


def _line_of(block: nodes.Element, keyword: str) -> int | None:
    """The line of a word, as far as docutils knows where its block begins."""
    node: nodes.Element | None = block
    while node is not None and node.line is None:
        node = node.parent
    if node is None or node.line is None:
        return None
    if isinstance(block, nodes.title):
        return node.line - 1  # docutils has the underline
    for offset, text in enumerate(block.rawsource.splitlines() if node is block else []):
        if re.search(rf"\b{keyword}\b", text):
            return node.line + offset
    return node.line


def link_ids(app: "Sphinx", doctree: nodes.document, docname: str) -> None:
    """Turn IDs in running text into links; one that doesn't exist is a warning."""
    needs = SphinxNeedsData(app.env).get_needs_view()
    for text in list(doctree.findall(nodes.Text)):
        if not ID_LIKE.search(text.astext()) or _has_no_links(text):
            continue
        parts: list[nodes.Node] = []
        end = 0
        for match in ID_LIKE.finditer(text.astext()):
            ident = match[0]
            if ident not in needs:
                log.warning("%s: no such requirement", ident, type=WARNING_TYPE,
                            subtype="reference", location=text.parent)
                continue
            parts += [nodes.Text(text.astext()[end:match.start()]),
                      make_refnode(app.builder, docname, needs[ident]["docname"] or docname,
                                   ident, nodes.Text(ident), needs[ident]["title"])]
            end = match.end()
        if parts and text.parent is not None:
            text.parent.replace(text, [*parts, nodes.Text(text.astext()[end:])])


def _has_no_links(node: nodes.Node) -> bool:
    """Where an ID stays text: in its own clause's head, in literals, titles and links."""
    parent = node.parent
    while parent is not None:
        if isinstance(parent, nodes.reference | nodes.title | nodes.literal | nodes.literal_block
                      | nodes.comment | nodes.raw | nodes.caption):
            return True
        if isinstance(parent, nodes.strong) and "reqid" in parent["classes"]:
            return True
        parent = parent.parent
    return False


def _configure_needs(_app: "Sphinx", config: "Config") -> None:
    """What sphinx-needs has to know; before it reads its configuration."""
    config.needs_types = [{"directive": "req", "title": "Requirement", "prefix": "TCPV-",
                           "color": "#ffffff", "style": "node"}]
    config.needs_fields = {name: {"description": name.replace("_", " "),
                                  "schema": {"type": "string"}, "default": ""}
                           for name in FIELDS}
    config.needs_id_regex = f"^{ID.pattern}$"
    config.needs_role_need_template = "{{ id }}"
    config.needs_build_json = True
    config.needs_reproducible_json = True
    config.needs_json_remove_defaults = True


def _configure_output(app: "Sphinx", config: "Config") -> None:
    # sphinx-needs has registered its own directive of this name by now.
    app.add_directive("req", Requirement, override=True)
    config.html_static_path.append(str(STATIC))
    elements = config.latex_elements
    elements["preamble"] = (STATIC / "requirement.tex").read_text() + elements.get("preamble", "")


def setup(app: "Sphinx") -> "ExtensionMetadata":
    app.setup_extension("sphinx_needs")
    app.connect("config-inited", _configure_needs, priority=1)
    app.connect("config-inited", _configure_output, priority=700)
    app.add_css_file("requirement.css")
    app.connect("doctree-read", check_keywords)
    app.connect("doctree-resolved", link_ids, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
