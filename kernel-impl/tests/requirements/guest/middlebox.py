# SPDX-License-Identifier: GPL-2.0-or-later
"""Middleboxes, in the guest: nftables and tc at the end of a path, around a situation."""

import contextlib
from collections.abc import Iterator

from .situation import command, on

# What a box looks for, and what it does to it (nft expressions).
SYN = "tcp flags & (syn | ack) == syn"
SYN_ACK = "tcp flags & (syn | ack) == (syn | ack)"
# MP_CAPABLE without data: the third packet (RFC 8684 section 3.1)
THIRD_ACK = ("tcp flags & (syn | ack) == ack tcp option mptcp subtype 0"
             " tcp option mptcp length 20")
STRIP = "tcp option mptcp exists reset tcp option mptcp"
MP_CAPABLE = f"{SYN} tcp option mptcp subtype 0"
_NOTE = f"{MP_CAPABLE} add @seen {{ ip saddr }}"
# All connections of a host but the first fall back, or the first alone.
FIRST_STAYS = (f"{MP_CAPABLE} ip saddr @seen {STRIP}", _NOTE)
FIRST_FALLS_BACK = (f"{MP_CAPABLE} ip saddr @seen accept", _NOTE, f"{MP_CAPABLE} {STRIP}")
CORRUPTED = 0x2A  # the mark of segments that are to be corrupted


@contextlib.contextmanager
def box(netns: str, *rules: str, path: int = 1) -> Iterator[None]:
    """Apply nft rules to what arrives in a namespace by a path, before its kernel sees it."""
    lines = ["table ip box {", "set seen { type ipv4_addr; size 16; flags dynamic; }",
             "chain c { type filter hook prerouting priority -300;",
             f"iifname != path{path} accept", *rules, "}", "}"]
    on(netns, "nft", "\n".join(lines) + "\n")
    try:
        yield
    finally:
        on(netns, "nft", "delete table ip box")


@contextlib.contextmanager
def corruption(netns: str, path: int, *, where: str, offset: int) -> Iterator[None]:
    """Invert the byte at `offset` (bytes, from the IP header) of the segments that a namespace
    sends by a path and that the nft expression `where` selects. Their TCP checksum is put right.
    """
    device = f"path{path}"
    on(netns, "nft", "table ip marks { chain c { type filter hook output priority 0;"
       f" oifname {device} {where} meta mark set {CORRUPTED}; }}; }}")
    command("tc", "-n", netns, "qdisc", "add", "dev", device, "clsact")
    command("tc", "-n", netns, "filter", "add", "dev", device, "egress", "protocol", "ip",
            "prio", "1", "handle", str(CORRUPTED), "fw",
            "action", "pedit", "munge", "offset", str(offset), "u8", "invert", "pipe",
            "action", "csum", "tcp")
    try:
        yield
    finally:
        on(netns, "nft", "delete table ip marks")
        command("tc", "-n", netns, "qdisc", "delete", "dev", device, "clsact")
