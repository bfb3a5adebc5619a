# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the commands of tutorials and how-to guides, and compares or renews the output shown.

A ```` ```console ```` block holds commands, each after `$ `, and below each what it prints. `…` in
the page stands for any text in a line. A number with a decimal point, being measured, stands for
those within 2 % of it.
"""

import argparse
import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOLERANCE = 0.02
_MEASURED = re.compile(r"(?<![\d.])\d+\.\d+(?![\d.])")  # not a part of an address
_COMMAND = re.compile(r"\$ ((?:.*\\\n)*.*)\n")  # a backslash continues it
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One command of a page, and the output that the page shows."""

    line: int  # of the page, from 1
    text: str
    shown: str

    def matches(self, printed: str) -> bool:
        """Whether the page shows what was printed."""
        words, figures = _MEASURED.split(self.shown), _MEASURED.findall(self.shown)
        pattern = r"(\d+\.\d+)".join(re.escape(word).replace("…", ".*") for word in words)
        match = re.fullmatch(pattern, printed)
        return match is not None and all(
            math.isclose(float(now), float(then), rel_tol=TOLERANCE)
            for now, then in zip(match.groups(), figures, strict=True))


def pages() -> list[Path]:
    """The pages that show commands with their output."""
    return [page for page in sorted((ROOT / "docs").glob("*/*.md"))
            if _BLOCK.search(page.read_text())]


def commands(page: Path) -> list[Command]:
    """The commands of a page, in order. Raises OSError and ValueError."""
    text, found = page.read_text(), []
    for block in _BLOCK.finditer(text):
        line = text[: block.start(1)].count("\n") + 1
        for part in re.split(r"^(?=\$ )", block[1], flags=re.MULTILINE):
            if part:
                match = _COMMAND.match(part)
                if match is None:
                    raise ValueError(f"{page}:{line}: a console block begins with `$ COMMAND`")
                found.append(Command(line, match[1], part[match.end():]))
                line += part.count("\n")
    return found


def run(command: Command) -> tuple[int, str]:
    """Exit code and standard output of a command, run in the checkout's top directory."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["sh", "-c", command.text], cwd=ROOT, env=environment, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)
    # Pages show no blanks at the end of a line.
    printed = re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE)
    return done.returncode, printed


def check(page: Path, renew: bool = False) -> list[str]:
    """Run a page's commands; what differs, one line each. `renew` writes what they print now."""
    complaints, text = [], page.read_text()
    for command in commands(page):
        code, printed = run(command)
        where = f"{page.relative_to(ROOT)}:{command.line}"
        if code:
            complaints.append(f"{where}: exit code {code}: {command.text}")
        elif not command.matches(printed):
            if renew:
                text = text.replace(f"$ {command.text}\n{command.shown}",
                                    f"$ {command.text}\n{printed}", 1)
            else:
                complaints.append(f"{where}: the page shows {command.shown!r}, but `{command.text}`"
                                  f" prints {printed!r}")
    if renew:
        page.write_text(text)
    return complaints


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="nvmptcp_docs.tutorials",
                                     description="Run the commands of tutorials and how-to guides.")
    parser.add_argument("--renew", action="store_true", help="write into the pages what they print")
    parser.add_argument("page", nargs="*", type=Path, help="(default: all that show output)")
    args = parser.parse_args(argv)
    try:
        complaints = [line for page in [page.resolve() for page in args.page] or pages()
                      for line in check(page, args.renew)]
    except (OSError, ValueError) as error:
        print(f"tutorials: error: {error}", file=sys.stderr)
        return 2
    for line in complaints:
        print(f"tutorials: {line}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
