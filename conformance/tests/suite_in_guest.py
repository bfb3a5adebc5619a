# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the suite against the reference kernel in the lab's guest; prints the results as JSON."""

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from nvmptcp_conformance import cli
from nvmptcp_lab.guest import nvmet
from nvmptcp_lab.guest.netns import inside

TARGET = "10.0.1.2"
PORTS = {
    "adda": nvmet.Port(1, TARGET, 4420, "mptcp", "adda", maximum_subflows=8),
    "legacy": nvmet.Port(2, TARGET, 4421),
    "strict": nvmet.Port(3, TARGET, 4422, "mptcp", "adda,dcsr,mpreq"),
    "no adda": nvmet.Port(4, TARGET, 4423, "mptcp"),
}
SECTIONS = {"strict": (6, 8, 11, 12, 15), "no adda": (9,)}  # elsewhere all


def suite(traddr: str, trsvcid: int, *options: str) -> dict[str, Any]:
    """Run the command; its exit code, and test → verdict and what else the report says."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as scratch, inside("host"):
        file = Path(scratch) / "results.json"  # none if there was no target
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = cli.main(["target", "--traddr", traddr, "--trsvcid", str(trsvcid), "--results",
                             scratch, "--destructive", *options])
        results = json.loads(file.read_text())["results"] if file.exists() else []
    return {"code": code, "said": said.getvalue(), "results": results}


def port(name: str) -> dict[str, Any]:
    """The suite at a port of the kernel's target, or the sections that matter there."""
    runs = [suite(TARGET, PORTS[name].trsvcid, *options) for options in (
        [["--section", str(section)] for section in SECTIONS.get(name, ())] or [[]])]
    return {"code": max(run["code"] for run in runs), "said": "".join(run["said"] for run in runs),
            "results": [result for run in runs for result in run["results"]]}


def main() -> None:
    """All ports, and some runs that can't find a target."""
    subsystem = nvmet.subsystem(nvmet.null_block(16, memory_backed=True))
    for each in PORTS.values():
        nvmet.add_port(each, subsystem)
    found = {name: port(name) for name in PORTS}
    found["claimed"] = suite(TARGET, PORTS["legacy"].trsvcid, "--require-mptcp")
    found["refused"] = suite(TARGET, 4999)
    found["silent"] = suite("10.0.1.99", 4420, "--timeout", "2")
    found["wrong NQN"] = suite(TARGET, 4420, "--nqn", "nqn.2026-11.org.example:other")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
