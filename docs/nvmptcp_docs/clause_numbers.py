# SPDX-License-Identifier: GPL-2.0-or-later
"""References by title to a clause of the Technical Proposal show its number, too: on paper a link
can't be followed.
"""

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = "spec/"


class ClauseNumbers(SphinxPostTransform):
    """`:ref:` without a text of its own becomes "Title §4.2"."""

    default_priority = 5  # before Sphinx resolves references

    def run(self, **kwargs: Any) -> None:
        labels = self.env.domains.standard_domain.labels
        for node in self.document.findall(addnodes.pending_xref):
            if node.get("refdomain") != "std" or node["reftype"] != "ref" or node["refexplicit"]:
                continue
            docname, _, title = labels.get(node["reftarget"], ("", "", ""))
            number = self._number(docname, title) if docname.startswith(FOLDER) else ""
            if number:
                node["refexplicit"] = True
                text = f"{title} §{number}"
                node[:] = [nodes.inline(text, text, classes=["std", "std-ref"])]

    def _number(self, docname: str, title: str) -> str:
        for entry in self.env.tocs[docname].findall(nodes.reference):
            if entry.astext() == title and entry.get("secnumber"):
                return ".".join(map(str, entry["secnumber"]))
        return ""


def setup(app: "Sphinx") -> dict[str, Any]:
    app.add_post_transform(ClauseNumbers)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
