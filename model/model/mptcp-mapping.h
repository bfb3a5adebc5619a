/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_MAPPING_H
#define MPTCP_MAPPING_H

#include "ns3/packet.h"
#include "ns3/ptr.h"

#include <cstdint>
#include <deque>
#include <optional>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * A range of a subflow's bytes, and where it belongs in the connection (RFC 8684 §3.3.1).
 */
struct MptcpMapping
{
    uint64_t dsn{0};                  //!< data sequence number of the first byte
    uint32_t ssn{0};                  //!< its subflow sequence number; the first byte ever has 1
    uint16_t length{0};               //!< bytes
    bool frozen{false};               //!< its length can't change any more: a segment was sent
    bool dataFin{false};              //!< a DATA_FIN follows the last byte; length doesn't count it
    std::optional<uint16_t> checksum; //!< checksum, if the connection has them
    Ptr<Packet> data;                 //!< the sender's data until its checksum is computed

    /**
     * @param number a subflow sequence number
     * @return whether the mapping has that byte
     */
    bool Contains(uint32_t number) const;

    /// @return subflow sequence number behind the last byte
    uint32_t GetEnd() const;
};

/**
 * @ingroup nvme-mptcp
 * The mappings of one direction of a subflow, in order of their subflow sequence numbers.
 */
class MptcpMappingList
{
  public:
    /**
     * Add a mapping that was received.
     * @param mapping the mapping
     * @return whether it was new or there already; false if it contradicts another
     */
    bool Insert(const MptcpMapping& mapping);

    /**
     * Map bytes that are appended to the subflow; the last mapping grows if it may.
     * @param ssn subflow sequence number of the first byte
     * @param dsn its data sequence number
     * @param data the bytes
     * @param most most bytes in one mapping
     * @param checksum whether their checksum will be wanted
     */
    void Append(uint32_t ssn, uint64_t dsn, Ptr<const Packet> data, uint32_t most, bool checksum);

    /// Have what is appended next begin a new mapping.
    void Close();

    /**
     * Find a byte's mapping.
     * @param ssn its subflow sequence number
     * @return the mapping, null if there is none
     */
    MptcpMapping* Find(uint32_t ssn);

    /**
     * Find a byte's mapping.
     * @param ssn its subflow sequence number
     * @return the mapping, null if there is none
     */
    const MptcpMapping* Find(uint32_t ssn) const;

    /**
     * Forget mappings.
     * @param ssn those that end at or before this subflow sequence number
     */
    void DiscardBefore(uint32_t ssn);

    /// @return how many there are
    std::size_t GetSize() const;

  private:
    std::deque<MptcpMapping> m_mappings; //!< the mappings, which don't overlap
};

} // namespace ns3

#endif // MPTCP_MAPPING_H
