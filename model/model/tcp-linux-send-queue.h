/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_SEND_QUEUE_H
#define TCP_LINUX_SEND_QUEUE_H

#include "ns3/nstime.h"
#include "ns3/packet.h"

#include <deque>
#include <list>
#include <map>
#include <utility>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * What Linux keeps in an sk_buff of a connection's queues: a range of the stream that is sent,
 * resent and lost as one GSO packet. Sequence numbers are offsets into the stream, of 64 bits.
 */
struct TcpLinuxSkb
{
    uint64_t seq{0};                            //!< first byte
    uint64_t end{0};                            //!< behind the last byte; a FIN counts one
    uint32_t segments{1};                       //!< number of segments on the wire
    bool fin{false};                            //!< carries a FIN
    bool push{false};                           //!< the end of what the application wrote at once
    bool eor{false};                            //!< nothing may be appended (MSG_EOR)
    bool sacked{false};                         //!< acknowledged by SACK
    bool lost{false};                           //!< taken for lost
    bool resent{false};                         //!< a retransmission is in flight
    bool everResent{false};                     //!< was retransmitted at least once
    bool timed{false};                          //!< is in the list by time of sending
    Time sent{0};                               //!< time of the last transmission
    uint64_t delivered{0};                      //!< packets delivered when it was sent
    Time deliveredTime{0};                      //!< time of the last of those deliveries
    Time firstSent{0};                          //!< start of the sampled flight
    bool appLimited{false};                     //!< the application was the limit when it was sent
    std::list<TcpLinuxSkb*>::iterator byTime{}; //!< place in that list, if timed

    /**
     * @return bytes, without the FIN
     */
    uint32_t GetSize() const
    {
        return end - seq - (fin ? 1 : 0);
    }
};

/**
 * @ingroup nvme-mptcp
 * The send buffer and the scoreboard of a Linux connection: what the application wrote and was not
 * sent yet (write queue), and what was sent and not acknowledged (retransmission queue) with the
 * SACK, loss and retransmission marks. It counts; TcpLinuxSocket decides.
 */
class TcpLinuxSendQueue
{
  public:
    using RtxQueue = std::map<uint64_t, TcpLinuxSkb>; //!< by first sequence number

    /// What acknowledging did; packets are segments as Linux counts them.
    struct AckResult
    {
        uint32_t acked{0};         //!< packets newly acknowledged, those SACKed before included
        uint32_t delivered{0};     //!< packets newly delivered
        bool resentAcked{false};   //!< something that was resent got acknowledged
        bool originalAcked{false}; //!< something never resent, from before the recovery
        uint64_t reordered{UINT64_MAX}; //!< lowest sequence number never resent, not SACKed before
        Time firstSent{-1};       //!< when the first newly acknowledged skb was sent, < 0: none
        Time lastSent{-1};        //!< when the last one was
        TcpLinuxSkb newest{};     //!< of those delivered the one sent last, for rate samples
        bool anyDelivered{false}; //!< whether newest is valid
    };

    /// Called for each skb that was delivered, for RACK, with its state before.
    using Delivered = Callback<void, const TcpLinuxSkb&>;

    /**
     * @param overhead memory of an skb beside its data, in bytes
     */
    explicit TcpLinuxSendQueue(uint32_t overhead);

    /**
     * Begin the stream.
     * @param seq sequence number of its first byte
     */
    void Start(uint64_t seq);

    /**
     * Append what the application wrote, as sendmsg() does.
     * @param data the bytes
     * @param goal size to which skbs are filled, in bytes
     * @param eor no later data may join the last skb
     */
    void Append(Ptr<Packet> data, uint32_t goal, bool eor);

    /**
     * Append a FIN.
     */
    void AppendFin();

    /**
     * Note that the last skb ends a write: it gets the PSH flag.
     */
    void MarkPush();

    /**
     * @return the first unsent skb, null if all is sent
     */
    TcpLinuxSkb* GetHead();

    /**
     * @param skb an unsent skb
     * @return whether it is the last of the write queue
     */
    bool IsTail(const TcpLinuxSkb& skb) const;

    /**
     * Move bytes from the following skbs into the first, up to a size.
     * @param size wanted size in bytes
     */
    void GrowHead(uint32_t size);

    /**
     * Cut the first unsent skb.
     * @param size bytes that stay in it
     */
    void SplitHead(uint32_t size);

    /**
     * Move the first unsent skb to the retransmission queue.
     * @param mss segment size in bytes
     * @return the skb, in its new place
     */
    TcpLinuxSkb& Sent(uint32_t mss);

    /**
     * Take the last sent skb back: it was not sent after all.
     */
    void Unsend();

    /**
     * Cut an skb that was sent.
     * @param it the skb
     * @param size bytes that stay in it
     * @param mss segment size in bytes
     */
    void SplitSent(RtxQueue::iterator it, uint32_t size, uint32_t mss);

    /**
     * Note a transmission, at the end of the list by time.
     * @param skb an skb of the retransmission queue
     * @param now when
     */
    void Stamp(TcpLinuxSkb& skb, Time now);

    /**
     * Remove what is acknowledged.
     * @param una first byte not acknowledged
     * @param mss segment size in bytes
     * @param highSeq end of the recovery
     * @param delivered called for each delivered skb
     * @param result where what happened is added
     */
    void Acknowledge(uint64_t una,
                     uint32_t mss,
                     uint64_t highSeq,
                     const Delivered& delivered,
                     AckResult& result);

    /**
     * Mark a range as received out of order.
     * @param start first byte
     * @param end behind the last
     * @param mss segment size in bytes
     * @param highSeq end of the recovery
     * @param delivered called for each delivered skb
     * @param result where what happened is added
     */
    void Sack(uint64_t start,
              uint64_t end,
              uint32_t mss,
              uint64_t highSeq,
              const Delivered& delivered,
              AckResult& result);

    /**
     * The receiver has a range twice: what was resent of it is no longer in flight.
     * @param start first byte
     * @param end behind the last
     * @param from only what ends behind this counts
     * @return packets of the range that were resent
     */
    uint32_t Dsack(uint64_t start, uint64_t end, uint64_t from);

    /**
     * Mark an skb as lost.
     * @param skb the skb
     */
    void MarkLost(TcpLinuxSkb& skb);

    /**
     * Count an skb as resent.
     * @param skb the skb
     */
    void MarkResent(TcpLinuxSkb& skb);

    /**
     * Forget all loss marks, since the loss was none.
     */
    void UnmarkLost();

    /**
     * Forget all SACK marks, since the receiver forgot them.
     */
    void ForgetSacks();

    /**
     * Take an skb out of the list by time, or leave it there.
     * @param skb the skb
     */
    void Untime(TcpLinuxSkb& skb);

    /**
     * Copy bytes of the stream.
     * @param seq first byte
     * @param size number of bytes
     * @return a packet with these bytes
     */
    Ptr<Packet> CopyData(uint64_t seq, uint32_t size) const;

    /**
     * Number of segments of some bytes.
     * @param size bytes
     * @param mss segment size in bytes
     * @return segments, at least 1
     */
    static uint32_t CountSegments(uint32_t size, uint32_t mss);

    /**
     * @return what was sent and is not acknowledged, by sequence number
     */
    RtxQueue& GetSent();

    /**
     * @return skbs in flight that are not lost, by the time they were sent last
     */
    std::list<TcpLinuxSkb*>& GetByTime();

    /**
     * @return the first sequence number not acknowledged
     */
    uint64_t GetUna() const;

    /**
     * @return the next sequence number to be sent
     */
    uint64_t GetNext() const;

    /**
     * @return the sequence number behind all that was written
     */
    uint64_t GetWriteSeq() const;

    /**
     * @return the end of what was SACKed, or GetUna() if nothing is
     */
    uint64_t GetHighestSack() const;

    /**
     * @return packets sent and not acknowledged
     */
    uint32_t GetPacketsOut() const;

    /**
     * @return packets SACKed
     */
    uint32_t GetSackedOut() const;

    /**
     * @return packets lost and not acknowledged
     */
    uint32_t GetLostOut() const;

    /**
     * @return retransmitted packets in flight
     */
    uint32_t GetResentOut() const;

    /**
     * @return packets in flight
     */
    uint32_t GetInFlight() const;

    /**
     * @return packets ever marked lost
     */
    uint64_t GetLost() const;

    /**
     * @return memory that the queues take, in bytes as Linux counts them
     */
    uint64_t GetMemory() const;

    /**
     * @return bytes that still fit into the last unsent skb
     * @param goal size to which skbs are filled, in bytes
     */
    uint32_t GetTailRoom(uint32_t goal) const;

  private:
    /**
     * Count an skb as delivered.
     * @param skb the skb, with its state before
     * @param highSeq end of the recovery
     * @param result where it is added
     */
    static void NoteDelivered(const TcpLinuxSkb& skb, uint64_t highSeq, AckResult& result);

    /**
     * Mark an skb as received out of order.
     * @param skb the skb
     * @param highSeq end of the recovery
     * @param delivered called for it
     * @param result where it is added
     */
    void SackOne(TcpLinuxSkb& skb, uint64_t highSeq, const Delivered& delivered, AckResult& result);

    /**
     * Drop stored data that is acknowledged.
     */
    void TrimData();

    uint32_t m_overhead; //!< memory of an skb beside its data, in bytes

    std::deque<std::pair<uint64_t, Ptr<Packet>>> m_data; //!< the stream's bytes, by position
    std::deque<TcpLinuxSkb> m_unsent;                    //!< write queue
    RtxQueue m_sent;                                     //!< retransmission queue
    std::list<TcpLinuxSkb*> m_byTime;                    //!< the same by time, less lost ones
    std::map<uint64_t, uint64_t> m_sackRanges;           //!< SACKed ranges: end by start

    uint64_t m_una{0};        //!< first sequence number not acknowledged
    uint64_t m_next{0};       //!< next to be sent
    uint64_t m_writeSeq{0};   //!< behind all that was written
    uint32_t m_packetsOut{0}; //!< packets sent and not acknowledged
    uint32_t m_sackedOut{0};  //!< packets SACKed
    uint32_t m_lostOut{0};    //!< packets lost
    uint32_t m_resentOut{0};  //!< retransmitted packets in flight
    uint64_t m_lost{0};       //!< packets ever marked lost
    uint64_t m_memory{0};     //!< memory in bytes
};

} // namespace ns3

#endif // TCP_LINUX_SEND_QUEUE_H
