# SPDX-License-Identifier: GPL-2.0-or-later
"""NVMe/TCP PDUs and NVMe commands: bytes drawn by hand, lengths and digests filled in, streams."""

import struct
from typing import Any

import pytest
from nvmptcp_conformance.layers import nvme
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
    data_offset,
    digest,
    split_pdus,
)
from scapy.layers.inet import IP, TCP
from scapy.packet import Packet, Padding, Raw
from scapy.sessions import TCPSession

DATA = bytes(range(32))

# A PDU, the bytes of its header, and what follows the header.
VECTORS: list[tuple[NVMeTCP, str, str]] = [
    (ICReq(hpda=3, dgst="HDGST_ENABLE", maxr2t=2),
     "0000 8000 80000000 0000 03 01 02000000" + "00" * 112, ""),
    (ICResp(cpda=1, dgst="DDGST_ENABLE", maxh2cdata=0x10000),
     "0100 8000 80000000 0000 01 02 00000100" + "00" * 112, ""),
    (H2CTermReq(fes=2, fei=0x01020304, pdu_header=DATA),
     "0200 1800 38000000 0200 04030201" + "00" * 10, DATA.hex()),
    (C2HTermReq(fes=1, fei=4), "0300 1800 18000000 0100 04000000" + "00" * 10, ""),
    (CapsuleCmd(ccsqe=nvme.KeepAlive(cid=0x1234)),
     "0400 4800 48000000 18 40 3412" + "00" * 35 + "5a" + "00" * 24, ""),
    (CapsuleCmd(ccsqe=nvme.Write(cid=1, nsid=1, nlb=7), data=DATA),
     "0400 4848 68000000 01 40 0100 01000000" + "00" * 31 + "5a" + "00" * 8 + "0700" + "00" * 14,
     DATA.hex()),
    (CapsuleResp(rccqe=nvme.Completion(dw0=0x11, dw1=0x22, sqhd=3, sqid=4, cid=5, dnr=1, sct=1,
                                       sc=0x82)),
     "0500 1800 18000000 11000000 22000000 0300 0400 0500 0483", ""),
    (H2CData(flags="LAST_PDU", cccid=5, ttag=6, datao=0x1000, data=DATA),
     "0604 1818 38000000 0500 0600 00100000 20000000 00000000", DATA.hex()),
    (C2HData(flags="LAST_PDU+SUCCESS", cccid=5, datao=0x1000, data=DATA),
     "070c 1818 38000000 0500 0000 00100000 20000000 00000000", DATA.hex()),
    (R2T(cccid=5, ttag=6, r2to=0x1000, r2tl=0x2000),
     "0900 1800 18000000 0500 0600 00100000 00200000 00000000", ""),
]
IDS = [f"{pdu.name}{', data' if tail else ''}" for pdu, _, tail in VECTORS]


@pytest.mark.parametrize(("pdu", "header", "tail"), VECTORS, ids=IDS)
def test_pdu_is_built_and_dissected(pdu: NVMeTCP, header: str, tail: str) -> None:
    wire = bytes.fromhex(header + tail)
    assert bytes(pdu) == wire
    found = NVMeTCP(wire)
    assert type(found) is type(pdu)
    found.clear_cache()
    assert bytes(found) == wire
    for field in pdu.fields_desc:
        if pdu.getfieldval(field.name) is not None and not isinstance(
                pdu.getfieldval(field.name), Packet):
            assert found.getfieldval(field.name) == pdu.getfieldval(field.name), field.name


@pytest.mark.parametrize("alignment", [0, 3, 15])
@pytest.mark.parametrize("flags", ["", "HDGSTF", "DDGSTF", "HDGSTF+DDGSTF"])
def test_digests_and_padding(flags: str, alignment: int) -> None:
    hdgst, ddgst = "HDGSTF" in flags, "DDGSTF" in flags
    pdo = data_offset(24, hdgst, alignment)
    assert pdo % (4 * (alignment + 1)) == 0
    pdu = H2CData(flags=flags or 0, pdo=pdo, data=DATA)
    wire = bytes(pdu)
    start = 24 + (4 if hdgst else 0)
    assert pdo - 4 * (alignment + 1) < start <= pdo
    if hdgst:
        assert wire[24:28] == struct.pack("<I", digest(wire[:24]))
    assert wire[start:pdo] == bytes(pdo - start)
    assert wire[pdo:pdo + 32] == DATA
    assert wire[pdo + 32:] == (struct.pack("<I", digest(DATA)) if ddgst else b"")
    assert len(wire) == NVMeTCP(wire).plen
    found = H2CData(wire)
    found.clear_cache()
    assert bytes(found) == wire
    assert (found.data, found.pad) == (DATA, bytes(pdo - start))
    if hdgst:
        assert found.hdgst == found.header_digest()
    if ddgst:
        assert found.ddgst == found.data_digest()


def test_digest_is_crc32c() -> None:
    """The check values of RFC 3720, appendix B.4."""
    assert digest(bytes(32)) == 0x8A9136AA
    assert digest(b"\xff" * 32) == 0x62A8AB43
    assert digest(bytes(range(32))) == 0x46DD794E


def test_wrong_digests_and_lengths_are_built_as_given() -> None:
    pdu = H2CData(flags="HDGSTF+DDGSTF", hlen=99, plen=7, hdgst=1, ddgst=2, datal=3, data=DATA)
    wire = bytes(pdu)
    assert (wire[2], wire[4:8], wire[16:20]) == (99, b"\7\0\0\0", b"\3\0\0\0")
    assert (wire[24:28], wire[-4:]) == (b"\1\0\0\0", b"\2\0\0\0")


def test_a_capsule_without_data_has_no_data_digest() -> None:
    wire = bytes(CapsuleCmd(flags="HDGSTF+DDGSTF", ccsqe=nvme.KeepAlive()))
    assert len(wire) == 76
    assert NVMeTCP(wire).getfieldval("data") == b""


COMMANDS: list[tuple[nvme.Command, str]] = [
    (nvme.Connect(cid=1, qid=2, sqsize=127, cattr=4, kato=5000),
     "7f40 0100 01" + "00" * 34 + "5a 0000 0200 7f00 04 00 88130000" + "00" * 12),
    (nvme.PropertySet(cid=1, attrib=0, ofst=0x14, value=0x460001),
     "7f40 0100 00" + "00" * 35 + "00 000000 14000000 0100460000000000" + "00" * 8),
    (nvme.PropertyGet(cid=1, attrib=1, ofst=0),
     "7f40 0100 04" + "00" * 35 + "01 000000 00000000" + "00" * 16),
    (nvme.AuthenticationSend(cid=1, tl=72),
     "7f40 0100 05" + "00" * 34 + "5a 00 01 01 e9 48000000" + "00" * 16),
    (nvme.AuthenticationReceive(cid=1, al=72),
     "7f40 0100 06" + "00" * 34 + "5a 00 01 01 e9 48000000" + "00" * 16),
    (nvme.Disconnect(cid=1), "7f40 0100 08" + "00" * 59),
    (nvme.Identify(cid=1, cns=6, cntid=3, csi=2),
     "0640 0100" + "00" * 35 + "5a 06 00 0300 0000 00 02" + "00" * 16),
    (nvme.GetLogPage(cid=1, lid=0x70, rae=1, lsp=2, numdl=0x3FF, lpo=1024),
     "0240 0100" + "00" * 35 + "5a 70 82 ff03 0000 0000 0004000000000000" + "00" * 8),
    (nvme.SetFeatures(cid=1, fid=7, cdw11=0x30003),
     "0940 0100" + "00" * 35 + "5a 07 000000 03000300" + "00" * 16),
    (nvme.GetFeatures(cid=1, fid=7), "0a40 0100" + "00" * 35 + "5a 07 000000" + "00" * 20),
    (nvme.AsyncEventRequest(cid=1), "0c40 0100" + "00" * 35 + "5a" + "00" * 24),
    (nvme.KeepAlive(cid=1), "1840 0100" + "00" * 35 + "5a" + "00" * 24),
    (nvme.DiscoveryInformationManagement(cid=1, tas=2, cdw11=0x800),
     "2140 0100" + "00" * 35 + "5a 02 000000 00080000" + "00" * 16),
]
IO_COMMANDS: list[tuple[nvme.Command, str]] = [
    (nvme.Flush(cid=1, nsid=1), "0040 0100 01000000" + "00" * 31 + "5a" + "00" * 24),
    (nvme.Write(cid=1, nsid=1, slba=0x10, nlb=7,
                sgl1=nvme.SGLDescriptor(length=0x1000, type=0, subtype=1)),
     "0140 0100 01000000" + "00" * 24 + "00100000 000000 01 1000000000000000 0700" + "00" * 14),
    (nvme.Read(cid=1, nsid=1, slba=0x10, nlb=7),
     "0240 0100 01000000" + "00" * 31 + "5a 1000000000000000 0700" + "00" * 14),
]


@pytest.mark.parametrize(
    ("command", "wire", "dissect"),
    [(*pair, nvme.admin_command) for pair in COMMANDS]
    + [(*pair, nvme.io_command) for pair in IO_COMMANDS],
    ids=[command.name for command, _ in COMMANDS + IO_COMMANDS])
def test_command(command: nvme.Command, wire: str, dissect: Any) -> None:
    expected = bytes.fromhex(wire)
    assert len(expected) == nvme.SQE_SIZE
    assert bytes(command) == expected
    found = dissect(expected)
    assert type(found) is type(command)
    found.clear_cache()
    assert bytes(found) == expected
    common = nvme.command(expected)  # the form for a queue that isn't known
    common.clear_cache()
    assert bytes(common) == expected
    assert common.cid == 1


def test_commands_of_unknown_kind_round_trip() -> None:
    body = bytes(range(1, 64))
    for opcode in range(256):
        for dissect in (nvme.command, nvme.admin_command, nvme.io_command):
            found = dissect(bytes([opcode]) + body)
            found.clear_cache()
            assert bytes(found) == bytes([opcode]) + body


def test_completion_status_bits() -> None:
    """DNR, M, two of CRD, three of SCT, eight of SC, the phase: 1 1 10 101 10000010 1."""
    completion = nvme.Completion(dnr=1, more=1, crd=2, sct=5, sc=0x82, phase=1)
    assert bytes(completion)[14:] == (0b1110101100000101).to_bytes(2, "little")
    found = nvme.Completion(bytes(completion))
    assert (found.dnr, found.more, found.crd, found.sct, found.sc, found.phase) == (
        1, 1, 2, 5, 0x82, 1)


def test_connect_data_has_1024_bytes() -> None:
    data = bytes(nvme.ConnectData(hostid=bytes(range(16)), cntlid=5, subnqn=b"nqn.a",
                                  hostnqn=b"nqn.b"))
    assert len(data) == nvme.CONNECT_DATA_SIZE
    assert (data[:16], data[16:18]) == (bytes(range(16)), b"\5\0")
    assert (data[256:262], data[512:518]) == (b"nqn.a\0", b"nqn.b\0")


# --- Streams -------------------------------------------------------------------------------------

STREAM = b"".join(bytes(pdu) for pdu, _, _ in VECTORS)


def test_split_pdus_leaves_the_incomplete_one() -> None:
    for cut in (len(STREAM), len(STREAM) - 1, len(STREAM) - 17, 130, 127, 5, 0):
        pdus, rest = split_pdus(STREAM[:cut])
        assert b"".join(map(bytes, pdus)) + rest == STREAM[:cut]
        whole = sum(1 for end in range(len(VECTORS))
                    if len(b"".join(bytes(p) for p, _, _ in VECTORS[:end + 1])) <= cut)
        assert [type(pdu) for pdu in pdus] == [type(p) for p, _, _ in VECTORS[:whole]]


@pytest.mark.parametrize("damage", [(0, 0x0A), (2, 0x17), (4, 0x17)])
def test_split_pdus_names_the_place_of_a_bad_header(damage: tuple[int, int]) -> None:
    stream = bytearray(bytes(ICReq()) + bytes(R2T()))
    stream[128 + damage[0]] = damage[1]
    with pytest.raises(ValueError, match="no PDU header at byte 128 of the stream"):
        split_pdus(bytes(stream))


def test_segment_with_a_whole_pdu_is_dissected() -> None:
    packet = IP(bytes(IP() / TCP(dport=4420) / STREAM))
    assert ICReq in packet
    assert packet[Padding].load == STREAM[128:]


@pytest.mark.parametrize("payload", [STREAM[:127], STREAM[3:], b"\x04", b"GET / HTTP/1.1\r\n\r\n"])
def test_segment_without_a_whole_pdu_stays_raw(payload: bytes) -> None:
    packet = IP(bytes(IP() / TCP(sport=8009) / payload))
    assert packet[Raw].load == payload


@pytest.mark.parametrize("size", [7, 24, 100, 128, 1000])
def test_scapys_stream_session_reassembles(size: int) -> None:
    """What StreamSocket does with `tcp_reassemble`: the stream in pieces, PDUs out of it."""
    session, found = TCPSession(app=True), []
    for start in range(0, len(STREAM), size):
        done = session.process(Raw(STREAM[start:start + size]), NVMeTCP)
        while done:
            found.append(done)
            done = session.process(b"", NVMeTCP)  # type: ignore[arg-type]
    assert [type(pdu) for pdu in found] == [type(pdu) for pdu, _, _ in VECTORS]
    assert b"".join(bytes(pdu) for pdu in found) == STREAM


def test_scapys_tcp_session_reassembles() -> None:
    """PDUs cut by segments, as in a capture of plain TCP."""
    session, found = TCPSession(), []
    for number, (pdu, _, _) in enumerate(VECTORS):
        seq = 1000 + len(b"".join(bytes(each) for each, _, _ in VECTORS[:number]))
        wire = bytes(pdu)
        for part, offset in ((wire[:9], 0), (wire[9:], 9)):
            segment = IP() / TCP(sport=50000, dport=4420, flags="PA", seq=seq + offset) / Raw(part)
            done = session.process(IP(bytes(segment)))
            if done and done[TCP].payload:
                found.append(type(done[TCP].payload))
    assert found == [type(pdu) for pdu, _, _ in VECTORS]
