/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_RECEIVE_WINDOW_H
#define TCP_LINUX_RECEIVE_WINDOW_H

#include "ns3/nstime.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * A connection's receive buffer and window as Linux tunes them: the share of the buffer that can
 * be offered follows from how much of a packet's memory is data, the offer grows with what arrives
 * (rcv_ssthresh), and the buffer with what the application reads in a round trip (dynamic
 * right-sizing), up to tcp_rmem's third value. All sizes are in bytes.
 */
class TcpLinuxReceiveWindow
{
  public:
    /**
     * Set up before the handshake.
     * @param buffer the buffer's size
     * @param largest largest size that tuning may reach
     * @param locked whether the buffer keeps its size
     * @param mss segment size offered to the peer
     */
    void Configure(uint32_t buffer, uint32_t largest, bool locked, uint32_t mss);

    /**
     * The handshake is over.
     * @param peerMss segment size of what is sent, a first guess for what is received
     * @param copied sequence number of the first byte
     */
    void Start(uint32_t peerMss, uint64_t copied);

    /**
     * @return window scale to be offered (RFC 7323)
     */
    uint8_t GetScale() const;

    /**
     * @return window to be offered in the handshake
     */
    uint32_t GetInitialWindow() const;

    /**
     * Learn from a packet's size.
     * @param segment payload of one of its segments
     * @param payload payload of all of them
     * @param memory memory that it takes
     * @return whether the packet is smaller than a full one
     */
    bool MeasureSegment(uint32_t segment, uint32_t payload, uint32_t memory);

    /**
     * A packet arrived: offer more, if there is room.
     * @param payload its payload
     * @param memory memory that it takes
     * @param used memory of all packets held
     * @return whether the window grew
     */
    bool Grow(uint32_t payload, uint32_t memory, uint64_t used);

    /**
     * Add a sample of the round-trip time from the receiver's view.
     * @param sample the time
     * @param byWindow it is the time that a window took to arrive, an upper limit
     * @param idle the application has read all that arrived
     */
    void AddRttSample(Time sample, bool byWindow, bool idle);

    /**
     * Measure the round-trip time by the time that a window takes to arrive.
     * @param next next sequence number expected
     */
    void MeasureRtt(uint64_t next);

    /**
     * The application has read: tune the buffer.
     * @param copied sequence number behind what was read
     * @param next next sequence number expected
     * @param highest end of the last packet out of order
     */
    void Adjust(uint64_t copied, uint64_t next, uint64_t highest);

    /**
     * Enlarge the buffer.
     * @param copied bytes read in a round trip
     * @param next next sequence number expected
     * @param highest end of the last packet out of order
     */
    void GrowBuffer(uint32_t copied, uint64_t next, uint64_t highest);

    /**
     * A packet came out of order: the buffer must hold more.
     * @param next next sequence number expected
     * @param highest end of the last packet out of order
     */
    void AdjustForGap(uint64_t next, uint64_t highest);

    /**
     * Make room for a packet that does not fit.
     * @param used memory of all packets held
     * @return whether it fits now
     */
    bool MakeRoom(uint64_t used);

    /**
     * @param used memory of all packets held
     * @return bytes that could be offered
     */
    int64_t GetFree(uint64_t used) const;

    /**
     * @return bytes that could be offered if no packets were held
     */
    int64_t GetFull() const;

    /**
     * @param free bytes that could be offered
     * @param full bytes that could be offered if no packets were held
     * @param tight set if less than half of the buffer is free
     * @return the window to be offered, before it is kept from shrinking
     */
    uint32_t Select(int64_t free, int64_t full, bool& tight) const;

    /**
     * Note a window that was sent.
     * @param next sequence number acknowledged with it
     * @param window the window
     */
    void Offered(uint64_t next, uint32_t window);

    /**
     * @param next next sequence number expected
     * @return bytes that the peer may still send
     */
    uint32_t GetRemaining(uint64_t next) const;

    /**
     * @return the window sent last
     */
    uint32_t GetWindow() const;

    /**
     * @return sequence number acknowledged last
     */
    uint64_t GetLastAck() const;

    /**
     * @return estimate of the peer's segment size
     */
    uint32_t GetSegment() const;

    /**
     * @return most that may be offered
     */
    uint32_t GetClamp() const;

    /**
     * @return size of the buffer
     */
    uint32_t GetBuffer() const;

    /**
     * @return round-trip time from the receiver's view, 0 without samples
     */
    Time GetRtt() const;

    /**
     * @return end of the window that the round-trip time is being measured by: another one after
     *         each measurement (rcv_rtt_est.seq)
     */
    uint64_t GetRttEnd() const;

  private:
    /**
     * @param space bytes of buffer
     * @return bytes of window
     */
    int64_t FromSpace(int64_t space) const;

    uint32_t m_buffer{131072};   //!< size of the buffer
    uint32_t m_largest{6291456}; //!< largest size of it
    bool m_locked{false};        //!< whether it keeps its size
    uint32_t m_mss{1460};        //!< segment size offered to the peer
    uint32_t m_segment{536};     //!< estimate of the peer's segment size
    uint32_t m_share{128};       //!< window in 256 bytes of buffer
    uint32_t m_clamp{0};         //!< most that may be offered
    uint32_t m_threshold{0};     //!< most that is offered for now
    uint32_t m_window{0};        //!< window sent last
    uint64_t m_lastAck{0};       //!< sequence number acknowledged with it
    uint8_t m_scale{0};          //!< window scale

    uint32_t m_rtt{0};    //!< round-trip time in us / 8, 0: none
    Time m_rttSince{-1};  //!< start of the measurement by window, < 0: none
    uint64_t m_rttEnd{0}; //!< its end

    uint32_t m_copied{0};    //!< bytes read in the last round trip that was tuned by
    uint64_t m_copiedSeq{0}; //!< sequence number at its start
    Time m_copiedSince;      //!< its start
};

} // namespace ns3

#endif // TCP_LINUX_RECEIVE_WINDOW_H
