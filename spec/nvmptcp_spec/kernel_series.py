# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the kernel series say the same as the registry? Read from the patches alone.

The patches show `struct tcp` of include/linux/nvme.h in full, the constants of its fields, and
the words that configfs takes for them. That the compiled header agrees, too, is a test
(spec/tests/test_kernel_header.py).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .problem import Problem
from .registry import Registry, Structure, WordSet

SERIES = "kernel-impl/series"
GATE = "kernel"
SIZES = {"__u8": 1, "u8": 1, "__le16": 2, "__le32": 4, "__le64": 8, "char": 1}

_FILE = re.compile(r"\+\+\+ b/(\S+)")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_MEMBER = re.compile(r"\s*(\w+)\s+(\w+)(?:\[(\d+)\])?\s*;")
_CONSTANT = re.compile(r"\s*(NVMF_TCP_[A-Z0-9_]+)\s*=\s*(\(1 << \d+\)|0x[0-9a-fA-F]+|\d+)\s*,")
_WORD = re.compile(r'\s*\{\s*(NVMF_TCP_\w+),\s*"([^"]*)"\s*\}')
_OFFSET = re.compile(r"offsetof\(struct nvmf_disc_rsp_page_entry, tsas\.tcp\.(\w+)\) != (\d+)")


@dataclass(frozen=True)
class Line:
    """A line of a kernel file as the series leaves it, and where the patch has it."""

    patch: str
    number: int
    file: str
    text: str
    hunk: int


def after(root: Path) -> list[Line]:
    """All lines that the patches show of the files after them: context and additions."""
    found: list[Line] = []
    hunk = 0
    for path in sorted((root / SERIES).glob("*.patch")):
        file = ""
        in_hunk = False
        for number, text in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if new := _FILE.match(text):
                file, in_hunk = new[1], False
            elif _HUNK.match(text):
                in_hunk, hunk = True, hunk + 1
            elif in_hunk and text[:1] in ("+", " "):
                where = str(path.relative_to(root))
                found.append(Line(where, number, file, text[1:], hunk))
            elif text.startswith("diff "):
                in_hunk = False
    return found


def check(root: Path, data: Registry) -> Iterator[Problem]:
    """Every difference between the series and the registry."""
    lines = after(root)
    tsas = data.structures["tsas"]
    yield from _structure(lines, tsas)
    for words in data.sets.values():
        yield from _words(lines, words, data.owner(words.name).name or "")
    base = data.structures["discovery-entry"].field("TSAS").first
    for line in lines:
        if found := _OFFSET.search(line.text):
            field = next((f for f in tsas.fields if (f.name or "").lower() == found[1]), None)
            if field is None or base + field.first != int(found[2]):
                want = "no such field" if field is None else f"byte {base + field.first}"
                yield _problem(line, f"{found[1]} at byte {found[2]} of the entry; registry.toml"
                                     f" has {want}")


def _problem(line: Line, what: str) -> Problem:
    return Problem(line.patch, line.number, GATE, what)


def _structure(lines: list[Line], tsas: Structure) -> Iterator[Problem]:
    """`struct tcp` has the fields of TSAS, at their bytes, and its size."""
    start = next((i for i, line in enumerate(lines) if line.file == "include/linux/nvme.h"
                  and line.text.strip() == "struct tcp {"), None)
    if start is None:
        yield Problem(SERIES, 0, GATE, "no patch shows struct tcp of include/linux/nvme.h")
        return
    offset = 0
    want = {(field.name or "").lower(): field for field in tsas.fields if field.name}
    line = lines[start]
    for line in lines[start + 1:]:
        member = _MEMBER.match(line.text)
        if line.hunk != lines[start].hunk or line.text.strip().startswith("}"):
            break
        if not member or member[1] not in SIZES:
            yield _problem(line, f"not a member of a known type: {line.text.strip()!r}")
            return
        size = SIZES[member[1]] * int(member[3] or 1)
        field = want.pop(member[2], None)
        if field and (field.first, field.size) != (offset, size):
            yield _problem(line, f"{member[2]}: bytes {offset} to {offset + size - 1};"
                                 f" registry.toml has {field.first} to {field.last}")
        elif not field and not member[2].startswith(("resv", "rsvd", "reserved")):
            yield _problem(line, f"{member[2]}: registry.toml has no such field")
        offset += size
    for name in want:
        yield _problem(line, f"struct tcp lacks {name}, which registry.toml has")
    if offset != tsas.size:
        yield _problem(line, f"struct tcp has {offset} bytes; registry.toml has {tsas.size}")


def _words(lines: list[Line], words: WordSet, owner: str) -> Iterator[Problem]:
    """The constants of one field and the words for them."""
    prefix = f"NVMF_TCP_{owner}_"
    want = {prefix + (w.name or ""): 1 << w.first if words.flags else w.first
            for w in words.named()}
    keywords = {prefix + (w.name or ""): w.keyword for w in words.named()}
    seen: set[str] = set()
    for line in lines:
        if (constant := _CONSTANT.match(line.text)) and constant[1].startswith(prefix):
            name, text = constant.groups()
            shift = re.fullmatch(r"\(1 << (\d+)\)", text)
            value = 1 << int(shift[1]) if shift else int(text, 0)
            seen.add(name)
            if name.endswith("_INVALID"):  # the kernel's own mark, not on the wire
                continue
            if name not in want:
                yield _problem(line, f"{name}: registry.toml has no such value of {owner}")
            elif value != want[name]:
                yield _problem(line, f"{name} is {value}; registry.toml has {want[name]}")
        elif (word := _WORD.match(line.text)) and word[1].startswith(prefix):
            if keywords.get(word[1]) != word[2]:
                yield _problem(line, f'{word[1]} is called "{word[2]}"; registry.toml has'
                                     f' "{keywords.get(word[1])}"')
    new = [w for w in words.named() if w.since == "this proposal"]
    for word_ in new:
        if prefix + (word_.name or "") not in seen:
            yield Problem(SERIES, 0, GATE, f"no patch defines {prefix}{word_.name}")
