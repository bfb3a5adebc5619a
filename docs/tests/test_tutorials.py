# SPDX-License-Identifier: GPL-2.0-or-later
"""The tutorials show what their commands print, and the check of that finds what differs."""

from pathlib import Path

import pytest
from nvmptcp_docs import tutorials
from nvmptcp_lab.build import ensure_kernel


@pytest.mark.parametrize("page", tutorials.pages(), ids=lambda page: page.stem)
def test_page_shows_what_its_commands_print(page: Path) -> None:
    ensure_kernel()
    assert tutorials.check(page) == []


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tutorials, "ROOT", tmp_path)
    return tmp_path / "page.md"


def _write(page: Path, command: str, shown: str) -> Path:
    page.write_text(f"Text.\n\n```console\n$ {command}\n{shown}```\n")
    return page


def test_output_that_varies(page: Path) -> None:
    assert tutorials.check(_write(page, "echo a 17 b; echo 10.02 x", "a … b\n10.00 x\n")) == []


@pytest.mark.parametrize("shown", ["", "a\n", "a\nb\nc\n", "a 9.5\n", "a 10.0.1.3\n"])
def test_other_output_is_told(page: Path, shown: str) -> None:
    (line,) = tutorials.check(_write(page, "echo a 10.0", shown))
    assert line.startswith("page.md:4: ")
    assert "prints 'a 10.0\\n'" in line


def test_failing_command_is_told(page: Path) -> None:
    assert tutorials.check(_write(page, "exit 3", "")) == ["page.md:4: exit code 3: exit 3"]


def test_renew_writes_what_is_printed(page: Path) -> None:
    _write(page, "echo a; \\\n  echo b", "old\n")
    assert tutorials.check(page, renew=True) == []
    assert "  echo b\na\nb\n```" in page.read_text()
    assert tutorials.check(page) == []


def test_output_without_a_command(page: Path) -> None:
    page.write_text("```console\nhello\n```\n")
    with pytest.raises(ValueError, match=r"page\.md:2: a console block begins with"):
        tutorials.commands(page)
