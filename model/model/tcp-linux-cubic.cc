/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-linux-cubic.h"

#include "ns3/boolean.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpLinuxCubic");

NS_OBJECT_ENSURE_REGISTERED(TcpLinuxCubic);

namespace
{

// Linux's fixed-point constants: C = 410/1024, beta = 717/1024
constexpr double C = 410.0 / 1024;
constexpr uint32_t BETA = 717;
constexpr uint32_t BETA_SCALE = 1024;
// acknowledged packets a window until Reno with this beta would add one, in eighths
constexpr uint32_t RENO_EIGHTHS = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
constexpr uint32_t HYSTART_MIN_SAMPLES = 8;
// CUBIC's curve has steps of 1/1024 s
constexpr double STEPS = 1024;

/**
 * @return now, in ms
 */
int64_t
NowTicks()
{
    return Simulator::Now().GetMilliSeconds();
}

} // namespace

TypeId
TcpLinuxCubic::GetTypeId()
{
    static TypeId tid = TypeId("ns3::TcpLinuxCubic")
                            .SetParent<TcpLinuxCongestion>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<TcpLinuxCubic>()
                            .AddAttribute("HyStart",
                                          "Leave slow start by HyStart (Linux: hystart).",
                                          BooleanValue(true),
                                          MakeBooleanAccessor(&TcpLinuxCubic::m_hystart),
                                          MakeBooleanChecker())
                            .AddAttribute("FastConvergence",
                                          "Give way to new flows faster (Linux: fast_convergence).",
                                          BooleanValue(true),
                                          MakeBooleanAccessor(&TcpLinuxCubic::m_fastConvergence),
                                          MakeBooleanChecker())
                            .AddAttribute("TcpFriendliness",
                                          "Grow at least as Reno would (Linux: tcp_friendliness).",
                                          BooleanValue(true),
                                          MakeBooleanAccessor(&TcpLinuxCubic::m_friendly),
                                          MakeBooleanChecker())
                            .AddAttribute("HyStartLowWindow",
                                          "Window in packets from which HyStart works.",
                                          UintegerValue(16),
                                          MakeUintegerAccessor(&TcpLinuxCubic::m_hystartLow),
                                          MakeUintegerChecker<uint32_t>())
                            .AddAttribute("HyStartAckGap",
                                          "ACKs closer than this make a train.",
                                          TimeValue(MilliSeconds(2)),
                                          MakeTimeAccessor(&TcpLinuxCubic::m_hystartAckGap),
                                          MakeTimeChecker(Time(0)));
    return tid;
}

std::string
TcpLinuxCubic::GetName() const
{
    return "TcpLinuxCubic";
}

void
TcpLinuxCubic::Init(Ptr<TcpSocketState> tcb)
{
    Reset();
    StartRound(tcb);
}

void
TcpLinuxCubic::Reset()
{
    m_perIncrease = 0;
    m_lastMax = 0;
    m_lastWindow = 0;
    m_lastTicks = 0;
    m_origin = 0;
    m_toOrigin = 0;
    m_epoch = false;
    m_acked = 0;
    m_renoWindow = 0;
    m_minDelay = Time(0);
    m_found = false;
}

void
TcpLinuxCubic::StartRound(Ptr<const TcpSocketState> tcb)
{
    m_roundStart = Simulator::Now();
    m_lastAck = m_roundStart;
    m_roundEnd = tcb->m_highTxMark;
    m_roundMin = Time::Max();
    m_samples = 0;
}

void
TcpLinuxCubic::Resume(Time pause)
{
    if (m_epoch && pause.IsStrictlyPositive())
    {
        m_epochTicks = std::min(m_epochTicks + pause.GetMilliSeconds(), NowTicks());
    }
}

int64_t
TcpLinuxCubic::GetTarget(int64_t ticks) const
{
    // a delay counts in whole ticks, rounded up
    int64_t delay = (m_minDelay.GetMicroSeconds() + 999) / 1000;
    double t = std::floor((ticks - m_epochTicks + delay) * STEPS / 1000) / STEPS;
    auto delta = static_cast<int64_t>(C * std::pow(std::fabs(t - m_toOrigin), 3));
    return t < m_toOrigin ? int64_t(m_origin) - delta : m_origin + delta;
}

void
TcpLinuxCubic::Update(uint32_t window, uint32_t acked)
{
    int64_t ticks = NowTicks();
    m_acked += acked;
    if (m_lastWindow == window && ticks - m_lastTicks <= 1000 / 32)
    {
        return;
    }
    if (!m_epoch || ticks != m_lastTicks) // the curve is looked at once a tick
    {
        m_lastWindow = window;
        m_lastTicks = ticks;
        if (!m_epoch)
        {
            m_epoch = true;
            m_epochTicks = ticks;
            m_acked = acked;
            m_renoWindow = window;
            m_origin = std::max(window, m_lastMax);
            m_toOrigin = std::floor(std::cbrt((m_origin - window) / C) * STEPS) / STEPS;
        }
        int64_t target = GetTarget(ticks);
        m_perIncrease = target > window ? window / uint32_t(target - window) : 100 * window;
        if (m_lastMax == 0)
        {
            m_perIncrease = std::min(m_perIncrease, 20U); // nothing is known of the rate yet
        }
    }
    if (m_friendly)
    {
        uint32_t perPacket = window * RENO_EIGHTHS / 8;
        uint32_t grown = m_acked > 0 ? (m_acked - 1) / perPacket : 0;
        m_renoWindow += grown;
        m_acked -= grown * perPacket;
        if (m_renoWindow > window)
        {
            m_perIncrease = std::min(m_perIncrease, window / (m_renoWindow - window));
        }
    }
    m_perIncrease = std::max(m_perIncrease, 2U);
}

void
TcpLinuxCubic::IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked)
{
    uint32_t window = tcb->GetCwndInSegments();
    uint32_t threshold = tcb->GetSsThreshInSegments();
    if (window < threshold)
    {
        uint32_t grown = std::min(window + segmentsAcked, threshold);
        segmentsAcked -= grown - window;
        window = grown;
    }
    if (segmentsAcked > 0)
    {
        Update(window, segmentsAcked);
        if (m_counted >= m_perIncrease)
        {
            m_counted = 0;
            ++window;
        }
        m_counted += segmentsAcked;
        window += m_counted / m_perIncrease;
        m_counted %= m_perIncrease;
    }
    tcb->m_cWnd = window * tcb->m_segmentSize;
}

uint32_t
TcpLinuxCubic::GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t)
{
    uint32_t window = tcb->GetCwndInSegments();
    m_epoch = false;
    m_counted = 0;
    m_lastMax = m_fastConvergence && window < m_lastMax
                    ? window * (BETA_SCALE + BETA) / (2 * BETA_SCALE)
                    : window;
    return std::max(window * BETA / BETA_SCALE, 2U) * tcb->m_segmentSize;
}

void
TcpLinuxCubic::CongestionStateSet(Ptr<TcpSocketState> tcb,
                                  const TcpSocketState::TcpCongState_t newState)
{
    if (newState == TcpSocketState::CA_LOSS)
    {
        Reset();
        StartRound(tcb);
    }
}

void
TcpLinuxCubic::PktsAcked(Ptr<TcpSocketState> tcb, uint32_t, const Time& rtt)
{
    if (!rtt.IsStrictlyPositive())
    {
        return; // no sample
    }
    if (m_epoch && NowTicks() - m_epochTicks < 1000)
    {
        return; // right after a recovery delays say little
    }
    Time sample = Max(rtt, MicroSeconds(1));
    if (m_minDelay.IsZero() || sample < m_minDelay)
    {
        m_minDelay = sample;
    }
    if (m_hystart && !m_found && tcb->m_cWnd < tcb->m_ssThresh)
    {
        CheckSlowStart(tcb, sample);
    }
}

void
TcpLinuxCubic::CheckSlowStart(Ptr<TcpSocketState> tcb, Time rtt)
{
    if (tcb->m_lastAckedSeq > m_roundEnd)
    {
        StartRound(tcb);
    }
    if (tcb->GetCwndInSegments() < m_hystartLow)
    {
        return;
    }
    Time now = Simulator::Now();
    if (now - m_lastAck <= m_hystartAckGap)
    {
        m_lastAck = now;
        Time allowance;
        if (uint64_t rate = tcb->m_pacingRate.Get().GetBitRate())
        {
            // four of the largest GSO packets, at most 1 ms
            allowance = Min(MilliSeconds(1), Seconds(m_gsoMax * 4.0 * 8 / rate));
        }
        Time threshold = m_minDelay + allowance;
        if (!tcb->m_pacing)
        {
            threshold = threshold / 2;
        }
        if (now - m_roundStart > threshold)
        {
            NS_LOG_LOGIC("ACK train ends slow start at " << tcb->m_cWnd);
            m_found = true;
        }
    }
    m_roundMin = Min(m_roundMin, rtt);
    if (m_samples < HYSTART_MIN_SAMPLES)
    {
        ++m_samples;
    }
    else if (m_roundMin > m_minDelay + Max(MilliSeconds(4), Min(MilliSeconds(16), m_minDelay / 8)))
    {
        NS_LOG_LOGIC("delay ends slow start at " << tcb->m_cWnd);
        m_found = true;
    }
    if (m_found)
    {
        tcb->m_ssThresh = tcb->m_cWnd.Get();
    }
}

Ptr<TcpCongestionOps>
TcpLinuxCubic::Fork()
{
    return CopyObject<TcpLinuxCubic>(this);
}

} // namespace ns3
