# SPDX-License-Identifier: GPL-2.0-or-later
"""The module's own ns-3 test suites, and the tables of its documentation."""

import subprocess
from pathlib import Path

from nvmptcp_model.backend import ROOT

pytest_plugins = ("model_fixtures",)


def test_all_suites_pass(built: Path) -> None:
    runner = built / "nvme-mptcp-test"
    listed = subprocess.run([runner, "--list"], capture_output=True, text=True, check=True)
    suites = listed.stdout.split()
    sources = list((ROOT / "model" / "test").glob("*-test-suite.cc"))
    assert len(suites) >= len(sources) > 3
    failed = []
    for suite in suites:
        done = subprocess.run([runner, f"--test-name={suite}", "--verbose"], capture_output=True,
                              text=True, timeout=600)
        if done.returncode or f"PASS {suite}" not in done.stdout:
            failed.append(f"{suite}: {done.stdout}{done.stderr}")
    assert not failed, "\n".join(failed)


def test_the_tables_of_attributes_are_those_of_the_code(built: Path) -> None:
    printed = subprocess.run([built / "nvme-mptcp-attributes"], capture_output=True, text=True,
                             check=True).stdout
    assert "ns3::MptcpPathManager" in printed
    assert (ROOT / "model" / "doc" / "attributes.rst").read_text() == printed, (
        "`make model-doc` renews it")
