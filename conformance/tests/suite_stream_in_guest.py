# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the suite's tests of mappings, and of the chapters that test_suite_raw's leave, in the lab's
guest; prints the results as JSON.

`python -m suite_stream_in_guest faults`: against the soft target on the raw stack, without a fault
and with each of STREAM_FAULTS, there only the tests of what it breaks. Further words name targets,
or, with a colon before, tests.
"""

import contextlib
import dataclasses
import json
import ssl
import sys
from typing import Any, cast

from nvmptcp_conformance.endpoints.controller import Queue
from nvmptcp_conformance.layers import discovery, nvme_tcp
from nvmptcp_conformance.softtarget.raw_target import RawTarget
from nvmptcp_conformance.softtarget.stream_faults import STREAM_FAULTS
from nvmptcp_conformance.suite.case import Case
from scapy.packet import Raw
from suite_raw_in_guest import MAPPINGS, OPEN, STRICT, Soft, Wanted, base, results

CHAPTERS = ("tsas", "discovery", "timers", "close", "integrity", "multipath", "compatibility")
# Which chapters: where a port differs from the first one.
PARTS = {"strict": ("integrity", "compatibility", "discovery", "close"),
         "group": ("multipath",), "tls": ("integrity",), "tcp": ("tsas",)}
FIRST_PORT = 7000
_TLS, _CLIENT_HELLO = 2, 22  # SECTYPE, type of a TLS record


class TLSPort(RawTarget):
    """Reports TLS and speaks it, as far as a host can tell that has no key: it gets an alert."""

    def entries(self, entries: list[discovery.DiscoveryLogEntry]) -> None:
        for entry in entries:
            entry.tsas.sectype = _TLS

    def received(self, queue: Queue, data: bytes) -> bool:
        if data[0] != _CLIENT_HELLO:
            return True
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_bio(into, out, server_side=True)
        into.write(data)
        with contextlib.suppress(ssl.SSLError):
            tls.do_handshake()
        queue.send(cast(nvme_tcp.NVMeTCP, Raw(out.read())))  # whose bytes count only
        return False


GOOD: dict[str, Soft] = {
    "open": (RawTarget, OPEN), "strict": (RawTarget, STRICT), "tls": (TLSPort, OPEN),
    "group": (RawTarget, dataclasses.replace(OPEN, mpattr=0, sfgid=7)),
    "tcp": (RawTarget, dataclasses.replace(OPEN, mptcp=False))}


def ours(case: Case) -> bool:
    """Whether a test is one of those that this module is for."""
    return case.chapter.name in CHAPTERS or base(case) in MAPPINGS


def part(name: str) -> Wanted:
    """The tests for a port without a fault."""
    return lambda case: case.chapter.name in PARTS.get(name, case.chapter.name)


def faults(names: list[str], only: list[str]) -> dict[str, Any]:
    """Target, known good or with a fault → results."""
    def among(case: Case) -> bool:
        return ours(case) and (not only or base(case) in only or case.name in only)

    bad: dict[str, Soft] = {name: (fault, OPEN) for name, fault in STREAM_FAULTS.items()}
    return results(GOOD | bad, FIRST_PORT, among, part, names)


if __name__ == "__main__":
    words = sys.argv[2:]
    print(json.dumps({"faults": faults}[sys.argv[1]](
        [word for word in words if not word.startswith(":")],
        [word[1:] for word in words if word.startswith(":")])))
