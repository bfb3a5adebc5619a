# SPDX-License-Identifier: GPL-2.0-or-later
"""The marker `requirement`: unknown IDs stop a run, outcomes are noted."""

import json
from pathlib import Path

import pytest
from nvmptcp_spec import governance
from spec_helpers import Checkout, checkout, req

TESTS = """\
import pytest

pytestmark = pytest.mark.requirement("TCPV-TSAS-001")


@pytest.mark.parametrize("n", [1, 2])
def test_both(n):
    assert n == 1


@pytest.mark.requirement("TCPV-TSAS-002")
def test_good():
    pass


@pytest.mark.requirement("TCPV-TSAS-003")
def test_skipped():
    pytest.skip("no reason")


@pytest.mark.requirement("TCPV-TSAS-004")
@pytest.mark.skip
def test_never():
    pass


@pytest.mark.requirement("TCPV-TSAS-005")
@pytest.mark.xfail
def test_known_to_fail():
    assert False


@pytest.fixture
def broken():
    yield
    assert False


@pytest.mark.requirement("TCPV-TSAS-006", "TCPV-TSAS-002")
def test_broken_afterwards(broken):
    pass
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    made = checkout(tmp_path_factory.mktemp("plugin"))
    made.chapter("\n".join(req(f"TCPV-TSAS-{n:03}") for n in range(1, 7)))
    assert made.run("accept").returncode == 0
    return made


@pytest.fixture(scope="module", params=[(), ("--numprocesses", "2")], ids=["one", "two workers"])
def verdicts(made: Checkout, request: pytest.FixtureRequest) -> dict[str, dict[str, object]]:
    made.tests(TESTS)
    done = made.pytest("--requirement-verdicts", "out/verdicts.json", *request.param)
    assert done.returncode == 1
    found: dict[str, dict[str, object]] = json.loads(
        (made.root / "out/verdicts.json").read_text())["requirements"]
    return found


@pytest.mark.parametrize(("ident", "outcome"), [
    ("TCPV-TSAS-001", "failed"), ("TCPV-TSAS-002", "failed"), ("TCPV-TSAS-003", "skipped"),
    ("TCPV-TSAS-004", "skipped"), ("TCPV-TSAS-005", "failed"), ("TCPV-TSAS-006", "failed"),
])
def test_the_worst_outcome_is_that_of_the_requirement(
    ident: str, outcome: str, verdicts: dict[str, dict[str, object]]
) -> None:
    assert verdicts[ident]["outcome"] == outcome


def test_parameters_and_several_requirements(verdicts: dict[str, dict[str, object]]) -> None:
    assert verdicts["TCPV-TSAS-002"]["tests"] == {
        "tests/test_it.py::test_good": "passed",
        "tests/test_it.py::test_broken_afterwards": "failed"}
    tests = verdicts["TCPV-TSAS-001"]["tests"]
    assert isinstance(tests, dict)
    assert tests["tests/test_it.py::test_both"] == "failed"
    assert len(tests) == 6


@pytest.mark.parametrize(("marker", "what"), [
    ('"TCPV-TSAS-009"', "tests/test_bad.py::test_bad: unknown requirement TCPV-TSAS-009"),
    ("", "tests/test_bad.py::test_bad: the marker requirement takes IDs"),
    ("1", "tests/test_bad.py::test_bad: the marker requirement takes IDs"),
])
def test_a_bad_marker_stops_the_run(marker: str, what: str, made: Checkout) -> None:
    made.tests(f"import pytest\n\n@pytest.mark.requirement({marker})\ndef test_bad():\n    pass\n",
               "test_bad")
    try:
        done = made.pytest("tests/test_bad.py")
    finally:
        (made.root / "tests" / "test_bad.py").unlink()
    assert done.returncode == 4
    assert what in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_without_a_lock_file_it_says_what_to_do(tmp_path: Path) -> None:
    made = checkout(tmp_path)
    done = made.pytest()
    assert done.returncode == 4
    assert f"{governance.LOCK}: is missing" in done.stderr
    made.tests("def test_it():\n    pass\n")  # no marker: no concern of ours
    assert made.pytest().returncode == 0
