# SPDX-License-Identifier: GPL-2.0-or-later
"""What a validation finds fault with."""

from dataclasses import replace
from pathlib import Path

import pytest
from nvmptcp_conformance.perf import results, scenario
from nvmptcp_conformance.perf.results import CellResult, Figure, ResultSet
from nvmptcp_lab.errors import LabError, UsageError
from nvmptcp_model import schema, validation

KERNEL = {"read_mib_s": 100.0, "read_p99_ms": 10.0, "path1_share": 0.5, "gap_ms": 100.0,
          "drops": 3.0}
NONE: tuple[validation.Cause, ...] = ()


@pytest.fixture
def tiny(tmp_path: Path) -> scenario.Scenario:
    (tmp_path / "s.toml").write_text("title = 't'\n[[case.c]]\nname = 'even'\n"
                                     "[[case.c]]\nname = 'lossy'\ntopology.loss = '1%'\n")
    return schema.find(str(tmp_path / "s.toml"))


def _set(source: str, even: dict[str, float], lossy: dict[str, float]) -> ResultSet:
    return ResultSet(source, {}, tuple(
        CellResult("s", name, {"c": name}, {key: Figure.of([value])
                                            for key, value in figures.items()})
        for name, figures in (("even", even), ("lossy", lossy))))


def _check(tiny: scenario.Scenario, even: dict[str, float], lossy: dict[str, float],
           *places: tuple[str, str]) -> validation.Validation:
    causes = (validation.Cause("because", frozenset(places)),) if places else ()
    return validation.check([tiny], _set("kernel", KERNEL, KERNEL),
                            _set("model", {**KERNEL, **even}, {**KERNEL, **lossy}),
                            causes)


def test_tolerances_by_kind_of_path_and_figure(tiny: scenario.Scenario) -> None:
    assert _check(tiny, {"read_mib_s": 97.1, "read_p99_ms": 10.29, "path1_share": 0.529,
                         "gap_ms": 124}, {"read_mib_s": 86, "read_p99_ms": 11.4,
                                          "path1_share": 0.36}).ok
    found = _check(tiny, {"read_mib_s": 96.9, "read_p99_ms": 10.4, "path1_share": 0.531,
                          "gap_ms": 126, "drops": 9}, {"read_mib_s": 84})
    assert [one.place for one in found.unlisted()] == [
        ("s: even", "read_mib_s"), ("s: even", "read_p99_ms"), ("s: even", "path1_share"),
        ("s: even", "gap_ms"), ("s: lossy", "read_mib_s")]
    assert not found.ok


def test_a_gap_is_as_exact_as_the_log_of_fio(tiny: scenario.Scenario) -> None:
    found = validation.check([tiny], _set("k", {"gap_ms": 2}, {"gap_ms": 2}),
                             _set("m", {"gap_ms": 3}, {"gap_ms": 4}), NONE)
    assert [one.inside for one in found.checks] == [True, False]


def test_listed_causes(tiny: scenario.Scenario) -> None:
    place = ("s: even", "read_mib_s")
    listed = _check(tiny, {"read_mib_s": 50}, {}, place)
    assert listed.ok
    assert "  OUTSIDE: read_mib_s" in validation.table(listed)
    stale = _check(tiny, {}, {}, place)
    assert not stale.ok
    assert "STALE s: even: read_mib_s is inside" in validation.table(stale)
    unknown = _check(tiny, {}, {}, ("s: even", "no_such_figure"))
    assert not unknown.ok
    assert "STALE s: even has no figure no_such_figure" in validation.table(unknown)
    # A cell that was not looked at is not judged.
    assert _check(tiny, {}, {}, ("t: other", "read_mib_s")).ok


def test_missing_cells_and_figures(tiny: scenario.Scenario) -> None:
    both = _set("k", KERNEL, KERNEL)
    with pytest.raises(LabError, match="k has no cell 's': 'lossy'"):
        validation.check([tiny], replace(both, cells=both.cells[:1]), both, NONE)
    with pytest.raises(LabError, match="the model has no figure read_mib_s of 's': 'even'"):
        validation.check([tiny], both, _set("m", {}, {}), NONE)


def test_as_json_and_back(tiny: scenario.Scenario) -> None:
    found = _check(tiny, {"read_mib_s": 50, "read_p99_ms": 20}, {}, ("s: even", "read_mib_s"))
    again = validation.of_document(found.document())
    assert again.checks == found.checks
    assert again.causes == found.causes
    assert [one.figure for one in again.unlisted()] == ["read_p99_ms"]


@pytest.mark.parametrize(("text", "line", "words"), [
    ("[[cause]]\ntext = 'x'", 1, "needs text, and cells"),
    ("[[cause]]\n[cause.cells]\n'a: b' = ['x']", 1, "needs text, and cells"),
    ("[[cause]]\ntext = 'x'\n[cause.cells]\n\"a: b\" = 'x'", 4, "a: b: must be a list of figures"),
    ("[[cause]]\ntext = 'x'\n[cause.cells]\n\"a: b\" = ['x']\n[[cause]]\ntext = 'y'\n"
     "[cause.cells]\n\"a: b\" = ['x']", 8, "a: b: x has a cause already"),
    ("[[excuse]]\ntext = 'x'", 1, "excuse: unknown; known here: cause"),
])
def test_errors_of_the_list_of_causes(tmp_path: Path, text: str, line: int, words: str) -> None:
    file = tmp_path / "deviations.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        validation.causes(file)
    assert str(raised.value).startswith(f"{file}:{line}: ")
    assert words in str(raised.value)


def test_the_list_of_causes_names_cells_that_the_kernel_has() -> None:
    known = {f"{cell.scenario}: {cell.name}": cell.figures
             for cell in results.load(validation.KERNEL).cells}
    for cell, figure in (place for cause in validation.causes() for place in cause.places):
        assert figure in known.get(cell, {}), (cell, figure)
