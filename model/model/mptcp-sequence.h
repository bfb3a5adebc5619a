/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SEQUENCE_H
#define MPTCP_SEQUENCE_H

#include <cstdint>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Compare data sequence numbers, which wrap at 2^64.
 * @param a a data sequence number
 * @param b another, less than 2^63 away
 * @return whether a comes before b
 */
inline bool
MptcpBefore(uint64_t a, uint64_t b)
{
    return static_cast<int64_t>(a - b) < 0;
}

/**
 * @ingroup nvme-mptcp
 * Compare subflow sequence numbers, which wrap at 2^32.
 * @param a a subflow sequence number
 * @param b another, less than 2^31 away
 * @return whether a comes before b
 */
inline bool
MptcpSubflowBefore(uint32_t a, uint32_t b)
{
    return static_cast<int32_t>(a - b) < 0;
}

/**
 * @ingroup nvme-mptcp
 * Restore a data sequence number or data ACK of which only 32 bits were sent (RFC 8684 §3.3.1).
 * @param near a number less than 2^31 away from the one that was meant
 * @param low its low 32 bits
 * @return all its 64 bits
 */
inline uint64_t
MptcpExpand(uint64_t near, uint32_t low)
{
    return near + static_cast<int32_t>(low - static_cast<uint32_t>(near));
}

/// Orders data sequence numbers that are less than 2^63 apart.
struct MptcpSequenceLess
{
    /**
     * @param a a data sequence number
     * @param b another
     * @return whether a comes before b
     */
    bool operator()(uint64_t a, uint64_t b) const
    {
        return MptcpBefore(a, b);
    }
};

} // namespace ns3

#endif // MPTCP_SEQUENCE_H
