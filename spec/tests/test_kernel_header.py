# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel series and the registry agree: read from the patches, and compiled."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from nvmptcp_lab import series, source
from nvmptcp_spec import kernel_series, registry
from spec_helpers import ROOT

DATA = registry.load()
HEADER = "include/linux/nvme.h"

# what to replace in the patches, by what, what is found
WRONG = {
    "offset": ("+\t\t\t__u8\tmaxsf;", "+\t\t\t__le16\tmaxsf;", "maxsf: bytes 3 to 4"),
    "order": ("+\t\t\t__u8\tmpattr;\n+\t\t\t__u8\tmaxsf;",
              "+\t\t\t__u8\tmaxsf;\n+\t\t\t__u8\tmpattr;", "maxsf: bytes 2 to 2"),
    "size": ("resv6[250]", "resv6[249]", "struct tcp has 255 bytes"),
    "missing field": ("+\t\t\t__le16\tsfgid;", "+\t\t\t__le16\tresv4;", "lacks sfgid"),
    "other field": ("+\t\t\t__le16\tsfgid;", "+\t\t\t__le16\tgroup;", "group: registry.toml"),
    "other type": ("+\t\t\t__le16\tsfgid;", "+\t\t\tstruct foo\tsfgid;", "not a member of a known"),
    "value": ("NVMF_TCP_TCPV_MPTCP\t= 1", "NVMF_TCP_TCPV_MPTCP\t= 2",
              "NVMF_TCP_TCPV_MPTCP is 2; registry.toml has 1"),
    "bit": ("NVMF_TCP_MPATTR_DCSR\t= (1 << 1)", "NVMF_TCP_MPATTR_DCSR\t= (1 << 3)",
            "NVMF_TCP_MPATTR_DCSR is 8; registry.toml has 2"),
    "extra value": ("NVMF_TCP_TCPV_MPTCP\t= 1", "NVMF_TCP_TCPV_QUIC\t= 1",
                    "no such value of TCPV"),
    "undefined": ("NVMF_TCP_MPATTR_MPREQ\t=", "MPREQ\t=",
                  "no patch defines NVMF_TCP_MPATTR_MPREQ"),
    "word": ('"mpreq"', '"required"', '"required"; registry.toml has "mpreq"'),
    "offset in the entry": ("tsas.tcp.sfgid) != 772", "tsas.tcp.sfgid) != 774",
                            "sfgid at byte 774"),
}


def test_the_series_agrees() -> None:
    assert list(kernel_series.check(ROOT, DATA)) == []


@pytest.mark.parametrize("case", WRONG)
def test_a_difference_is_found(case: str, tmp_path: Path) -> None:
    old, new, what = WRONG[case]
    copy = tmp_path / kernel_series.SERIES
    shutil.copytree(ROOT / kernel_series.SERIES, copy)
    hit = [p for p in copy.glob("*.patch") if old in p.read_text()]
    assert hit
    for path in hit:
        path.write_text(path.read_text().replace(old, new))
    found = [p for p in kernel_series.check(tmp_path, DATA) if what in p.what]
    assert found
    if "no patch" not in what:
        assert found[0].path.endswith(".patch")
        assert found[0].line > 0


def test_no_series_is_a_finding(tmp_path: Path) -> None:
    found = list(kernel_series.check(tmp_path, DATA))
    assert any("no patch shows struct tcp" in p.what for p in found)


def pristine() -> Path:
    """The kernel source that the lab builds from; fetched if it isn't there."""
    own, cache = os.environ.get("KERNEL_SRC"), source.cache_dir()
    if own:
        return source.external(own).tree
    with source.locked(cache, print):
        return source.fetch(cache, source.load_pin(), print).tree


def test_the_patched_header_compiles_to_the_layout(tmp_path: Path) -> None:
    """The header itself, as the compiler sees it: the real file with the series applied."""
    staging = tmp_path / "kernel"
    series.apply(series.load(series.SERIES), pristine(), staging)
    stubs = tmp_path / "linux"
    stubs.mkdir()
    # What nvme.h takes from other kernel headers, as far as its own text needs it.
    (stubs / "bits.h").write_text(
        "#define BIT(n) (1UL << (n))\n"
        "#define GENMASK(h, l) (((2UL << (h)) - 1) & ~((1UL << (l)) - 1))\n")
    (stubs / "uuid.h").write_text("typedef struct { unsigned char b[16]; } uuid_t;\n")
    tsas = DATA.structures["tsas"]
    entry = DATA.structures["discovery-entry"]
    lines = ["#include <assert.h>", "#include <stdbool.h>", "#include <stddef.h>",
             "#include <linux/types.h>", "#include <asm/byteorder.h>",
             "typedef __u8 u8; typedef __u16 u16; typedef __u32 u32; typedef __u64 u64;",
             "#define struct_group(name, ...) struct { __VA_ARGS__ } name;",
             "#define unlikely(x) (x)",
             f'#include "{staging / HEADER}"']
    base = entry.field("TSAS").first
    for field in tsas.fields:
        if field.name:
            where = f"offsetof(struct nvmf_disc_rsp_page_entry, tsas.tcp.{field.name.lower()})"
            lines.append(f'_Static_assert({where} == {base + field.first}, "{field.name}");')
    lines.append("_Static_assert(sizeof(((struct nvmf_disc_rsp_page_entry *)0)->tsas.tcp) =="
                 f' {tsas.size}, "size");')
    for words in DATA.sets.values():
        for word in words.named():
            name = f"NVMF_TCP_{DATA.owner(words.name).name}_{word.name}"
            value = 1 << word.first if words.flags else word.first
            lines.append(f'_Static_assert({name} == {value}, "{name}");')
    for field in entry.fields:
        if field.name and field.name != "TSAS":
            where = f"offsetof(struct nvmf_disc_rsp_page_entry, {field.name.lower()})"
            lines.append(f'_Static_assert({where} == {field.first}, "{field.name}");')
    built = compile_header(tmp_path, lines)
    assert built.returncode == 0, built.stderr
    # … and it can fail.
    wrong = [re.sub(r"TCPV_MPTCP == 1", "TCPV_MPTCP == 2", line) for line in lines]
    assert wrong != lines
    assert "NVMF_TCP_TCPV_MPTCP" in compile_header(tmp_path, wrong).stderr


def compile_header(tmp_path: Path, lines: list[str]) -> "subprocess.CompletedProcess[str]":
    path = tmp_path / "check.c"
    path.write_text("\n".join(lines) + "\n")
    return subprocess.run(["gcc", "-fsyntax-only", "-I", str(tmp_path), str(path)],
                          capture_output=True, text=True, check=False)
