# SPDX-License-Identifier: GPL-2.0-or-later
"""`nvmptcp-lab state`: what a target holds for a host, over TCP and over MPTCP."""

import json
from pathlib import Path

import pytest
from lab_helpers import Lab, one_line_error
from nvmptcp_lab.state import difference

PATHS = 2


def test_what_a_host_takes(lab: Lab, tmp_path: Path) -> None:
    done = lab("state", "--hosts", 16, "--paths", PATHS, "--json", "out.json")
    assert done.returncode == 0, done.stderr
    tcp, mptcp = json.loads((tmp_path / "out.json").read_text())["rows"]
    # an admin and an I/O queue for each controller: one on each path, or one with a subflow on each
    assert (tcp["tcp_sockets"], tcp["mptcp_sockets"]) == (2 * PATHS, 0)
    assert (mptcp["tcp_sockets"], mptcp["mptcp_sockets"]) == (2 * PATHS, 2)
    # commands are most of what a queue holds, and MPTCP has half the queues
    assert 0.4 < mptcp["slab_bytes"] / tcp["slab_bytes"] < 0.7
    for row in (tcp, mptcp):
        sockets = row["slabs"]["TCP"]
        # the last slab is full in part
        assert sockets["objects"] == pytest.approx(2 * PATHS, rel=0.25)
        assert sockets["objects"] * sockets["object_bytes"] < row["slab_bytes"] < row["used_bytes"]
    assert "one MPTCP association" in done.stdout


def test_the_difference_by_host() -> None:
    before = {"used_bytes": 1000, "slab_bytes": 500, "sockets": {"tcp": 2, "mptcp": 0},
              "slabs": {"TCP": {"objects": 2, "object_bytes": 2304}}}
    after = {"used_bytes": 9000, "slab_bytes": 2500, "sockets": {"tcp": 10, "mptcp": 0},
             "slabs": {"TCP": {"objects": 10, "object_bytes": 2304},
                       "new": {"objects": 4, "object_bytes": 8}}}
    assert difference(before, after, 4) == {
        "tcp_sockets": 2, "mptcp_sockets": 0, "used_bytes": 2000, "slab_bytes": 500,
        "slabs": {"TCP": {"objects": 2, "object_bytes": 2304},
                  "new": {"objects": 1, "object_bytes": 8}}}


@pytest.mark.parametrize("paths", ["0", "9", "two", ""])
def test_usage(lab: Lab, paths: str) -> None:
    done = lab("state", "--paths", paths)
    assert done.returncode == 2
    assert f"--paths {paths}: must be numbers from 1 to 8" in one_line_error(done)
