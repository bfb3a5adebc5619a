# SPDX-License-Identifier: GPL-2.0-or-later
"""The page about the model says what its results say, and of the scenarios as they are."""

from pathlib import Path

import pytest
from nvmptcp_conformance.perf import results
from nvmptcp_conformance.perf.page import essence
from nvmptcp_conformance.perf.results import Figure, ResultSet
from nvmptcp_lab.errors import LabError
from nvmptcp_model import page, schema, validation

FIT = {"slope": 0.5, "intercept": 0.1, "r_squared": 0.99}
COSTS = {"source": "model", "seconds": 2}
POINT = {"x": 1, "events": 1000, "cpu_seconds": 0.5, "peak_memory_kib": 2048, "mib_s": 114.0}
LINE = {"what": "links", "cpu": FIT, "events": FIT, "points": [POINT]}


def _validation(model: float) -> validation.Validation:
    check = validation.Check("bonding", "a cell", "read_mib_s", 100, model, 0.03)
    return validation.Validation(
        "kernel", "model", (check,),
        (validation.Cause("The cause.", frozenset({check.place})),) if model < 90 else ())


def _page(model: float) -> str:
    cell = results.CellResult("own", "all", {"a": "all"}, {"read_mib_s": Figure.of([7])})
    own = ResultSet("model", {"own": {"title": "Own", "answers": "What?"}}, (cell,))
    return page.render(_validation(model), own, COSTS | {"lines": [LINE]}, {})


def test_what_is_outside_has_its_cause_or_none() -> None:
    listed, unlisted, inside = _page(80), _page(95), _page(99)
    assert "The cause." in listed
    assert "| `bonding: a cell` | `read_mib_s` | 100 | 80 | -20.0% |" in listed
    assert "Outside, cause not known" not in listed
    assert "Outside, cause not known" in unlisted
    assert "| `bonding` | 1 of 6 | 0 | 1 | 0 | 5.0% |" in unlisted
    assert "Outside" not in inside
    assert "| `all` | 1 | 1 | 1 | 1 | 1.0% |" in inside
    assert "2,000" in inside  # events a second of CPU time


def test_scenarios_that_were_not_simulated_are_named() -> None:
    assert "Not simulated: `block-sizes`, `" in _page(99)


def test_the_page_is_what_the_results_give() -> None:
    found, own = validation.load(page.VALIDATION), results.load(page.OWN)
    costs, state = (page.read(path, {}) for path in (page.BENCHMARK, page.STATE))
    assert page.render(found, own, costs, state) == page.PAGE.read_text(), (
        "`make validate` renews it, and `make state` what a host takes")
    assert essence(own) == own


def test_the_results_are_of_the_scenarios_as_they_are() -> None:
    own = results.load(page.OWN)
    for name in own.scenarios:
        expected = schema.find(name)
        assert [cell.name for cell in own.cells if cell.scenario == name] == [
            cell.name for cell in expected.cells]
        assert own.scenarios[name] == expected.head.model_dump()
    kernel = {(cell.scenario, cell.name): cell for cell in results.load(validation.KERNEL).cells}
    for check in validation.load(page.VALIDATION).checks:
        cell = kernel[check.scenario, check.cell]
        assert cell.figures[check.figure].median == check.kernel


def test_growth_beyond_a_line_stops_the_page() -> None:
    bent = LINE | {"points": [POINT, POINT | {"x": 4, "events": 5000}]}
    own = ResultSet("model", {}, ())
    with pytest.raises(LabError, match="Cost grows no faster than links"):
        page.render(_validation(99), own, COSTS | {"lines": [LINE, bent]}, {})


def test_what_was_published_of_a_policy() -> None:
    assert page.published_policy("read", "adaptive") == 2215
    assert page.published_policy("write", "round_robin") == 1875


def test_errors_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert page.main(["one", "two"]) == 2
    assert page.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("model page: error: ") == 2
