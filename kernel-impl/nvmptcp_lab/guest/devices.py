# SPDX-License-Identifier: GPL-2.0-or-later
"""Changes to the network devices of a topology that a measurement asks for."""

import re
import subprocess
import time
from collections.abc import Mapping, Sequence

BOND = "bond0"
_OPTIONS = {"balance-rr": ["mode", "balance-rr"],
            "802.3ad": ["mode", "802.3ad", "xmit_hash_policy", "layer3+4", "lacp_rate", "fast"]}


def set_up(paths: int, bonding: str, addresses: Mapping[str, str], gso: bool,
           namespaces: Sequence[str] = ("host", "target")) -> None:
    """Turn segmentation offload off; make one bonding device of all paths.

    addresses: of the bonding device, with prefix, by namespace. Raises OSError, also when the bond
    doesn't get all its paths.
    """
    for netns in namespaces:
        for path in range(1, paths + 1):
            if not gso:
                _ip(netns, "link", "set", f"path{path}", "gso_max_segs", "1")
        if bonding != "none":
            _bond(netns, paths, bonding, addresses[netns])
    if bonding != "none":
        for netns in namespaces:
            _wait(netns, paths)


def _ip(netns: str, *words: str) -> None:
    done = subprocess.run(["ip", "-n", netns, *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip -n {netns} {' '.join(words)}: {done.stderr.strip()}")


def _bond(netns: str, paths: int, mode: str, address: str) -> None:
    _ip(netns, "link", "add", BOND, "type", "bond", *_OPTIONS[mode], "miimon", "100")
    for path in range(1, paths + 1):
        _ip(netns, "address", "flush", "dev", f"path{path}")
        _ip(netns, "link", "set", f"path{path}", "down")
        _ip(netns, "link", "set", f"path{path}", "master", BOND)
    _ip(netns, "link", "set", BOND, "up")
    _ip(netns, "address", "add", address, "dev", BOND)


def _wait(netns: str, paths: int, timeout: float = 30) -> None:
    """Until each path carries: with 802.3ad, until both ends' LACP says so."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        text = subprocess.run(["nsenter", f"--net=/run/netns/{netns}", "cat",
                               f"/proc/net/bonding/{BOND}"], check=True, capture_output=True,
                              text=True).stdout
        # IEEE 802.1AX: in sync, collecting, distributing; ours and the partner's.
        states = [int(state) for state in re.findall(r"port state: (\d+)", text)]
        if text.count("MII Status: up") == paths + 1 and all(
                state & 0b111000 == 0b111000 for state in states):
            return
        time.sleep(0.1)
    raise OSError(f"{BOND} in {netns} has not got all {paths} paths:\n{text}")
