# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of a run on the terminal and as JSON."""

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

from nvmptcp_spec.errors import SpecError

from .suite.case import FAIL, INCONCLUSIVE, NOT_APPLICABLE, PASS, Result
from .target import Target

VERDICTS = (PASS, FAIL, NOT_APPLICABLE, INCONCLUSIVE)
_INDENT = " " * (max(map(len, VERDICTS)) + 4)


@cache
def _requirements() -> dict[str, str]:
    """The text of each requirement."""
    from nvmptcp_spec.reader import read

    return {ident: found.statement for ident, found in read().requirements.items()}


def statements(ids: tuple[str, ...]) -> dict[str, str]:
    """The text of requirements. Raises SpecError where the proposal can't be read."""
    try:
        known = _requirements()
    except ImportError as error:
        raise SpecError(f"the text of requirements can't be read without the Python package"
                        f" {error.name}: install nvmptcp[docs]") from error
    return {ident: known[ident] for ident in ids if ident in known}


class Report:
    """Prints each result as it comes, below the title of its chapter."""

    def __init__(self, target: Target, say: Callable[[str], None]) -> None:
        self.target, self._say = target, say
        self.results: list[Result] = []
        self.texts: dict[str, str] = {}
        say(f"{target.address}  {target.nqn}\n{target.describe()}")

    def add(self, result: Result) -> None:
        case = result.case
        if not self.results or self.results[-1].case.chapter != case.chapter:
            self._say(f"{case.chapter.number} {case.chapter.title}")
        self.results.append(result)
        ids = " ".join(case.requirements)
        self._say(f"  {result.verdict:{len(_INDENT) - 2}}{case.name}  {ids}")
        if result.verdict == FAIL:
            self._text(result)
            for ident in case.requirements:
                self._say(f"{_INDENT}requirement: {self.texts[ident]}")
            self._say(f"{_INDENT}expected:    {case.expected}")
            self._say(f"{_INDENT}observed:    {result.reason}")
        elif result.reason:
            self._say(f"{_INDENT}{result.reason}")

    def _text(self, result: Result) -> None:
        missing = tuple(i for i in result.case.requirements if i not in self.texts)
        try:
            self.texts |= statements(missing) if missing else {}
        except SpecError as error:
            self.texts |= dict.fromkeys(missing, f"({error})")
        self.texts |= {i: "(not in this checkout's proposal)" for i in missing
                       if i not in self.texts}

    def finish(self) -> int:
        """Print the sums; the exit code."""
        counts = Counter(result.verdict for result in self.results)
        self._say(", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS))
        return 1 if counts[FAIL] or counts[INCONCLUSIVE] else 0

    def as_json(self) -> str:
        """The whole report; the requirement's text where a test failed."""
        tsas = self.target.entry.tsas
        results: list[dict[str, Any]] = []
        for result in self.results:
            entry = result.as_json()
            if result.verdict == FAIL:
                entry["requirement_texts"] = {i: self.texts[i] for i in result.case.requirements}
            results.append(entry)
        return json.dumps({
            "target": {"traddr": self.target.address.traddr,
                       "trsvcid": self.target.address.trsvcid, "nqn": self.target.nqn,
                       "tcpv": int(tsas.tcpv), "mpattr": int(tsas.mpattr), "maxsf": tsas.maxsf,
                       "sfgid": tsas.sfgid},
            "results": results}, indent=1) + "\n"
