# SPDX-License-Identifier: GPL-2.0-or-later
"""How a target ends a connection on the raw stack, and whether it has forgotten it."""

import time
from contextlib import suppress
from enum import StrEnum

from ...endpoints import raw
from ...layers import mptcp
from ..verdict import check
from .associations import outcome, start_join

TERMINATION = 30.0  # seconds that the sender of a termination request waits (NVMe/TCP 1.0 §3.5)
PATIENCE = TERMINATION + 10  # seconds, until an end that may wait for that


class Ending(StrEnum):
    """What shows that a connection has ended."""

    FASTCLOSE = "MP_FASTCLOSE"
    DATA_FIN = "DATA_FIN"
    RESETS = "a RST on each subflow, without MP_FASTCLOSE"
    NONE = "nothing"


def ended(connection: raw.Connection) -> bool:
    """The target has ended its byte stream, or aborted the connection."""
    return bool(connection.receiver.ended or connection.lost)


def ending(connection: raw.Connection, within: float = PATIENCE) -> Ending:
    """How the target ends a connection in so many seconds, while the host doesn't close. An abort
    counts more than the end of the stream, behind which it may come.
    """
    def aborted() -> bool:
        return fastclosed(connection) or bool(connection.lost)

    try:
        connection.wait("the end of the connection", aborted, within)
    except TimeoutError:
        return Ending.DATA_FIN if connection.receiver.ended else Ending.NONE
    if fastclosed(connection):
        return Ending.FASTCLOSE
    return Ending.DATA_FIN if connection.receiver.ended else Ending.RESETS


def fastclosed(connection: raw.Connection) -> bool:
    """MP_FASTCLOSE with our key has come."""
    found = [segment.find(mptcp.MPFastclose) for segment in connection.received()]
    return any(option and option.receiver_key == connection.local_key for option in found)


def check_ends(connection: raw.Connection, within: float) -> None:
    """Failed unless the target ends the connection, in whatever way, in so many seconds."""
    try:
        connection.wait("the end", lambda: ended(connection), within)
    except TimeoutError:
        check(False, f"the connection is still there after {within:g} s")


def check_forgotten(connection: raw.Connection) -> None:
    """Failed if a join to the connection is accepted, so that the target still has it."""
    found = outcome(connection, start_join(connection))
    check(found != "established", "the target still has the connection: it accepts a join")


def until_ended(connection: raw.Connection, seconds: float) -> float:
    """Give the target so much time to end the connection; how long it took."""
    begin = time.monotonic()
    with suppress(TimeoutError):
        connection.wait("the end", lambda: ended(connection), seconds)
    return time.monotonic() - begin
