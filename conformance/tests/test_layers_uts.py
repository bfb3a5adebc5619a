# SPDX-License-Identifier: GPL-2.0-or-later
"""The layers' test campaigns in Scapy's own form, as scapy.contrib asks for them."""

import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGNS = sorted((Path(__file__).parent / "uts").glob("*.uts"))


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda path: path.stem)
def test_campaign(campaign: Path) -> None:
    """Fails if a test of the campaign fails, or none is run."""
    done = subprocess.run(
        [sys.executable, "-m", "scapy.tools.UTscapy", "-f", "text", "-t", campaign],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("[passed]") == campaign.read_text().count("\n= ")
