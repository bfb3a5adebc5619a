# SPDX-License-Identifier: GPL-2.0-or-later
"""The results as one HTML file that needs nothing else but the captures that it links to."""

from functools import cache

import jinja2

from .. import requirements
from ..suite.case import UNSETTLED, Outcome
from .document import UNTESTED, Document

# What a verdict looks like: class in the style sheet, and a sign for those who don't see colours.
LOOKS = {
    Outcome.PASS.value: ("pass", "\N{HEAVY CHECK MARK}"),
    Outcome.CONCEPTUAL.value: ("conceptual", "\N{ALMOST EQUAL TO}"),
    Outcome.FAIL.value: ("fail", "\N{BALLOT X}"),
    Outcome.NOT_APPLICABLE.value: ("na", "\N{EN DASH}"),
    Outcome.INCONCLUSIVE.value: ("inconclusive", "?"),
    UNTESTED: ("untested", "\N{MIDDLE DOT}"),
}


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "."), autoescape=True,
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["time"] = _time
    return environment.get_template("report.html.jinja")


def _time(text: str) -> str:
    """ISO 8601 in UTC for people."""
    return text.replace("T", " ").replace("+00:00", " UTC")


def render(document: Document) -> str:
    """The whole file."""
    by_chapter: dict[str, list[object]] = {}
    for result in document.results:
        chapter = result.case.chapter
        title = f"{chapter.number} {chapter.title}" if chapter.number else chapter.title
        by_chapter.setdefault(title, []).append(result)
    return _template().render(
        document=document, device=document.device, verdicts=document.verdicts(),
        by_chapter=by_chapter, texts=requirements.load(), looks=LOOKS,
        unsettled=[result for result in document.results if result.verdict in UNSETTLED],
        missing=len(document.cases) - len(document.results))
