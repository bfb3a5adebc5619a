# SPDX-License-Identifier: GPL-2.0-or-later
"""Test cases and their results. The docstring of a test is its description:

    Title of one line.

    Sent: what goes to the target.
    Expected: what it has to do.
"""

import inspect
from dataclasses import dataclass
from typing import Any

import pytest
from nvmptcp_spec.pytest_plugin import requirements_of

from ..endpoints.host import ProtocolError
from .chapters import CHAPTERS, Chapter
from .verdict import Failed, Inconclusive, NotApplicable

PASS, FAIL, NOT_APPLICABLE, INCONCLUSIVE = "pass", "fail", "not applicable", "inconclusive"


@dataclass(frozen=True)
class Case:
    """A test of the suite."""

    name: str
    chapter: Chapter
    requirements: tuple[str, ...]
    title: str
    sent: str
    expected: str

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
        chapter = CHAPTERS[item.path.stem.removeprefix("test_")]
        return cls(item.name.removeprefix("test_"), chapter, tuple(requirements_of(item)),
                   title.rstrip("."), " ".join(sent.removeprefix("Sent: ").split()),
                   " ".join(expected.split()))

    def as_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {"test": self.name, "chapter": self.chapter.title, "section": self.chapter.number,
                "requirements": list(self.requirements), "title": self.title, "sent": self.sent,
                "expected": self.expected}


@dataclass(frozen=True)
class Result:
    """The verdict on a case; `reason` is what was observed, or why it isn't pass or fail."""

    case: Case
    verdict: str
    reason: str = ""

    @classmethod
    def of(cls, case: Case, error: BaseException | None) -> "Result":
        """By what the test raised. A lost connection or a wrong PDU is the target's failure."""
        if error is None:
            return cls(case, PASS)
        if isinstance(error, NotApplicable):
            return cls(case, NOT_APPLICABLE, str(error))
        if isinstance(error, Inconclusive):
            return cls(case, INCONCLUSIVE, str(error))
        if isinstance(error, (Failed, ProtocolError)):
            return cls(case, FAIL, str(error))
        if isinstance(error, OSError):
            return cls(case, FAIL, f"the connection failed: {error.strerror or error}")
        return cls(case, INCONCLUSIVE, f"a fault of this suite: {type(error).__name__}: {error}")

    def as_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {**self.case.as_json(), "verdict": self.verdict, "reason": self.reason}
