/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_BBR_H
#define TCP_LINUX_BBR_H

#include "tcp-linux-congestion.h"

#include "ns3/random-variable-stream.h"
#include "ns3/windowed-filter.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * BBR v1 as Linux has it (tcp_bbr.c). What differs from ns-3's TcpBbr: the window has room for
 * three GSO packets beside the bandwidth-delay product, not three segments, which decides where
 * several flows share a link of small delay; what a pacing timer holds back doesn't count as in the
 * network; the probing of the round-trip time doesn't lower the bandwidth. Linux's detection of
 * policers, which needs 20 % of loss, isn't modelled.
 */
class TcpLinuxBbr : public TcpLinuxCongestion
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    TcpLinuxBbr();

    /**
     * Copy, for the socket of an accepted connection.
     * @param other what is copied
     */
    TcpLinuxBbr(const TcpLinuxBbr& other);

    std::string GetName() const override;
    bool HasCongControl() const override;
    void Init(Ptr<TcpSocketState> tcb) override;
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override;
    void PktsAcked(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked, const Time& rtt) override;
    void CongestionStateSet(Ptr<TcpSocketState> tcb,
                            const TcpSocketState::TcpCongState_t newState) override;
    void CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event) override;
    void CongControl(Ptr<TcpSocketState> tcb,
                     const TcpRateOps::TcpRateConnection& connection,
                     const TcpRateOps::TcpRateSample& sample) override;
    Ptr<TcpCongestionOps> Fork() override;

    void SetSocketView(const SocketView& view) override;
    bool Undo() override;
    bool IsProbingRtt() const override;
    uint32_t GetSndBufWindows() const override;

  private:
    /// Linux's modes
    enum Mode
    {
        STARTUP,   //!< the rate doubles each round trip
        DRAIN,     //!< the queue of the start-up empties
        PROBE_BW,  //!< the rate goes up and down around the bandwidth
        PROBE_RTT, //!< next to nothing is in flight
    };

    using Sample = TcpRateOps::TcpRateSample; //!< a rate sample

    /// @return packets per second
    double GetBandwidth() const;

    /**
     * @param tcb the connection's state
     * @return segments of the GSO packets that are sent at this pacing rate
     */
    uint32_t GetTsoSegments(Ptr<const TcpSocketState> tcb) const;

    /**
     * @param gain factor
     * @return the bandwidth-delay product in packets, times the gain
     */
    uint32_t GetBdp(double gain) const;

    /**
     * @param tcb the connection's state
     * @param window packets
     * @return with room for the GSO packets that are being made, sent and received
     */
    uint32_t Quantize(Ptr<const TcpSocketState> tcb, uint32_t window) const;

    /**
     * @param tcb the connection's state
     * @param inFlight packets
     * @return packets in flight when pacing lets the next one go
     */
    uint32_t GetInNetwork(Ptr<const TcpSocketState> tcb, uint32_t inFlight) const;

    /// @return packets that ACKs acknowledged beyond the bandwidth, for which the window has room
    uint32_t GetAggregation() const;

    /**
     * @param tcb the connection's state
     * @param gain factor of the bandwidth
     */
    void SetPacingRate(Ptr<TcpSocketState> tcb, double gain);

    /**
     * Pace by the initial window and the round-trip time, before anything is known.
     * @param tcb the connection's state
     */
    void StartPacing(Ptr<TcpSocketState> tcb);

    /**
     * @param tcb the connection's state
     * @param sample what the ACK brought
     */
    void SetWindow(Ptr<TcpSocketState> tcb, const Sample& sample);

    /**
     * @param tcb the connection's state
     * @param lost packets newly lost
     * @param acked packets newly delivered
     * @param window in packets, changed
     * @return whether a recovery decides the window
     */
    bool Recover(Ptr<TcpSocketState> tcb, uint32_t lost, uint32_t acked, uint32_t& window);

    /// @param tcb the connection's state
    void SaveWindow(Ptr<const TcpSocketState> tcb);

    /**
     * @param tcb the connection's state
     * @param sample what the ACK brought
     */
    void UpdateBandwidth(Ptr<TcpSocketState> tcb, const Sample& sample);

    /**
     * @param tcb the connection's state
     * @param sample what the ACK brought
     */
    void UpdateAggregation(Ptr<TcpSocketState> tcb, const Sample& sample);

    /**
     * @param tcb the connection's state
     * @param sample what the ACK brought
     */
    void UpdateCycle(Ptr<TcpSocketState> tcb, const Sample& sample);

    /// @param sample what the ACK brought
    void CheckFullBandwidth(const Sample& sample);

    /// @param tcb the connection's state
    void CheckDrain(Ptr<TcpSocketState> tcb);

    /**
     * @param tcb the connection's state
     * @param sample what the ACK brought
     */
    void UpdateMinRtt(Ptr<TcpSocketState> tcb, const Sample& sample);

    /// @param tcb the connection's state
    void CheckProbeRttDone(Ptr<TcpSocketState> tcb);

    /// Go on with what was done before the round-trip time was probed.
    void ResetMode();

    /// Take the next gain of the cycle.
    void AdvanceCycle();

    /// @return factor of the pacing rate
    double GetPacingGain() const;

    /// @return factor of the window
    double GetWindowGain() const;

    Time m_minRttWindow;    //!< how long a least round-trip time holds
    Time m_probeRttTime;    //!< how long a new one is looked for
    uint32_t m_pacingShift; //!< a GSO packet takes 2^-n s of the pacing rate

    Ptr<UniformRandomVariable> m_random; //!< where the cycle begins
    SocketView m_view{};                 //!< the socket's state
    Mode m_mode{STARTUP};                //!< what is being done
    /// largest bandwidth of ten round trips, in packets per second
    WindowedFilter<double, MaxFilter<double>, uint32_t, uint32_t> m_bandwidth;
    uint32_t m_rounds{0};        //!< round trips
    uint32_t m_roundEnd{0};      //!< bytes delivered that end the round trip, modulo 2^32
    uint32_t m_deliveredNow{0};  //!< bytes delivered, modulo 2^32
    bool m_roundStart{false};    //!< a round trip begins
    Time m_minRtt;               //!< least round-trip time, Time::Max(): none
    Time m_minRttStamp;          //!< when it was seen
    Time m_rtt{-1};              //!< the ACK's, < 0: none
    Time m_probeRttEnd{0};       //!< end of probing, 0: not begun
    bool m_probeRttRound{false}; //!< a round trip has passed with little in flight
    bool m_seenRtt{false};       //!< there was a round-trip time
    bool m_idleRestart{false};   //!< begins to send after a pause
    bool m_full{false};          //!< start-up has filled the pipe
    double m_fullBandwidth{0};   //!< bandwidth at which it didn't grow
    uint32_t m_fullRounds{0};    //!< round trips without growth
    uint32_t m_cycle{0};         //!< index of the gain
    Time m_cycleStamp;           //!< since when
    Time m_deliveredTime;        //!< time of the last delivery
    uint32_t m_priorWindow{0};   //!< window before a recovery or a probing, in packets
    bool m_conserve{false};      //!< one packet is sent for each delivered
    uint32_t m_extra[2]{0, 0};   //!< most packets beyond the bandwidth
    uint32_t m_extraIndex{0};    //!< the one that grows
    uint32_t m_extraRounds{0};   //!< its age
    Time m_epochStart;           //!< since when ACKs are compared with the bandwidth
    uint32_t m_epochAcked{0};    //!< packets acknowledged since
    TcpSocketState::TcpCongState_t m_priorState{TcpSocketState::CA_OPEN}; //!< at the last ACK
};

} // namespace ns3

#endif // TCP_LINUX_BBR_H
