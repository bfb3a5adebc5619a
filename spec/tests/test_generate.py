# SPDX-License-Identifier: GPL-2.0-or-later
"""What is generated from the registry: it is right, compiles, and is noticed when it is old."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from nvmptcp_spec import generate, registry
from spec_helpers import ROOT

DATA = registry.load()


def changed_registry(tmp_path: Path, old: str, new: str) -> registry.Registry:
    path = tmp_path / "changed.toml"
    text = registry.REGISTRY.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return registry.load(path)


def compile_c(tmp_path: Path, source: str) -> "subprocess.CompletedProcess[str]":
    path = tmp_path / "check.c"
    path.write_text(source)
    return subprocess.run(
        ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "spec/include"),
         "-o", str(tmp_path / "check"), str(path)], capture_output=True, text=True, check=False)


def test_the_committed_files_are_current() -> None:
    assert list(generate.stale(ROOT, DATA)) == []


@pytest.mark.parametrize(("old", "new", "line"), [
    ('at = [1, 1]\nname = "MPTCP"', 'at = [1, 1]\nname = "QUIC"\n', "MPTCP"),
    ('[[flags.bit]]\nat = [0, 0]\nname = "ADDA"', '[[flags.bit]]\nat = [0, 0]\nname = "ADDB"',
     "ADDA"),
])
def test_an_old_file_is_noticed(old: str, new: str, line: str, tmp_path: Path) -> None:
    text = registry.REGISTRY.read_text().replace('value = "MPTCP"', 'value = "TCP"')
    path = tmp_path / "changed.toml"
    path.write_text(text.replace(old, new, 1))
    found = dict(generate.stale(ROOT, registry.load(path)))
    assert set(found) == {output.path for output in generate.OUTPUTS.values()}
    header = (ROOT / "spec/include/nvme_tcp_variant.h").read_text().splitlines()
    first = header[found["spec/include/nvme_tcp_variant.h"] - 1]
    assert line in first or "valid if" in first


def test_write_makes_a_missing_file_and_leaves_a_current_one(tmp_path: Path) -> None:
    assert list(generate.write(tmp_path, DATA, ["header"])) == ["spec/include/nvme_tcp_variant.h"]
    assert list(generate.write(tmp_path, DATA, ["header"])) == []


def test_the_header_reads_a_tsas(tmp_path: Path) -> None:
    source = r"""
        #include <string.h>
        #include "nvme_tcp_variant.h"
        #define COUNT(number, text) + (sizeof text > 1)
        int main(void)
        {
            const uint8_t bytes[NVME_TCP_TSAS_SIZE] = {0, 1, 0x05, 8, 0x34, 0x12};
            struct nvme_tcp_tsas t;
            memcpy(&t, bytes, sizeof t);
            return !(t.tcpv == NVME_TCP_TCPV_MPTCP && t.maxsf == 8
                     && t.mpattr == (NVME_TCP_MPATTR_ADDA | NVME_TCP_MPATTR_MPREQ)
                     && t.sfgid[0] + (t.sfgid[1] << 8) == 0x1234
                     && NVME_DISCOVERY_ENTRY_TSAS_OFFSET + NVME_TCP_TSAS_SFGID_OFFSET == 772
                     && (0 NVME_TCP_MPATTR_LIST(COUNT)) == 3);
        }"""
    built = compile_c(tmp_path, source)
    assert built.returncode == 0, built.stderr
    assert subprocess.run([tmp_path / "check"], check=False).returncode == 0


def test_the_header_refuses_a_wrong_offset(tmp_path: Path) -> None:
    text = generate.header(DATA).replace("uint8_t maxsf;", "uint8_t maxsf[2];")
    built = compile_c(tmp_path, text + "\nint main(void) { return 0; }\n")
    assert "static assertion failed" in built.stderr


def test_the_constants_are_those_of_the_registry(tmp_path: Path) -> None:
    path = tmp_path / "constants.py"
    path.write_text(generate.python(DATA))
    spec = importlib.util.spec_from_file_location("constants", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for words in DATA.sets.values():
        enum = getattr(module, words.name.capitalize())
        assert {e.name: int(e) for e in enum} == {
            w.name: 1 << w.first if words.flags else w.first for w in words.named()}
    assert module.TSAS["SFGID"] == (4, 2)
    assert module.TCPV_KEYWORDS == {"tcp": module.Tcpv.TCP, "mptcp": module.Tcpv.MPTCP}


def test_the_tables_have_every_field_and_value() -> None:
    text = generate.tables(DATA)
    for structure in DATA.structures.values():
        for field in structure.fields:
            assert field.name is None or field.name in text
    assert "2h to FFh" in text
    assert "Valid if TCPV is 1h." in " ".join(text.split())
