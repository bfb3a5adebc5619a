# SPDX-License-Identifier: GPL-2.0-or-later
"""Discovery structures: offsets against the registry and libnvme's, TSAS of each transport."""

import pytest
from nvmptcp_conformance.layers import registry
from nvmptcp_conformance.layers.discovery import (
    RDMATSAS,
    TCPTSAS,
    DIMData,
    DiscoveryLog,
    DiscoveryLogEntry,
    ExtendedAttribute,
    ExtendedDiscoveryInformationEntry,
    HostDiscoveryLog,
    HostDiscoveryLogEntry,
    NoTSAS,
    text,
)
from scapy.packet import Packet

TSAS = TCPTSAS(tcpv=registry.Tcpv.MPTCP, mpattr="ADDA+MPREQ", maxsf=8, sfgid=0x0102)
TSAS_WIRE = bytes.fromhex("00 01 05 08 0201") + bytes(250)


def entry() -> DiscoveryLogEntry:
    return DiscoveryLogEntry(adrfam=2, subtype=3, treq=2, portid=0x0102, cntlid=0x0304,
                             asqsz=0x0506, eflags="EPCSD+NCC", trsvcid=b"4421", subnqn=b"nqn.x",
                             traddr=b"192.0.2.1", tsas=TSAS)


def rebuilt(packet: Packet) -> bytes:
    """The bytes of a dissected packet, built from its fields at every level."""
    packet.clear_cache()
    return bytes(packet)


def layout(packet: Packet) -> tuple[dict[str, tuple[int, int]], int]:
    """First byte and size of each field that isn't reserved, and the size of all."""
    places, at = {}, 0
    for field in packet.fields_desc:
        size = len(field.addfield(packet, b"", packet.getfieldval(field.name)))
        if size and not field.name.startswith("reserved"):
            places[field.name.upper()] = at, size
        at += size
    return places, at


@pytest.mark.parametrize(("structure", "places", "size"), [
    (DiscoveryLogEntry, registry.DISCOVERY_ENTRY, registry.DISCOVERY_ENTRY_SIZE),
    (DiscoveryLog, registry.DISCOVERY_HEADER, registry.DISCOVERY_HEADER_SIZE),
    (ExtendedDiscoveryInformationEntry, registry.EXTENDED_ENTRY, registry.EXTENDED_ENTRY_SIZE),
    (HostDiscoveryLogEntry, registry.HOST_ENTRY, registry.HOST_ENTRY_SIZE),
    (DIMData, registry.DIM, registry.DIM_SIZE),
])
def test_structure_is_laid_out_as_the_registry_says(
        structure: type[Packet], places: dict[str, tuple[int, int]], size: int) -> None:
    assert layout(structure()) == (places, size)


def test_tsas_is_laid_out_as_the_registry_says() -> None:
    wire = bytes(TSAS)
    assert wire == TSAS_WIRE
    assert len(wire) == registry.TSAS_SIZE
    values = {"SECTYPE": 0, "TCPV": 1, "MPATTR": 5, "MAXSF": 8, "SFGID": 0x0102}
    assert values == {name: int.from_bytes(wire[at:at + size], "little")
                      for name, (at, size) in registry.TSAS.items()}


def test_entry_bytes() -> None:
    wire = bytes(entry())
    assert wire[:12] == bytes.fromhex("03 02 03 02 0201 0403 0605 0600")
    assert wire[12:32] + wire[64:256] == bytes(212)
    assert [text(wire[at:at + size]) for at, size in ((32, 32), (256, 256), (512, 256))] == [
        "4421", "nqn.x", "192.0.2.1"]
    assert wire[768:] == TSAS_WIRE
    found = DiscoveryLogEntry(wire)
    assert isinstance(found.tsas, TCPTSAS)
    assert (found.tsas.mpattr.ADDA, found.tsas.mpattr.DCSR, found.tsas.mpattr.MPREQ) == (1, 0, 1)
    assert rebuilt(found) == wire


def test_entry_of_an_old_target_is_plain_tcp() -> None:
    tsas = DiscoveryLogEntry(bytes(DiscoveryLogEntry())).tsas
    assert (tsas.sectype, tsas.tcpv, tsas.mpattr, tsas.maxsf, tsas.sfgid) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(("trtype", "form"), [(1, RDMATSAS), (2, NoTSAS), (3, TCPTSAS),
                                              (0xFE, NoTSAS), (9, NoTSAS)])
def test_tsas_by_transport_type(trtype: int, form: type[Packet]) -> None:
    wire = bytes([trtype]) + bytes(767) + bytes(range(256))
    found = DiscoveryLogEntry(wire)
    assert type(found.tsas) is form
    assert rebuilt(found) == wire


def test_unknown_variants_and_reserved_bits_are_kept() -> None:
    wire = bytes.fromhex("ff fe f8 ff ffff") + bytes(range(6, 256))
    found = TCPTSAS(wire)
    assert (found.tcpv, int(found.mpattr), found.sfgid) == (0xFE, 0xF8, 0xFFFF)
    assert rebuilt(found) == wire


def test_rdma_tsas_has_pkey_at_byte_8() -> None:
    wire = bytes(RDMATSAS(qptype=1, prtype=4, cms=1, pkey=0x8001))
    assert wire[:10] == bytes.fromhex("01 04 01 0000000000 0180")
    assert len(wire) == 256


def test_log_page() -> None:
    wire = bytes(DiscoveryLog(genctr=7, entries=[entry(), DiscoveryLogEntry(trtype=1)]))
    assert wire[:18] == bytes.fromhex("0700000000000000 0200000000000000 0000")
    assert len(wire) == 3 * 1024
    found = DiscoveryLog(wire)
    assert [type(each.tsas) for each in found.entries] == [TCPTSAS, RDMATSAS]
    assert rebuilt(found) == wire


ATTRIBUTES = [ExtendedAttribute(exattype=1, exatval=bytes(range(16))),
              ExtendedAttribute(exattype=2, exatval=b"host1")]


def test_extended_attributes_fill_dwords() -> None:
    assert bytes(ATTRIBUTES[0])[:4] == bytes.fromhex("0100 1000")
    assert bytes(ATTRIBUTES[1]) == bytes.fromhex("0200 0800") + b"host1\0\0\0"


@pytest.mark.parametrize(("structure", "name"), [
    (ExtendedDiscoveryInformationEntry(nqn=b"nqn.x", traddr=b"192.0.2.1", tsas=TSAS,
                                       exat=ATTRIBUTES), "nqn"),
    (HostDiscoveryLogEntry(hostnqn=b"nqn.x", traddr=b"192.0.2.1", tsas=TSAS, exat=ATTRIBUTES),
     "hostnqn"),
], ids=["Extended Discovery Information Entry", "Host Discovery Log entry"])
def test_extended_entries(structure: Packet, name: str) -> None:
    wire = bytes(structure)
    length = 1032 + 20 + 12
    assert (wire[0], len(wire)) == (3, length)
    assert (text(wire[256:512]), text(wire[512:768])) == ("nqn.x", "192.0.2.1")
    assert wire[768:1024] == TSAS_WIRE
    assert wire[1024:1032] == length.to_bytes(4, "little") + b"\2\0\0\0"
    found = type(structure)(wire)
    assert (text(found.getfieldval(name)), found.numexat) == ("nqn.x", 2)
    assert text(found.exat[1].exatval) == "host1"
    assert rebuilt(found) == wire


def test_host_discovery_log() -> None:
    wire = bytes(HostDiscoveryLog(genctr=1, entries=[
        HostDiscoveryLogEntry(tsas=TSAS, exat=ATTRIBUTES), HostDiscoveryLogEntry(trtype=2)]))
    assert wire[8:24] == bytes.fromhex("0200000000000000 0000 00 00") + len(wire).to_bytes(
        4, "little")
    found = HostDiscoveryLog(wire)
    assert [type(each.tsas) for each in found.entries] == [TCPTSAS, NoTSAS]
    assert rebuilt(found) == wire


@pytest.mark.parametrize("entfmt", [1, 2])
def test_dim_data(entfmt: int) -> None:
    entries = [entry(), entry()] if entfmt == 1 else [
        ExtendedDiscoveryInformationEntry(tsas=TSAS, exat=ATTRIBUTES)]
    wire = bytes(DIMData(entfmt=entfmt, eid=b"nqn.host", ename=b"name", ever=b"v1",
                         entries=entries))
    assert wire[:24] == len(wire).to_bytes(4, "little") + bytes(4) + len(entries).to_bytes(
        8, "little") + bytes([entfmt, 0, 1, 0, 0, 0, 0x5F, 0])
    assert [text(wire[at:at + size]) for at, size in ((24, 256), (280, 256), (536, 64))] == [
        "nqn.host", "name", "v1"]
    assert wire[1024 + 768:1024 + 1024] == TSAS_WIRE
    found = DIMData(wire)
    assert [each.tsas.sfgid for each in found.entries] == [0x0102] * len(entries)
    assert rebuilt(found) == wire
