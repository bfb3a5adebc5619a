# SPDX-License-Identifier: GPL-2.0-or-later
"""The subflows of the NVMe connections, as ss(8) shows them."""

import re
import subprocess
from dataclasses import dataclass

from .netns import entering

_PEER = re.compile(r"(?P<local>\S+):\d+\s+(?P<remote>\S+):(?P<port>\d+)")
# remote token (0 on the first subflow), local token: the latter is that of the connection
_TOKEN = re.compile(r"token:[0-9a-f]+\(id:\d+\)/([0-9a-f]+)\(id:\d+\)")


@dataclass
class Subflow:
    """One TCP connection on the host; `token` names its MPTCP connection, None for plain TCP."""

    local: str
    remote: str
    token: str | None
    bytes_sent: int
    bytes_received: int


def subflows(netns: str | None = "host") -> dict[str, Subflow]:
    """All established subflows from `netns`, by their addresses and ports."""
    listing = subprocess.run(
        [*entering(netns), "ss", "-tinHO", "state", "established"],
        check=True, capture_output=True, text=True,
    ).stdout
    found = {}
    for line in listing.splitlines():
        if match := _PEER.search(line):
            token = _TOKEN.search(line)
            found[match[0]] = Subflow(
                match["local"], match["remote"], token[1] if token else None,
                _count(line, "bytes_sent"), _count(line, "bytes_received"),
            )
    return found


def _count(line: str, name: str) -> int:
    match = re.search(rf"\b{name}:(\d+)", line)
    return int(match[1]) if match else 0


def difference(before: dict[str, Subflow], after: dict[str, Subflow]) -> list[Subflow]:
    """What each subflow carried in between; a subflow that has gone is left out."""
    return [
        Subflow(flow.local, flow.remote, flow.token,
                flow.bytes_sent - (before[key].bytes_sent if key in before else 0),
                flow.bytes_received - (before[key].bytes_received if key in before else 0))
        for key, flow in sorted(after.items())
    ]
