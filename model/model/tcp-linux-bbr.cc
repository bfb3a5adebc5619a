/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-linux-bbr.h"

#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpLinuxBbr");

NS_OBJECT_ENSURE_REGISTERED(TcpLinuxBbr);

namespace
{

// Linux's gains are fractions of 256
constexpr double HIGH_GAIN = (256 * 2885 / 1000 + 1) / 256.0; // 2 / ln(2)
constexpr double DRAIN_GAIN = (256 * 1000 / 2885) / 256.0;
constexpr double WINDOW_GAIN = 2;
constexpr std::array<double, 8> CYCLE{1.25, 0.75, 1, 1, 1, 1, 1, 1};
constexpr uint32_t CYCLE_RANDOM = 7;           // the cycle doesn't begin with the gain that drains
constexpr uint32_t BANDWIDTH_ROUNDS = 10;      // round trips that a bandwidth holds
constexpr double PACING_MARGIN = 0.99;         // of the bandwidth, so that queues empty
constexpr uint32_t LEAST_WINDOW = 4;           // packets
constexpr uint32_t INITIAL_WINDOW = 10;        // packets
constexpr double FULL_GROWTH = 1.25;           // less growth a round trip is none
constexpr uint32_t FULL_ROUNDS = 3;            // round trips without growth: the pipe is full
constexpr uint32_t EXTRA_ROUNDS = 5;           // round trips that a degree of aggregation holds
constexpr uint32_t EPOCH_MOST = 1 << 20;       // packets of an epoch
const Time EXTRA_MOST = MilliSeconds(100);     // of the bandwidth, at most
constexpr uint64_t LOW_RATE = 1200000 / 8;     // bytes per second below which GSO isn't needed
constexpr uint32_t GSO_MOST = 65536 - 1 - 320; // GSO_LEGACY_MAX_SIZE, MAX_TCP_HEADER
constexpr uint32_t TSO_MOST = 127;             // segments
const Time RTT_UNKNOWN = MilliSeconds(1);

} // namespace

TypeId
TcpLinuxBbr::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::TcpLinuxBbr")
            .SetParent<TcpLinuxCongestion>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<TcpLinuxBbr>()
            .AddAttribute("MinRttWindow",
                          "How long a least round-trip time holds (bbr_min_rtt_win_sec).",
                          TimeValue(Seconds(10)),
                          MakeTimeAccessor(&TcpLinuxBbr::m_minRttWindow),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("ProbeRttTime",
                          "How long a new one is looked for (bbr_probe_rtt_mode_ms).",
                          TimeValue(MilliSeconds(200)),
                          MakeTimeAccessor(&TcpLinuxBbr::m_probeRttTime),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("PacingShift",
                          "A GSO packet takes 2^-n s of the pacing rate (sk_pacing_shift).",
                          UintegerValue(10),
                          MakeUintegerAccessor(&TcpLinuxBbr::m_pacingShift),
                          MakeUintegerChecker<uint32_t>(0, 31));
    return tid;
}

TcpLinuxBbr::TcpLinuxBbr()
    : m_random(CreateObject<UniformRandomVariable>()),
      m_bandwidth(BANDWIDTH_ROUNDS, 0, 0),
      m_minRtt(Time::Max())
{
}

TcpLinuxBbr::TcpLinuxBbr(const TcpLinuxBbr& other)
    : TcpLinuxCongestion(other),
      m_minRttWindow(other.m_minRttWindow),
      m_probeRttTime(other.m_probeRttTime),
      m_pacingShift(other.m_pacingShift),
      m_random(other.m_random),
      m_bandwidth(BANDWIDTH_ROUNDS, 0, 0),
      m_minRtt(Time::Max())
{
}

std::string
TcpLinuxBbr::GetName() const
{
    return "TcpLinuxBbr";
}

bool
TcpLinuxBbr::HasCongControl() const
{
    return true;
}

Ptr<TcpCongestionOps>
TcpLinuxBbr::Fork()
{
    return CopyObject<TcpLinuxBbr>(this);
}

void
TcpLinuxBbr::SetSocketView(const SocketView& view)
{
    m_view = view;
}

bool
TcpLinuxBbr::IsProbingRtt() const
{
    return m_mode == PROBE_RTT;
}

// bbr_init()
void
TcpLinuxBbr::Init(Ptr<TcpSocketState> tcb)
{
    const Time now = Simulator::Now();
    tcb->m_pacing = true;
    tcb->m_ssThresh = UINT32_MAX;
    m_minRtt = tcb->m_minRtt;
    m_minRttStamp = now;
    m_epochStart = now;
    StartPacing(tcb);
}

void
TcpLinuxBbr::StartPacing(Ptr<TcpSocketState> tcb)
{
    const Time smoothed = tcb->m_srtt.Get();
    m_seenRtt = smoothed.IsStrictlyPositive();
    const Time rtt = m_seenRtt ? smoothed : RTT_UNKNOWN;
    const double packets = HIGH_GAIN * PACING_MARGIN * tcb->GetCwndInSegments() / rtt.GetSeconds();
    tcb->m_pacingRate = DataRate(static_cast<uint64_t>(packets * tcb->m_segmentSize * 8));
}

double
TcpLinuxBbr::GetBandwidth() const
{
    return m_bandwidth.GetBest();
}

// bbr_update_gains()
double
TcpLinuxBbr::GetPacingGain() const
{
    switch (m_mode)
    {
    case STARTUP:
        return HIGH_GAIN;
    case DRAIN:
        return DRAIN_GAIN;
    case PROBE_BW:
        return CYCLE[m_cycle];
    default:
        return 1;
    }
}

double
TcpLinuxBbr::GetWindowGain() const
{
    switch (m_mode)
    {
    case PROBE_BW:
        return WINDOW_GAIN;
    case PROBE_RTT:
        return 1;
    default:
        return HIGH_GAIN;
    }
}

// bbr_tso_segs_goal()
uint32_t
TcpLinuxBbr::GetTsoSegments(Ptr<const TcpSocketState> tcb) const
{
    const uint64_t rate = tcb->m_pacingRate.Get().GetBitRate() / 8;
    const uint64_t bytes = std::min<uint64_t>(rate >> m_pacingShift, GSO_MOST);
    const uint32_t least = rate < LOW_RATE ? 1 : 2;
    return std::min(std::max<uint32_t>(bytes / tcb->m_segmentSize, least), TSO_MOST);
}

uint32_t
TcpLinuxBbr::GetBdp(double gain) const
{
    if (m_minRtt == Time::Max())
    {
        return INITIAL_WINDOW;
    }
    return std::ceil(GetBandwidth() * m_minRtt.GetSeconds() * gain);
}

// bbr_quantization_budget()
uint32_t
TcpLinuxBbr::Quantize(Ptr<const TcpSocketState> tcb, uint32_t window) const
{
    window += 3 * GetTsoSegments(tcb);
    window = (window + 1) & ~1U; // delayed ACKs come for two
    return window + (m_mode == PROBE_BW && m_cycle == 0 ? 2 : 0);
}

// bbr_packets_in_net_at_edt()
uint32_t
TcpLinuxBbr::GetInNetwork(Ptr<const TcpSocketState> tcb, uint32_t inFlight) const
{
    const Time wait = Max(m_view.paced - Simulator::Now(), Time(0));
    const uint32_t delivered = GetBandwidth() * wait.GetSeconds();
    const uint32_t then = inFlight + (GetPacingGain() > 1 ? GetTsoSegments(tcb) : 0);
    return then > delivered ? then - delivered : 0;
}

uint32_t
TcpLinuxBbr::GetAggregation() const
{
    if (!m_full)
    {
        return 0;
    }
    const uint32_t most = GetBandwidth() * EXTRA_MOST.GetSeconds();
    return std::min(std::max(m_extra[0], m_extra[1]), most);
}

void
TcpLinuxBbr::SetPacingRate(Ptr<TcpSocketState> tcb, double gain)
{
    if (!m_seenRtt && tcb->m_srtt.Get().IsStrictlyPositive())
    {
        StartPacing(tcb);
    }
    const double bytes = GetBandwidth() * tcb->m_segmentSize * gain * PACING_MARGIN;
    const DataRate rate(static_cast<uint64_t>(bytes) * 8);
    if (m_full || rate > tcb->m_pacingRate.Get())
    {
        tcb->m_pacingRate = rate;
    }
}

// bbr_save_cwnd()
void
TcpLinuxBbr::SaveWindow(Ptr<const TcpSocketState> tcb)
{
    const uint32_t window = tcb->GetCwndInSegments();
    const bool settled = m_priorState < TcpSocketState::CA_RECOVERY && m_mode != PROBE_RTT;
    m_priorWindow = settled ? window : std::max(m_priorWindow, window);
}

uint32_t
TcpLinuxBbr::GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t)
{
    SaveWindow(tcb);
    return tcb->m_ssThresh;
}

void
TcpLinuxBbr::PktsAcked(Ptr<TcpSocketState>, uint32_t, const Time& rtt)
{
    m_rtt = rtt.IsStrictlyPositive() ? rtt : Time(-1);
}

void
TcpLinuxBbr::CongestionStateSet(Ptr<TcpSocketState>, const TcpSocketState::TcpCongState_t newState)
{
    if (newState == TcpSocketState::CA_LOSS)
    {
        m_priorState = newState;
        m_fullBandwidth = 0;
        m_roundStart = true; // a time-out ends a round trip
    }
}

// bbr_undo_cwnd(): what ended the start-up may have been no congestion
bool
TcpLinuxBbr::Undo()
{
    m_fullBandwidth = 0;
    m_fullRounds = 0;
    return true;
}

// bbr_sndbuf_expand()
uint32_t
TcpLinuxBbr::GetSndBufWindows() const
{
    return 3;
}

void
TcpLinuxBbr::CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event)
{
    if (event != TcpSocketState::CA_EVENT_TX_START || !m_view.appLimited)
    {
        return;
    }
    m_idleRestart = true;
    m_epochStart = Simulator::Now();
    m_epochAcked = 0;
    if (m_mode == PROBE_BW)
    {
        SetPacingRate(tcb, 1);
    }
    else if (m_mode == PROBE_RTT)
    {
        CheckProbeRttDone(tcb);
    }
}

// bbr_main()
void
TcpLinuxBbr::CongControl(Ptr<TcpSocketState> tcb,
                         const TcpRateOps::TcpRateConnection& connection,
                         const TcpRateOps::TcpRateSample& sample)
{
    m_deliveredTime = connection.m_deliveredTime;
    m_deliveredNow = connection.m_delivered;
    UpdateBandwidth(tcb, sample);
    UpdateAggregation(tcb, sample);
    UpdateCycle(tcb, sample);
    CheckFullBandwidth(sample);
    CheckDrain(tcb);
    UpdateMinRtt(tcb, sample);
    SetPacingRate(tcb, GetPacingGain());
    SetWindow(tcb, sample);
    m_rtt = Time(-1);
}

void
TcpLinuxBbr::UpdateBandwidth(Ptr<TcpSocketState> tcb, const Sample& sample)
{
    m_roundStart = false;
    if (!sample.m_interval.IsStrictlyPositive())
    {
        return;
    }
    if (static_cast<int32_t>(sample.m_priorDelivered - m_roundEnd) >= 0)
    {
        m_roundEnd = m_deliveredNow;
        ++m_rounds;
        m_roundStart = true;
        m_conserve = false;
    }
    const double packets = static_cast<double>(sample.m_delivered) / tcb->m_segmentSize;
    const double rate = packets / sample.m_interval.GetSeconds();
    if (!sample.m_isAppLimited || rate >= GetBandwidth())
    {
        m_bandwidth.Update(rate, m_rounds);
    }
}

// bbr_update_ack_aggregation()
void
TcpLinuxBbr::UpdateAggregation(Ptr<TcpSocketState> tcb, const Sample& sample)
{
    if (sample.m_ackedSacked == 0 || !sample.m_interval.IsStrictlyPositive())
    {
        return;
    }
    if (m_roundStart && ++m_extraRounds >= EXTRA_ROUNDS)
    {
        m_extraRounds = 0;
        m_extraIndex ^= 1;
        m_extra[m_extraIndex] = 0;
    }
    const uint32_t acked = sample.m_ackedSacked / tcb->m_segmentSize;
    uint32_t expected = GetBandwidth() * (m_deliveredTime - m_epochStart).GetSeconds();
    if (m_epochAcked <= expected || m_epochAcked + acked >= EPOCH_MOST)
    {
        m_epochAcked = 0;
        m_epochStart = m_deliveredTime;
        expected = 0;
    }
    m_epochAcked += acked;
    const uint32_t extra = std::min(m_epochAcked - expected, tcb->GetCwndInSegments());
    m_extra[m_extraIndex] = std::max(m_extra[m_extraIndex], extra);
}

// bbr_is_next_cycle_phase()
void
TcpLinuxBbr::UpdateCycle(Ptr<TcpSocketState> tcb, const Sample& sample)
{
    if (m_mode != PROBE_BW)
    {
        return;
    }
    bool next = m_deliveredTime - m_cycleStamp > m_minRtt;
    const double gain = CYCLE[m_cycle];
    if (gain != 1)
    {
        const uint32_t before = sample.m_priorInFlight / tcb->m_segmentSize;
        const uint32_t inNetwork = GetInNetwork(tcb, before);
        if (gain > 1) // until the queue is there, or no room for it
        {
            next = next && (sample.m_bytesLoss > 0 || inNetwork >= Quantize(tcb, GetBdp(gain)));
        }
        else // until the queue is gone
        {
            next = next || inNetwork <= Quantize(tcb, GetBdp(1));
        }
    }
    if (next)
    {
        AdvanceCycle();
    }
}

void
TcpLinuxBbr::AdvanceCycle()
{
    m_cycle = (m_cycle + 1) % CYCLE.size();
    m_cycleStamp = m_deliveredTime;
}

void
TcpLinuxBbr::ResetMode()
{
    if (!m_full)
    {
        m_mode = STARTUP;
        return;
    }
    m_mode = PROBE_BW;
    m_cycle = CYCLE.size() - 1 - m_random->GetInteger(0, CYCLE_RANDOM - 1);
    AdvanceCycle();
}

// bbr_check_full_bw_reached()
void
TcpLinuxBbr::CheckFullBandwidth(const Sample& sample)
{
    if (m_full || !m_roundStart || sample.m_isAppLimited)
    {
        return;
    }
    if (GetBandwidth() >= m_fullBandwidth * FULL_GROWTH)
    {
        m_fullBandwidth = GetBandwidth();
        m_fullRounds = 0;
        return;
    }
    m_full = ++m_fullRounds >= FULL_ROUNDS;
}

void
TcpLinuxBbr::CheckDrain(Ptr<TcpSocketState> tcb)
{
    if (m_mode == STARTUP && m_full)
    {
        NS_LOG_LOGIC("the pipe is full at " << GetBandwidth() << " packets/s");
        m_mode = DRAIN;
        tcb->m_ssThresh = Quantize(tcb, GetBdp(1)) * tcb->m_segmentSize;
    }
    if (m_mode == DRAIN)
    {
        const uint32_t inFlight = tcb->m_bytesInFlight.Get() / tcb->m_segmentSize;
        if (GetInNetwork(tcb, inFlight) <= Quantize(tcb, GetBdp(1)))
        {
            ResetMode();
        }
    }
}

void
TcpLinuxBbr::UpdateMinRtt(Ptr<TcpSocketState> tcb, const Sample& sample)
{
    const Time now = Simulator::Now();
    const bool expired = now > m_minRttStamp + m_minRttWindow;
    if (!m_rtt.IsNegative() && (m_rtt < m_minRtt || (expired && !m_view.ackDelayed)))
    {
        m_minRtt = m_rtt;
        m_minRttStamp = now;
    }
    if (m_probeRttTime.IsStrictlyPositive() && expired && !m_idleRestart && m_mode != PROBE_RTT)
    {
        SaveWindow(tcb);
        m_mode = PROBE_RTT;
        m_probeRttEnd = Time(0);
    }
    if (m_mode == PROBE_RTT)
    {
        if (m_probeRttEnd.IsZero())
        {
            if (tcb->m_bytesInFlight.Get() <= LEAST_WINDOW * tcb->m_segmentSize)
            {
                m_probeRttEnd = now + m_probeRttTime;
                m_probeRttRound = false;
                m_roundEnd = m_deliveredNow;
            }
        }
        else
        {
            m_probeRttRound = m_probeRttRound || m_roundStart;
            if (m_probeRttRound)
            {
                CheckProbeRttDone(tcb);
            }
        }
    }
    if (sample.m_delivered > 0)
    {
        m_idleRestart = false;
    }
}

void
TcpLinuxBbr::CheckProbeRttDone(Ptr<TcpSocketState> tcb)
{
    const Time now = Simulator::Now();
    if (m_probeRttEnd.IsZero() || now <= m_probeRttEnd)
    {
        return;
    }
    m_minRttStamp = now;
    tcb->m_cWnd = std::max(tcb->GetCwndInSegments(), m_priorWindow) * tcb->m_segmentSize;
    ResetMode();
}

// bbr_set_cwnd_to_recover_or_restore()
bool
TcpLinuxBbr::Recover(Ptr<TcpSocketState> tcb, uint32_t lost, uint32_t acked, uint32_t& window)
{
    const uint32_t inFlight = tcb->m_bytesInFlight.Get() / tcb->m_segmentSize;
    const auto state = tcb->m_congState.Get();
    window = lost >= window ? 1 : window - lost;
    if (state == TcpSocketState::CA_RECOVERY && m_priorState != TcpSocketState::CA_RECOVERY)
    {
        m_conserve = true;
        m_roundEnd = m_deliveredNow;
        window = inFlight + acked;
    }
    else if (m_priorState >= TcpSocketState::CA_RECOVERY && state < TcpSocketState::CA_RECOVERY)
    {
        window = std::max(window, m_priorWindow);
        m_conserve = false;
    }
    m_priorState = state;
    if (m_conserve)
    {
        window = std::max(window, inFlight + acked);
    }
    return m_conserve;
}

// bbr_set_cwnd()
void
TcpLinuxBbr::SetWindow(Ptr<TcpSocketState> tcb, const Sample& sample)
{
    uint32_t window = tcb->GetCwndInSegments();
    const uint32_t acked = sample.m_ackedSacked / tcb->m_segmentSize;
    if (acked > 0 && !Recover(tcb, sample.m_bytesLoss / tcb->m_segmentSize, acked, window))
    {
        const uint32_t bdp = GetBdp(GetWindowGain());
        const uint32_t target = Quantize(tcb, bdp + GetAggregation());
        if (m_full)
        {
            window = std::min(window + acked, target);
        }
        else if (window < target || m_deliveredNow < INITIAL_WINDOW * tcb->m_segmentSize)
        {
            window += acked;
        }
        window = std::max(window, LEAST_WINDOW);
    }
    if (m_mode == PROBE_RTT)
    {
        window = std::min(window, LEAST_WINDOW);
    }
    tcb->m_cWnd = window * tcb->m_segmentSize;
}

} // namespace ns3
