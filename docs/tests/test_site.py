# SPDX-License-Identifier: GPL-2.0-or-later
"""The site: every internal link, the downloads, the main figure, and what stops a build."""

import json
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import html
from nvmptcp_docs import build

LANDING = "docs/index.html"


def _pages(top: Path) -> dict[Path, html.HtmlElement]:
    return {path: html.parse(str(path), html.HTMLParser(encoding="utf-8")).getroot()
            for path in top.rglob("*.html") if "_static" not in path.parts}


def _dead_links(top: Path) -> list[str]:
    """Links and images that lead to no file, or to no element of it."""
    pages = _pages(top)
    names = {path: set(root.xpath("//@id")) | set(root.xpath("//a/@name"))
             for path, root in pages.items()}
    dead = []
    for path, root in pages.items():
        for address in root.xpath("//a/@href | //img/@src | //link/@href | //object/@data"):
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path \
                else path.resolve()
            if target.is_dir():
                target /= "index.html"
            fragment = urllib.parse.unquote(parts.fragment)
            if not target.exists() or (fragment and target.suffix == ".html"
                                       and fragment not in names.get(target, set())):
                dead.append(f"{path.relative_to(top)}: {address}")
    return dead


def test_internal_links_lead_somewhere(built: Path) -> None:
    assert _dead_links((built / "html").resolve()) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html">b</a> <a href="#x">x</a>'
                                     '<a href="#y">y</a> <a href="https://example.org">e</a></p>')
    assert _dead_links(tmp_path) == ["a.html: b.html", "a.html: #y"]


def test_landing_page(built: Path) -> None:
    """What this is, the figure for both themes, the two commands, the downloads."""
    root = _pages(built / "html")[built / "html" / LANDING]
    text = root.xpath("//article")[0].text_content()
    for words in ("variant of the NVMe TCP transport", "make reproduce", "make test"):
        assert words in text
    for theme in ("light", "dark"):
        (image,) = root.xpath(f"//img[contains(@class, 'only-{theme}')]")
        drawn = (built / "html" / "docs" / image.get("src")).resolve().read_text()
        assert "<svg" in drawn
    for name in ("nvmptcp-tp.pdf", "nvmptcp-tp.docx"):
        assert root.xpath(f"//a[contains(@href, '{name}')]")
        assert (built / "html" / name).stat().st_size > 20_000


def test_top_leads_to_the_landing_page(built: Path) -> None:
    assert f"url={LANDING}" in (built / "html" / "index.html").read_text()


def test_every_page_is_in_the_search_index(built: Path) -> None:
    index = (built / "html" / "searchindex.js").read_text()
    listed = set(json.loads(re.search(r'"docnames":(\[.*?\])', index)[1]))  # type: ignore[index]
    sources = {str(path.relative_to(build.ROOT).with_suffix(""))
               for folder, pattern in (("docs", "*.md"), ("docs", "*.rst"), ("spec", "*.rst"))
               for path in (build.ROOT / folder).rglob(pattern)}
    assert sources <= listed, f"not in any page: {sources - listed}"


def test_results_page_and_figure_show_the_same_run() -> None:
    """Both come from `make results`; one alone must not be renewed."""
    results = json.loads((build.ROOT / "kernel-impl" / "results.json").read_text())
    page = (build.ROOT / "kernel-impl" / "RESULTS.md").read_text()
    assert f"(build {results['kernel']['key']})" in page
    for row in results["rows"]:
        measured = f"{row['read']['measured']:.1f} / {row['write']['measured']:.1f}"
        assert re.search(rf"^\| {re.escape(row['name'])} \|.*\| {measured} \|", page, re.M)


@pytest.fixture
def scratch(tmp_path: Path) -> Callable[[str], Path]:
    """A source directory with the site's configuration and one page."""
    def make(text: str) -> Path:
        source = tmp_path / "source"
        (source / "docs").mkdir(parents=True)
        for name in ("conf.py", "pyproject.toml"):
            shutil.copy(build.ROOT / name, source / name)
        for name in ("_static", "_templates", "latex", "wordlist.txt", "diagrams.puml",
                     "nvmptcp_docs"):
            (source / "docs" / name).symlink_to(build.ROOT / "docs" / name)
        (source / "docs" / "index.rst").write_text(f"A page\n======\n\n{text}\n")
        return source

    return make


@pytest.mark.parametrize(("builder", "text", "told"), [
    ("spelling", "A sentense.", r"docs/index\.rst:4: : Spell check: sentense"),
    ("html", "See :ref:`nowhere`.", r"docs/index\.rst:4: WARNING: undefined label: 'nowhere'"),
    ("html", "See :doc:`gone`.", r"docs/index\.rst:4: WARNING: unknown document: 'gone'"),
])
def test_a_mistake_stops_the_build_each_time(
        scratch: Callable[[str], Path], tmp_path: Path, builder: str, text: str, told: str) -> None:
    source = scratch(text)
    for _ in range(2):  # not only when the page is read first
        with pytest.raises(build.BuildError) as error:
            build.sphinx(builder, tmp_path / "out", source)
        assert re.search(told, str(error.value))


def test_missing_tool_is_named_with_its_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nvmptcp_docs.build", "--output", tmp_path], cwd=build.ROOT,
        env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("docs: error: missing: apt-get install")
    assert "plantuml" in line
    assert "latexmk" in line
