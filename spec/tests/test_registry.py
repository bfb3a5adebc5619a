# SPDX-License-Identifier: GPL-2.0-or-later
"""The registry is read strictly: what is wrong is named with its line."""

from pathlib import Path

import pytest
from nvmptcp_spec import registry
from nvmptcp_spec.errors import SpecError

TEXT = registry.REGISTRY.read_text()

# what to replace (once), by what, the line that is named (a piece of it), the error
BAD = {
    "not TOML": ('name = "tsas"', "name = tsas", "name = tsas", "not TOML"),
    "unknown key": ('name = "TCPV"', 'name = "TCPV"\ncolour = "red"', "colour", "unknown key"),
    "unknown key at the top": ("[revisions]", "x = 1\n[revisions]", "x = 1", "unknown key"),
    "missing key": ('long_name = "TCP Variant"\n', "", "[[structure.field]]",
                    "long_name: is missing"),
    "missing meaning": ('meaning = "Whether TLS', 'keyword = "Whether TLS', "[[structure.field]]",
                        "meaning: is missing"),
    "empty": ('long_name = "TCP Variant"', 'long_name = " "', 'long_name = " "', "is empty"),
    "wrong type": ("bytes = 256", 'bytes = "256"', 'bytes = "256"', "an integer is needed"),
    "overlap": ("at = [4, 5]\nname = \"SFGID\"", "at = [3, 5]\nname = \"SFGID\"", "at = [3, 5]",
                "byte 3 is taken already"),
    "gap": ('at = [3, 3]\nname = "MAXSF"', 'at = [4, 4]\nname = "MAXSF"', "at = [4, 4]",
            "a gap, byte 3 to 3"),
    "end missing": ("at = [6, 255]", "at = [6, 200]", "[[structure]]",
                    "byte 201 to 255 at the end are missing"),
    "outside": ("at = [6, 255]", "at = [6, 256]", "at = [6, 256]", "isn't within byte 0 to 255"),
    "turned round": ("at = [4, 5]\nname = \"SFGID\"", "at = [5, 4]\nname = \"SFGID\"",
                     "at = [5, 4]", "in order"),
    "not a range": ("at = [6, 255]", "at = [6]", "at = [6]", "two numbers are needed"),
    "field twice": ('name = "MAXSF"', 'name = "TCPV"', 'name = "TCPV"', "is there already"),
    "structure twice": ('name = "discovery-entry"', 'name = "tsas"', 'name = "tsas"',
                        "is there already"),
    "set twice": ('name = "tcpv"\ntitle', 'name = "sectype"\ntitle', 'name = "sectype"',
                  "is there already"),
    "keyword twice": ('keyword = "dcsr"', 'keyword = "adda"', 'keyword = "adda"',
                      "is there already"),
    "bad name": ('name = "MAXSF"', 'name = "max-sf"', 'name = "max-sf"', "capitals and digits"),
    "unknown revision": ('name = "TCP"\nkeyword = "tcp"\nsince = "proposal"',
                         'name = "TCP"\nkeyword = "tcp"\nsince = "2.0"', 'since = "2.0"',
                         "is none of"),
    "unknown values": ('values = "tcpv"', 'values = "tcpx"', 'values = "tcpx"',
                       "no codes or flags"),
    "values of no field": ('values = "mpattr"', "", 'name = "mpattr"', "no field has these values"),
    "field too small": ('at = [2, 2]\nname = "MPATTR"', 'at = [2, 3]\nname = "MPATTR"',
                        "values", "mpattr has 8 bits, the field 16"),
    "valid_if no field": ('{ field = "TCPV", value = "MPTCP" }',
                          '{ field = "TCPX", value = "MPTCP" }', "valid_if", "no field 'TCPX'"),
    "valid_if no value": ('{ field = "TCPV", value = "MPTCP" }',
                          '{ field = "TCPV", value = "QUIC" }', "valid_if", "no value 'QUIC'"),
    "wide bit": ('at = [0, 0]\nname = "ADDA"', 'at = [0, 1]\nname = "ADDA"', "at = [0, 1]",
                 "one bit, not a range"),
    "inner structure": ('structure = "tsas"', 'structure = "tsax"', 'structure = "tsax"',
                        "none of the name"),
    "inner size": ('structure = "tsas"', 'structure = "discovery-header"',
                   'structure = "discovery-header"', "has 1024 bytes, the field 256"),
    "no size": ("bytes = 256", "bytes = 0", "bytes = 0", "is no size"),
    "odd bits": ("bits = 8", "bits = 7", "bits = 7", "none of 8, 16, 32"),
    "reserved and elsewhere": ("elsewhere = true", "elsewhere = true\nreserved = true",
                               "elsewhere = true", "either reserved"),
    "not a list of tables": ("[revisions]", "[structure]\n[revisions]", "", "not TOML"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_registry_is_named_with_its_line(case: str, tmp_path: Path) -> None:
    old, new, named, what = BAD[case]
    assert old in TEXT
    path = tmp_path / "registry.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        registry.load(path)
    place, line, text = str(caught.value).removeprefix(str(tmp_path)).split(":", 2)
    assert place == "/registry.toml"
    assert what in text
    assert "\n" not in str(caught.value)
    assert named in path.read_text().splitlines()[int(line) - 1]


def test_the_layout_is_what_the_proposal_says() -> None:
    tsas = registry.load().structures["tsas"]
    assert [(f.name, f.first, f.last) for f in tsas.fields] == [
        ("SECTYPE", 0, 0), ("TCPV", 1, 1), ("MPATTR", 2, 2), ("MAXSF", 3, 3), ("SFGID", 4, 5),
        (None, 6, 255),
    ]
    assert tsas.field("SFGID").valid_if == registry.ValidIf("TCPV", "MPTCP", 1)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"registry\.toml: No such file"):
        registry.load(tmp_path / "registry.toml")
