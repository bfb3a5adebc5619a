# SPDX-License-Identifier: GPL-2.0-or-later
"""tshark with the plugin, on captures made packet by packet: DSNs that wrap, discovery entries."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from nvmptcp_captures.made import DSNS, SEQUENCES, MadeCapture, keys_with_wrap
from nvmptcp_captures.pdus import expected_pdus, header, headers_of, shown_pdus
from nvmptcp_captures.streams import read
from nvmptcp_captures.tshark import Tshark
from nvmptcp_conformance.layers import discovery, mptcp, nvme
from nvmptcp_conformance.layers.discovery import TCPTSAS
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER
from nvmptcp_conformance.layers.nvme_tcp import (
    R2T,
    C2HData,
    CapsuleCmd,
    CapsuleResp,
    H2CData,
    ICReq,
    ICResp,
    NVMeTCP,
    split_pdus,
)
from scapy.compat import raw

HOSTS = "nqn.2014-08.org.nvmexpress:uuid:6e766d70-7463-4000-8000-00000000000"
NVM = "nqn.2026-11.org.example:disk"
PASSES = pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])


def _pdus(random: Random, count: int) -> bytes:
    """A controller's stream: data of random lengths and completions."""
    return b"".join(
        raw(C2HData(cccid=cid, data=random.randbytes(random.randint(1, 6000)))) + raw(
            CapsuleResp(rccqe=nvme.Completion(cid=cid))) for cid in range(count))


@PASSES
def test_dsn_wraps_at_32_bits(passes: tuple[str, ...], dissector: Tshark, shared: Path) -> None:
    """Both directions, from the handshake on; mappings with 64 and with 32 bits, in any order."""
    random = Random(1)
    made = MadeCapture(keys=keys_with_wrap(100_000), subflows=3)
    made.send(INITIATOR, raw(ICReq()))
    made.send(LISTENER, raw(ICResp()))
    made.spread(LISTENER, _pdus(random, 60), random)
    made.spread(INITIATOR, b"".join(
        raw(H2CData(cccid=cid, data=random.randbytes(random.randint(1, 6000))))
        for cid in range(60)), random)
    file = made.write(shared / "wrap32.pcapng")
    expected = expected_pdus(read(file))
    assert sum(map(len, expected.values())) == 2 + 120 + 60
    assert shown_pdus(dissector, file, *passes) == expected
    rows = dissector.fields(file, ["nvme_mptcp.direction", "nvme_mptcp.dsn", "_ws.malformed",
                                   "nvme_mptcp.unmapped", "nvme_mptcp.not_captured"], *passes)
    for direction in ("0", "1"):
        upper = {int(row["nvme_mptcp.dsn"][0]) // SEQUENCES for row in rows
                 if row["nvme_mptcp.direction"] == [direction] and row["nvme_mptcp.dsn"]}
        assert len(upper) == 2, "the DSN doesn't wrap"
    assert not any(row["_ws.malformed"] or row["nvme_mptcp.unmapped"]
                   or row["nvme_mptcp.not_captured"] for row in rows)


@PASSES
def test_dsn_wraps_at_64_bits(passes: tuple[str, ...], dissector: Tshark, shared: Path) -> None:
    """From the midst of a connection: no key has an IDSN so high that it could be found."""
    random = Random(2)
    stream = _pdus(random, 60)
    made = MadeCapture(midway=(7, DSNS - len(stream) // 2))
    # Where PDUs begin is not known, and one doesn't prove it; but the DATA_ACKs now have a sense.
    made.send(INITIATOR, raw(CapsuleCmd()))
    made.send(LISTENER, stream[:4000])
    made.spread(LISTENER, stream[4000:], random)
    file = made.write(shared / "wrap64.pcapng")
    fields = ["frame.number", "nvme-tcp.type", "nvme-tcp.flags", "nvme-tcp.hlen", "nvme-tcp.pdo",
              "nvme-tcp.plen", "nvme_mptcp.connection", "nvme_mptcp.dsn", "_ws.malformed"]
    rows = dissector.fields(file, fields, *passes)
    shown = Counter(each for headers in headers_of(rows).values() for each in headers)
    assert shown == Counter(header(pdu) for pdu in split_pdus(stream)[0])
    numbers = {int(value) for row in rows for value in row["nvme_mptcp.dsn"]}
    assert max(numbers) > DSNS - len(stream)
    assert min(numbers) < len(stream)
    assert {value for row in rows for value in row["nvme_mptcp.connection"]} == {"0"}
    assert not any(row["_ws.malformed"] for row in rows)


# --- Discovery entries ----------------------------------------------------------------------------

TSAS = [TCPTSAS(tcpv=1, mpattr=5, maxsf=8, sfgid=0x102), TCPTSAS(),
        TCPTSAS(sectype=2, tcpv=1, mpattr=2, maxsf=3, sfgid=9), TCPTSAS(tcpv=7, maxsf=1)]
ATTRIBUTES = [discovery.ExtendedAttribute(exattype=2, exatval=b"x" * size) for size in (700, 1)]
HOST_LOG = discovery.HostDiscoveryLog(entries=[
    discovery.HostDiscoveryLogEntry(
        hostnqn=f"{HOSTS}{number}".encode(), traddr=f"10.0.1.{number}".encode(), tsas=tsas,
        exat=ATTRIBUTES[:number]) for number, tsas in enumerate(TSAS)])
LOG = discovery.DiscoveryLog(entries=[
    discovery.DiscoveryLogEntry(subnqn=f"{NVM}{number}".encode(), traddr=b"10.0.9.1", portid=number,
                                subtype=3 if number == 0 else 2, tsas=tsas)
    for number, tsas in enumerate(TSAS)])


def _dim(form: int) -> discovery.DIMData:
    entry = (discovery.DiscoveryLogEntry if form == discovery.BASIC
             else discovery.ExtendedDiscoveryInformationEntry)
    entries = [entry(traddr=b"10.0.9.1", portid=number, tsas=tsas)
               for number, tsas in enumerate(TSAS)]
    for number, each in enumerate(entries):
        each.setfieldval("subnqn" if form == discovery.BASIC else "nqn", f"{NVM}{number}".encode())
    if form == discovery.EXTENDED:
        entries[1].exat = ATTRIBUTES
    return discovery.DIMData(entfmt=form, etype=2, entries=entries)


class Session:
    """A host's Admin Queue of a discovery controller; what it sends is in `made`."""

    def __init__(self, *, tcp: bool) -> None:
        self.made = MadeCapture(tcp=tcp, subflows=1 if tcp else 2)
        self.flows = 1 if tcp else 2
        self._cid = 0
        self._random = Random(3)
        self.send(INITIATOR, ICReq())
        self.send(LISTENER, ICResp())
        self.command(nvme.Connect(), raw(nvme.ConnectData(
            subnqn=b"nqn.2014-08.org.nvmexpress.discovery", hostnqn=f"{HOSTS}0".encode())))
        self.complete()

    def send(self, side: int, pdu: NVMeTCP) -> None:
        """A PDU, cut in two, over both subflows if there are two."""
        data = raw(pdu)
        cut = self._random.randrange(1, len(data))
        for number, part in enumerate((data[:cut], data[cut:])):
            self.made.send(side, part, flow=number % self.flows)

    def command(self, command: nvme.Command, data: bytes = b"") -> None:
        self._cid += 1
        command.cid = self._cid
        self.send(INITIATOR, CapsuleCmd(ccsqe=command, data=data))

    def complete(self) -> None:
        self.send(LISTENER, CapsuleResp(rccqe=nvme.Completion(cid=self._cid)))

    def read_log(self, lid: int, page: bytes, reads: list[tuple[int, int]], most: int) -> None:
        """Get Log Page commands for (offset, length) each, at most so many bytes a PDU."""
        for offset, length in reads:
            self.command(nvme.GetLogPage(lid=lid, lpo=offset, numdl=length // 4 - 1))
            data = page[offset:offset + length]
            for at in range(0, len(data), most):
                self.send(LISTENER, C2HData(cccid=self._cid, datao=at, data=data[at:at + most]))
            self.complete()

    def register(self, data: bytes, most: int | None) -> None:
        """Discovery Information Management with these data, in the capsule or in H2CData PDUs of
        at most so many bytes.
        """
        command = nvme.DiscoveryInformationManagement()
        self.command(command, b"" if most else data)
        if most:
            self.send(LISTENER, R2T(cccid=self._cid, ttag=1, r2tl=len(data)))
            for at in range(0, len(data), most):
                self.send(INITIATOR, H2CData(cccid=self._cid, ttag=1, datao=at,
                                              data=data[at:at + most]))
        self.complete()


NAMES = ("entry", "structure", "dim", "tcpv", "sectype", "subnqn", "nqn", "hostnqn", "traddr",
         "portid", "mpattr", "maxsf", "sfgid")
Shown = dict[str, list[str]]


def _shown(file: Path, tshark: Tshark, *passes: str) -> Shown:
    """All values of each field in the capture, in order."""
    rows = tshark.fields(file, [f"nvme_mptcp.discovery.{name}" for name in NAMES], *passes)
    return {name: [value for row in rows for value in row[f"nvme_mptcp.discovery.{name}"]]
            for name in NAMES}


def _tsas(shown: Shown) -> None:
    """The TSAS of all entries, in order; without variant MPTCP the rest of it is not shown."""
    assert [int(value) for value in shown["tcpv"]] == [tsas.tcpv for tsas in TSAS]
    assert [int(value) for value in shown["sectype"]] == [tsas.sectype for tsas in TSAS]
    known = [tsas for tsas in TSAS if tsas.tcpv == 1]
    assert [int(value, 16) for value in shown["mpattr"]] == [int(tsas.mpattr) for tsas in known]
    assert [int(value) for value in shown["maxsf"]] == [tsas.maxsf for tsas in known]
    assert [int(value) for value in shown["sfgid"]] == [tsas.sfgid for tsas in known]
    assert shown["entry"] == [str(number) for number in range(len(TSAS))]


TRANSPORT = pytest.mark.parametrize("tcp", [False, True], ids=["MPTCP", "TCP"])


@PASSES
@TRANSPORT
@pytest.mark.parametrize("reads", ["whole", "chunks", "PDUs"])
def test_host_discovery_log(tcp: bool, reads: str, passes: tuple[str, ...], dissector: Tshark,
                            shared: Path) -> None:
    """Entries of different lengths, cut by commands (after a look at the header) and by PDUs."""
    page = raw(HOST_LOG)
    parts = [(0, len(page))] if reads != "chunks" else [
        (0, 20), *((at, min(512, len(page) - at)) for at in range(0, len(page), 512))]
    session = Session(tcp=tcp)
    session.read_log(0x71, page, parts, 300 if reads == "PDUs" else len(page))
    shown = _shown(session.made.write(shared / "hosts-log.pcapng"), dissector, *passes)
    _tsas(shown)
    assert shown["hostnqn"] == [f"{HOSTS}{number}" for number in range(len(TSAS))]
    assert shown["traddr"] == [f"10.0.1.{number}" for number in range(len(TSAS))]
    assert set(shown["structure"]) == {"2"}
    assert set(shown["dim"]) == {"0"}
    assert shown["subnqn"] == shown["portid"] == []


@TRANSPORT
@pytest.mark.parametrize("most", [None, 1000], ids=["in the capsule", "H2CData"])
@pytest.mark.parametrize("form", [discovery.BASIC, discovery.EXTENDED],
                         ids=["basic", "extended"])
def test_registration(tcp: bool, form: int, most: int | None, dissector: Tshark,
                      shared: Path) -> None:
    session = Session(tcp=tcp)
    session.register(raw(_dim(form)), most)
    shown = _shown(session.made.write(shared / "dim.pcapng"), dissector)
    _tsas(shown)
    names = [f"{NVM}{number}" for number in range(len(TSAS))]
    assert shown["subnqn" if form == discovery.BASIC else "nqn"] == names
    assert not shown["nqn" if form == discovery.BASIC else "subnqn"]
    assert set(shown["structure"]) == {"0" if form == discovery.BASIC else "1"}
    assert set(shown["dim"]) == {"1"}
    assert shown["portid"] == [str(number) for number in range(len(TSAS))]


@TRANSPORT
def test_discovery_log_in_odd_pieces(tcp: bool, dissector: Tshark, shared: Path) -> None:
    """A read longer than the log, by PDUs of an odd size; what follows the log is no entry."""
    page = raw(LOG)
    session = Session(tcp=tcp)
    session.read_log(0x70, page + b"\3" * 3000, [(0, len(page) + 3000)], 1111)
    shown = _shown(session.made.write(shared / "log.pcapng"), dissector)
    _tsas(shown)
    assert shown["subnqn"] == [f"{NVM}{number}" for number in range(len(TSAS))]
    assert set(shown["structure"]) == {"0"}


def test_registered_port_is_announced(dissector: Tshark, shared: Path) -> None:
    """A port that registers with variant MPTCP, and a host that connects to it by TCP."""
    session = Session(tcp=False)
    data = _dim(discovery.EXTENDED)
    data.entries[0].traddr = b"10.0.1.2"
    session.register(raw(data), None)
    later = MadeCapture(tcp=True, subflows=1)
    for packet in later.packets:
        packet["TCP"].sport = packet["TCP"].sport if packet["TCP"].sport == 4420 else 50000
        packet["TCP"].dport = packet["TCP"].dport if packet["TCP"].dport == 4420 else 50000
    session.made.packets += later.packets
    file = session.made.write(shared / "announced.pcapng")
    shown = dissector.fields(file, ["nvme_mptcp.tcp_used"])
    assert [number for number, row in enumerate(shown) if row["nvme_mptcp.tcp_used"]] == [
        len(session.made.packets) - len(later.packets)]


# --- Expert information ---------------------------------------------------------------------------

EVENTS = ("fallback.handshake", "fallback", "checksum_bad", "mp_fail", "fastclose", "tcprst",
          "framing_error", "not_captured", "synchronized", "unmapped", "hdgst_bad", "ddgst_bad",
          "duplicate_cid", "unknown_cid", "no_response", "reordered", "silent", "join_refused",
          "join_unanswered", "tcp_used")
HDGST, DDGST = 1, 2


def _nothing(session: Session) -> None:
    session.made.data_fin(INITIATOR)
    session.made.acknowledge(LISTENER)
    session.made.data_fin(LISTENER)


def _duplicate_cid(session: Session) -> None:
    for _ in range(2):
        session.send(INITIATOR, CapsuleCmd(ccsqe=nvme.Identify(cid=77)))


def _unknown_cid(session: Session) -> None:
    session.send(LISTENER, CapsuleResp(rccqe=nvme.Completion(cid=77)))


def _no_response(session: Session) -> None:
    session.command(nvme.Identify())
    session.made.data_fin(INITIATOR)


def _asynchronous(session: Session) -> None:
    session.command(nvme.AsyncEventRequest())
    session.made.data_fin(INITIATOR)


def _header_digest(session: Session) -> None:
    session.command(nvme.Identify())
    session.send(LISTENER, CapsuleResp(flags=HDGST, hdgst=1, rccqe=nvme.Completion(cid=2)))


def _data_digest(session: Session) -> None:
    session.command(nvme.Identify())
    session.send(LISTENER, C2HData(flags=DDGST, ddgst=1, cccid=2, data=bytes(4096)))


def _framing(session: Session) -> None:
    session.made.send(LISTENER, b"\xff" * 64)
    _answered(session)


def _not_captured(session: Session) -> None:
    session.made.lose(LISTENER, 1000)
    session.made.acknowledge(INITIATOR)


def _answered(session: Session) -> None:
    for _ in range(4):
        session.command(nvme.Identify())
        session.complete()


def _unmapped(session: Session) -> None:
    session.made.bare(LISTENER, data=bytes(100), flow=1)


def _reordered(session: Session) -> None:
    made = session.made
    session.command(nvme.Identify())
    data = raw(C2HData(cccid=2, data=bytes(4096)))
    held = made.packets
    made.send(LISTENER, data[:2000], flow=1)
    late = held.pop()
    made.send(LISTENER, data[2000:], flow=0)
    made.pause(0.05)
    late.time = float(made.packets[-1].time) + 0.05
    held.append(late)


def _silent(session: Session) -> None:
    made = session.made
    session.command(nvme.Identify())
    made.send(LISTENER, raw(C2HData(cccid=2, data=bytes(4096))), flow=1)
    made.pause(1.5)
    session.complete()


def _reset(session: Session) -> None:
    session.made.bare(LISTENER, mptcp.MPTCPReset(reason=2), flow=1, flags="RA")


def _fastclose(session: Session) -> None:
    session.made.bare(LISTENER, mptcp.MPFastclose(receiver_key=1))


def _fail(session: Session) -> None:
    session.made.bare(LISTENER, mptcp.MPFail(dsn=1), flow=1)


@pytest.mark.parametrize(("happening", "expected"), [
    (_nothing, ""), (_answered, ""), (_asynchronous, ""),
    (_duplicate_cid, "duplicate_cid"), (_unknown_cid, "unknown_cid"),
    (_no_response, "no_response"), (_header_digest, "hdgst_bad"), (_data_digest, "ddgst_bad"),
    (_framing, "framing_error"), (_not_captured, "not_captured"), (_unmapped, "unmapped"),
    (_reordered, "reordered"), (_silent, "silent"), (_reset, "tcprst"),
    (_fastclose, "fastclose"), (_fail, "mp_fail")])
def test_expert_information(happening: Callable[[Session], None], expected: str,
                            dissector: Tshark, shared: Path) -> None:
    """What happens is told once, in the last frames, and nothing else is."""
    session = Session(tcp=False)
    before = len(session.made.packets)
    happening(session)
    file = session.made.write(shared / "event.pcapng")
    rows = dissector.fields(file, [f"nvme_mptcp.{name}" for name in EVENTS])
    shown = [(number, name) for number, row in enumerate(rows) for name in EVENTS
             if row[f"nvme_mptcp.{name}"]]
    assert [name for _, name in shown] == ([expected] if expected else [])
    assert all(number >= before for number, _ in shown)
