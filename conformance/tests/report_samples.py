# SPDX-License-Identifier: GPL-2.0-or-later
"""Results to make reports of: each verdict once, and a device that says unpleasant things."""

from nvmptcp_conformance.report.document import Device, Document, Selection
from nvmptcp_conformance.suite.case import Case, Outcome, Result, Side
from nvmptcp_conformance.suite.chapters import CHAPTERS

NASTY = "</title><script>alert(1)</script>\x1b[2J\x07\x00]]>&\ufffe"
REASONS = {
    Outcome.PASS: "", Outcome.CONCEPTUAL: "reset instead of MP_FAIL", Outcome.FAIL: NASTY,
    Outcome.NOT_APPLICABLE: "MPATTR has DCSR cleared", Outcome.INCONCLUSIVE: "no CAP_NET_RAW",
}
IDS = {
    Outcome.PASS: "TCPV-TSAS-001", Outcome.CONCEPTUAL: "TCPV-FALL-004",
    Outcome.FAIL: "TCPV-TSAS-002", Outcome.NOT_APPLICABLE: "TCPV-INTG-002",
    Outcome.INCONCLUSIVE: "TCPV-CONN-006",
}


def case(name: str, chapter: str, *requirements: str) -> Case:
    return Case(Side.TARGET, name, CHAPTERS[chapter], requirements, f"Title of {name}",
                "nothing < something", "an answer & no more")


def document(nqn: str = "nqn.2014-08.org.example:disk", missing: int = 0) -> Document:
    """A result of each verdict; `missing` cases more have none yet."""
    results = [Result(case(outcome.replace(" ", "_"), "tsas" if number < 3 else "integrity",
                           IDS[outcome]), outcome, reason,
                      "captures/a b#1.pcapng" if outcome == Outcome.FAIL else "", number / 8)
               for number, (outcome, reason) in enumerate(REASONS.items())]
    device = Device(Side.TARGET, "192.0.2.1:4420", nqn, "ACME <Array>", "4.2", "TCPV 1h",
                    {"adda": True, "maxsf": 8})
    left = [case(f"later{number}", "compatibility", "TCPV-COMP-001") for number in range(missing)]
    return Document(device, Selection(), [*(result.case for result in results), *left],
                    finished="" if missing else "2026-11-21T12:00:00+00:00",
                    by_key={result.case.key: result for result in results})
