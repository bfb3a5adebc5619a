/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_OPTION_H
#define MPTCP_OPTION_H

#include "ns3/ipv4-address.h"
#include "ns3/ipv6-address.h"

#include <array>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <variant>
#include <vector>

namespace ns3
{

/// TCP option kind of MPTCP (RFC 8684 §8.1).
constexpr uint8_t MPTCP_OPTION_KIND = 30;

/// Subtypes of the MPTCP option (RFC 8684 §8.2).
enum class MptcpSubtype : uint8_t
{
    MP_CAPABLE = 0x0,
    MP_JOIN = 0x1,
    DSS = 0x2,
    ADD_ADDR = 0x3,
    REMOVE_ADDR = 0x4,
    MP_PRIO = 0x5,
    MP_FAIL = 0x6,
    MP_FASTCLOSE = 0x7,
    MP_TCPRST = 0x8,
};

/**
 * @ingroup nvme-mptcp
 * MP_CAPABLE (RFC 8684 §3.1). Which members are set tells the form: none in a SYN (4 bytes), the
 * sender's key in a SYN/ACK (12), both keys in an ACK (20), a length with the first data (22, 24
 * with a checksum).
 */
struct MptcpCapable
{
    uint8_t version{1};                    //!< version of the protocol
    bool checksumRequired{false};          //!< flag A: DSS checksums are wanted
    bool denyJoinToSource{false};          //!< flag C: open no subflow to this address and port
    std::optional<uint64_t> senderKey{};   //!< the sender's key
    std::optional<uint64_t> receiverKey{}; //!< the receiver's key
    std::optional<uint16_t> length{};      //!< data-level length of the first mapping
    std::optional<uint16_t> checksum{};    //!< its checksum

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpCapable&) const = default;
};

/// MP_JOIN of a SYN, 12 bytes (RFC 8684 §3.2).
struct MptcpJoinSyn
{
    bool backup{false};   //!< use only if no other subflow works
    uint8_t addressId{0}; //!< ID of the sender's address
    uint32_t token{0};    //!< the receiver's token
    uint32_t nonce{0};    //!< the sender's random number

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpJoinSyn&) const = default;
};

/// MP_JOIN of a SYN/ACK, 16 bytes (RFC 8684 §3.2).
struct MptcpJoinSynAck
{
    bool backup{false};            //!< use only if no other subflow works
    uint8_t addressId{0};          //!< ID of the sender's address
    std::array<uint8_t, 8> hmac{}; //!< first 64 bits of the sender's HMAC
    uint32_t nonce{0};             //!< the sender's random number

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpJoinSynAck&) const = default;
};

/// MP_JOIN of the third packet, 24 bytes (RFC 8684 §3.2).
struct MptcpJoinAck
{
    std::array<uint8_t, 20> hmac{}; //!< first 160 bits of the sender's HMAC

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpJoinAck&) const = default;
};

/// Data Sequence Signal, 4 to 28 bytes (RFC 8684 §3.3).
struct MptcpDss
{
    std::optional<uint64_t> dataAck{};  //!< next data sequence number that the sender expects
    std::optional<uint64_t> dsn{};      //!< the mapping's data sequence number, if there is one
    uint32_t ssn{0};                    //!< its subflow sequence number, relative to the first
    uint16_t length{0};                 //!< its data-level length, counting a DATA_FIN
    std::optional<uint16_t> checksum{}; //!< its checksum
    bool dataFin{false};                //!< the mapping's last number is a DATA_FIN
    bool ack8{true};                    //!< dataAck takes 8 bytes, not 4
    bool dsn8{true};                    //!< dsn takes 8 bytes, not 4

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpDss&) const = default;
};

/// ADD_ADDR (RFC 8684 §3.4.1): IPv4 8 (echo) or 16 bytes, IPv6 20 or 28; 2 more with a port.
struct MptcpAddAddr
{
    bool echo{false};                                 //!< confirms an announced address
    uint8_t addressId{0};                             //!< the address's ID
    std::variant<Ipv4Address, Ipv6Address> address{}; //!< the address
    std::optional<uint16_t> port{};                   //!< its port, if not the connection's
    uint64_t hmac{0};                                 //!< last 64 bits of the HMAC; not in an echo

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpAddAddr&) const = default;
};

/// REMOVE_ADDR, 3 bytes and one for each address ID (RFC 8684 §3.4.2).
struct MptcpRemoveAddr
{
    std::vector<uint8_t> addressIds{}; //!< IDs of addresses that are gone; at least one

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpRemoveAddr&) const = default;
};

/// MP_PRIO, 3 bytes (RFC 8684 §3.3.8).
struct MptcpPrio
{
    bool backup{false}; //!< use this subflow only if no other works

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpPrio&) const = default;
};

/// MP_FAIL, 12 bytes (RFC 8684 §3.7).
struct MptcpFail
{
    uint64_t dsn{0}; //!< where the mapping begins whose checksum was wrong

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpFail&) const = default;
};

/// MP_FASTCLOSE, 12 bytes (RFC 8684 §3.5).
struct MptcpFastclose
{
    uint64_t receiverKey{0}; //!< the receiver's key

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpFastclose&) const = default;
};

/// MP_TCPRST, 4 bytes (RFC 8684 §3.6).
struct MptcpReset
{
    bool transient{false}; //!< flag T: the condition may pass
    uint8_t reason{0};     //!< reason code

    /// @return the option's bytes, beginning with its kind
    std::vector<uint8_t> Encode() const;
    bool operator==(const MptcpReset&) const = default;
};

/// Any MPTCP option.
using MptcpOption = std::variant<MptcpCapable,
                                 MptcpJoinSyn,
                                 MptcpJoinSynAck,
                                 MptcpJoinAck,
                                 MptcpDss,
                                 MptcpAddAddr,
                                 MptcpRemoveAddr,
                                 MptcpPrio,
                                 MptcpFail,
                                 MptcpFastclose,
                                 MptcpReset>;

/**
 * @ingroup nvme-mptcp
 * Decode one option.
 * @param bytes the whole option, beginning with its kind
 * @return the option; nothing if its subtype is unknown or its length is none that the subtype has
 */
std::optional<MptcpOption> DecodeMptcpOption(std::span<const uint8_t> bytes);

/**
 * @ingroup nvme-mptcp
 * Decode the MPTCP options of a TCP header. Others are passed over, as are those that
 * DecodeMptcpOption() doesn't know; what follows a broken length is not looked at.
 * @param bytes options one after the other, beginning with a kind
 * @return the MPTCP options, in order
 */
std::vector<MptcpOption> DecodeMptcpOptions(std::span<const uint8_t> bytes);

/**
 * @ingroup nvme-mptcp
 * Find an option of one type.
 * @tparam T one of MptcpOption's types
 * @param options options
 * @return the first of that type, nullptr if there is none
 */
template <typename T>
const T*
FindMptcpOption(const std::vector<MptcpOption>& options)
{
    for (const MptcpOption& option : options)
    {
        if (const T* found = std::get_if<T>(&option))
        {
            return found;
        }
    }
    return nullptr;
}

/**
 * Print an option in one line.
 * @param os the stream
 * @param option the option
 * @return the stream
 */
std::ostream& operator<<(std::ostream& os, const MptcpOption& option);

} // namespace ns3

#endif // MPTCP_OPTION_H
