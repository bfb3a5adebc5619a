# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's own counters: TCP and MPTCP (/proc/net), and what netem sent and dropped."""

import json
import subprocess
from collections import Counter
from collections.abc import Sequence

from .netns import entering

NAMESPACES = ("host", "target")


def read(namespaces: Sequence[str | None] = NAMESPACES) -> "Counter[str]":
    """Counters by name, these namespaces together, such as `Tcp.RetransSegs` or `netem.drops`.

    namespaces: None among them is the one that we are in. netem counts `packets` by segment, and
    `drops` by what it drops at once: a GSO packet is one.
    """
    found: Counter[str] = Counter()
    for netns in namespaces:
        enter = entering(netns)
        lines = _output(*enter, "cat", "/proc/net/snmp", "/proc/net/netstat").splitlines()
        # A line of names, then one of values, each after its group's name.
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            group, *words = names.split()
            found.update({f"{group[:-1]}.{name}": int(value)
                          for name, value in zip(words, values.split()[1:], strict=True)})
        for qdisc in json.loads(_output("tc", "-s", "-j", *(["-n", netns] if netns else []),
                                       "qdisc")):
            if qdisc["kind"] == "netem" and qdisc["dev"].startswith("path"):
                found.update({f"netem.{name}": qdisc[name]
                              for name in ("packets", "bytes", "drops")})
    return found


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
