# SPDX-License-Identifier: GPL-2.0-or-later
"""What other parts of the project use of spec/registry.toml: a C header, Python constants, tables;
and of the chapters: the requirements as JSON.

All but the tables are committed, so that a reader of the tree, a build without Python and an
installation without a checkout have them; `nvmptcp-spec check` says when they are out of date.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .reader import Requirement
from .registry import Field, Registry, Structure, Word, WordSet
from .tables import rows

ORIGIN = "Generated from spec/registry.toml by `nvmptcp-spec generate`: don't edit."
PREFIX = "NVME_TCP"


@dataclass(frozen=True)
class Output:
    """A committed file and what makes its text."""

    path: str  # from the root of the checkout
    text: Callable[[Registry], str]


def header(data: Registry) -> str:
    """The C header: offsets, sizes, values, bits, and TSAS as a structure of bytes."""
    lines = ["/* SPDX-License-Identifier: GPL-2.0-or-later */", f"/* {ORIGIN} */",
             "#ifndef NVME_TCP_VARIANT_H", "#define NVME_TCP_VARIANT_H", "",
             "#include <stddef.h>", "#include <stdint.h>", ""]
    for structure in data.structures.values():
        lines += _c_offsets(structure)
    for words in data.sets.values():
        lines += _c_words(words, data.owner(words.name))
    lines += _c_struct(data.structures["tsas"])
    return "\n".join([*lines, "#endif", ""])


def python(data: Registry) -> str:
    """The Python module: enumerations and byte ranges; it imports the standard library only."""
    lines = ["# SPDX-License-Identifier: GPL-2.0-or-later",
             '"""Values, bits and byte ranges of the TCP variant and the structures around it.', "",
             ORIGIN, "A byte range is (first byte, number of bytes); numbers are little-endian.",
             '"""', "", "from enum import IntEnum, IntFlag"]
    for words in data.sets.values():
        base = "IntFlag" if words.flags else "IntEnum"
        name = words.name.capitalize()
        lines += ["", "", f"class {name}({base}):", f'    """{words.title}."""', ""]
        for word in words.named():
            lines += [f"    # {line}" for line in _wrapped(word, 92)]
            lines.append(f"    {word.name} = {_number(word, words)}")
    for words in data.sets.values():
        pairs = [f'    "{word.keyword}": {words.name.capitalize()}.{word.name},'
                 for word in words.named() if word.keyword]
        if pairs:
            lines += ["", "", f"# The words of Linux (configfs, connect options): {words.title}.",
                      f"{words.name.upper()}_KEYWORDS: dict[str, {words.name.capitalize()}] = {{",
                      *pairs, "}"]
    for structure in data.structures.values():
        name = structure.name.upper().replace("-", "_")
        lines += ["", f"# {structure.title}, in bytes.", f"{name}_SIZE = {structure.size}",
                  f"{name}: dict[str, tuple[int, int]] = {{"]
        lines += [f'    "{field.name}": ({field.first}, {field.size}),'
                  for field in structure.fields if field.name]
        lines.append("}")
    return "\n".join([*lines, ""])


def tables(data: Registry) -> str:
    """All tables as plain text, to look at."""
    return "\n".join(_plain_table(*rows(data, name)) for name in [*data.structures, *data.sets])


OUTPUTS = {
    "header": Output("spec/include/nvme_tcp_variant.h", header),
    "python": Output("conformance/nvmptcp_conformance/layers/registry.py", python),
}
REQUIREMENTS = "conformance/nvmptcp_conformance/requirements.json"


def requirements(known: Mapping[str, Requirement]) -> str:
    """The requirements as the conformance suite has them, by ID."""
    kept = [{key: value for key, value in asdict(each).items() if key not in ("page", "line")}
            for each in known.values()]
    text = json.dumps({each.pop("id"): each for each in kept}, indent=1, ensure_ascii=False)
    return text + "\n"


def write(root: Path, data: Registry, names: list[str]) -> Iterator[str]:
    """Bring the committed files up to date; yields the path of each that changed."""
    for name in names:
        if write_file(root / OUTPUTS[name].path, OUTPUTS[name].text(data)):
            yield OUTPUTS[name].path


def write_file(path: Path, text: str) -> bool:
    """Write a file if it says something else; whether it did."""
    if path.is_file() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def stale(root: Path, data: Registry) -> Iterator[tuple[str, int]]:
    """Committed files that differ from what the registry says: path and first line."""
    for output in OUTPUTS.values():
        if line := first_difference(root / output.path, output.text(data)):
            yield output.path, line


def first_difference(path: Path, text: str) -> int | None:
    """The first line of a file that isn't what it should be; None if there is none."""
    have, want = path.read_text().splitlines() if path.is_file() else [], text.splitlines()
    if have == want:
        return None
    return 1 + next((i for i, (a, b) in enumerate(zip(have, want, strict=False)) if a != b),
                    min(len(have), len(want)))


def plain(text: str) -> str:
    """Running text without reST markup."""
    return re.sub(r"[*`]+", "", text)


def _number(word: Word, words: WordSet) -> str:
    return f"{1 << word.first:#x}" if words.flags else str(word.first)


def _wrapped(word: Word | Field, width: int) -> list[str]:
    text = plain(word.meaning or "Reserved.")
    if word.long_name:
        text = f"{word.long_name}. {text}"
    return textwrap.wrap(text, width, break_long_words=False)


def _c_comment(lines: list[str], indent: str = "") -> list[str]:
    if len(lines) == 1:
        return [f"{indent}/* {lines[0]} */"]
    return [f"{indent}/*", *(f"{indent} * {line}" for line in lines), f"{indent} */"]


def _c_offsets(structure: Structure) -> list[str]:
    base = f"{PREFIX}_TSAS" if structure.name == "tsas" else (
        "NVME_" + structure.name.upper().replace("-", "_"))
    lines = [f"/* {structure.title}, in bytes. */", f"#define {base}_SIZE {structure.size}"]
    for field in structure.fields:
        if field.name:
            lines += [f"#define {base}_{field.name}_OFFSET {field.first}",
                      f"#define {base}_{field.name}_SIZE {field.size}"]
    return [*lines, ""]


def _c_words(words: WordSet, owner: Field) -> list[str]:
    base = f"{PREFIX}_{owner.name}"
    lines = [f"/* {words.title}. */"]
    for word in words.named():
        lines += _c_comment(_wrapped(word, 92))
        lines.append(f"#define {base}_{word.name} {_number(word, words)}")
    reserved = sum(((1 << w.size) - 1) << w.first for w in words.words if not w.name)
    if words.flags:
        lines.append(f"#define {base}_RESERVED {reserved:#x}")
    listed = [f'\tX({base}_{word.name}, "{plain(word.long_name or word.name or "")}")'
              for word in words.named()]
    lines += [f"/* X(number, text) for each: {words.title}. */",
              f"#define {base}_LIST(X) \\", " \\\n".join(listed)]
    return [*lines, ""]


def _c_struct(structure: Structure) -> list[str]:
    members: list[str] = []
    asserts: list[str] = []
    for field in structure.fields:
        name = field.name.lower() if field.name else f"reserved{field.first}"
        if field.name:
            text = plain(field.long_name or "")
            if field.valid_if:
                text += f"; valid if {field.valid_if.field} is {field.valid_if.code}"
            members += _c_comment([text], "\t")
        members.append(f"\tuint8_t {name}{f'[{field.size}]' if field.size > 1 else ''};")
        asserts.append(f"_Static_assert(offsetof(struct nvme_tcp_tsas, {name}) == {field.first},"
                       f' "{name}");')
    return ["/* TSAS as it is on the wire; numbers of several bytes are little-endian. */",
            "struct nvme_tcp_tsas {", *members, "};", "", "#ifndef __cplusplus", *asserts,
            f"_Static_assert(sizeof(struct nvme_tcp_tsas) == {structure.size}, \"size\");",
            "#endif", ""]


def _plain_table(title: str, widths: list[int], cells: list[list[str]]) -> str:
    """One table, its last column but one wrapped to a terminal's width."""
    texts = [[plain(cell) for cell in row] for row in cells]
    columns = list(zip(*texts, strict=True))
    size = [max(map(len, column)) for column in columns]
    wide = widths.index(max(widths))
    size[wide] = min(size[wide], 60)
    lines = [title, "=" * len(title)]
    for number, row in enumerate(texts):
        folded = [textwrap.wrap(cell, size[i]) or [""] for i, cell in enumerate(row)]
        for depth in range(max(map(len, folded))):
            line = [cell[depth] if depth < len(cell) else "" for cell in folded]
            lines.append("  ".join(t.ljust(size[i]) for i, t in enumerate(line)).rstrip())
        if number == 0:
            lines.append("  ".join("-" * n for n in size))
    return "\n".join([*lines, ""])
