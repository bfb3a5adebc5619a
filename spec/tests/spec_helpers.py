# SPDX-License-Identifier: GPL-2.0-or-later
"""A tiny checkout for a test, with a specification of its own."""

import contextlib
import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from nvmptcp_spec import cli

SPEC = Path(__file__).resolve().parent.parent
ROOT = SPEC.parent

CONF = """\
extensions = ["nvmptcp_spec.requirements", "nvmptcp_spec.tables", "nvmptcp_spec.trace"]
include_patterns = ["spec/*.rst"]
root_doc = "spec/index"
numfig = True
"""
INI = """\
[pytest]
addopts = --strict-markers
testpaths = tests
"""


def req(ident: str = "TCPV-TSAS-001", text: str = "A host shall do it.", *, title: str = "A title",
        **options: str | None) -> str:
    """The directive, an option a line; None leaves an option out."""
    fields = {"id": ident, "version": "1", "level": "shall", "actor": "host",
              "rests_on": "RFC 8684 §3.1", "verify": "wire", **options}
    lines = [f"   :{key}: {value}" for key, value in fields.items() if value is not None]
    return "\n".join([f".. req:: {title}", *lines, "", f"   {text}", ""])


@dataclass(frozen=True)
class Checkout:
    root: Path

    def chapter(self, text: str, name: str = "one") -> None:
        """Write a chapter; the title takes the first three lines."""
        (self.root / "spec" / f"{name}.rst").write_text(f"{name}\n{'=' * len(name)}\n\n{text}")

    def changelog(self, text: str) -> None:
        (self.root / "spec" / "changelog.toml").write_text(text)

    def tests(self, text: str, name: str = "test_it") -> None:
        (self.root / "tests" / f"{name}.py").write_text(text)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """`nvmptcp-spec ARGUMENTS…` on this checkout, in this process: Sphinx is slow to import."""
        command = ["--root", str(self.root), *arguments]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main(command)
            except SystemExit as exit_:
                code = int(exit_.code or 0)
        return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())

    def pytest(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """pytest on the tests of this checkout."""
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
            cwd=self.root, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def checkout(root: Path) -> Checkout:
    """One good requirement, one test for it; not accepted yet."""
    for name in ("spec", "tests", "kernel-impl", "conformance"):
        (root / name).mkdir()
    (root / "conf.py").write_text(CONF)
    (root / "pytest.ini").write_text(INI)
    (root / "spec" / "index.rst").write_text("Title\n=====\n\n.. toctree::\n   :glob:\n\n   *\n")
    (root / "spec" / "registry.toml").write_text((SPEC / "registry.toml").read_text())
    (root / "kernel-impl" / "series").symlink_to(ROOT / "kernel-impl" / "series")
    made = Checkout(root)
    made.chapter(req())
    made.changelog("")
    made.tests('import pytest\n\n@pytest.mark.requirement("TCPV-TSAS-001")\n'
               "def test_it():\n    pass\n")
    return made
