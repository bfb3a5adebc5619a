/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_CRYPTO_H
#define MPTCP_CRYPTO_H

#include "ns3/packet.h"
#include "ns3/ptr.h"

#include <array>
#include <cstdint>
#include <span>

namespace ns3
{

/// A SHA-256 digest, as its 32 bytes (FIPS 180-4).
using Sha256Digest = std::array<uint8_t, 32>;

/**
 * @ingroup nvme-mptcp
 * SHA-256 (FIPS 180-4).
 * @param message the message
 * @return its digest
 */
Sha256Digest Sha256(std::span<const uint8_t> message);

/**
 * @ingroup nvme-mptcp
 * HMAC-SHA256 (RFC 2104).
 * @param key the key, of any length
 * @param message the message
 * @return the whole HMAC
 */
Sha256Digest HmacSha256(std::span<const uint8_t> key, std::span<const uint8_t> message);

/**
 * @ingroup nvme-mptcp
 * The token that names a connection: the first 32 bits of its key's SHA-256 (RFC 8684 §3.2).
 * @param key the key of the side that the token is for
 * @return the token
 */
uint32_t MptcpToken(uint64_t key);

/**
 * @ingroup nvme-mptcp
 * The initial data sequence number: the last 64 bits of the key's SHA-256 (RFC 8684 §3.1). It is
 * that of the SYN; the first byte of data has the next one.
 * @param key the sender's key
 * @return the initial data sequence number
 */
uint64_t MptcpIdsn(uint64_t key);

/**
 * @ingroup nvme-mptcp
 * The HMAC by which a side shows in MP_JOIN that it knows both keys (RFC 8684 §3.2). The SYN/ACK
 * carries its first 8 bytes, the ACK its first 20.
 * @param ownKey the key of the side that makes the HMAC
 * @param peerKey the other side's key
 * @param ownNonce the nonce of the side that makes the HMAC
 * @param peerNonce the other side's nonce
 * @return the whole HMAC
 */
Sha256Digest MptcpJoinHmac(uint64_t ownKey,
                           uint64_t peerKey,
                           uint32_t ownNonce,
                           uint32_t peerNonce);

/**
 * @ingroup nvme-mptcp
 * The HMAC of ADD_ADDR: the last 64 bits of an HMAC over ID, address and port (RFC 8684 §3.4.1).
 * @param senderKey the key of the side that announces the address
 * @param receiverKey the other side's key
 * @param addressId the address ID
 * @param address the 4 or 16 bytes of the address
 * @param port the port, 0 if the option has none
 * @return the truncated HMAC
 */
uint64_t MptcpAddAddrHmac(uint64_t senderKey,
                          uint64_t receiverKey,
                          uint8_t addressId,
                          std::span<const uint8_t> address,
                          uint16_t port);

/**
 * @ingroup nvme-mptcp
 * The checksum of a DSS mapping (RFC 8684 §3.3.1).
 * @param dsn the mapping's data sequence number, all its 64 bits
 * @param ssn its subflow sequence number, relative to the subflow's first
 * @param length its data-level length, which counts a DATA_FIN
 * @param data the mapping's data, without DATA_FIN
 * @return the checksum
 */
uint16_t MptcpDssChecksum(uint64_t dsn,
                          uint32_t ssn,
                          uint16_t length,
                          std::span<const uint8_t> data);

/**
 * @ingroup nvme-mptcp
 * The checksum of a DSS mapping whose data is a packet's; see the other MptcpDssChecksum().
 * @param dsn the mapping's data sequence number, all its 64 bits
 * @param ssn its subflow sequence number, relative to the subflow's first
 * @param length its data-level length, which counts a DATA_FIN
 * @param data the mapping's data, without headers
 * @return the checksum
 */
uint16_t MptcpDssChecksum(uint64_t dsn, uint32_t ssn, uint16_t length, Ptr<const Packet> data);

} // namespace ns3

#endif // MPTCP_CRYPTO_H
