# SPDX-License-Identifier: GPL-2.0-or-later
"""The soft target in the lab's guest; prints what was seen as JSON.

`python -m soft_in_guest kernel`: the host of the kernel connects and does I/O; `… good`: the suite
against the target without a fault, differently configured; `… faults`: with each fault, there only
the tests of what it breaks.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from nvmptcp_conformance import target as under_test
from nvmptcp_conformance.layers.registry import Mpattr
from nvmptcp_conformance.profile import Claims
from nvmptcp_conformance.softtarget import SoftTarget, TargetOptions
from nvmptcp_conformance.softtarget.faults import FAULTS
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Case, Outcome, Result, Side
from nvmptcp_lab.guest import discovery, fabrics, fio
from nvmptcp_lab.guest.netns import inside

TARGET, FURTHER = "10.0.1.2", tuple(f"10.0.{path}.2" for path in range(2, 5))
OPTIONS = TargetOptions(TARGET, 5000, joins_at=FURTHER, mpattr=int(Mpattr.ADDA), maxsf=8)
DIGESTS = {"none": "", "hdgst": "hdr_digest", "ddgst": "data_digest",
           "both": "hdr_digest,data_digest"}
PASSED = Outcome.PASS, Outcome.CONCEPTUAL
CHECKSUM = Path("/proc/sys/net/mptcp/checksum_enabled")


class Collector:
    """Keeps the results of a run of the suite."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    def begin(self, case: Case) -> None:
        """Nothing to do."""

    def end(self, result: Result) -> None:
        self.results.append(result)

    def drop(self) -> None:
        """Nothing to do."""


def serve(kind: type[SoftTarget], options: TargetOptions) -> SoftTarget:
    """A soft target in the namespace `target`."""
    target = kind(dataclasses.replace(options, mpattr=options.mpattr | kind.needs))
    with inside("target"):
        target.start()
    return target


def suite(trsvcid: int, requirements: Collection[str] = (),
          done: Collection[str] = ()) -> list[Result]:
    """The results of the tests (of some requirements, but those done) of the target at a port."""
    found = Collector()
    with inside("host"):
        device = under_test.find(under_test.Address(TARGET, trsvcid, TARGET, trsvcid), Claims())
        plugin.run(Side.TARGET, device, found, lambda case: case.key not in done and (
            not requirements or bool(set(requirements) & set(case.requirements))))
    return found.results


def kernel_io(trsvcid: int, variant: str, options: str) -> dict[str, Any]:
    """What the kernel's host sees of a target: I/O that fio verifies."""
    controller = fabrics.connect(TARGET, trsvcid=trsvcid, nqn=OPTIONS.nqn, variant=variant,
                                 options=options)
    try:
        device = fabrics.block_device()
        with tempfile.TemporaryDirectory() as scratch:
            job = fio.run(device, Path(scratch) / "fio.json", [
                "--name=verify", "--ioengine=libaio", "--rw=randwrite", "--bsrange=512-128k",
                "--iodepth=8", "--size=4m", "--verify=crc32c", "--verify_fatal=1"])["jobs"][0]
        return {"queues": controller.queues(), "written": job["write"]["io_bytes"],
                "verified": job["read"]["io_bytes"], "state": controller.attribute("state"),
                "keep alive": controller.attribute("kato")}
    finally:
        controller.disconnect()


def kernel() -> dict[str, Any]:
    """The kernel's host and the soft target."""
    target = serve(SoftTarget, OPTIONS)
    log = discovery.read_log(TARGET, OPTIONS.trsvcid)
    found: dict[str, Any] = {"log": [dataclasses.asdict(entry) | {"tsas": entry.tsas.hex()}
                                     for entry in log]}
    for variant in ("mptcp", "tcp"):
        for name, options in DIGESTS.items():
            found[f"{variant}, {name}"] = kernel_io(OPTIONS.trsvcid, variant, options)
    controller = fabrics.connect(TARGET, trsvcid=OPTIONS.trsvcid, nqn=OPTIONS.nqn,
                                 variant="mptcp", options="keep_alive_tmo=2")
    subprocess.run(["sleep", "20"], check=True)
    found["after 20 s"] = {"queues": controller.queues(), "state": controller.attribute("state")}
    controller.disconnect()
    found["controllers left"] = len(target.nvm.controllers)
    return found


def good() -> dict[str, Any]:
    """Configuration of the soft target without a fault → results, of the tests that haven't passed
    in one before.
    """
    both = {"joins_at": FURTHER[1:], "group": FURTHER[:1], "sfgid": 1}
    strict = int(Mpattr.ADDA | Mpattr.DCSR | Mpattr.MPREQ)
    configurations: dict[str, dict[str, Any]] = {
        "adda": {}, "strict": {"mpattr": strict}, "group": both, "tcp": {"mptcp": False},
        "alone": {"joins_at": (), "mpattr": 0}}
    found: dict[str, Any] = {}
    passed: set[str] = set()
    with inside("target"):  # else its kernel joins what hosts announce (TCPV-PATH-010)
        subprocess.run(["ip", "mptcp", "limits", "set", "add_addr_accepted", "0"], check=True)
    for trsvcid, (name, changes) in enumerate(configurations.items(), OPTIONS.trsvcid):
        with inside("target"):
            CHECKSUM.write_text(str(int(name == "strict")))
            if name == "alone":
                subprocess.run(["ip", "mptcp", "endpoint", "flush"], check=True)
        serve(SoftTarget, dataclasses.replace(OPTIONS, trsvcid=trsvcid, **changes))
        results = suite(trsvcid, done=passed)
        passed |= {result.case.key for result in results if result.verdict in PASSED}
        found[name] = [result.as_json() for result in results]
    return found


def faults() -> dict[str, Any]:
    """Fault → results."""
    found = {}
    for trsvcid, (name, fault) in enumerate(FAULTS.items(), OPTIONS.trsvcid):
        serve(fault, dataclasses.replace(OPTIONS, trsvcid=trsvcid))
        found[name] = [result.as_json() for result in suite(trsvcid, fault.breaks)]
    return found


if __name__ == "__main__":
    print(json.dumps({"kernel": kernel, "good": good, "faults": faults}[sys.argv[1]]()))
