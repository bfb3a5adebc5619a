/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_RECEIVE_QUEUE_H
#define MPTCP_RECEIVE_QUEUE_H

#include "mptcp-sequence.h"

#include "ns3/packet.h"
#include "ns3/ptr.h"

#include <deque>
#include <map>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Puts the data of all subflows in order of their data sequence numbers. Data may come in any
 * order, several times, and cut differently each time; every byte is kept once.
 */
class MptcpReceiveQueue
{
  public:
    /**
     * Begin, or begin again.
     * @param dsn data sequence number of the first byte
     */
    void Reset(uint64_t dsn);

    /**
     * Add data.
     * @param dsn data sequence number of its first byte
     * @param data the data
     * @return bytes that are new in the queue; those it had are dropped
     */
    uint32_t Insert(uint64_t dsn, Ptr<const Packet> data);

    /**
     * Take data that is in order.
     * @param maxBytes at most so many bytes; never more than what came in one piece
     * @return the data, null if there is none
     */
    Ptr<Packet> Extract(uint32_t maxBytes);

    /// @return data sequence number of the first byte missing
    uint64_t GetNext() const;

    /// Count a DATA_FIN, which takes a data sequence number, as received.
    void SkipFin();

    /// @return bytes in order that were not taken yet
    uint32_t GetInOrderBytes() const;

    /// @return bytes that wait for others before them
    uint32_t GetOutOfOrderBytes() const;

    /// @return how many pieces the data has; each takes memory of its own
    std::size_t GetPieces() const;

    /// @return whether nothing is in the queue
    bool IsEmpty() const;

  private:
    /**
     * Append data that comes next.
     * @param data the data
     */
    void Append(Ptr<Packet> data);

    /// Move what isn't out of order any more.
    void MoveInOrder();

    uint64_t m_next{0};                //!< data sequence number of the first byte missing
    std::deque<Ptr<Packet>> m_inOrder; //!< data to be taken
    uint32_t m_inOrderBytes{0};        //!< its bytes
    /// data by its data sequence number; pieces don't overlap
    std::map<uint64_t, Ptr<Packet>, MptcpSequenceLess> m_outOfOrder;
    uint32_t m_outOfOrderBytes{0}; //!< its bytes
};

} // namespace ns3

#endif // MPTCP_RECEIVE_QUEUE_H
