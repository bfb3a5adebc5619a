# SPDX-License-Identifier: GPL-2.0-or-later
"""The results as JUnit XML, the form that CI systems read: a suite for each chapter."""

import re
from xml.etree import ElementTree

from .. import requirements
from ..suite.case import Outcome, Result
from .document import Document

_CHILD = {Outcome.FAIL: "failure", Outcome.INCONCLUSIVE: "error", Outcome.NOT_APPLICABLE: "skipped"}
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
# What XML 1.0 doesn't have at all, not even escaped (§2.2 Char).
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(document: Document) -> str:
    """The whole file."""
    device = document.device
    top = ElementTree.Element("testsuites", {"name": _text(f"nvmptcp-conformance {device.side}")})
    suites: dict[str, ElementTree.Element] = {}
    for result in document.results:
        chapter = result.case.chapter
        if chapter.name not in suites:
            suites[chapter.name] = ElementTree.SubElement(top, "testsuite", {
                "name": _text(f"{device.side}: {chapter.number} {chapter.title}"),
                "timestamp": document.started})
            properties = ElementTree.SubElement(suites[chapter.name], "properties")
            for name, value in (("device", f"{device.name} {device.version}".strip()),
                                ("address", device.address), ("nqn", device.nqn),
                                ("description", device.description), ("suite", document.suite),
                                ("requirements", document.revision), ("tester", document.kernel)):
                ElementTree.SubElement(properties, "property",
                                       {"name": name, "value": _text(value)})
        _add(suites[chapter.name], result)
    for suite in [*suites.values(), top]:
        counts = {name: str(len(suite.findall(f".//{tag}"))) for name, tag in _COUNTED.items()}
        suite.attrib.update({"tests": str(len(suite.findall(".//testcase"))), **counts})
    ElementTree.indent(top)
    return ('<?xml version="1.0" encoding="utf-8"?>\n'
            + ElementTree.tostring(top, encoding="unicode") + "\n")


def _add(suite: ElementTree.Element, result: Result) -> None:
    case = result.case
    element = ElementTree.SubElement(suite, "testcase", {
        "classname": f"{case.side}.{case.chapter.name}", "name": _text(case.name),
        "time": f"{result.seconds:.3f}"})
    text = "\n".join([
        *(f"{ident}: {requirements.load()[ident].statement}" for ident in case.requirements),
        f"Sent: {case.sent}", f"Expected: {case.expected}",
        *([f"Observed: {result.reason}"] if result.reason else []),
        *([f"Packets: {result.capture}"] if result.capture else [])])
    if tag := _CHILD.get(result.verdict):
        child = ElementTree.SubElement(element, tag, {"message": _text(result.reason)})
        if result.verdict == Outcome.NOT_APPLICABLE:
            return
    else:
        child = ElementTree.SubElement(element, "system-out")
        text = f"Verdict: {result.verdict}\n{text}"
    child.text = _text(text)


def _text(text: str) -> str:
    return _NO_XML.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
