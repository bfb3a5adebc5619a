# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures made packet by packet, of what the lab's kernel doesn't send or can't be made to choose.

    made = MadeCapture(keys=(1, 2))
    made.send(INITIATOR, raw(ICReq()))
    made.write(file)

One connection, MPTCP with several subflows or TCP, from its handshake on or from its midst. Nothing
is lost; each packet takes a millisecond. A sender's data are its stream, in order, wherever the
bytes travel.
"""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random

from nvmptcp_conformance.layers import mptcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import wrpcapng

SEQUENCES, DSNS = 1 << 32, 1 << 64
MIDWAY_SENT = 1_000_000  # bytes that a subflow had carried before a capture of its midst
SMALLEST, LARGEST = 40, 1400  # bytes of a mapping
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")


def keys_with_wrap(distance: int) -> tuple[int, int]:
    """Keys whose IDSNs' lower 32 bits are at most `distance` below their wrap."""
    found = (key for key in count() if mptcp.idsn(key) % SEQUENCES >= SEQUENCES - distance)
    return next(found), next(found)


class MadeCapture:
    """The packets of one connection. Pairs are by sender: INITIATOR, the host, and LISTENER."""

    def __init__(self, *, keys: tuple[int, int] = (1, 2), subflows: int = 2, tcp: bool = False,
                 midway: tuple[int, int] | None = None) -> None:
        """Make the handshakes, or begin with the DSNs `midway`."""
        self.packets: list[Packet] = []
        self._now = 1_700_000_000.0  # s
        self._tcp = tcp
        # Near the wrap of TCP's own sequence numbers, too.
        self._isn = [[(SEQUENCES - 5000 * (flow + side + 1)) % SEQUENCES for side in range(2)]
                     for flow in range(subflows)]
        self._ssn = [[1 + (MIDWAY_SENT if midway else 0)] * 2 for _ in range(subflows)]
        self._dsn = list(midway) if midway else [(mptcp.idsn(key) + 1) % DSNS for key in keys]
        if not midway:
            for flow in range(subflows):
                self._handshake(flow, keys)

    def _packet(self, flow: int, side: int, flags: str, options: Sequence[mptcp.MPTCPOption],
                data: bytes = b"", *, ssn: int | None = None) -> None:
        own, peer = self._isn[flow][side], self._isn[flow][1 - side]
        ports = (40000 + flow, 4420)
        addresses = (f"10.0.{flow + 1}.1", f"10.0.{flow + 1}.2")
        ssn = self._ssn[flow][side] if ssn is None else ssn
        packet = (Ether(src=MACS[side], dst=MACS[1 - side])
                  / IP(src=addresses[side], dst=addresses[1 - side])
                  / TCP(sport=ports[side], dport=ports[1 - side], flags=flags,
                        seq=(own + ssn) % SEQUENCES,
                        ack=(peer + self._ssn[flow][1 - side]) % SEQUENCES if "A" in flags else 0,
                        options=[("MPTCP", option) for option in options]))
        if data:
            packet /= Raw(data)
        packet.time = self._now
        self._now += 0.001
        self.packets.append(packet)

    def _handshake(self, flow: int, keys: tuple[int, int]) -> None:
        options: tuple[list[mptcp.MPTCPOption], ...] = ([], [], [])
        if not self._tcp and flow == 0:
            options = ([mptcp.MPCapableSYN()], [mptcp.MPCapableSYNACK(sender_key=keys[LISTENER])],
                       [mptcp.MPCapableACK(sender_key=keys[INITIATOR],
                                           receiver_key=keys[LISTENER])])
        elif not self._tcp:
            options = ([mptcp.MPJoinSYN(address_id=flow, token=mptcp.token(keys[LISTENER]),
                                        nonce=3)],
                       [mptcp.MPJoinSYNACK(address_id=flow, nonce=4, hmac=mptcp.join_hmac(
                           keys[LISTENER], keys[INITIATOR], 4, 3)[:8])],
                       [mptcp.MPJoinACK(hmac=mptcp.join_hmac(*keys, 3, 4)[:20])])
        for side, flags, option in zip((INITIATOR, LISTENER, INITIATOR), ("S", "SA", "A"), options,
                                       strict=True):
            self._packet(flow, side, flags, option, ssn=None if flags == "A" else 0)

    def send(self, side: int, data: bytes, *, flow: int = 0, wide: bool = True) -> None:
        """The next bytes of a stream, in one segment; `wide`: DSN and DATA_ACK have 64 bits."""
        self._segment(side, data, flow, wide, self._dsn[side])
        self._dsn[side] = (self._dsn[side] + len(data)) % DSNS

    def _segment(self, side: int, data: bytes, flow: int, wide: bool, dsn: int) -> None:
        # All that the other side has sent has come.
        space = DSNS if wide else SEQUENCES
        option = [] if self._tcp else [mptcp.DSS(
            flags="AaMm" if wide else "AM", data_ack=self._dsn[1 - side] % space, dsn=dsn % space,
            ssn=self._ssn[flow][side], data_len=len(data))]
        self._packet(flow, side, "A", option, data)
        self._ssn[flow][side] += len(data)

    def lose(self, side: int, length: int, *, flow: int = 0) -> None:
        """The next bytes of a stream travel, but not into the capture."""
        self._ssn[flow][side] += length
        self._dsn[side] = (self._dsn[side] + length) % DSNS

    def bare(self, side: int, *options: mptcp.MPTCPOption, data: bytes = b"", flow: int = 0,
             flags: str = "A") -> None:
        """A segment with these options; its data have no other mapping."""
        self._packet(flow, side, flags, options, data)
        self._ssn[flow][side] += len(data)

    def data_fin(self, side: int) -> None:
        """DATA_FIN, without data (RFC 8684 §3.3.3)."""
        self.bare(side, mptcp.DSS(flags="AaMmF", data_ack=self._dsn[1 - side],
                                  dsn=self._dsn[side], data_len=1))
        self._dsn[side] = (self._dsn[side] + 1) % DSNS

    def acknowledge(self, side: int) -> None:
        """All that the other side has sent has come."""
        self.bare(side, mptcp.DSS(flags="Aa", data_ack=self._dsn[1 - side]))

    def pause(self, seconds: float) -> None:
        """Nothing happens for so long."""
        self._now += seconds

    def spread(self, side: int, data: bytes, random: Random) -> None:
        """Bytes in pieces of any size on any subflow, neighbours exchanged, some of them again by
        another subflow; DSNs and DATA_ACKs have 64 or 32 bits.
        """
        pieces = []
        while data:
            size = random.randint(SMALLEST, LARGEST)
            pieces.append((self._dsn[side], data[:size]))
            self._dsn[side] = (self._dsn[side] + len(data[:size])) % DSNS
            data = data[size:]
        for index in range(0, len(pieces) - 1, 2):
            if random.random() < 0.5:
                pieces[index:index + 2] = reversed(pieces[index:index + 2])
        for dsn, piece in pieces:
            flow = random.randrange(len(self._ssn))
            self._segment(side, piece, flow, random.random() < 0.5, dsn)
            if random.random() < 0.1:
                self._segment(side, piece, (flow + 1) % len(self._ssn), True, dsn)

    def write(self, file: Path) -> Path:
        """Write a pcapng file that anybody may read. Raises OSError."""
        wrpcapng(str(file), self.packets)
        file.chmod(0o644)
        return file
