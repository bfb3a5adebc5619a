# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx directive `registry-table`: a table straight from spec/registry.toml.

`.. registry-table:: NAME` takes the name of a structure, of a set of values or of a set of bits.
It is numbered, and `:numref:` finds it as `registry-NAME`. With `:keywords:` the table of a set has
the words of Linux (configfs, connect options) instead of the revision, and the name
`keywords-NAME`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from . import registry
from .errors import SpecError
from .registry import Field, Range, Registry, Structure, Word, WordSet

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def byte_range(piece: Range) -> str:
    """Bytes or bits as NVMe documents write them: the last one first, `05:04`."""
    return f"{piece.first}" if piece.size == 1 else f"{piece.last}:{piece.first}"


def value_range(word: Word) -> str:
    """A value, or the first and the last of a range, in hexadecimal."""
    first = f"{word.first:X}h"
    return first if word.size == 1 else f"{first} to {word.last:X}h"


def rows(data: Registry, name: str, *,
         keywords: bool = False) -> tuple[str, list[int], list[list[str]]]:
    """Title, column widths (in hundredths) and rows, the headings first; cells are reST.

    KeyError if the registry has nothing of that name.
    """
    if name in data.structures and not keywords:
        return _structure_rows(data.structures[name])
    return (_keyword_rows if keywords else _word_rows)(data.sets[name])


def _structure_rows(structure: Structure) -> tuple[str, list[int], list[list[str]]]:
    body = [[byte_range(field), *_described(field), field.since or ""]
            for field in structure.fields]
    return (f"{structure.title}, {structure.size} bytes", [12, 16, 52, 20],
            [["Bytes", "Field", "Description", "Since"], *body])


def _word_rows(words: WordSet) -> tuple[str, list[int], list[list[str]]]:
    show = byte_range if words.flags else value_range
    body = [[show(word), *_described(word), word.since or ""] for word in words.words]
    return (words.title, [16, 16, 48, 20],
            [["Bits" if words.flags else "Value", "Name", "Description", "Since"], *body])


def _keyword_rows(words: WordSet) -> tuple[str, list[int], list[list[str]]]:
    show = byte_range if words.flags else value_range
    body = [[f"``{word.keyword}``", show(word), *_described(word)]
            for word in words.named() if word.keyword]
    return (f"{words.title}: words of Linux", [16, 12, 16, 56],
            [["Word", "Bit" if words.flags else "Value", "Name", "Description"], *body])


def _described(piece: Range) -> tuple[str, str]:
    if piece.name is None:
        return "", "Not used here." if piece.elsewhere else "Reserved."
    text = piece.meaning or ""
    if piece.long_name:
        text = f"*{piece.long_name}.* {text}"
    if isinstance(piece, Field) and piece.valid_if:
        text += f" Valid if {piece.valid_if.field} is {piece.valid_if.code:X}h."
    return f"**{piece.name}**", text


class RegistryTable(SphinxDirective):
    required_arguments = 1
    option_spec: ClassVar = {"keywords": directives.flag}

    def run(self) -> Sequence[nodes.Node]:
        path = Path(self.env.config.nvmptcp_registry)
        self.env.note_dependency(path)
        name, keywords = self.arguments[0], "keywords" in self.options
        try:
            data = registry.load(path)
            title, widths, (head, *body) = rows(data, name, keywords=keywords)
        except SpecError as error:
            raise self.error(str(error)) from error
        except KeyError as error:
            known = ", ".join(sorted({*data.structures, *data.sets}))
            raise self.error(f"{path.name} has no {name!r} (it has {known})") from error
        table = nodes.table("", nodes.title("", title), classes=["registry", "colwidths-given"])
        if len(body) > 12:
            table["classes"].append("longtable")
        group = nodes.tgroup("", *(nodes.colspec("", colwidth=w) for w in widths),
                             cols=len(widths))
        group += nodes.thead("", self._row(head))
        group += nodes.tbody("", *(self._row(cells) for cells in body))
        table += group
        self.set_source_info(table)
        table["names"].append(f"{'keywords' if keywords else 'registry'}-{name}")
        self.state.document.note_explicit_target(table)
        return [table]

    def _row(self, cells: Sequence[str]) -> nodes.row:
        row = nodes.row()
        for cell in cells:
            text, messages = self.parse_inline(cell)
            row += nodes.entry("", nodes.paragraph("", "", *text), *messages)
        return row


def setup(app: "Sphinx") -> "ExtensionMetadata":
    app.add_config_value("nvmptcp_registry", str(registry.REGISTRY), "env", str)
    app.add_directive("registry-table", RegistryTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
