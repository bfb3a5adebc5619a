# SPDX-License-Identifier: GPL-2.0-or-later
"""The requirements of the proposal, as `nvmptcp-spec generate` wrote them, and why some of them
have no test here. Needs no checkout.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from .suite.case import Case, Side

ACTORS = {Side.TARGET: ("controller", "discovery controller", "both"), Side.HOST: ("host", "both")}
_KERNEL = ("not visible to a peer: the proposal verifies it by tests of an implementation"
           " (`verify: kernel`)")


@dataclass(frozen=True)
class Requirement:
    """A requirement, as its directive in the proposal has it."""

    title: str
    version: int
    level: str  # shall, should, may
    actor: str
    rests_on: str
    verify: str
    untested: str  # the proposal's reason why no test of the project verifies it, or empty
    statement: str

    def concerns(self, side: Side) -> bool:
        """Whether it asks something of a device on this side."""
        return self.actor in ACTORS[side]


@cache
def load() -> dict[str, Requirement]:
    """All of them, by ID, in the order of the IDs."""
    return {ident: Requirement(**entry) for ident, entry in json.loads(_text()).items()}


@cache
def revision() -> str:
    """What the texts are told apart by: the beginning of their SHA-256."""
    return hashlib.sha256(_text().encode()).hexdigest()[:12]


def without_test(side: Side, cases: Iterable[Case]) -> dict[str, str]:
    """Requirements that concern this side and that none of `cases` tests, with the reason; the
    reason is empty where nobody gave one.
    """
    tested = {ident for case in cases if case.side == side for ident in case.requirements}
    given = _given()[side]
    return {ident: given.get(ident) or each.untested or (_KERNEL if each.verify == "kernel" else "")
            for ident, each in load().items() if each.concerns(side) and ident not in tested}


def _text() -> str:
    return files(__package__).joinpath("requirements.json").read_text(encoding="utf-8")


@cache
def _given() -> dict[str, dict[str, str]]:
    text = files(__package__).joinpath("suite", "untested.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
