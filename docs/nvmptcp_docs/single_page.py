# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx's builder `singlehtml`, of the Technical Proposal alone: a page for Pandoc to convert.

It starts at spec/index, in the environment of the whole site: what was read for the site isn't read
again, and references to its other pages resolve.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.builders.singlehtml import SingleFileHTMLBuilder

if TYPE_CHECKING:
    from sphinx.application import Sphinx

START = "spec/index"


class ProposalPage(SingleFileHTMLBuilder):
    """Writes spec/index.html in the output directory.

    It takes the place of Sphinx's own, since the writer numbers clauses by the builder's name.
    """

    search = False
    # Not all versions of Word show SVG.
    supported_image_types: ClassVar[list[str]] = ["image/png", "image/jpeg"]

    @contextmanager
    def _from_start(self) -> Iterator[None]:
        whole = self.config.root_doc
        self.config.root_doc = START
        try:
            yield
        finally:
            self.config.root_doc = whole

    def assemble_doctree(self) -> nodes.document:
        with self._from_start():
            return super().assemble_doctree()

    def write_documents(self, docnames: Any) -> None:
        with self._from_start():
            super().write_documents(docnames)

    def write_additional_files(self) -> None:
        pass

    def dump_inventory(self) -> None:
        pass


def setup(app: "Sphinx") -> dict[str, Any]:
    app.add_builder(ProposalPage, override=True)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
