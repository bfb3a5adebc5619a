# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `nvmptcp-conformance` without a device, and that the suite agrees with the proposal.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.resources import files
from pathlib import Path

import pytest
from command import error, run
from nvmptcp_conformance import requirements
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Side
from nvmptcp_conformance.suite.chapters import CHAPTERS

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "spec"


def test_list() -> None:
    cases = json.loads(run("list", "--json").stdout)
    known = json.loads((SPEC / "requirements.lock.json").read_text())
    assert len(cases) >= 20
    for case in cases:
        assert case["requirements"] or case["chapter"] == "claims", case
        assert set(case["requirements"]) <= set(known), case
    for side in Side:
        sections = [case["section"] for case in cases if case["side"] == side]
        assert sections == sorted(sections)


def test_list_of_a_requirement_and_of_a_section() -> None:
    text = run("list", "--side", "target", "--requirement", "TCPV-TSAS-003").stdout
    assert text.splitlines() == ["target under test", "  5 Transport Specific Address Subtype",
                                 "    TCPV-TSAS-003   reserved"]
    only = json.loads(run("list", "--section", "6", "--json").stdout)
    assert {case["chapter"] for case in only} == {"discovery"}


@pytest.mark.parametrize("option", [("--section", "99"), ("--requirement", "TCPV-NONE-001")])
def test_nothing_to_list(option: tuple[str, str]) -> None:
    assert error("list", *option).startswith(f"{option[0]} {option[1]}: no test; see")


def test_names_of_cases_are_unique() -> None:
    """Fails if two cases of a side share the place of their results and captures."""
    cases = plugin.cases()
    assert len({(case.side, case.key) for case in cases}) == len(cases)


def test_chapters_are_those_of_the_proposal() -> None:
    """Fails if a chapter moved or was renamed."""
    toctree = re.findall(r"^   ([\w-]+)$", (SPEC / "index.rst").read_text(), re.MULTILINE)
    for chapter in CHAPTERS.values():
        if chapter.number:
            assert toctree.index(chapter.name) + 1 == chapter.number
            title = re.search(r"^(.+)\n===", (SPEC / f"{chapter.name}.rst").read_text(),
                              re.MULTILINE)
            assert title is not None
            assert title[1] == chapter.title


def test_explain() -> None:
    text = run("explain", "TCPV-DISC-001").stdout
    assert text.startswith("TCPV-DISC-001  One entry for a port\n"
                           "A discovery controller shall not report")
    assert re.search(r"^  rests on:  NVM", text, re.MULTILINE)
    assert re.search(r"^  sent:      Get Log Page", text, re.MULTILINE)
    assert re.search(r"^  expected:  no two TCP entries", text, re.MULTILINE)


def test_explain_what_has_no_test_or_does_not_exist() -> None:
    ident, reason = next((ident, reason) for ident, reason in requirements.without_test(
        Side.HOST, plugin.cases()).items() if reason)
    assert f"\nhost: no test: {reason}\n" in run("explain", ident).stdout
    assert error("explain", "TCPV-TSAS-999").startswith("TCPV-TSAS-999: no such requirement")


def test_untested_requirements_have_reasons_of_their_own() -> None:
    """Fails if a requirement has neither test nor reason, or if a reason stands for one that has a
    test or doesn't exist.
    """
    given = tomllib.loads(files("nvmptcp_conformance").joinpath("suite/untested.toml").read_text())
    for side in Side:
        without = requirements.without_test(side, plugin.cases())
        assert set(given[side]) <= set(without)
        assert not [ident for ident, reason in without.items() if not reason]


def test_list_of_untested_requirements() -> None:
    found = json.loads(run("list", "--untested", "--json").stdout)
    tested = {(case.side.value, ident) for case in plugin.cases() for ident in case.requirements}
    for side in Side:
        for ident, requirement in requirements.load().items():
            assert (ident in found[side]) == (
                requirement.concerns(side) and (side.value, ident) not in tested), ident


@pytest.mark.parametrize(("arguments", "says"), [
    (("--traddr", "disk.example"), "argument --traddr: 'disk.example' does not appear to be"),
    (("--traddr", "192.0.2.1", "--trsvcid", "0"), "argument --trsvcid: a number from 1 to 65535"),
    (("--traddr", "192.0.2.1", "--nqn", "n" * 224), "argument --nqn: an NQN has at most 223"),
    (("--traddr", "192.0.2.1", "--timeout", "soon"), "argument --timeout: seconds are needed"),
    (("--traddr", "192.0.2.1", "--timeout", "0"), "argument --timeout: seconds are needed, more"),
    (("--resume", "--failed"), "argument --failed: not allowed with argument --resume"),
])
def test_wrong_options(arguments: tuple[str, ...], says: str) -> None:
    assert error("target", *arguments).startswith(says)


def test_no_address() -> None:
    assert error("target").startswith("no address: give --traddr, or `traddr` in [target]")


def test_nobody_listens(tmp_path: Path) -> None:
    """Fails if an unreachable target brings more than a line, or loses its place."""
    with socket.socket() as held:  # bound, not listening: the port answers with a reset
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        expected = ("no MPTCP sockets on this machine" if no_mptcp_here()
                    else f"127.0.0.1:{port}: not reachable: Connection refused")
        assert error("target", "--traddr", "127.0.0.1", "--trsvcid", port, "--results",
                     tmp_path).startswith(expected)


def no_mptcp_here() -> bool:
    """Whether this machine's kernel lacks MPTCP, so that nothing can listen with it."""
    try:
        socket.socket(type=socket.SOCK_STREAM, proto=262).close()
    except OSError:
        return True
    return False


def test_a_host_that_never_connects(tmp_path: Path) -> None:
    """Fails if the run waits for ever, or begins with tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = error("host", "--listen", f"127.0.0.1:{port}", "--trigger", "echo no way; exit 4",
                 "--timeout", "1", "--results", tmp_path)
    assert said.startswith(f"127.0.0.1 port {port}: ")
    if not no_mptcp_here():
        assert said.endswith(": the host opened no Admin Queue within 1 s: no connection; the"
                             " trigger ended with 4 and said: no way")


def test_no_place_to_listen(tmp_path: Path) -> None:
    assert error("host", "--listen", "192.0.2.77", "--trigger", "true", "--results",
                 tmp_path).startswith("192.0.2.77 port 4420: can't listen: ")
    assert error("host", "--listen", "192.0.2.77").startswith("no trigger: give --trigger, or")
    assert error("host").startswith("no address: give --listen, or")


def test_results_can_not_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert error("target", "--traddr", "127.0.0.1", "--results", file / "results") == (
        f"{file / 'results'}: Not a directory")


@pytest.mark.parametrize("mode", ["--resume", "--failed"])
def test_nothing_to_go_on_with(mode: str, tmp_path: Path) -> None:
    assert error("target", "--traddr", "127.0.0.1", "--results", tmp_path, mode) == (
        f"{tmp_path}: has no results: {mode} needs those of an earlier run (--results)")


@pytest.mark.parametrize("text", ["", "[]", '{"format": 99}', '{"format": 1}'])
def test_results_that_are_none(text: str, tmp_path: Path) -> None:
    """Fails if a strange results.json is overwritten or brings a traceback."""
    file = tmp_path / "results.json"
    file.write_text(text)
    for arguments in (("target", "--traddr", "127.0.0.1", "--results", tmp_path),
                      ("report", tmp_path)):
        assert error(*arguments).startswith(f"{file}: isn't the results.json of a run of this")
    assert file.read_text() == text


def test_without_a_checkout(tmp_path: Path) -> None:
    """Fails if what pip installs lacks a file, or needs the checkout or the extra `docs`."""
    source = tmp_path / "source"
    for part in ("conformance/nvmptcp_conformance", "spec/nvmptcp_spec", "kernel-impl/nvmptcp_lab",
                 "docs/nvmptcp_docs"):
        shutil.copytree(ROOT / part, source / part,
                        ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "pyproject.toml").read_text()
    for part in re.search(r"^where = \[(.*)\]", text, re.MULTILINE)[1].split(", "):  # type: ignore[index]
        (source / part.strip('"')).mkdir(exist_ok=True)
    (source / "pyproject.toml").write_text(text)
    _pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", tmp_path, source)
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "venv"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    _pip("--python", python, "install", "--no-deps", "--no-index", wheel)
    # The packages that it depends on are those of this environment, but not its own.
    (purelib,) = place.glob("lib/python*/site-packages")
    (purelib / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def installed(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([place / "bin" / "nvmptcp-conformance", *arguments], cwd=tmp_path,
                              capture_output=True, text=True, check=False)

    where = subprocess.run([python, "-c", "import nvmptcp_conformance as n; print(n.__file__)"],
                           cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert where.startswith(str(place))
    assert installed("list").stdout == run("list").stdout
    assert installed("explain", "TCPV-CONN-013").stdout == run("explain", "TCPV-CONN-013").stdout
    assert installed("profile").stdout == run("profile").stdout
    lab = installed("reference")
    assert lab.returncode == 2
    assert lab.stderr.startswith("nvmptcp-conformance: error: `reference` needs the lab, which is")


def test_the_reference_kernel_with_results_below_the_working_directory(tmp_path: Path) -> None:
    done = run("reference", "target", "--requirement", "TCPV-TSAS-001", "--results", "results",
               cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 fail" in done.stdout
    assert (tmp_path / "results" / "target" / "report.html").is_file()


def _pip(*arguments: object) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check",
                           *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
