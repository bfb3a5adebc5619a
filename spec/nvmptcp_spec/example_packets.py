# SPDX-License-Identifier: GPL-2.0-or-later
"""The packets of the proposal's byte-level examples, built by the Scapy layers.

Keys, random numbers and sequence numbers are fixed, so the bytes are the same each time. Addresses
are from the ranges for documentation (RFC 5737).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nvmptcp_conformance.layers import mptcp, nvme
from nvmptcp_conformance.layers.discovery import TCPTSAS, DiscoveryLogEntry
from nvmptcp_conformance.layers.nvme_tcp import (
    R2T,
    CapsuleCmd,
    CapsuleResp,
    H2CData,
    ICReq,
    ICResp,
    NVMeTCP,
)
from nvmptcp_conformance.layers.registry import Mpattr, Tcpv
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

HOST, CONTROLLER = 0, 1
SENDERS = ("Host", "Controller")
KEYS = (0x0011223344556677, 0x8899AABBCCDDEEFF)
NONCES = (0x01020304, 0x05060708)
PORT = 4420
SUBFLOWS = ((("192.0.2.10", 50001), ("192.0.2.1", PORT)),  # (host, controller)
            (("198.51.100.10", 50002), ("198.51.100.1", PORT)))
ADDRESS_IDS = (1, 2)  # of the second path: the host's, the controller's
ISN = (1000, 5000)
SUBNQN = b"nqn.2026-11.org.example:disk1"
HOSTNQN = b"nqn.2026-11.org.example:host1"
HOSTID = bytes.fromhex("00112233445566778899aabbccddeeff")
BLOCK = bytes(range(256)) * 2  # the data that the example writes
FIRST_PART = 280  # bytes of the H2CData PDU on the first subflow


def discovery_entry() -> DiscoveryLogEntry:
    """An entry that announces the MPTCP variant, with every field of the proposal in use."""
    tsas = TCPTSAS(tcpv=Tcpv.MPTCP, mpattr=Mpattr.ADDA.value, maxsf=8, sfgid=1)
    return DiscoveryLogEntry(adrfam=1, subtype=2, portid=1, asqsz=32, trsvcid=str(PORT).encode(),
                             subnqn=SUBNQN, traddr=SUBFLOWS[0][1][0].encode(), tsas=tsas)


@dataclass(frozen=True)
class Piece:
    """Bytes `begin` to `end` of a PDU, as the payload of a segment."""

    pdu: NVMeTCP
    begin: int
    end: int

    @property
    def data(self) -> bytes:
        return bytes(self.pdu)[self.begin:self.end]


@dataclass(frozen=True)
class Segment:
    """A TCP segment of an example. `notes` explain fields, by name, where the layer can't."""

    sender: int
    subflow: int
    packet: Packet
    options: tuple[mptcp.MPTCPOption, ...]
    piece: Piece | None
    notes: Mapping[str, str]


@dataclass
class Conversation:
    """One MPTCP connection of two subflows; keeps sequence numbers, collects segments."""

    segments: list[Segment] = field(default_factory=list)
    sent: list[int] = field(default_factory=lambda: [0, 0])  # bytes of the stream, by sender
    on_subflow: list[list[int]] = field(default_factory=lambda: [[0, 0], [0, 0]])
    started: list[list[bool]] = field(default_factory=lambda: [[False] * 2 for _ in SUBFLOWS])
    finished: list[bool] = field(default_factory=lambda: [False, False])

    def dsn(self, sender: int) -> int:
        """The DSN of the next byte of `sender`."""
        return mptcp.idsn(KEYS[sender]) + 1 + self.sent[sender] + self.finished[sender]

    def send(self, sender: int, flags: str, *options: mptcp.MPTCPOption, subflow: int = 0,
             piece: Piece | None = None, notes: Mapping[str, str] | None = None) -> None:
        """Write down a segment with these options and this payload."""
        ends, peer = SUBFLOWS[subflow], 1 - sender
        sent, payload = self.on_subflow[subflow], piece.data if piece else b""
        packet = (Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
                  / IP(src=ends[sender][0], dst=ends[peer][0], id=len(self.segments))
                  / TCP(sport=ends[sender][1], dport=ends[peer][1], flags=flags,
                        seq=ISN[sender] + sent[sender] + self.started[subflow][sender],
                        ack=ISN[peer] + sent[peer] + 1 if "A" in flags else 0,
                        options=[("MPTCP", option) for option in options]))
        if payload:
            packet = packet / Raw(payload)
        self.started[subflow][sender] |= "S" in flags
        sent[sender] += len(payload)
        self.segments.append(Segment(sender, subflow, packet, options, piece, notes or {}))

    def data(self, sender: int, pdu: NVMeTCP, begin: int = 0, end: int | None = None,
             subflow: int = 0) -> None:
        """Send bytes of a PDU with a DSS that maps them, and a DATA_ACK."""
        piece = Piece(pdu, begin, len(bytes(pdu)) if end is None else end)
        size = piece.end - piece.begin
        option = mptcp.DSS(flags="AaMm", data_ack=self.dsn(1 - sender), dsn=self.dsn(sender),
                           ssn=self.on_subflow[subflow][sender] + 1, data_len=size)
        notes = {"dsn": f"{IDSN[sender]} + 1 + {self.sent[sender]}",
                 "data_ack": self._acknowledged(1 - sender),
                 "ssn": f"From byte {option.ssn} of the subflow on"}
        self.send(sender, "PA", option, subflow=subflow, piece=piece, notes=notes)
        self.sent[sender] += size

    def acknowledge(self, sender: int, subflow: int = 0) -> None:
        """Send a DATA_ACK alone."""
        self.send(sender, "A", mptcp.DSS(flags="Aa", data_ack=self.dsn(1 - sender)),
                  subflow=subflow, notes={"data_ack": self._acknowledged(1 - sender)})

    def finish(self, sender: int) -> None:
        """Send a DATA_FIN without data; it takes one DSN."""
        option = mptcp.DSS(flags="AaMmF", data_ack=self.dsn(1 - sender), dsn=self.dsn(sender),
                           ssn=0, data_len=1)
        self.send(sender, "A", option, notes={
            "dsn": f"{IDSN[sender]} + 1 + {self.sent[sender]}: the DATA_FIN itself",
            "data_ack": self._acknowledged(1 - sender), "ssn": "No data, so no byte of the subflow",
            "data_len": "Counts the DATA_FIN"})
        self.finished[sender] = True

    def _acknowledged(self, sender: int) -> str:
        fin = " + 1, the DATA_FIN" if self.finished[sender] else ""
        return f"{IDSN[sender]} + 1 + {self.sent[sender]}{fin}: next DSN expected"


IDSN = ("IDSN-H", "IDSN-C")
KEY_NOTES = {"sender_key": "Key-H, the host's", "receiver_key": "Key-C, the controller's"}


def handshake(talk: Conversation) -> None:
    """The three segments that open the first subflow."""
    talk.send(HOST, "S", mptcp.MPCapableSYN())
    talk.send(CONTROLLER, "SA", mptcp.MPCapableSYNACK(sender_key=KEYS[CONTROLLER]),
              notes={"sender_key": "Key-C, the controller's"})
    talk.send(HOST, "A", mptcp.MPCapableACK(sender_key=KEYS[HOST], receiver_key=KEYS[CONTROLLER]),
              notes=KEY_NOTES)


def _start(talk: Conversation) -> None:
    request = ICReq(maxr2t=0)
    talk.send(HOST, "PA",
              mptcp.MPCapableData(sender_key=KEYS[HOST], receiver_key=KEYS[CONTROLLER],
                                  data_len=len(bytes(request))),
              piece=Piece(request, 0, len(bytes(request))),
              notes={**KEY_NOTES, "data_len": "Bytes mapped, from IDSN-H + 1 on"})
    talk.sent[HOST] = len(bytes(request))
    talk.data(CONTROLLER, ICResp(maxh2cdata=0x10000))
    data = bytes(nvme.ConnectData(hostid=HOSTID, cntlid=1, subnqn=SUBNQN, hostnqn=HOSTNQN))
    in_capsule = nvme.SGLDescriptor(type=0, subtype=1, length=len(data))
    talk.data(HOST, CapsuleCmd(data=data, ccsqe=nvme.Connect(
        cid=1, qid=1, sqsize=127, sgl1=in_capsule)))
    talk.data(CONTROLLER, CapsuleResp(rccqe=nvme.Completion(dw0=1, sqhd=1, cid=1)))


def _join(talk: Conversation) -> None:
    address = SUBFLOWS[1][CONTROLLER][0]
    talk.send(CONTROLLER, "A", mptcp.AddAddr(
        address_id=ADDRESS_IDS[CONTROLLER], address=address, hmac=mptcp.add_addr_hmac(
            KEYS[CONTROLLER], KEYS[HOST], ADDRESS_IDS[CONTROLLER], address)),
        notes={"hmac": "Last 64 bits of HMAC(Key-C + Key-H, ID + address + port 0)"})
    talk.send(HOST, "A", mptcp.AddAddr(echo=1, address_id=ADDRESS_IDS[CONTROLLER],
                                       address=address))
    talk.send(HOST, "S", mptcp.MPJoinSYN(
        address_id=ADDRESS_IDS[HOST], token=mptcp.token(KEYS[CONTROLLER]), nonce=NONCES[HOST]),
        subflow=1, notes={"token": "Token-C: first 32 bits of SHA-256(Key-C)", "nonce": "R-H"})
    talk.send(CONTROLLER, "SA", mptcp.MPJoinSYNACK(
        address_id=ADDRESS_IDS[CONTROLLER], nonce=NONCES[CONTROLLER],
        hmac=mptcp.join_hmac(KEYS[1], KEYS[0], NONCES[1], NONCES[0])[:8]),
        subflow=1, notes={"hmac": "First 64 bits of HMAC(Key-C + Key-H, R-C + R-H)",
                          "nonce": "R-C"})
    talk.send(HOST, "A", mptcp.MPJoinACK(
        hmac=mptcp.join_hmac(KEYS[0], KEYS[1], NONCES[0], NONCES[1])[:20]),
        subflow=1, notes={"hmac": "First 160 bits of HMAC(Key-H + Key-C, R-H + R-C)"})
    talk.acknowledge(CONTROLLER, subflow=1)


def _write(talk: Conversation) -> None:
    talk.data(HOST, CapsuleCmd(ccsqe=nvme.Write(
        cid=2, nsid=1, slba=0x10, nlb=0, sgl1=nvme.SGLDescriptor(length=len(BLOCK)))))
    talk.data(CONTROLLER, R2T(cccid=2, ttag=1, r2tl=len(BLOCK)))
    pdu = H2CData(flags="LAST_PDU", cccid=2, ttag=1, data=BLOCK)
    talk.data(HOST, pdu, 0, FIRST_PART)
    talk.data(HOST, pdu, FIRST_PART, subflow=1)
    talk.data(CONTROLLER, CapsuleResp(rccqe=nvme.Completion(sqhd=2, cid=2)))


def _close(talk: Conversation) -> None:
    talk.finish(HOST)
    talk.finish(CONTROLLER)
    talk.acknowledge(HOST)


PHASES = (handshake, _start, _join, _write, _close)


def connection() -> list[list[Segment]]:
    """A whole connection of an I/O Queue, segment by segment, in the phases of `PHASES`."""
    talk, phases = Conversation(), []
    for phase in PHASES:
        before = len(talk.segments)
        phase(talk)
        phases.append(talk.segments[before:])
    return phases
