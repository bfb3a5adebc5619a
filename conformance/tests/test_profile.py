# SPDX-License-Identifier: GPL-2.0-or-later
"""The profile of a device: the template is one, and what is wrong is told with its line."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from command import error, run
from nvmptcp_conformance import profile
from nvmptcp_spec.errors import SpecError


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "dut.toml"
    file.write_text(text)
    return file


def test_template_says_nothing(tmp_path: Path) -> None:
    """Fails if a key of the template isn't commented out."""
    assert profile.load(written(tmp_path, run("profile").stdout)) == profile.Profile()


def test_template_has_every_key(tmp_path: Path) -> None:
    """Fails if an example of the template isn't valid, or a key is missing."""
    text = re.sub(r"^#(\w+ = )", r"\1", profile.template(), flags=re.MULTILINE)
    found = profile.load(written(tmp_path, text))
    for part in (found, found.target, found.host, found.claims, found.hooks):
        assert all(is_dataclass(value) or value is not None
                   for value in (getattr(part, key.name) for key in fields(part))), part
    assert found.claims.stated()["maxsf"] == 8


@pytest.mark.parametrize(("text", "says"), [
    ("name = 'a'\n\n[target]\ntradr = '192.0.2.1'", "4: tradr: is an unknown key (known:"),
    ("[target]\ntrsvcid = '4420'", "2: trsvcid: an integer is needed, not '4420'"),
    ("[target]\ntrsvcid = 65536", "2: trsvcid: has to be from 1 to 65535, not 65536"),
    ("[target]\ntraddr = 'disk'", "2: traddr: 'disk' does not appear to be an IPv4 or IPv6"),
    ("[claims]\nadda = true\nmpreq = 1", "3: mpreq: true or false is needed, not 1"),
    ("[claims]\nmaxsf = true", "2: maxsf: an integer is needed, not True"),
    ("[claim]\nadda = true", "1: claim: is an unknown key (known: claims, "),
    ("hooks = 3", "1: hooks: a table is needed, not 3"),
    ("timeout = 0", "1: timeout: has to be from 1 to 86400, not 0"),
    ("name = 'a'\nname = 'b'", "2: not TOML: Cannot overwrite a value"),
    ("[target", "1: not TOML: "),
])
def test_what_is_wrong(text: str, says: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(SpecError) as raised:
        profile.load(file)
    assert str(raised.value).startswith(f"{file}:{says}")


def test_the_command_says_it(tmp_path: Path) -> None:
    """Fails if a wrong profile brings more than a line, or isn't read before anything is done."""
    file = written(tmp_path, "[hooks]\nset_up = 'touch here'\nset_upp = 'true'\n")
    assert error("target", "--profile", file, cwd=tmp_path).startswith(
        f"{file}:3: set_upp: is an unknown key")
    assert not (tmp_path / "here").exists()
    assert error("target", "--profile", tmp_path / "none.toml") == (
        f"{tmp_path / 'none.toml'}: No such file or directory")


@pytest.mark.parametrize(("hook", "says"), [
    ("echo here; exit 3", "the hook set_up ended with exit code 3; what it printed: "),
    ("echo here; sleep 1000", "the hook set_up didn't end within 1 s; what it printed: "),
])
def test_set_up_fails(hook: str, says: str, tmp_path: Path) -> None:
    """Fails if the run goes on, or if what the hook printed is lost."""
    file = written(tmp_path, f"[target]\ntraddr = '127.0.0.1'\n[hooks]\nset_up = '{hook}'\n"
                             "clean_up = 'touch cleaned'\ntimeout = 1\n")
    results = tmp_path / "results"
    assert error("target", "--profile", file, "--results", results, cwd=tmp_path) == (
        f"{says}{results / 'hook-set_up.txt'}")
    assert (results / "hook-set_up.txt").read_text() == f"$ {hook}\nhere\n"
    assert not (tmp_path / "cleaned").exists()


def test_clean_up_after_there_was_no_target(tmp_path: Path) -> None:
    file = written(tmp_path, "[target]\ntraddr = '127.0.0.1'\ntrsvcid = 1\n[hooks]\n"
                             "clean_up = 'touch cleaned'\n")
    error("target", "--profile", file, cwd=tmp_path)
    assert (tmp_path / "cleaned").exists()
    assert (tmp_path / "nvmptcp-conformance-results/127.0.0.1-1/target").is_dir()
