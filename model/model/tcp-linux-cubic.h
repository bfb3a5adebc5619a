/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_CUBIC_H
#define TCP_LINUX_CUBIC_H

#include "tcp-linux-congestion.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * CUBIC (RFC 9438) as Linux has it: the window counts packets, grows on the clock of 1 ms ticks,
 * follows the Reno-friendly estimate where that is larger, and leaves slow start by HyStart's ACK
 * train and delay. What differs from ns-3's TcpCubic: no uninitialised state after a copy, the
 * growth of at most one packet per two acknowledged, HyStart's allowance for GSO packets.
 */
class TcpLinuxCubic : public TcpLinuxCongestion
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    std::string GetName() const override;
    void Init(Ptr<TcpSocketState> tcb) override;
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override;
    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override;
    void PktsAcked(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked, const Time& rtt) override;
    void CongestionStateSet(Ptr<TcpSocketState> tcb,
                            const TcpSocketState::TcpCongState_t newState) override;
    Ptr<TcpCongestionOps> Fork() override;
    void Resume(Time pause) override;

  private:
    /// Forget the curve, as after a retransmission time-out.
    void Reset();

    /**
     * Begin a round trip of HyStart.
     * @param tcb the connection's state
     */
    void StartRound(Ptr<const TcpSocketState> tcb);

    /**
     * Look for the end of slow start.
     * @param tcb the connection's state
     * @param rtt a round-trip time
     */
    void CheckSlowStart(Ptr<TcpSocketState> tcb, Time rtt);

    /**
     * Compute how many acknowledged packets let the window grow by one.
     * @param window window in packets
     * @param acked packets acknowledged now
     */
    void Update(uint32_t window, uint32_t acked);

    /**
     * The curve's value.
     * @param ticks now, in ms
     * @return window in packets that the curve reaches one least delay from now
     */
    int64_t GetTarget(int64_t ticks) const;

    bool m_hystart;           //!< whether HyStart ends slow start
    bool m_fastConvergence;   //!< give way to new flows faster
    bool m_friendly;          //!< grow at least as Reno would
    uint32_t m_hystartLow;    //!< window in packets from which HyStart works
    Time m_hystartAckGap;     //!< ACKs closer than this make a train
    uint32_t m_gsoMax{65536}; //!< largest GSO packet in bytes, for HyStart's allowance

    uint32_t m_perIncrease{0}; //!< acknowledged packets for one more packet of window
    uint32_t m_counted{0};     //!< acknowledged packets towards that
    uint32_t m_lastMax{0};     //!< window at the last loss, in packets
    uint32_t m_lastWindow{0};  //!< window at the last computation
    int64_t m_lastTicks{0};    //!< time of it, in ms
    uint32_t m_origin{0};      //!< window at the curve's inflection, in packets
    double m_toOrigin{0};      //!< seconds from the epoch's start to there (K)
    bool m_epoch{false};       //!< whether an epoch has begun
    int64_t m_epochTicks{0};   //!< its start, in ms
    uint32_t m_acked{0};       //!< packets acknowledged, for the Reno estimate
    uint32_t m_renoWindow{0};  //!< window that Reno would have, in packets
    Time m_minDelay;           //!< least round-trip time, 0: none yet

    bool m_found{false};         //!< HyStart has ended slow start
    uint32_t m_samples{0};       //!< round-trip times seen in this round
    Time m_roundStart;           //!< when the round began
    SequenceNumber32 m_roundEnd; //!< it ends when this is acknowledged
    Time m_lastAck;              //!< last ACK of the train
    Time m_roundMin;             //!< least round-trip time of the round
};

} // namespace ns3

#endif // TCP_LINUX_CUBIC_H
