# SPDX-License-Identifier: GPL-2.0-or-later
"""The suite's tests of a host, in the lab's guest; prints the results as JSON.

`python -m host_in_guest kernel`: the host is the kernel; `… soft`, `… raw`: the soft host, without
a fault, on the kernel's sockets or on the raw stack; `… claims`: the soft host, with a profile that
claims the contrary of what it has; `… faults`, `… raw_faults`: with each fault, there only the
tests of what it breaks, until it is found. Further words name faults, or tests.
"""

import ast
import contextlib
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launcher
from nvmptcp_conformance.host_under_test import HostUnderTest
from nvmptcp_conformance.profile import Claims
from nvmptcp_conformance.softhost import __main__ as softhost
from nvmptcp_conformance.softhost.faults import FAULTS
from nvmptcp_conformance.softhost.raw_faults import RAW_FAULTS
from nvmptcp_conformance.suite import plugin
from nvmptcp_conformance.suite.case import Case, Side
from nvmptcp_lab.guest.netns import inside
from soft_in_guest import FURTHER, TARGET, Collector
from suite_raw_in_guest import Caught, UntilCaught

HERE = Path(__file__).parent
SCRATCH = tempfile.mkdtemp()
SOCKET = f"{SCRATCH}/launcher"
TIMEOUT = 20  # seconds of the guest's clock


def raw_tests() -> set[str]:
    """The names of the tests whose instrument is on the raw stack."""
    functions = [node for file in (plugin.SUITE / Side.HOST).glob("test_*.py")
                 for node in ast.walk(ast.parse(file.read_text()))
                 if isinstance(node, ast.FunctionDef)]
    return {function.name.removeprefix("test_") for function in functions
            if "raw_stage" in [argument.arg for argument in function.args.args]}


RAW_TESTS = raw_tests()


def is_raw(case: Case) -> bool:
    """Whether a case needs the raw stack."""
    return case.name.split("[")[0] in RAW_TESTS


def run(dut: HostUnderTest, wanted: Callable[[Case], bool], found: Collector | None = None,
        *, probe: bool = True) -> list[dict[str, Any]]:
    """The results of some tests of a host."""
    found = found or Collector()
    with inside("target"), contextlib.suppress(Caught):
        if probe:
            dut.probe()
        plugin.run(Side.HOST, dut, found, wanted)
    return [result.as_json() for result in found.results]


def kernel(names: list[str]) -> Any:
    """The kernel's host, by a script that does what nvme-cli does."""
    script = f"{sys.executable} -m nvmptcp_conformance.reference_host"
    return run(HostUnderTest(TARGET, f"{script} connect", further=FURTHER, timeout=TIMEOUT,
                             untrigger=f"{script} disconnect", status=f"{script} status",
                             claims=Claims(mptcp=True, discovery=False, hdgst=True, ddgst=True)),
               lambda case: not names or case.name.split("[")[0] in names)


def soft_host(*options: str, has: bool = True) -> HostUnderTest:
    """The soft host with some options; not `has`: its profile claims what isn't so."""
    status = Path(SCRATCH) / "status"
    words = [sys.executable, "-I", "-S", f"{HERE}/launcher.py", SOCKET, "--status", str(status),
             *options]
    return HostUnderTest(TARGET, f"exec {shlex.join(words)}", further=FURTHER, timeout=TIMEOUT,
                         status=f"cat {status}", claims=Claims(
                             mptcp=has, discovery=has, hdgst=has, ddgst=has, tls=not has))


def soft(names: list[str]) -> Any:
    """The soft host on the kernel's sockets."""
    return run(soft_host(), lambda case: not is_raw(case))


def claims(names: list[str]) -> Any:
    """The soft host, with nothing but claims that are false."""
    return run(soft_host(has=False), lambda case: case.chapter.name == "claims")


def raw(names: list[str]) -> Any:
    """The soft host on the raw stack."""
    return run(soft_host("--raw"), lambda case: is_raw(case) and (
        not names or case.name.split("[")[0] in names))


def caught(fault: str, breaks: tuple[str, ...], wanted: Callable[[Case], bool]) -> Any:
    """The results of a fault."""
    return run(soft_host("--fault", fault), lambda case: wanted(case) and bool(
        set(breaks) & set(case.requirements)), UntilCaught(breaks), probe=False)


def faults(names: list[str]) -> Any:
    """Fault → results."""
    return {name: caught(name, fault.breaks, lambda case: not is_raw(case))
            for name, fault in FAULTS.items() if not names or name in names}


def raw_faults(names: list[str]) -> Any:
    """Fault of the raw stack → results."""
    return {name: caught(f"raw:{name}", fault.breaks, is_raw)
            for name, fault in RAW_FAULTS.items() if not names or name in names}


MODES: dict[str, Callable[[list[str]], Any]] = {
    mode.__name__: mode for mode in (kernel, soft, claims, raw, faults, raw_faults)}


def main() -> None:
    """Run what the command line says."""
    with inside("host"):
        server = launcher.serve(SOCKET, softhost.main)
    try:
        found = MODES[sys.argv[1]](sys.argv[2:])
    finally:
        os.kill(server, signal.SIGKILL)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
