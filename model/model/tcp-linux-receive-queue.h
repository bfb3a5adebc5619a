/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_RECEIVE_QUEUE_H
#define TCP_LINUX_RECEIVE_QUEUE_H

#include "ns3/packet.h"

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * What a connection received: packets in order that wait for the application, packets out of
 * order, and the SACK blocks to be reported. Sequence numbers are offsets into the stream, of 64
 * bits. Bytes are never copied; packets are cut where they overlap.
 */
class TcpLinuxReceiveQueue
{
  public:
    using Range = std::pair<uint64_t, uint64_t>; //!< first byte, behind the last

    /// What became of a packet.
    enum Verdict
    {
        IN_ORDER,     //!< the application can read more
        OUT_OF_ORDER, //!< kept until the gap before it is filled
        OLD,          //!< all of it was received before
    };

    /**
     * @param overhead memory of a packet beside its data, in bytes
     */
    explicit TcpLinuxReceiveQueue(uint32_t overhead);

    /**
     * Begin the stream.
     * @param seq sequence number of its first byte
     */
    void Start(uint64_t seq);

    /**
     * Take a packet.
     * @param seq sequence number of its first byte
     * @param data its payload, not empty
     * @return what became of it
     */
    Verdict Insert(uint64_t seq, Ptr<Packet> data);

    /**
     * Note where the stream ends.
     * @param seq sequence number of the FIN
     */
    void SetFin(uint64_t seq);

    /**
     * @return whether all up to and with the FIN was received
     */
    bool IsFinished() const;

    /**
     * Read data that is in order.
     * @param size most bytes
     * @return a packet, null if there is nothing
     */
    Ptr<Packet> Read(uint32_t size);

    /**
     * @return next sequence number expected
     */
    uint64_t GetNext() const;

    /**
     * @return sequence number behind what the application has read
     */
    uint64_t GetCopied() const;

    /**
     * @return bytes that the application can read
     */
    uint32_t GetAvailable() const;

    /**
     * @return memory of all packets held, in bytes as Linux counts them
     */
    uint64_t GetMemory() const;

    /**
     * @return whether packets wait for a gap to be filled
     */
    bool HasGap() const;

    /**
     * @return end of the last packet out of order, GetNext() if there is none
     */
    uint64_t GetHighest() const;

    /**
     * @return SACK blocks, the latest first
     */
    const std::vector<Range>& GetSackBlocks() const;

    /**
     * @return the range that the last packet brought again, to be reported once
     */
    std::optional<Range> TakeDsack();

    /**
     * Report a range as received again.
     * @param range the range
     */
    void SetDsack(Range range);

    /**
     * @return whether the last packet made a block that is not among the first two, so that a
     * report should not wait
     */
    bool IsSackUrgent() const;

  private:
    /**
     * Keep the parts of a packet that no other packet out of order has.
     * @param seq its first byte
     * @param data its payload
     */
    void InsertOutOfOrder(uint64_t seq, Ptr<Packet> data);

    /**
     * Add a range to the SACK blocks.
     * @param range the range
     */
    void AddSackBlock(Range range);

    /// Append to what can be read what follows on it.
    void CloseGap();

    uint32_t m_overhead;                       //!< memory of a packet beside its data
    std::deque<Ptr<Packet>> m_ready;           //!< packets in order
    std::map<uint64_t, Ptr<Packet>> m_waiting; //!< packets out of order, by first byte
    uint64_t m_next{0};                        //!< next sequence number expected
    uint64_t m_copied{0};                      //!< behind what was read
    uint64_t m_memory{0};                      //!< memory in bytes
    std::optional<uint64_t> m_fin;             //!< sequence number of the FIN
    std::vector<Range> m_sackBlocks;           //!< the latest first
    std::optional<Range> m_dsack;              //!< range received again
    bool m_sackUrgent{false};                  //!< see IsSackUrgent()
};

} // namespace ns3

#endif // TCP_LINUX_RECEIVE_QUEUE_H
