# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a situation in the lab, and look at what went over its links.

A situation is a function in `guest/CHAPTER.py`: it sets up target and host, makes something happen
and returns what it saw, as JSON. The test asserts on that and on the packets.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lab_helpers import COMMAND
from nvmptcp_conformance.layers import mptcp, mptcp_stream, nvme, nvme_tcp
from requirements.guest.wire import payload_length as payload_length
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether  # noqa: F401 - so that packets are dissected
from scapy.packet import Packet
from scapy.utils import PcapReader

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Situation:
    """What a situation returned, and the captures of the host's end of each link."""

    data: Any
    directory: Path | None

    @cached_property
    def segments(self) -> list[Packet]:
        """The TCP segments (Scapy's IP layer) that the host sent and received, in order of time.

        `.time` is the guest's clock, the same as time.time() there.
        """
        assert self.directory, "this situation is not captured"
        packets = [packet for file in sorted(self.directory.glob("host-*.pcapng"))
                   for packet in PcapReader(str(file)) if TCP in packet and IP in packet]
        for packet in packets:
            packet[IP].time = packet.time
        return sorted((packet[IP] for packet in packets), key=lambda packet: packet.time)

    def between(self, start: float, end: float = float("inf")) -> list[Packet]:
        """The segments of a time span, in seconds as time.time() has them in the guest."""
        return [segment for segment in self.segments if start <= segment.time < end]

    @cached_property
    def connections(self) -> list[mptcp_stream.Connection]:
        """The MPTCP connections, put together from all links."""
        found = mptcp_stream.Connections()
        for segment in self.segments:
            found.add(segment)
        return list(found)

    def with_option(
        self, form: type[mptcp.MPTCPOption], start: float = 0, end: float = float("inf")
    ) -> Iterator[tuple[Packet, Any]]:
        """The segments (of a time span) that carry such an MPTCP option, and the option."""
        for segment in self.between(start, end):
            if option := mptcp.find_option(segment, form):
                yield segment, option


def run(chapter: str, situation: str, directory: Path, *, topology: str = "paths = 4",
        capture: bool = False) -> Situation:
    """Boot the lab with a topology (TOML) and run guest/CHAPTER.py's function `situation`.

    Fails the test, with what the guest said, where the lab or the situation fails.
    """
    (directory / "topology.toml").write_text(topology)
    captures = directory / "capture"
    options = ["--capture", str(captures)] if capture else []
    done = subprocess.run(
        [*COMMAND, "run", "--topology", str(directory / "topology.toml"), *options, "--",
         "env", f"PYTHONPATH={TESTS}", "PYTHONDONTWRITEBYTECODE=1",
         sys.executable, "-m", f"requirements.guest.{chapter}", situation],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    assert done.returncode == 0, f"{chapter} {situation}: {done.stderr}\n{done.stdout}"
    return Situation(json.loads(done.stdout), captures if capture else None)


def admin_commands(connection: mptcp_stream.Connection) -> list[Packet]:
    """The admin and fabrics commands that the host sent on a connection, in order."""
    return [nvme.admin_command(sqe) for sqe in _commands(connection)]


def io_commands(connection: mptcp_stream.Connection) -> list[Packet]:
    """The I/O commands that the host sent on a connection, in order."""
    return [nvme.io_command(sqe) for sqe in _commands(connection)]


def _commands(connection: mptcp_stream.Connection) -> list[bytes]:
    pdus, _ = nvme_tcp.split_pdus(connection.stream(mptcp_stream.INITIATOR))
    return [bytes(pdu.ccsqe) for pdu in pdus if isinstance(pdu, nvme_tcp.CapsuleCmd)]
