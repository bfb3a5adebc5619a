# SPDX-License-Identifier: GPL-2.0-or-later
"""`make docs`: spelling, the Technical Proposal as PDF and DOCX, then the site that offers both.

Steps that are up to date cost little: Sphinx reads only what changed, and latexmk and the DOCX
conversion run only when their input is another one than last time.
"""

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

from nvmptcp_lab.build import packages

from . import docx

ROOT = Path(__file__).parents[2]
NAME = "nvmptcp-tp"
LOOK = ROOT / "docs" / "diagrams.puml"


class BuildError(Exception):
    """A step failed. The message is for the user, and complete."""


def check_tools() -> None:
    """Look for the Debian packages that tools/packages.txt has for this. Raises BuildError."""
    missing = [package.name for package in packages()
               if package.need.startswith("docs:") and not package.present()]
    if missing:
        raise BuildError(f"missing: apt-get install --no-install-recommends {' '.join(missing)}"
                         " (`tools/setup docs` does)")


def run(name: str, command: list[str], log: Path, directory: Path = ROOT) -> None:
    """Run a step, its output to `log`. Raises BuildError with the lines that matter."""
    # Sphinx's own progress is of no use in a log; its warnings stand on stderr.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                   "MPLBACKEND": "agg"}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        done = subprocess.run(command, cwd=directory, stdout=file, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, env=environment, check=False)
    if done.returncode:
        text = log.read_text(errors="replace")
        telling = [line.removeprefix(f"{directory}/") for line in text.splitlines()
                   if re.search(r"WARNING|ERROR|CRITICAL|[Ee]rror:|^! |^l\.\d+", line)]
        shown = list(dict.fromkeys(telling))[:20] or text.splitlines()[-15:]
        raise BuildError("\n".join([f"{name} failed (all of it: {log}):", *shown]))


def sphinx(builder: str, output: Path, source: Path = ROOT, options: Iterable[str] = ()) -> None:
    """Run one of Sphinx's builders; a warning is an error."""
    doctrees = output / "doctrees"
    try:
        # -a: write every page, since a reference can break when another page changes.
        run(f"sphinx -b {builder}",
            [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-a", "--no-color",
             "-b", builder, "-d", str(doctrees), *options, str(source), str(output / builder)],
            output / "log" / f"{builder}.log", source)
    except BuildError:
        # Sphinx wouldn't read these pages again, and so wouldn't repeat its warnings.
        shutil.rmtree(doctrees, ignore_errors=True)
        raise


def digest(paths: Iterable[Path]) -> str:
    """A hash of the files' names and contents."""
    hashed = hashlib.sha256()
    for path in sorted(paths):
        hashed.update(path.name.encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()


def renew(target: Path, inputs: Iterable[Path]) -> bool:
    """Whether `target` is missing or was made of other inputs; remember these."""
    stamp, now = target.with_suffix(target.suffix + ".inputs"), digest(inputs)
    if target.exists() and stamp.exists() and stamp.read_text() == now:
        return False
    target.unlink(missing_ok=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(now)
    return True


def pdf(output: Path) -> Path:
    """The Technical Proposal as PDF."""
    sphinx("latex", output)
    directory = output / "latex"
    target = output / "tp" / f"{NAME}.pdf"
    # The names of diagrams, in the .tex file, are hashes of their content.
    if renew(target, [directory / f"{NAME}.tex", *directory.glob("*.sty"), LOOK]):
        # Several runs: contents, references, and line numbers by the page.
        try:
            run("latexmk", ["latexmk", "-g", "-lualatex", "-interaction=nonstopmode",
                            "-halt-on-error", f"{NAME}.tex"],
                output / "log" / "latexmk.log", directory)
        except (BuildError, KeyboardInterrupt):
            # The next run would trip over half an .aux file.
            shutil.rmtree(directory)
            raise
        if undefined := re.findall(r"Reference .*undefined|Citation .*undefined",
                                   (directory / f"{NAME}.log").read_text(errors="replace")):
            target.with_suffix(".pdf.inputs").unlink()
            raise BuildError("\n".join(["LaTeX:", *undefined]))
        shutil.copy(directory / f"{NAME}.pdf", target)
    return target


def revision() -> str:
    """What the title page and the page headers name beside the title."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return f"Revision {tomllib.load(file)['project']['version']}"


def word(output: Path) -> Path:
    """The Technical Proposal as DOCX."""
    sphinx("singlehtml", output, options=[
        "-D", "plantuml_output_format=png",
        "-D", f"plantuml=plantuml -config {LOOK} -Sdpi={docx.DIAGRAM_DPI}"])
    page = output / "singlehtml" / "spec" / "index.html"
    target = output / "tp" / f"{NAME}.docx"
    images = list((output / "singlehtml" / "_images").glob("*"))
    if renew(target, [page, *images, Path(docx.__file__), ROOT / "pyproject.toml"]):
        docx.convert(page, target, revision())
    return target


def site(output: Path, downloads: Iterable[Path]) -> Path:
    """The site as HTML, with the Technical Proposal to download."""
    sphinx("html", output)
    for path in downloads:
        shutil.copy(path, output / "html" / path.name)
    return output / "html" / "index.html"


def build(output: Path) -> None:
    """All of it, one build at a time in a directory. Raises BuildError."""
    output.mkdir(parents=True, exist_ok=True)
    with (output / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build(output)


def _build(output: Path) -> None:
    begin = time.monotonic()

    def say(line: str) -> None:
        print(f"docs: [{time.monotonic() - begin:3.0f} s] {line}", flush=True)

    check_tools()
    if renew(output / "diagrams.look", [LOOK]):
        for old in (output / "diagrams", *output.glob("*/_images"), output / "latex"):
            shutil.rmtree(old, ignore_errors=True)
        (output / "diagrams.look").touch()
    say("spelling …")
    sphinx("spelling", output)
    say("the Technical Proposal as PDF …")
    downloads = [pdf(output)]
    say("the Technical Proposal as DOCX …")
    downloads.append(word(output))
    say("the site …")
    index = site(output, downloads)
    shown = [path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
             for path in (index, *downloads)]
    say(f"done: {', '.join(map(str, shown))}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make docs", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "docs", metavar="DIR")
    args = parser.parse_args(argv)
    try:
        build(args.output.resolve())
    except BuildError as error:
        print(f"docs: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"docs: error: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
