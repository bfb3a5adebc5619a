/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tcp-pdu.h"

#include <map>

namespace ns3
{

namespace
{

/// Little-endian writer and reader of fields at fixed places.
void
Put(std::vector<uint8_t>& bytes, uint32_t at, uint64_t value, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
    {
        bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
    }
}

uint64_t
Get(const uint8_t* bytes, uint32_t at, uint32_t size)
{
    uint64_t value = 0;
    for (uint32_t i = size; i-- > 0;)
    {
        value = value << 8 | bytes[at + i];
    }
    return value;
}

constexpr uint8_t PSDT_SGL = 0x40; // flags of a command whose data pointer is an SGL
constexpr uint32_t SQE = NvmeTcpPdu::COMMON_HEADER_SIZE;

/// Table of the reflected polynomial 0x82f63b78.
const std::array<uint32_t, 256>&
Crc32cTable()
{
    static const std::array<uint32_t, 256> table = [] {
        std::array<uint32_t, 256> made{};
        for (uint32_t i = 0; i < 256; i++)
        {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++)
            {
                crc = crc & 1 ? crc >> 1 ^ 0x82f63b78U : crc >> 1;
            }
            made[i] = crc;
        }
        return made;
    }();
    return table;
}

} // namespace

uint32_t
NvmeTcpDigest(const uint8_t* bytes, uint32_t size)
{
    uint32_t crc = ~0U;
    for (uint32_t i = 0; i < size; i++)
    {
        crc = crc >> 8 ^ Crc32cTable()[(crc ^ bytes[i]) & 0xff];
    }
    return ~crc;
}

uint32_t
NvmeTcpDigestOfZeros(uint32_t size)
{
    static std::map<uint32_t, uint32_t> known; // workloads have few sizes
    auto [found, isNew] = known.try_emplace(size, 0);
    if (isNew)
    {
        const std::vector<uint8_t> zeros(size);
        found->second = NvmeTcpDigest(zeros.data(), size);
    }
    return found->second;
}

uint32_t
NvmeTcpPdu::HeaderSize(uint8_t type)
{
    switch (type)
    {
    case IC_REQ:
    case IC_RESP:
        return 128;
    case CAPSULE_CMD:
        return 72;
    case H2C_TERM_REQ:
    case C2H_TERM_REQ:
    case CAPSULE_RESP:
    case H2C_DATA:
    case C2H_DATA:
    case R2T:
        return 24;
    default:
        return 0;
    }
}

void
NvmeTcpPdu::SetDataLength(uint32_t dataLength)
{
    const uint32_t header = HeaderSize(type) + (flags & HDGST ? DIGEST_SIZE : 0);
    pdo = dataLength ? header : 0;
    plen = header + dataLength + (dataLength && flags & DDGST ? DIGEST_SIZE : 0);
}

uint32_t
NvmeTcpPdu::GetDataLength() const
{
    return pdo ? plen - pdo - (flags & DDGST ? DIGEST_SIZE : 0) : 0;
}

std::vector<uint8_t>
NvmeTcpPdu::Encode() const
{
    const uint32_t size = HeaderSize(type);
    std::vector<uint8_t> bytes(size);
    bytes[0] = type;
    bytes[1] = flags;
    bytes[2] = static_cast<uint8_t>(size);
    bytes[3] = pdo;
    Put(bytes, 4, plen, 4);
    switch (type)
    {
    case IC_REQ:
    case IC_RESP:
        Put(bytes, 8, pfv, 2);
        bytes[10] = pda;
        bytes[11] = digests;
        Put(bytes, 12, type == IC_REQ ? maxR2t : maxH2cData, 4);
        break;
    case CAPSULE_CMD:
        bytes[SQE] = command.opcode;
        bytes[SQE + 1] = PSDT_SGL;
        Put(bytes, SQE + 2, command.cid, 2);
        Put(bytes, SQE + 4, command.nsid, 4);
        if (command.dataLength)
        {
            Put(bytes, SQE + 32, command.dataLength, 4);
            bytes[SQE + 39] = command.sglType;
        }
        else
        {
            bytes[SQE + 39] = NvmeCommand::TRANSPORT_DATA;
        }
        for (uint32_t i = 0; i < command.dwords.size(); i++)
        {
            Put(bytes, SQE + 40 + 4 * i, command.dwords[i], 4);
        }
        break;
    case CAPSULE_RESP:
        Put(bytes, 8, completion.result, 8);
        Put(bytes, 16, completion.sqhd, 2);
        Put(bytes, 20, completion.cid, 2);
        Put(bytes, 22, completion.status, 2);
        break;
    case H2C_DATA:
    case C2H_DATA:
    case R2T:
        Put(bytes, 8, cid, 2);
        Put(bytes, 10, ttag, 2);
        Put(bytes, 12, offset, 4);
        Put(bytes, 16, length, 4);
        break;
    case H2C_TERM_REQ:
    case C2H_TERM_REQ:
        Put(bytes, 8, fes, 2);
        break;
    }
    if (flags & HDGST)
    {
        bytes.resize(size + DIGEST_SIZE);
        Put(bytes, size, NvmeTcpDigest(bytes.data(), size), DIGEST_SIZE);
    }
    return bytes;
}

std::string
NvmeTcpPdu::Decode(const uint8_t* bytes, uint32_t size, NvmeTcpPdu& pdu)
{
    if (size < COMMON_HEADER_SIZE)
    {
        return "shorter than a common header";
    }
    const uint32_t header = HeaderSize(bytes[0]);
    if (!header)
    {
        return "unknown PDU type " + std::to_string(bytes[0]);
    }
    if (bytes[2] != header)
    {
        return "HLEN is " + std::to_string(bytes[2]) + ", not " + std::to_string(header);
    }
    if (size < header)
    {
        return "the header is cut short";
    }
    pdu = NvmeTcpPdu();
    pdu.type = static_cast<Type>(bytes[0]);
    pdu.flags = bytes[1];
    pdu.pdo = bytes[3];
    pdu.plen = static_cast<uint32_t>(Get(bytes, 4, 4));
    const uint32_t withDigest = header + (pdu.flags & HDGST ? DIGEST_SIZE : 0);
    if (pdu.plen < withDigest || pdu.pdo > pdu.plen || (pdu.pdo && pdu.pdo < withDigest))
    {
        return "PLEN " + std::to_string(pdu.plen) + " and PDO " + std::to_string(pdu.pdo) +
               " don't fit the header";
    }
    switch (pdu.type)
    {
    case IC_REQ:
    case IC_RESP:
        pdu.pfv = static_cast<uint16_t>(Get(bytes, 8, 2));
        pdu.pda = bytes[10];
        pdu.digests = bytes[11];
        (pdu.type == IC_REQ ? pdu.maxR2t : pdu.maxH2cData) =
            static_cast<uint32_t>(Get(bytes, 12, 4));
        break;
    case CAPSULE_CMD:
        pdu.command.opcode = bytes[SQE];
        pdu.command.cid = static_cast<uint16_t>(Get(bytes, SQE + 2, 2));
        pdu.command.nsid = static_cast<uint32_t>(Get(bytes, SQE + 4, 4));
        pdu.command.dataLength = static_cast<uint32_t>(Get(bytes, SQE + 32, 4));
        pdu.command.sglType = bytes[SQE + 39];
        for (uint32_t i = 0; i < pdu.command.dwords.size(); i++)
        {
            pdu.command.dwords[i] = static_cast<uint32_t>(Get(bytes, SQE + 40 + 4 * i, 4));
        }
        break;
    case CAPSULE_RESP:
        pdu.completion.result = Get(bytes, 8, 8);
        pdu.completion.sqhd = static_cast<uint16_t>(Get(bytes, 16, 2));
        pdu.completion.cid = static_cast<uint16_t>(Get(bytes, 20, 2));
        pdu.completion.status = static_cast<uint16_t>(Get(bytes, 22, 2));
        break;
    case H2C_DATA:
    case C2H_DATA:
    case R2T:
        pdu.cid = static_cast<uint16_t>(Get(bytes, 8, 2));
        pdu.ttag = static_cast<uint16_t>(Get(bytes, 10, 2));
        pdu.offset = static_cast<uint32_t>(Get(bytes, 12, 4));
        pdu.length = static_cast<uint32_t>(Get(bytes, 16, 4));
        break;
    case H2C_TERM_REQ:
    case C2H_TERM_REQ:
        pdu.fes = static_cast<uint16_t>(Get(bytes, 8, 2));
        break;
    }
    return "";
}

} // namespace ns3
