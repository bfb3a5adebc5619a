# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of results says what the results say, and of the scenarios as they are."""

import pytest
from nvmptcp_conformance.perf import page, scenario
from nvmptcp_conformance.perf.results import CellResult, Figure, ResultSet, load
from nvmptcp_lab.errors import LabError


def _cell(axes: dict[str, str], *bandwidths: float) -> CellResult:
    return CellResult("s", ", ".join(axes.values()), axes,
                      {"write_mib_s": Figure.of(bandwidths), "gap_ms": Figure.of([7])},
                      {"write": 50.0}, {"bin_ms": 500, "mib_s": [1, 4, 5, 2], "gap_ms": 7})


QUOTES = page.Quotes(ResultSet("k", {"s": {"title": "t"}}, (
    _cell({"who": "tcp", "fio.rw": "rw randread"}, 10),
    _cell({"who": "tcp", "fio.rw": "rw randwrite"}, 20, 30, 25),
    _cell({"who": "mptcp", "fio.rw": "rw randread"}, 40),
)))


def test_the_page_is_what_the_results_give() -> None:
    found = load(page.RESULTS / "perf.json")
    assert page.render(found) == page.PAGE.read_text(), "`make perf` renews it"
    assert page.essence(found) == found


@pytest.mark.parametrize("name", scenario.names())
def test_results_are_those_of_the_scenarios_as_they_are(name: str) -> None:
    found = load(page.RESULTS / "perf.json")
    measured = [(cell.name, dict(cell.axes)) for cell in found.cells if cell.scenario == name]
    expected = scenario.find(name)
    assert measured == [(cell.name, dict(cell.axes)) for cell in expected.cells]
    assert found.scenarios[name] == expected.head.model_dump()
    runs = {figure.runs for cell in found.cells if cell.scenario == name
            for figure in cell.figures.values()}
    assert runs == {expected.head.seeds}


def test_quotes() -> None:
    assert QUOTES.value("s", "tcp", "randwrite") == 25
    assert QUOTES.value("s", "mptcp", figure="gap_ms") == 7
    assert QUOTES.mean("s", "tcp") == 17.5
    assert QUOTES.table("s", "fio.rw") == (
        "|  | rw randread | rw randwrite |\n|---|---|---|\n"
        "| tcp | 10.0 | 25.0 (20.0-30.0) |\n| mptcp | 40.0 |  |")
    assert QUOTES.table("s", "who", "gap_ms", 0, ("randread",)) == (
        "| tcp | mptcp |\n|---|---|\n| 7 | 7 |")
    assert QUOTES.table("s", labels=("randread",)) == (
        "|  | MiB/s |\n|---|---|\n| tcp | 10.0 |\n| mptcp | 40.0 |")
    assert QUOTES.share("s", "mptcp") == 80
    assert QUOTES.window(0.5, 1.5, "s", "mptcp") == 4.5
    assert QUOTES.claim(True, "so it is") == "so it is"


@pytest.mark.parametrize(("ask", "words"), [
    (lambda: QUOTES.value("s", "tcp"), "2 cells of 's' have"),
    (lambda: QUOTES.value("s", "udp"), "no cell of 's' has"),
    (lambda: QUOTES.value("s", "mptcp", figure="p99_ms"), "has no 'p99_ms'"),
    (lambda: QUOTES.claim(False, "x is y"), "the figures don't say any more that x is y"),
])
def test_what_the_results_do_not_say(ask: "object", words: str) -> None:
    assert callable(ask)
    with pytest.raises(LabError, match=words):
        ask()


def test_new_results_take_the_place_of_whole_scenarios() -> None:
    other = CellResult("a", "x", {}, {})
    kept = ResultSet("k", {"s": {}, "t": {}}, (
        _cell({"who": "gone"}, 1), CellResult("t", "stays", {}, {})))
    found = page.merged(kept, ResultSet("k", {"s": {}, "a": {}}, (_cell({"who": "new"}, 2), other)))
    assert [(cell.scenario, cell.name) for cell in found.cells] == [
        ("a", "x"), ("s", "new"), ("t", "stays")]
    assert list(found.scenarios) == ["a", "s", "t"]
    another = ResultSet("another kernel", {"a": {}}, (other,))
    assert page.merged(kept, another) == another


def test_errors_of_the_command(tmp_path: "object", capsys: pytest.CaptureFixture[str]) -> None:
    assert page.main(["a", "b"]) == 2
    assert page.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("perf page: error: ") == 2
