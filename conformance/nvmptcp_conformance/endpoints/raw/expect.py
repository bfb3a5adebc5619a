# SPDX-License-Identifier: GPL-2.0-or-later
"""What passed, in order; how to wait for a segment, and how to say what came instead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...layers import mptcp
from .packets import Segment

if TYPE_CHECKING:
    from .connection import Connection
    from .subflow import Subflow

_SHOWN = 8  # segments in a message


class Unexpected(AssertionError):
    """The segment didn't come; the text says in a line what was expected and what came instead."""


@dataclass(frozen=True)
class Passed:
    """A segment that was sent or received. `time`: time.monotonic()."""

    time: float
    sent: bool
    segment: Segment
    subflow: Subflow | None  # None: of no connection


class Log:
    """All segments of a stack. Indices of it are *marks*."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._passed: list[Passed] = []

    def add(self, sent: bool, segment: Segment, subflow: Subflow | None) -> None:
        self._passed.append(Passed(time.monotonic(), sent, segment, subflow))
        self._changed.notify_all()

    def mark(self) -> int:
        """What has passed up to now, for `since`."""
        with self._changed:
            return len(self._passed)

    def since(self, mark: int = 0, connection: Connection | None = None) -> list[Passed]:
        """What passed since a mark, of all connections or one."""
        with self._changed:
            return [passed for passed in self._passed[mark:] if connection is None
                    or (passed.subflow and passed.subflow.connection is connection)]

    def expect(self, what: str, fits: Callable[[Segment], object], within: float, since: int,
               connection: Connection | None, subflow: Subflow | None) -> tuple[Segment, int]:
        """The first received segment since the mark that fits, and the mark behind it. Raises
        Unexpected after `within` seconds.
        """
        end = time.monotonic() + within
        looked_at = since
        with self._changed:
            while True:
                for index in range(looked_at, len(self._passed)):
                    passed = self._passed[index]
                    if (not passed.sent and fits(passed.segment)
                            and (connection is None or (passed.subflow and
                                 passed.subflow.connection is connection))
                            and subflow in (None, passed.subflow)):
                        return passed.segment, index + 1
                looked_at = len(self._passed)
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            came = [passed for passed in self.since(since, connection)
                    if not passed.sent and subflow in (None, passed.subflow)]
        shown = ", ".join(describe(p.segment, p.subflow) for p in came[-_SHOWN:])
        left_out = f"{len(came) - _SHOWN} segments, " if len(came) > _SHOWN else ""
        raise Unexpected(f"expected {what} within {within:g} s; what came: {left_out}"
                         f"{shown or 'nothing'}")


def describe(segment: Segment, subflow: Subflow | None = None) -> str:
    """A segment in a few words, its numbers relative where the subflow is known."""
    seq, ack = segment.seq, segment.ack
    start = f"{segment.source.address}:{segment.source.port} "
    if subflow and subflow.sequences_known:
        received = segment.source == subflow.remote
        seq = (seq - (subflow.peer_isn if received else subflow.isn)) % (1 << 32)
        ack = (ack - (subflow.isn if received else subflow.peer_isn)) % (1 << 32)
        start = f"subflow {subflow.index} "
    parts = [f"{start}[{segment.flags}] seq {seq}"]
    if "A" in segment.flags:
        parts.append(f"ack {ack}")
    if segment.payload:
        parts.append(f"{len(segment.payload)} bytes")
    parts += [describe_option(option) for option in segment.mptcp_options]
    return " ".join(parts)


def describe_option(option: mptcp.MPTCPOption | bytes) -> str:
    """An MPTCP option in a few words."""
    if isinstance(option, bytes):
        subtype = mptcp.SUBTYPES.get(option[0] >> 4, "unknown") if option else "empty"
        return f"malformed {subtype} {option.hex()}"
    if isinstance(option, mptcp.DSS):
        said = [f"DATA_ACK {option.data_ack:x}h"] if option.flags.A else []
        if option.flags.M:
            said.append(f"DSN {option.dsn:x}h, SSN {option.ssn}, length {option.data_len}")
            if isinstance(option, mptcp.DSSChecksum):
                said.append(f"checksum {option.checksum:04x}h")
        if option.flags.F:
            said.append("DATA_FIN")
        return f"DSS({', '.join(said)})"
    said = [f"{name} {value.hex() if isinstance(value, bytes) else value}"
            for name, value in option.fields.items() if name not in ("subtype", "reserved")]
    return f"{option.name}({', '.join(said)})"
