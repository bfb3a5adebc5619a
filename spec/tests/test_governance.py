# SPDX-License-Identifier: GPL-2.0-or-later
"""What may change in a requirement: lock file, versions, change log, `nvmptcp-spec accept`."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from nvmptcp_spec import governance
from nvmptcp_spec.errors import SpecError
from nvmptcp_spec.reader import Requirement
from spec_helpers import Checkout, checkout, req

ONE = Requirement("TCPV-PATH-001", "One", 1, "shall", "host", "RFC 8684", "wire", "",
                  "A host shall do it.", "spec/paths.rst", 7)
TWO = replace(ONE, id="TCPV-PATH-002", line=20)

Case = Callable[..., list[str]]


@pytest.fixture
def found(tmp_path: Path) -> Case:
    """Accept ONE and TWO, then judge other requirements with a change log."""
    (tmp_path / "spec").mkdir()

    def run(*now: Requirement, log: str = "") -> list[str]:
        lock = governance.lock_of({r.id: r for r in (ONE, TWO)})
        (tmp_path / governance.LOCK).write_text(governance.lock_text(lock))
        (tmp_path / governance.CHANGELOG).write_text(log)
        return [str(p) for p in governance.check_governance(tmp_path, {r.id: r for r in now})]

    return run


def entry(ident: str, kind: str, **more: object) -> str:
    fields = {"id": ident, "kind": kind, "reason": "Why.", **more}
    lines = [f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in fields.items()]
    return "\n".join(["[[change]]", *lines, ""])


def test_nothing_changed(found: Case) -> None:
    assert found(ONE, TWO) == []


def test_editorial_changes_are_free(found: Case) -> None:
    assert found(replace(ONE, title="Uno", rests_on="RFC 9293", line=99), TWO) == []


@pytest.mark.parametrize(("change", "part"), [
    ({"statement": "A host shall do something else."}, "text"),
    ({"level": "should"}, "level"), ({"actor": "both"}, "actor"),
])
def test_a_change_needs_a_version_bump(found: Case, change: dict[str, str], part: str) -> None:
    changed = replace(ONE, **change)  # type: ignore[arg-type]
    assert found(changed, TWO) == [
        f"spec/paths.rst:7: TCPV-PATH-001: {part} changed: set its version to 2 [governance]"]
    (missing,) = found(replace(changed, version=2), TWO)
    assert missing.startswith('spec/changelog.toml: TCPV-PATH-001 version 2: add a [[change]]')
    assert "not 3" in found(replace(changed, version=3), TWO)[0]
    assert found(replace(changed, version=2), TWO, log=entry(ONE.id, "changed", version=2)) == []


def test_a_bump_without_a_change(found: Case) -> None:
    assert "nothing changed since version 1" in found(
        replace(ONE, version=2), TWO, log=entry(ONE.id, "changed", version=2))[0]


def test_a_deleted_id_needs_an_entry(found: Case) -> None:
    (missing,) = found(ONE)
    assert "TCPV-PATH-002 is gone (deleted or renamed)" in missing
    assert found(ONE, log=entry(TWO.id, "withdrawn")) == []


def test_a_renamed_id_needs_an_entry(found: Case) -> None:
    new = replace(TWO, id="TCPV-PATH-003")
    (missing,) = found(ONE, new)
    assert "TCPV-PATH-002 is gone" in missing
    assert found(ONE, new, log=entry(TWO.id, "renamed", to=new.id)) == []
    assert "renamed to TCPV-PATH-009, which isn't there" in "\n".join(
        found(ONE, new, log=entry(TWO.id, "renamed", to="TCPV-PATH-009")))


def test_a_withdrawn_id_is_not_used_again(found: Case) -> None:
    assert "an ID isn't used again" in found(ONE, TWO, log=entry(TWO.id, "withdrawn"))[0]


def test_a_new_requirement_begins_with_version_1(found: Case) -> None:
    new = replace(ONE, id="TCPV-PATH-004", version=2)
    assert "is new: its version is 2, not 1" in found(ONE, TWO, new)[0]


def test_the_change_log_is_checked(found: Case) -> None:
    assert "version 5 isn't within 2 to 1" in found(
        ONE, TWO, log=entry(ONE.id, "changed", version=5))[0]
    twice = entry("TCPV-PATH-009", "withdrawn") * 2
    assert found(ONE, TWO, log=twice)[0].startswith("spec/changelog.toml:5:")


@pytest.mark.parametrize(("log", "line", "what"), [
    (entry(ONE.id, "gone"), 3, "kind: 'gone' is none of changed, renamed, withdrawn"),
    (entry(ONE.id, "changed"), 1, "version: is missing"),
    (entry(ONE.id, "withdrawn", colour="red"), 5, "colour: is an unknown key"),
    (entry(ONE.id, "withdrawn").replace('reason = "Why."\n', ""), 1, "reason: is missing"),
    ("[[change]\n", 1, "not TOML"),
])
def test_a_malformed_change_log(found: Case, log: str, line: int, what: str) -> None:
    with pytest.raises(SpecError, match=rf"changelog\.toml:{line}: .*") as caught:
        found(ONE, TWO, log=log)
    assert what in str(caught.value)


@pytest.mark.parametrize(("text", "what"), [
    ("{", "lock.json:1: not JSON"), ("[]", "an object is needed"),
    ('{\n"TCPV-PATH-001": {"version": 1}\n}', "lock.json:2: TCPV-PATH-001"),
])
def test_a_malformed_lock(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / governance.LOCK).write_text(text)
    with pytest.raises(SpecError) as caught:
        governance.read_lock(tmp_path)
    assert what in str(caught.value)


def git(made: Checkout, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(made.root), "-c", "user.name=t", "-c", "user.email=t@t",
                    *arguments], check=True, capture_output=True)


def test_accept_refuses_until_version_and_entry_are_there(tmp_path: Path) -> None:
    made = checkout(tmp_path)
    assert made.run("accept").returncode == 0
    lock = (tmp_path / governance.LOCK).read_text()

    made.chapter(req(text="A host shall do more."))
    refused = made.run("accept")
    assert refused.returncode == 1
    assert "spec/one.rst:4: TCPV-TSAS-001: text changed: set its version to 2" in refused.stdout
    assert (tmp_path / governance.LOCK).read_text() == lock
    stale = made.run("check")
    assert stale.returncode == 1
    assert "is out of date (TCPV-TSAS-001)" in stale.stdout

    made.chapter(req(text="A host shall do more.", version="2"))
    assert made.run("accept").returncode == 1
    made.changelog(entry("TCPV-TSAS-001", "changed", version=2))
    assert made.run("accept").returncode == 0
    assert (tmp_path / governance.LOCK).read_text() != lock


def test_a_hand_edited_lock_does_not_get_past_the_base(tmp_path: Path) -> None:
    made = checkout(tmp_path)
    made.run("accept")
    git(made, "init", "-q")
    git(made, "add", "-A")
    git(made, "commit", "-qm", "base")
    made.chapter(req(text="A host shall do more."))
    (tmp_path / governance.LOCK).unlink()
    assert made.run("accept").returncode == 0  # as if it were the first time
    caught = made.run("check", "--base", "HEAD")
    assert "TCPV-TSAS-001: text changed: set its version to 2 [governance]" in caught.stdout
    nonsense = made.run("check", "--base", "nonsense")
    assert (nonsense.returncode, nonsense.stderr) == (
        2, "nvmptcp-spec: error: --base nonsense: no such revision of this repository\n")
