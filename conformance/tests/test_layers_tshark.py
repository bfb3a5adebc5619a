# SPDX-License-Identifier: GPL-2.0-or-later
"""Our layers against tshark, an independent decoder: what we build, and what a kernel sent."""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from mptcp_vectors import VECTORS
from nvmptcp_conformance.layers import mptcp, nvme
from nvmptcp_conformance.layers.nvme_tcp import (
    R2T,
    C2HData,
    C2HTermReq,
    CapsuleCmd,
    CapsuleResp,
    H2CData,
    H2CTermReq,
    ICReq,
    ICResp,
    NVMeTCP,
    split_pdus,
)
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import rdpcap, wrpcap
from tshark import decode, number

# Addresses given, or Scapy asks the network for them.
LINK = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
CAPTURES = Path(__file__).parent / "vectors"

# --- MPTCP options -------------------------------------------------------------------------------

_OPTION = "tcp.options.mptcp."
# Our field (of the classes named, or of all) and tshark's.
OPTION_FIELDS: list[tuple[str, str]] = [
    ("version", "version"), ("address_id", "addrid"), ("sender_key", "sendkey"),
    ("receiver_key", "recvkey"), ("data_len", "datalvllen"), ("checksum", "checksum"),
    ("backup", "backup.flag"), ("token", "recvtok"), ("nonce", "sendrand"),
    ("data_ack", "rawdataack"), ("dsn", "rawdataseqno"), ("ssn", "subflowseqno"),
    ("echo", "echo"), ("port", "port"), ("reason", "rst_reason"),
]
BITS = {  # of our `flags`
    mptcp.DSS: {"F": "datafin.flag", "m": "dseqn8.flag", "M": "dseqnpresent.flag",
                "a": "dataack8.flag", "A": "dataackpresent.flag"},
    mptcp.MPTCPReset: {"T": "flag_T.flag", "U": "flag_U.flag", "V": "flag_V.flag",
                       "W": "flag_W.flag"},
}
CAPABLE_BITS = {"A": "checksumreq.flags", "C": "nomoresubflows.flag", "H": "sha256.flag"}
HMACS = {mptcp.MPJoinSYNACK: "sendtrunchmac", mptcp.MPJoinACK: "sendhmac"}
TEXT = ("ipv4", "ipv6", "sendhmac")
NAMES = sorted({"subtype", "addaddrtrunchmac", *TEXT, *HMACS.values(), *CAPABLE_BITS.values(),
                *(theirs for _, theirs in OPTION_FIELDS),
                *(name for bits in BITS.values() for name in bits.values())})


def ours(option: mptcp.MPTCPOption) -> dict[str, list[Any]]:
    """An option's values under tshark's names."""
    values: dict[str, list[Any]] = {"subtype": [option.subtype]}
    for name, theirs in OPTION_FIELDS:
        if name in present(option):
            values[theirs] = [option.getfieldval(name)]
    if isinstance(option, mptcp.DSS):
        # tshark doesn't show it; test_layers_captures.py checks it against the data.
        values.pop("checksum", None)
    for form, bits in BITS.items():
        if isinstance(option, form):
            values |= {theirs: [int(getattr(option.flags, bit))] for bit, theirs in bits.items()}
    if option.subtype == 0 and option.version == 1:
        values |= {theirs: [int(getattr(option.flags, bit))]
                   for bit, theirs in CAPABLE_BITS.items()}
    elif option.subtype == 0:  # version 0 has other flags
        values["checksumreq.flags"] = [int(option.flags.A)]
    if type(option) in HMACS:
        value = option.hmac.hex() if len(option.hmac) > 8 else int.from_bytes(option.hmac, "big")
        values[HMACS[type(option)]] = [value]
    if isinstance(option, mptcp.RemoveAddr):
        values["addrid"] = list(option.address_ids)
    if "address" in option.fieldtype:
        address = ip_address(option.address)
        values[f"ipv{address.version}"] = [str(address)]
        if not option.echo:
            values["addaddrtrunchmac"] = [int.from_bytes(option.hmac, "big")]
    return values


def present(option: Packet) -> set[str]:
    """The fields that stand on the wire, given the flags."""
    return {field.name for field in option.fields_desc
            if not hasattr(field, "cond") or field.cond(option)}


def merged(options: Iterable[mptcp.MPTCPOption]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in NAMES}
    for option in options:
        for name, values in ours(option).items():
            found[name] += values
    return found


def theirs(row: dict[str, list[str]]) -> dict[str, list[Any]]:
    return {name: [value if name in TEXT else number(value) for value in row[_OPTION + name]]
            for name in NAMES}


def test_tshark_reads_every_option_that_we_build(tmp_path: Path) -> None:
    packets = [LINK / IP(src="192.0.2.1", dst="192.0.2.2")
               / TCP(sport=1000 + number, dport=9, flags="A", options=[("MPTCP", option)])
               for number, (option, _) in enumerate(VECTORS)]
    wrpcap(str(tmp_path / "options.pcap"), packets)
    rows = decode(tmp_path / "options.pcap", [_OPTION + name for name in NAMES])
    assert len(rows) == len(VECTORS)
    for row, (option, wire) in zip(rows, VECTORS, strict=True):
        assert theirs(row) == merged([option]), wire


@pytest.mark.parametrize("name", ["ipv4", "ipv6"])
def test_tshark_and_we_read_a_kernels_options_alike(name: str) -> None:
    capture = CAPTURES / f"{name}.pcap"
    rows = decode(capture, [_OPTION + field for field in NAMES])
    packets = rdpcap(str(capture))
    assert len(rows) == len(packets) > 0
    for count, (row, packet) in enumerate(zip(rows, packets, strict=True), 1):
        options = mptcp.mptcp_options(packet)
        assert all(isinstance(option, mptcp.MPTCPOption) for option in options)
        found = merged(option for option in options if isinstance(option, mptcp.MPTCPOption))
        assert found == theirs(row), f"packet {count}: {options}"


# --- NVMe/TCP PDUs -------------------------------------------------------------------------------

DIGESTS, GOOD = ("hdgst", "ddgst"), 1  # GOOD: tshark computes the same
HEADER = ["type", "flags", "hlen", "pdo", "plen"]
OWN_FIELDS: dict[type[NVMeTCP], list[tuple[str, str]]] = {
    ICReq: [("pfv", "nvme-tcp.icreq.pfv"), ("hpda", "nvme-tcp.icreq.hpda"),
            ("dgst", "nvme-tcp.icreq.digest"), ("maxr2t", "nvme-tcp.icreq.maxr2t")],
    ICResp: [("pfv", "nvme-tcp.icresp.pfv"), ("cpda", "nvme-tcp.icresp.cpda"),
             ("dgst", "nvme-tcp.icresp.digest")],
    CapsuleCmd: [],
    CapsuleResp: [],
    H2CData: [("ttag", "nvme-tcp.ttag"), ("datao", "nvme-tcp.data.offset"),
              ("datal", "nvme-tcp.data.length"), ("cccid", "nvme-tcp.cmd.cid")],
    C2HData: [("datao", "nvme-tcp.data.offset"), ("datal", "nvme-tcp.data.length"),
              ("cccid", "nvme-tcp.cmd.cid")],
    R2T: [("ttag", "nvme-tcp.ttag"), ("r2to", "nvme-tcp.r2t.offset"),
          ("r2tl", "nvme-tcp.r2t.length")],
    H2CTermReq: [("fes", "nvme-tcp.h2ctermreq.fes")],
    C2HTermReq: [("fes", "nvme-tcp.c2htermreq.fes")],
}
COMMAND_FIELDS: dict[type[nvme.Command], list[tuple[str, str]]] = {
    nvme.Connect: [("cid", "nvme.fabrics.cmd.cid"), ("fctype", "nvme.fabrics.cmd.fctype"),
                   ("recfmt", "nvme.fabrics.cmd.connect.recfmt"),
                   ("qid", "nvme.fabrics.cmd.connect.qid"),
                   ("sqsize", "nvme.fabrics.cmd.connect.sqsize"),
                   ("cattr", "nvme.fabrics.cmd.connect.cattr"),
                   ("kato", "nvme.fabrics.cmd.connect.kato")],
    nvme.PropertyGet: [("cid", "nvme.fabrics.cmd.cid"), ("fctype", "nvme.fabrics.cmd.fctype"),
                       ("attrib", "nvme.fabrics.cmd.prop_get_set.attrib"),
                       ("ofst", "nvme.fabrics.cmd.prop_get_set.offset")],
    nvme.PropertySet: [("cid", "nvme.fabrics.cmd.cid"), ("fctype", "nvme.fabrics.cmd.fctype"),
                       ("attrib", "nvme.fabrics.cmd.prop_get_set.attrib"),
                       ("ofst", "nvme.fabrics.cmd.prop_get_set.offset")],
    nvme.Identify: [("opcode", "nvme.cmd.opc"), ("cid", "nvme.cmd.cid"), ("nsid", "nvme.cmd.nsid"),
                    ("cns", "nvme.cmd.identify.dword10.cns"),
                    ("cntid", "nvme.cmd.identify.dword10.cntid")],
    nvme.GetLogPage: [("opcode", "nvme.cmd.opc"), ("cid", "nvme.cmd.cid"),
                      ("lid", "nvme.cmd.get_logpage.dword10.id"),
                      ("rae", "nvme.cmd.get_logpage.dword10.rae"),
                      ("lpo", "nvme.cmd.get_logpage.lpo")],
    nvme.KeepAlive: [("opcode", "nvme.cmd.opc"), ("cid", "nvme.cmd.cid")],
    nvme.AsyncEventRequest: [("opcode", "nvme.cmd.opc"), ("cid", "nvme.cmd.cid")],
    nvme.SetFeatures: [("opcode", "nvme.cmd.opc"), ("fid", "nvme.cmd.set_features.dword10.fid")],
    nvme.Read: [("opcode", "nvme.cmd.opc"), ("cid", "nvme.cmd.cid"), ("nsid", "nvme.cmd.nsid"),
                ("slba", "nvme.cmd.slba"), ("nlb", "nvme.cmd.nlb")],
    nvme.Write: [("opcode", "nvme.cmd.opc"), ("cid", "nvme.cmd.cid"), ("nsid", "nvme.cmd.nsid"),
                 ("slba", "nvme.cmd.slba"), ("nlb", "nvme.cmd.nlb")],
    nvme.Flush: [("opcode", "nvme.cmd.opc"), ("cid", "nvme.cmd.cid"), ("nsid", "nvme.cmd.nsid")],
}


class Flow:
    """A TCP connection to port 4420 whose packets are written down as they are sent."""

    def __init__(self, port: int) -> None:
        self.port, self.packets, self.next = port, list[Packet](), [1000, 5000]
        for sender, flags in ((0, "S"), (1, "SA"), (0, "A")):
            self.segment(sender, flags)
            self.next[sender] += "S" in flags

    def segment(self, sender: int, flags: str, payload: bytes = b"") -> None:
        ends = ("192.0.2.1", self.port), ("192.0.2.2", 4420)
        (src, sport), (dst, dport) = ends[sender], ends[1 - sender]
        acknowledged = self.next[1 - sender] if "A" in flags else 0
        self.packets.append(
            LINK / IP(src=src, dst=dst)
            / TCP(sport=sport, dport=dport, flags=flags, seq=self.next[sender], ack=acknowledged)
            / Raw(payload))
        self.next[sender] += len(payload)

    def pdu(self, sender: int, pdu: NVMeTCP) -> None:
        self.segment(sender, "PA", bytes(pdu))


def exchange(qid: int, digests: str) -> Flow:
    """A queue's life: connect, the commands of its kind, data both ways, and its end by force."""
    flow = Flow(50000 + qid)
    flags = digests or 0
    dgst = (1 if "HDGSTF" in digests else 0) | (2 if "DDGSTF" in digests else 0)
    flow.pdu(0, ICReq(maxr2t=3, dgst=dgst))
    flow.pdu(1, ICResp(dgst=dgst))
    data = nvme.ConnectData(hostid=bytes(range(16)), subnqn=b"nqn.2026-11.org.example:x",
                            hostnqn=b"nqn.2026-11.org.example:h")
    flow.pdu(0, CapsuleCmd(flags=flags, data=bytes(data), ccsqe=nvme.Connect(
        cid=1, qid=qid, sqsize=31, kato=120000,
        sgl1=nvme.SGLDescriptor(type=0, subtype=1, length=1024))))
    flow.pdu(1, CapsuleResp(flags=digests.replace("+DDGSTF", "") or 0,
                            rccqe=nvme.Completion(dw0=1, cid=1)))
    commands: list[nvme.Command] = [
        nvme.PropertyGet(cid=2, attrib=1), nvme.PropertySet(cid=3, ofst=0x14, value=0x460001),
        nvme.Identify(cid=4, cns=2, cntid=7), nvme.GetLogPage(cid=5, rae=1, numdl=0x3FF, lpo=1024),
        nvme.SetFeatures(cid=6, fid=7, cdw11=1), nvme.AsyncEventRequest(cid=7),
        nvme.KeepAlive(cid=8),
    ] if qid == 0 else [nvme.Read(cid=2, nsid=1, slba=0x123456789A, nlb=7),
                        nvme.Write(cid=3, nsid=1, slba=8, nlb=0), nvme.Flush(cid=4, nsid=1)]
    header_only = "HDGSTF" if "HDGSTF" in digests else 0
    for command in commands:
        flow.pdu(0, CapsuleCmd(flags=header_only, ccsqe=command))
        if isinstance(command, nvme.Read):
            flow.pdu(1, C2HData(flags="+".join(filter(None, (digests, "LAST_PDU"))),
                                cccid=command.cid, data=bytes(4096)))
        if isinstance(command, nvme.Write):
            flow.pdu(1, R2T(flags=header_only, cccid=command.cid, ttag=9, r2tl=512))
            flow.pdu(0, H2CData(flags="+".join(filter(None, (digests, "LAST_PDU"))),
                                cccid=command.cid, ttag=9, data=bytes(range(256)) * 2))
        flow.pdu(1, CapsuleResp(flags=header_only, rccqe=nvme.Completion(cid=command.cid)))
    flow.pdu(1, C2HTermReq(fes=1, fei=2, pdu_header=bytes(24)))
    flow.pdu(0, H2CTermReq(fes=4, pdu_header=bytes(24)))
    return flow


def fields_of(pdu: NVMeTCP, admin: bool) -> dict[str, int]:
    """A PDU's values, and those of its command, under tshark's names."""
    values = {f"nvme-tcp.{name}": int(pdu.getfieldval(name)) for name in HEADER}
    for name, theirs in OWN_FIELDS[type(pdu)]:
        if name in present(pdu):
            values[theirs] = int(pdu.getfieldval(name))
    if isinstance(pdu, CapsuleCmd):
        sqe = bytes(pdu.ccsqe)
        command = nvme.admin_command(sqe) if admin else nvme.io_command(sqe)
        for name, theirs in COMMAND_FIELDS[type(command)]:
            # tshark counts blocks from 1
            values[theirs] = command.getfieldval(name) + (name == "nlb")
    for name in DIGESTS:
        if name in present(pdu):
            values[f"nvme-tcp.{name}.status"] = GOOD
    return values


def compare(rows: Sequence[dict[str, list[str]]], pdus: Sequence[tuple[NVMeTCP, bool]]) -> int:
    """Compare PDU by PDU; returns how many values were compared."""
    compared = 0
    for row, (pdu, admin) in zip(rows, pdus, strict=True):
        expected = fields_of(pdu, admin)
        # tshark shows some values of a PDU twice, as what they are and as what they refer to.
        found = {name: number(row[name][0]) if row[name] else None for name in expected}
        assert found == expected, pdu.name
        assert not {name for name in DIGESTS if row[f"nvme-tcp.{name}.status"]} - present(pdu)
        compared += len(expected)
    return compared


PDU_FIELDS = sorted({
    *(f"nvme-tcp.{name}" for name in HEADER), *(f"nvme-tcp.{name}.status" for name in DIGESTS),
    *(theirs for pairs in (*OWN_FIELDS.values(), *COMMAND_FIELDS.values())
      for _, theirs in pairs)})


@pytest.mark.parametrize("digests", ["", "HDGSTF", "HDGSTF+DDGSTF"])
@pytest.mark.parametrize("qid", [0, 1])
def test_tshark_reads_every_pdu_that_we_build(tmp_path: Path, qid: int, digests: str) -> None:
    flow = exchange(qid, digests)
    capture = tmp_path / "pdus.pcap"
    wrpcap(str(capture), flow.packets)
    rows = [row for row in decode(capture, PDU_FIELDS) if row["nvme-tcp.type"]]
    pdus = [split_pdus(packet[Raw].load)[0][0] for packet in flow.packets
            if packet[Raw].load]
    assert compare(rows, [(pdu, qid == 0) for pdu in pdus]) > 100


def test_tshark_and_we_read_a_kernels_pdus_alike() -> None:
    """Whole directions of plain TCP connections, PDU headers in order."""
    capture = CAPTURES / "tcp.pcap"
    names = [f"nvme-tcp.{name}" for name in HEADER]
    streams: dict[tuple[str, str], dict[int, bytes]] = {}
    theirs: dict[tuple[str, str], dict[str, list[int]]] = {}
    rows = decode(capture, [*names, "tcp.stream", "tcp.srcport"])
    for row, packet in zip(rows, rdpcap(str(capture)), strict=True):
        key = row["tcp.stream"][0], row["tcp.srcport"][0]
        found = theirs.setdefault(key, {name: [] for name in names})
        for name in names:
            found[name] += map(number, row[name])
        payload = packet[TCP].payload
        if payload:
            streams.setdefault(key, {})[packet[TCP].seq] = payload.original
    assert len(streams) == 6  # Discovery, Admin, I/O; both directions
    for key, segments in streams.items():
        pdus, rest = split_pdus(b"".join(data for _, data in sorted(segments.items())))
        assert rest == b""
        assert {f"nvme-tcp.{name}": [int(pdu.getfieldval(name)) for pdu in pdus]
                for name in HEADER} == theirs[key]
