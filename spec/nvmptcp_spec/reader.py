# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the requirements of a checkout with Sphinx, and what Sphinx complains about."""

import io
import logging
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import SpecError
from .problem import Problem

if TYPE_CHECKING:
    from sphinx_needs.need_item import NeedItem

ROOT = Path(__file__).resolve().parent.parent.parent
BUILDER = "needs"


@dataclass(frozen=True)
class Requirement:
    """One requirement, as its directive has it."""

    id: str
    title: str
    version: int
    level: str
    actor: str
    rests_on: str
    verify: str
    untested: str  # the reason, or empty
    statement: str  # plain text
    page: str  # path from the root
    line: int

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Spec:
    requirements: dict[str, Requirement]  # in the order of their IDs
    problems: list[Problem]


class _Collector(logging.Handler):
    """Sphinx's warnings as problems."""

    def __init__(self, root: Path) -> None:
        super().__init__(logging.WARNING)
        self.root = root
        self.problems: set[Problem] = set()

    def emit(self, record: logging.LogRecord) -> None:
        ours = getattr(record, "type", None) == "nvmptcp"
        gate = str(getattr(record, "subtype", "")) if ours else "sphinx"
        path, line = _split(str(getattr(record, "location", None) or ""), self.root)
        # Sphinx hands a record on a second time, with place and type in its text.
        what = " ".join(record.getMessage().split())
        what = re.sub(r"^\S*: (WARNING|ERROR): |( \[[\w.]+\])+$", "", what)
        self.problems.add(Problem(path, line, gate, what))


def read(root: Path = ROOT) -> Spec:
    """Read all chapters afresh. SpecError if Sphinx can't even begin."""
    # Sphinx takes a second to import: not for `--help`.
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.docutils import docutils_namespace, patch_docutils
    from sphinx.util.logging import WarningLogRecordTranslator
    from sphinx_needs.data import SphinxNeedsData

    collector = _Collector(root)
    early = io.StringIO()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with patch_docutils(root), docutils_namespace():
                app = Sphinx(
                    root, root, Path(scratch), Path(scratch) / "doctrees", BUILDER,
                    {"include_patterns": ["spec/*.rst"], "root_doc": "spec/index"},
                    status=None, warning=early, freshenv=True,
                )
                collector.addFilter(WarningLogRecordTranslator(app))
                logger = logging.getLogger("sphinx")
                logger.addHandler(collector)
                try:
                    app.build()
                finally:
                    logger.removeHandler(collector)
                needs = SphinxNeedsData(app.env).get_needs_view()
        except (SphinxError, OSError) as error:
            raise SpecError(f"{root / 'conf.py'}: {' '.join(str(error).split())}") from error
        found = sorted(map(from_need, needs.values()), key=lambda r: r.id)
    return Spec({r.id: r for r in found}, sorted(collector.problems))


def from_need(need: "NeedItem | Mapping[str, Any]") -> Requirement:
    """The requirement of a need of sphinx-needs."""
    def text(key: str) -> str:
        return str(need[key] or "")

    return Requirement(
        text("id"), text("title"), int(text("version")), text("level"), text("actor"),
        text("rests_on"), text("verify"), text("untested"), text("statement"),
        f"{text('docname')}.rst", int(text("lineno")),
    )


def _split(location: str, root: Path) -> tuple[str, int]:
    """`ROOT/spec/a.rst:12` → `spec/a.rst`, 12."""
    match = re.fullmatch(r"(.*?)(?::(\d+|None|<[^>]*>))?(?::.*)?", location)
    path, line = (match[1], match[2]) if match else (location, None)
    if path.startswith(str(root)):
        path = str(Path(path).relative_to(root))
    return path or "conf.py", int(line) if line and line.isdigit() else 0
