# SPDX-License-Identifier: GPL-2.0-or-later
"""The chapters of the proposal that have tests: `test_NAME.py` stands for spec/NAME.rst."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Chapter:
    """A chapter; `number` is its clause number."""

    number: int
    name: str
    title: str


CHAPTERS = {chapter.name: chapter for chapter in (
    Chapter(5, "tsas", "Transport Specific Address Subtype"),
    Chapter(6, "discovery", "Discovery"),
    Chapter(7, "connection", "Connections"),
    Chapter(8, "fallback", "Fallback to TCP"),
    Chapter(9, "paths", "Addresses, joins and path loss"),
    Chapter(11, "close", "Closing a connection"),
    Chapter(12, "integrity", "Integrity and TLS"),
    Chapter(13, "multipath", "Native multipath, ANA and congestion"),
    Chapter(15, "compatibility", "Compatibility"),
)}
