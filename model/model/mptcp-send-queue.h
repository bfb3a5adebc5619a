/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SEND_QUEUE_H
#define MPTCP_SEND_QUEUE_H

#include "ns3/packet.h"
#include "ns3/ptr.h"

#include <cstdint>
#include <list>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * What a connection has to send, and what it sent until the peer's data ACK. Like Linux's queue of
 * data fragments it is cut into chunks.
 */
class MptcpSendQueue
{
  public:
    /// Most bytes in a chunk, a page fragment of Linux.
    static constexpr uint32_t CHUNK_BYTES = 32768;

    /// A piece of the data.
    struct Chunk
    {
        uint64_t dsn;     //!< data sequence number of its first byte
        Ptr<Packet> data; //!< its bytes
        bool endOfRecord; //!< what follows goes into a segment of its own (MSG_EOR)
        uint32_t sent{0}; //!< how many bytes were given to a subflow
    };

    MptcpSendQueue();

    /// not copyable: it points into itself
    MptcpSendQueue(const MptcpSendQueue&) = delete;
    MptcpSendQueue& operator=(const MptcpSendQueue&) = delete;

    /**
     * Begin.
     * @param dsn data sequence number of the first byte; what was added before keeps its order
     */
    void Reset(uint64_t dsn);

    /**
     * Append data.
     * @param data the data
     * @param endOfRecord what follows goes into a segment of its own (MSG_EOR)
     */
    void Add(Ptr<const Packet> data, bool endOfRecord);

    /**
     * Forget what the peer has.
     * @param dsn the peer's data ACK
     */
    void Acknowledge(uint64_t dsn);

    /// @return the first chunk with bytes to send, null if there is none
    Chunk* GetPending();

    /**
     * Note that bytes of the pending chunk were given to a subflow.
     * @param bytes how many
     */
    void MarkSent(uint32_t bytes);

    /**
     * Get a chunk to send again.
     * @param dsn a data sequence number
     * @return the first chunk that ends behind it and was sent, null if there is none
     */
    const Chunk* GetSentFrom(uint64_t dsn) const;

    /// Have all that isn't acknowledged sent again.
    void Restart();

    /// @return data sequence number behind the last byte
    uint64_t GetEnd() const;

    /// @return bytes that are not acknowledged, sent or not
    uint32_t GetBytes() const;

    /// @return whether all is acknowledged
    bool IsEmpty() const;

  private:
    std::list<Chunk> m_chunks;            //!< what isn't acknowledged
    std::list<Chunk>::iterator m_pending; //!< the first chunk with bytes to send
    uint64_t m_end{0};                    //!< data sequence number behind the last byte
    uint32_t m_bytes{0};                  //!< bytes in all chunks
};

} // namespace ns3

#endif // MPTCP_SEND_QUEUE_H
