# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx directives that list all requirements.

`.. requirement-list::` has each with its title, chapter by chapter. `.. traceability-matrix::` has
each with its tests and their last verdict on the reference kernel, and counts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx_needs.data import SphinxNeedsData

from . import gates, verdicts
from .errors import SpecError
from .reader import Requirement, from_need

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

Cell = str | list[nodes.Node]

# These tables have no number: LaTeX's longtable takes one all the same, and names it where a page
# ends.
LATEX_BEGIN = "\\begingroup\\renewcommand{\\sphinxtablecontinued}[1]{}"
LATEX_UNCOUNT = "\\addtocounter{table}{-1}"
LATEX_END = "\\endgroup"

LIST, MATRIX = "requirement-list", "traceability-matrix"
METADATA = "nvmptcp_overview"

log = logging.getLogger(__name__)


class overview(nodes.General, nodes.Element):
    """Stands for a list until all pages are read."""


class Overview(SphinxDirective):
    option_spec: ClassVar = {}

    def run(self) -> Sequence[nodes.Node]:
        self.env.metadata[self.env.docname][METADATA] = self.name
        if self.name == MATRIX:
            self.env.note_dependency(Path(self.env.srcdir) / verdicts.FILE)
        node = overview(kind=self.name)
        self.set_source_info(node)
        return [node]


def chapters(env: "BuildEnvironment") -> list[tuple[str, str, list[Requirement]]]:
    """The pages with requirements as the contents have them: page, numbered title, requirements."""
    by_page: dict[str, list[Requirement]] = {}
    for need in SphinxNeedsData(env).get_needs_view().values():
        by_page.setdefault(str(need["docname"]), []).append(from_need(need))
    result = []
    for page in _in_order(env, env.config.root_doc):
        if page in by_page:
            number = env.toc_secnumbers.get(page, {}).get("", ())
            label = ".".join(map(str, number))
            title = f"{label} {env.titles[page].astext()}".strip()
            result.append((page, title, sorted(by_page[page], key=lambda r: r.line)))
    return result


def _in_order(env: "BuildEnvironment", page: str) -> Iterator[str]:
    yield page
    for below in env.toctree_includes.get(page, []):
        yield from _in_order(env, below)


def fill_in(app: "Sphinx", doctree: nodes.document, _docname: str) -> None:
    """Put the lists where their directives stand; the IDs become links later."""
    for node in list(doctree.findall(overview)):
        content = _matrix(app) if node["kind"] == MATRIX else _list(app)
        node.replace_self([_latex(LATEX_BEGIN), *content, _latex(LATEX_END)])


def _latex(text: str) -> nodes.raw:
    return nodes.raw("", text, format="latex")


def _list(app: "Sphinx") -> Iterator[nodes.Node]:
    for _, title, requirements in chapters(app.env):
        yield nodes.rubric("", title)
        body: list[list[Cell]] = [[_id(r), r.title, r.level, r.actor, r.verify]
                                  for r in requirements]
        yield from _table([19, 37, 8, 22, 14],
                          ["ID", "Requirement", "Level", "Actor", "Verification"], body)


def _matrix(app: "Sphinx") -> Iterator[nodes.Node]:
    root = Path(app.confdir)
    try:
        tests = gates.collect_tests(root)
        known = verdicts.read(root)
        kernel = verdicts.kernel(root)
    except SpecError as error:
        log.warning("%s: %s", MATRIX, error, type="nvmptcp", subtype="trace")
        return
    pages = chapters(app.env)
    rows = verdicts.matrix({r.id: r for _, _, page in pages for r in page}, tests, known)
    yield from _table([70, 30], ["", "Requirements"],
                      [[what, str(count)] for what, count in verdicts.summary(rows).items()])
    about = (f"The verdicts are about {kernel['source']} with series {kernel['series']}."
             if kernel else "No test run has been noted yet.")
    yield nodes.paragraph("", about)
    by_id = {row.requirement.id: row for row in rows}
    for _, title, requirements in pages:
        yield nodes.rubric("", title)
        yield from _table([22, 8, 15, 43, 12], ["ID", "Level", "Verification", "Tests", "Verdict"],
                          [_matrix_row(by_id[r.id], known.get(r.id)) for r in requirements])


def _matrix_row(row: verdicts.Row,
                known: verdicts.Verdict | None) -> list[Cell]:
    r = row.requirement
    tests: list[nodes.Node] = []
    for test in row.tests:
        path, _, name = test.partition("::")
        outcome = known.of(test) if known else verdicts.NOT_RUN
        tests.append(nodes.paragraph("", "", nodes.literal("", name),
                                     nodes.Text(f" in {path}: {outcome}")))
    if not tests:
        tests.append(nodes.paragraph("", r.untested or "none"))
    verdict = nodes.inline("", row.verdict, classes=[f"verdict-{row.verdict.replace(' ', '-')}"])
    return [_id(r), r.level, r.verify, tests, [nodes.paragraph("", "", verdict)]]


def _id(r: Requirement) -> list[nodes.Node]:
    return [nodes.paragraph("", r.id, classes=["reqref"])]


def _table(widths: list[int], head: list[str],
           body: Sequence[Sequence[Cell]]) -> Iterator[nodes.Node]:
    def row(cells: Sequence[Cell]) -> nodes.row:
        return nodes.row("", *(nodes.entry(
            "", *([nodes.paragraph("", cell)] if isinstance(cell, str) else cell))
            for cell in cells))

    group = nodes.tgroup("", *(nodes.colspec("", colwidth=w) for w in widths), cols=len(widths))
    group += nodes.thead("", row(head))
    group += nodes.tbody("", *(row(cells) for cells in body))
    yield nodes.table("", group, classes=["requirements", "longtable", "colwidths-given"])
    yield _latex(LATEX_UNCOUNT)


def outdated(_app: "Sphinx", env: "BuildEnvironment", added: set[str], changed: set[str],
             removed: set[str]) -> list[str]:
    """A list is out of date when any page changed; the matrix also when a test did: always."""
    return [page for page, data in env.metadata.items() if page not in removed
            and (data.get(METADATA) == MATRIX
                 or (METADATA in data and (added or changed or removed)))]


def setup(app: "Sphinx") -> "ExtensionMetadata":
    app.add_node(overview)
    app.add_directive(LIST, Overview)
    app.add_directive(MATRIX, Overview)
    app.connect("env-get-outdated", outdated)
    app.connect("doctree-resolved", fill_in, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
