# SPDX-License-Identifier: GPL-2.0-or-later
"""The chapters of the proposal that have tests: `test_NAME.py` stands for spec/NAME.rst.

Number 0 isn't one: what the profile of the device claims.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Chapter:
    """A chapter; `number` is its clause number."""

    number: int
    name: str
    title: str


CHAPTERS = {chapter.name: chapter for chapter in (
    Chapter(0, "claims", "Claims of the profile"),
    Chapter(5, "tsas", "Transport Specific Address Subtype"),
    Chapter(6, "discovery", "Discovery"),
    Chapter(7, "connection", "Connections"),
    Chapter(8, "fallback", "Fallback to TCP"),
    Chapter(9, "paths", "Addresses, joins and path loss"),
    Chapter(10, "timers", "Keep alive and error recovery timing"),
    Chapter(11, "close", "Closing a connection"),
    Chapter(12, "integrity", "Integrity and TLS"),
    Chapter(13, "multipath", "Native multipath, ANA and congestion"),
    Chapter(14, "management", "Management visibility"),
    Chapter(15, "compatibility", "Compatibility"),
    Chapter(16, "security", "Security considerations"),
)}
