# SPDX-License-Identifier: GPL-2.0-or-later
"""Test cases and their results. The docstring of a test is its description:

    Title of one line.

    Sent: what goes to the device under test.
    Expected: what it has to do.

Its chapter is that of its file, or what `CHAPTER` in the file says.
"""

import inspect
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest
from nvmptcp_spec.pytest_plugin import requirements_of

from ..endpoints.host import ProtocolError
from ..endpoints.raw.expect import Unexpected
from ..endpoints.raw.packets import RawUnavailable
from ..errors import UsageError
from .chapters import CHAPTERS, Chapter
from .verdict import ConceptualPass, Failed, Inconclusive, NotApplicable, Verdict

DESTRUCTIVE = "destructive"  # marker: only where the user allows it


class Side(StrEnum):
    """What is under test: the directory of suite/ that the test is in."""

    TARGET = "target"
    HOST = "host"


class Outcome(StrEnum):
    """The verdicts, in the order in which they are counted."""

    PASS = "pass"
    CONCEPTUAL = "conceptual pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"
    INCONCLUSIVE = "inconclusive"


UNSETTLED = (Outcome.FAIL, Outcome.INCONCLUSIVE)  # exit code 1; `--failed` runs them again

_OUTCOMES: dict[type[Verdict], Outcome] = {
    Failed: Outcome.FAIL, ConceptualPass: Outcome.CONCEPTUAL,
    NotApplicable: Outcome.NOT_APPLICABLE, Inconclusive: Outcome.INCONCLUSIVE,
}


@dataclass(frozen=True)
class Case:
    """A test of the suite."""

    side: Side
    name: str
    chapter: Chapter
    requirements: tuple[str, ...]
    title: str
    sent: str
    expected: str
    destructive: bool = False

    @property
    def key(self) -> str:
        """`chapter/name`, which no other test of this side has."""
        return f"{self.chapter.name}/{self.name}"

    @classmethod
    def of(cls, item: pytest.Item) -> "Case":
        """The case of a collected test. Raises UsageError of pytest if its docstring is none."""
        function = getattr(item, "function", None)
        title, _, rest = inspect.cleandoc(getattr(function, "__doc__", None) or "").partition("\n")
        sent, mark, expected = rest.partition("\nExpected: ")
        sent = sent.strip()
        if not (title and mark and sent.startswith("Sent: ")):
            raise pytest.UsageError(f"{item.nodeid}: the docstring has to have a title, `Sent:` and"
                                    " `Expected:`")
        module = getattr(item, "module", None)
        chapter = CHAPTERS[getattr(module, "CHAPTER", item.path.stem.removeprefix("test_"))]
        return cls(Side(item.path.parent.name), item.name.removeprefix("test_"), chapter,
                   tuple(requirements_of(item)), title.rstrip("."),
                   " ".join(sent.removeprefix("Sent: ").split()), " ".join(expected.split()),
                   item.get_closest_marker(DESTRUCTIVE) is not None)

    def as_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {"side": self.side.value, "test": self.name, "chapter": self.chapter.name,
                "section": self.chapter.number, "requirements": list(self.requirements),
                "title": self.title, "sent": self.sent, "expected": self.expected,
                "destructive": self.destructive}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Case":
        """The inverse of `as_json`. Raises KeyError and ValueError."""
        return cls(Side(data["side"]), data["test"], CHAPTERS[data["chapter"]],
                   tuple(data["requirements"]), data["title"], data["sent"], data["expected"],
                   data["destructive"])


@dataclass(frozen=True)
class Result:
    """The verdict on a case; `reason` is what was observed, or why it isn't a plain pass."""

    case: Case
    verdict: Outcome
    reason: str = ""
    capture: str = ""  # file, relative to the directory of the results
    seconds: float = 0  # how long it took

    @classmethod
    def of(cls, case: Case, error: BaseException | None) -> "Result":
        """By what the test raised. A lost connection or a wrong PDU is the device's failure."""
        if error is None:
            return cls(case, Outcome.PASS)
        if isinstance(error, Verdict):
            return cls(case, _OUTCOMES[type(error)], str(error))
        if isinstance(error, (UsageError, RawUnavailable)):  # a hook; no CAP_NET_RAW
            return cls(case, Outcome.INCONCLUSIVE, str(error))
        if isinstance(error, (ProtocolError, Unexpected)):
            return cls(case, Outcome.FAIL, str(error))
        if isinstance(error, OSError):
            return cls(case, Outcome.FAIL, f"the connection failed: {error.strerror or error}")
        return cls(case, Outcome.INCONCLUSIVE,
                   f"a fault of this suite: {type(error).__name__}: {error}")

    def as_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {**self.case.as_json(), "verdict": self.verdict.value, "reason": self.reason,
                "capture": self.capture, "seconds": round(self.seconds, 3)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Result":
        """The inverse of `as_json`. Raises KeyError and ValueError."""
        return cls(Case.from_json(data), Outcome(data["verdict"]), data["reason"], data["capture"],
                   data["seconds"])
