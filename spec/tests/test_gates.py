# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-spec check` as a whole: each gate lets it fail, and a sound tree passes.

The failing examples of malformed registries and requirements, of keywords and of changes stand in
test_registry.py, test_requirements.py and test_governance.py.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from nvmptcp_spec import gates, generate
from spec_helpers import ROOT, Checkout, checkout, req


@pytest.fixture
def sound(tmp_path: Path) -> Checkout:
    made = checkout(tmp_path)
    assert made.run("generate").returncode == made.run("accept").returncode == 0
    return made


def spoil_text(made: Checkout, path: str, old: str, new: str) -> None:
    file = made.root / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def spoil_series(made: Checkout) -> None:
    series = made.root / "kernel-impl" / "series"
    patch = next(series.glob("0007-*.patch")).read_text()
    series.unlink()
    series.mkdir()
    (series / "0007-nvme.patch").write_text(patch.replace("resv6[250]", "resv6[2]"))


# gate → how to break it, and what is said
BREAK: dict[str, tuple[Callable[[Checkout], None], str]] = {
    "sphinx": (lambda m: m.chapter(".. nonsense::\n", "two"),
               'spec/two.rst:4: Unknown directive type "nonsense"'),
    "requirement": (lambda m: m.chapter(req("TCPV-TSAS-002", level=None), "two"),
                    "spec/two.rst:4: TCPV-TSAS-002: no :level:"),
    "keyword": (lambda m: m.chapter("It shall.\n", "two"),
                "spec/two.rst:4: 'shall' outside of a requirement"),
    "registry": (lambda m: spoil_text(m, "spec/registry.toml", "at = [6, 255]", "at = [7, 255]"),
                 "spec/registry.toml:"),
    "generated": (lambda m: spoil_text(m, "spec/include/nvme_tcp_variant.h", "0x4", "0x8"),
                  "spec/include/nvme_tcp_variant.h:"),
    "kernel": (spoil_series, "kernel-impl/series/0007-nvme.patch:"),
    "freshness": (lambda m: m.chapter(req() + "\n" + req("TCPV-TSAS-002", untested="Soon.")),
                  "is out of date (TCPV-TSAS-002): run `nvmptcp-spec accept`"),
    "governance": (lambda m: m.chapter(req(text="A host shall not.")), "text changed"),
    "untested": (lambda m: m.tests("", "test_it"),
                 "spec/one.rst:4: TCPV-TSAS-001: a shall without a test"),
    "tests": (lambda m: m.tests('import pytest\n\n@pytest.mark.requirement("TCPV-TSAS-009")\n'
                                "def test_other():\n    pass\n", "test_other"),
              "tests/test_other.py:3: tests/test_other.py::test_other names an unknown requirement"
              " TCPV-TSAS-009"),
}


def test_every_gate_has_its_failing_example() -> None:
    listed = {gate.strip() for line in (gates.__doc__ or "").splitlines()
              if line.startswith("|") and "---" not in line and "| gate" not in line
              for gate in line.split("|")[1].split(",")}
    assert listed == set(BREAK)


@pytest.mark.parametrize("gate", BREAK)
def test_a_broken_tree_fails(gate: str, sound: Checkout) -> None:
    spoil, what = BREAK[gate]
    spoil(sound)
    _, problems = gates.check(sound.root)
    assert any(p.gate == gate and what in str(p) for p in problems), problems


def test_a_sound_tree_passes(sound: Checkout) -> None:
    done = sound.run("check")
    assert (done.returncode, done.stdout) == (
        0, "nvmptcp-spec: 1 requirements, 1 of them shall: no problems\n")
    spoil_text(sound, "spec/one.rst", ":level: shall", ":level: will")
    broken = sound.run("check", "--json")
    assert broken.returncode == 1
    assert {p["gate"] for p in json.loads(broken.stdout)["problems"]} >= {"requirement", "tests"}


@pytest.mark.parametrize("test", [
    '@pytest.mark.skip\n@pytest.mark.requirement("TCPV-TSAS-001")\ndef test_it():\n    pass\n',
    "def test_it():\n    pass\n",
])
def test_a_test_that_never_runs_is_none(test: str, sound: Checkout) -> None:
    sound.tests(f"import pytest\n\n{test}")
    assert [p.gate for p in gates.check(sound.root)[1]] == ["untested"]


def test_a_reason_is_enough_and_a_needless_one_is_found(sound: Checkout) -> None:
    sound.chapter(req(untested="No equipment."))
    sound.run("generate", "requirements")
    assert "says why there's no test, but tests/test_it.py::test_it is one" in str(
        gates.check(sound.root)[1])
    sound.tests("")
    assert gates.check(sound.root)[1] == []


def test_an_old_file_of_requirements_is_noticed(sound: Checkout) -> None:
    """Fails if the conformance suite could say something else than the chapters."""
    sound.chapter(req(title="Another title"))
    (found,) = gates.check(sound.root)[1]
    assert str(found) == (f"{generate.REQUIREMENTS}:3: isn't what the chapters say: run"
                          " `nvmptcp-spec generate` [generated]")


def test_tests_that_cannot_be_collected_are_a_finding(sound: Checkout) -> None:
    sound.tests("import nothing_like_this\n")
    (found,) = gates.check(sound.root)[1]
    assert found.gate == "tests"
    assert "nothing_like_this" in found.what


def test_the_project_passes() -> None:
    requirements, problems = gates.check(ROOT)
    assert len(requirements) >= 70
    assert problems == [], "\n".join(map(str, problems))
