# SPDX-License-Identifier: GPL-2.0-or-later
"""Golden vectors of the model's NVMe/TCP PDUs, from the Scapy layers of the conformance suite.

`python -m nvmptcp_model.pdu_vectors` writes `test/nvme-tcp-pdu-vectors.h`, which the model's test
suite compiles: two implementations of the PDUs, which share no code, have to agree.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from nvmptcp_conformance.layers import nvme, nvme_tcp
from scapy.compat import raw

HEADER = Path(__file__).parents[1] / "test" / "nvme-tcp-pdu-vectors.h"
_SAMPLES = 3  # PDUs of each form
_IN_CAPSULE, _TRANSPORT = (0, 1), (5, 0xA)  # type and subtype of SGL descriptors
_HDGST, _DDGST, _LAST, _SUCCESS = 1, 2, 4, 8

_TEMPLATE = """\
/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Made by `python -m nvmptcp_model.pdu_vectors` from the Scapy layers; don't edit.
// clang-format off

#ifndef NVME_TCP_PDU_VECTORS_H
#define NVME_TCP_PDU_VECTORS_H

#include "ns3/nvme-tcp-pdu.h"

#include <cstdint>
#include <vector>

namespace ns3::vectors
{{

/// A PDU and its bytes
struct PduVector
{{
    NvmeTcpPdu pdu;             //!< the PDU, without PDO and PLEN
    uint32_t dataLength;        //!< bytes of data, all zero
    std::vector<uint8_t> bytes; //!< header, digests and data
}};

inline const std::vector<PduVector> PDUS = {{
{rows}
}};

}} // namespace ns3::vectors

#endif // NVME_TCP_PDU_VECTORS_H
"""


def text() -> str:
    """The header's text: always the same for the same layers."""
    source = random.Random(8684)
    return _TEMPLATE.format(rows="\n".join(f"    {{{row}}}," for row in _rows(source)))


def _rows(source: random.Random) -> Iterator[str]:
    for _ in range(_SAMPLES):
        yield from _initialization(source)
        for flags in (0, _HDGST, _DDGST, _HDGST | _DDGST):
            yield from _commands(source, flags)
            yield from _transfers(source, flags)


def _row(fields: str, pdu: nvme_tcp.NVMeTCP, data: int = 0) -> str:
    """fields: of the model's PDU, in its order; type and flags come from `pdu`."""
    kind = {"ICReq": "IC_REQ", "ICResp": "IC_RESP", "H2CTermReq": "H2C_TERM_REQ",
            "C2HTermReq": "C2H_TERM_REQ", "CapsuleCmd": "CAPSULE_CMD",
            "CapsuleResp": "CAPSULE_RESP", "H2CData": "H2C_DATA", "C2HData": "C2H_DATA",
            "R2T": "R2T"}[type(pdu).__name__]
    octets = ",".join(map(str, raw(pdu)))
    return (f"NvmeTcpPdu{{.type = NvmeTcpPdu::{kind}, .flags = {int(pdu.flags)}, {fields}}},"
            f" {data}, {{{octets}}}")


def _initialization(source: random.Random) -> Iterator[str]:
    digests, alignment = source.getrandbits(2), source.getrandbits(5)
    number = source.getrandbits(32)
    yield _row(f".pda = {alignment}, .digests = {digests}, .maxR2t = {number}",
               nvme_tcp.ICReq(hpda=alignment, dgst=digests, maxr2t=number))
    yield _row(f".pda = {alignment}, .digests = {digests}, .maxH2cData = {number}",
               nvme_tcp.ICResp(cpda=alignment, dgst=digests, maxh2cdata=number))
    error = source.randrange(1, 7)
    for form in (nvme_tcp.H2CTermReq, nvme_tcp.C2HTermReq):
        yield _row(f".fes = {error}", form(fes=error))


def _commands(source: random.Random, flags: int) -> Iterator[str]:
    for opcode, data in ((2, 0), (1, 0), (1, 64)):
        kind = _IN_CAPSULE if data else _TRANSPORT
        length = data or source.randrange(1, 1 << 20)
        cid, nsid = source.getrandbits(16), source.getrandbits(32)
        dwords = [source.getrandbits(32) for _ in range(6)]
        sqe = nvme.Command(
            opcode=opcode, cid=cid, nsid=nsid,
            sgl1=nvme.SGLDescriptor(length=length, type=kind[0], subtype=kind[1]))
        for number, dword in enumerate(dwords, 10):
            sqe.setfieldval(f"cdw{number}", dword)
        mine = flags & (_HDGST | (_DDGST if data else 0))
        yield _row(
            f".command = {{.opcode = {opcode}, .cid = {cid}, .nsid = {nsid}u, .dataLength ="
            f" {length}, .sglType = {kind[0] << 4 | kind[1]}, .dwords ="
            f" {{{', '.join(f'{dword}u' for dword in dwords)}}}}}",
            nvme_tcp.CapsuleCmd(flags=mine, ccsqe=sqe, data=bytes(data)), data)
    result, sqhd = source.getrandbits(64), source.getrandbits(16)
    cid, status = source.getrandbits(16), source.getrandbits(16)
    cqe = nvme.Completion(result.to_bytes(8, "little") + sqhd.to_bytes(2, "little") + bytes(2)
                          + cid.to_bytes(2, "little") + status.to_bytes(2, "little"))
    yield _row(f".completion = {{.result = {result}u, .sqhd = {sqhd}, .cid = {cid},"
               f" .status = {status}}}", nvme_tcp.CapsuleResp(flags=flags & _HDGST, rccqe=cqe))


def _transfers(source: random.Random, flags: int) -> Iterator[str]:
    cid, ttag = source.getrandbits(16), source.getrandbits(16)
    offset, length = source.getrandbits(32), source.choice((1, 4, 512, 1000))
    yield _row(f".cid = {cid}, .ttag = {ttag}, .offset = {offset}u, .length = {length}",
               nvme_tcp.R2T(flags=flags & _HDGST, cccid=cid, ttag=ttag, r2to=offset, r2tl=length))
    yield _row(f".cid = {cid}, .ttag = {ttag}, .offset = {offset}u, .length = {length}",
               nvme_tcp.H2CData(flags=flags | _LAST, cccid=cid, ttag=ttag, datao=offset,
                                data=bytes(length)), length)
    yield _row(f".cid = {cid}, .offset = {offset}u, .length = {length}",
               nvme_tcp.C2HData(flags=flags | _LAST | _SUCCESS, cccid=cid, datao=offset,
                                data=bytes(length)), length)


if __name__ == "__main__":
    HEADER.write_text(text())
