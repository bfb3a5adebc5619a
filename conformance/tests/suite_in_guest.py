# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the suite in the lab's guest; prints the reports as JSON.

`python -m suite_in_guest kernel`: against each port of PORTS; `python -m suite_in_guest faults`:
against the soft target, without a fault and with each, there only the tests of what it breaks.
"""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from nvmptcp_conformance import cli
from nvmptcp_lab.guest import nvmet
from nvmptcp_lab.guest.netns import inside
from soft_target import FAULTS, SoftTarget

TARGET = "10.0.1.2"
PORTS = {
    "adda": nvmet.Port(1, TARGET, 4420, "mptcp", "adda", maximum_subflows=8),
    "legacy": nvmet.Port(2, TARGET, 4421),
    "strict": nvmet.Port(3, TARGET, 4422, "mptcp", "adda,dcsr,mpreq"),
    "no adda": nvmet.Port(4, TARGET, 4423, "mptcp"),
}


def suite(traddr: str, trsvcid: int, *options: str) -> dict[str, Any]:
    """Run the command; its exit code, and test → verdict and what else the report says."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as scratch, inside("host"):
        file = Path(scratch) / "report.json"
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = cli.main(["target", "--traddr", traddr, "--trsvcid", str(trsvcid), "--json",
                             str(file), *options])
        report = file.read_text()  # empty if there was no target
    return {"code": code, "said": said.getvalue(),
            "results": json.loads(report)["results"] if report else []}


def kernel() -> dict[str, Any]:
    """A port of the kernel's target each."""
    subsystem = nvmet.subsystem(nvmet.null_block(16, memory_backed=True))
    found = {}
    for name, port in PORTS.items():
        nvmet.add_port(port, subsystem)
        found[name] = suite(TARGET, port.trsvcid)
    found["claimed"] = suite(TARGET, PORTS["legacy"].trsvcid, "--require-mptcp")
    found["refused"] = suite(TARGET, 4999)
    found["silent"] = suite("10.0.1.99", 4420, "--timeout", "2")
    found["wrong NQN"] = suite(TARGET, 4420, "--nqn", "nqn.2026-11.org.example:other")
    return found


def faults() -> dict[str, Any]:
    """The soft target; each fault has a port of its own, as have those before it."""
    back = nvmet.Port(1, "127.0.0.1", 4999)
    nvmet.add_port(back, nvmet.subsystem(nvmet.null_block(16, memory_backed=True)))
    found: dict[str, Any] = {}

    def serve(kind: type[SoftTarget], trsvcid: int) -> None:
        with inside("target"):
            # Connections to the kernel's target belong to the namespace of the thread.
            kind((TARGET, trsvcid), (back.traddr, back.trsvcid))

    serve(SoftTarget, 5000)
    found["none"] = {"all": suite(TARGET, 5000)}
    for trsvcid, (name, fault) in enumerate(FAULTS.items(), 5001):
        serve(fault, trsvcid)
        found[name] = {ident: suite(TARGET, trsvcid, "--requirement", ident)
                       for ident in fault.breaks}
    return found


if __name__ == "__main__":
    print(json.dumps({"kernel": kernel, "faults": faults}[sys.argv[1]]()))
