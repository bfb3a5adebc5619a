/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_TCP_PDU_H
#define NVME_TCP_PDU_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Submission queue entry (64 bytes), as far as the model uses it.
 */
struct NvmeCommand
{
    /// Opcodes of the NVM, admin and fabrics command sets that are sent
    enum Opcode : uint8_t
    {
        WRITE = 0x01,
        READ = 0x02,
        IDENTIFY = 0x06,     ///< admin
        SET_FEATURES = 0x09, ///< admin
        ASYNC_EVENT = 0x0c,  ///< admin
        KEEP_ALIVE = 0x18,   ///< admin
        FABRICS = 0x7f,
    };

    /// Types of fabrics commands
    enum FabricsType : uint8_t
    {
        PROPERTY_SET = 0x00,
        CONNECT = 0x01,
        PROPERTY_GET = 0x04,
    };

    /// SGL descriptor type and subtype of data that a command has
    enum SglType : uint8_t
    {
        IN_CAPSULE = 0x01,     ///< data block, offset
        TRANSPORT_DATA = 0x5a, ///< transport data block, transport specific
    };

    uint8_t opcode{0};                ///< opcode
    uint16_t cid{0};                  ///< command identifier
    uint32_t nsid{0};                 ///< namespace; low byte: type of a fabrics command
    uint32_t dataLength{0};           ///< bytes that the SGL describes
    uint8_t sglType{TRANSPORT_DATA};  ///< where they are
    std::array<uint32_t, 6> dwords{}; ///< command dwords 10 to 15
};

/**
 * @ingroup nvme-mptcp
 * Completion queue entry (16 bytes).
 */
struct NvmeCompletion
{
    uint64_t result{0}; ///< dwords 0 and 1
    uint16_t sqhd{0};   ///< submission queue head pointer
    uint16_t cid{0};    ///< command identifier
    uint16_t status{0}; ///< status field, phase bit included
};

/**
 * @ingroup nvme-mptcp
 * The header of an NVMe/TCP PDU: from its common header to where its data begin.
 *
 * Layouts are those of the NVMe TCP transport specification, section 3.6.
 */
struct NvmeTcpPdu
{
    /// PDU types
    enum Type : uint8_t
    {
        IC_REQ = 0x00,
        IC_RESP = 0x01,
        H2C_TERM_REQ = 0x02,
        C2H_TERM_REQ = 0x03,
        CAPSULE_CMD = 0x04,
        CAPSULE_RESP = 0x05,
        H2C_DATA = 0x06,
        C2H_DATA = 0x07,
        R2T = 0x09,
    };

    /// Flags of the common header
    enum Flag : uint8_t
    {
        HDGST = 0x01,
        DDGST = 0x02,
        LAST_PDU = 0x04,
        SUCCESS = 0x08,
    };

    static constexpr uint32_t COMMON_HEADER_SIZE = 8;   ///< bytes
    static constexpr uint32_t MAX_HEADER_SIZE = 128;    ///< bytes
    static constexpr uint32_t DIGEST_SIZE = 4;          ///< bytes
    static constexpr uint32_t CONNECT_DATA_SIZE = 1024; ///< bytes, of the Connect command

    Type type{IC_REQ}; ///< PDU type
    uint8_t flags{0};  ///< flags
    uint8_t pdo{0};    ///< where data begin; 0 without data
    uint32_t plen{0};  ///< length of the PDU, bytes

    uint16_t pfv{0};        ///< PDU format version (ICReq, ICResp)
    uint8_t pda{0};         ///< HPDA or CPDA (ICReq, ICResp)
    uint8_t digests{0};     ///< bit 0: header digest, bit 1: data digest (ICReq, ICResp)
    uint32_t maxR2t{0};     ///< MAXR2T, 0's based (ICReq)
    uint32_t maxH2cData{0}; ///< MAXH2CDATA, bytes (ICResp)

    NvmeCommand command{};       ///< of a CapsuleCmd
    NvmeCompletion completion{}; ///< of a CapsuleResp

    uint16_t cid{0};    ///< command identifier (H2CData, C2HData, R2T)
    uint16_t ttag{0};   ///< transfer tag (H2CData, R2T)
    uint32_t offset{0}; ///< of data in the command's, bytes (H2CData, C2HData, R2T)
    uint32_t length{0}; ///< of data, bytes (H2CData, C2HData, R2T)

    uint16_t fes{0}; ///< fatal error status (H2CTermReq, C2HTermReq)

    /**
     * @param type a PDU type
     * @return length of its header (HLEN) in bytes, 0 if there is no such type
     */
    static uint32_t HeaderSize(uint8_t type);

    /**
     * Set PDO and PLEN for so many bytes of data, with the digests that the flags ask for.
     * @param dataLength bytes of data that follow the header
     */
    void SetDataLength(uint32_t dataLength);

    /**
     * @return bytes of data that follow the header, without digests
     */
    uint32_t GetDataLength() const;

    /**
     * The header's bytes, with its digest where the flags say so.
     * @return the bytes
     */
    std::vector<uint8_t> Encode() const;

    /**
     * Read a header.
     * @param bytes HeaderSize() bytes, from the common header on
     * @param size how many there are
     * @param[out] pdu what was read
     * @return what is wrong with it, empty if nothing
     */
    static std::string Decode(const uint8_t* bytes, uint32_t size, NvmeTcpPdu& pdu);
};

/**
 * @ingroup nvme-mptcp
 * CRC-32C (Castagnoli) as NVMe/TCP's digests use it.
 * @param bytes the bytes
 * @param size how many
 * @return the digest
 */
uint32_t NvmeTcpDigest(const uint8_t* bytes, uint32_t size);

/**
 * @ingroup nvme-mptcp
 * CRC-32C of zero bytes, which all data of the model are.
 * @param size how many
 * @return the digest
 */
uint32_t NvmeTcpDigestOfZeros(uint32_t size);

} // namespace ns3

#endif // NVME_TCP_PDU_H
