/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-linux-rtt.h"

#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

void
TcpLinuxRtt::Configure(Time rtoMin, Time window)
{
    m_rtoMin = rtoMin.GetMicroSeconds();
    m_window = window;
}

void
TcpLinuxRtt::AddSample(Time sample, uint64_t una, uint64_t next)
{
    auto rtt = static_cast<int64_t>(sample.GetMicroSeconds());
    if (m_smoothed == 0)
    {
        m_smoothed = std::max<int64_t>(rtt * 8, 1);
        m_deviation = rtt * 2; // makes the first time-out three round trips
        m_variation = m_deviationMax = std::max(m_deviation, m_rtoMin);
        m_roundEnd = next;
        return;
    }
    int64_t error = rtt - (m_smoothed >> 3);
    m_smoothed = std::max<int64_t>(m_smoothed + error, 1);
    int64_t excess = std::abs(error) - (m_deviation >> 2);
    if (error < 0 && excess > 0)
    {
        excess >>= 3; // a falling round-trip time is no reason for a longer time-out
    }
    m_deviation += excess;
    if (m_deviation > m_deviationMax)
    {
        m_deviationMax = m_deviation;
        m_variation = std::max(m_variation, m_deviationMax);
    }
    if (una > m_roundEnd)
    {
        if (m_deviationMax < m_variation)
        {
            m_variation -= (m_variation - m_deviationMax) >> 2;
        }
        m_roundEnd = next;
        m_deviationMax = m_rtoMin;
    }
}

void
TcpLinuxRtt::AddMinSample(Time sample)
{
    Time now = Simulator::Now();
    sample = MicroSeconds(std::max<int64_t>(sample.GetMicroSeconds(), 1));
    while (!m_mins.empty() && m_mins.back().second >= sample)
    {
        m_mins.pop_back();
    }
    m_mins.emplace_back(now, sample);
    while (m_mins.front().first < now - m_window)
    {
        m_mins.pop_front();
    }
    if (m_mins.size() > 3)
    {
        // like Linux, keep three candidates
        m_mins.erase(m_mins.begin() + 2, m_mins.end() - 1);
    }
}

bool
TcpLinuxRtt::HasSample() const
{
    return m_smoothed != 0;
}

Time
TcpLinuxRtt::GetSmoothed() const
{
    return MicroSeconds(m_smoothed >> 3);
}

uint32_t
TcpLinuxRtt::GetSmoothedEighths() const
{
    return m_smoothed;
}

Time
TcpLinuxRtt::GetMin() const
{
    return m_mins.empty() ? Time::Max() : m_mins.front().second;
}

Time
TcpLinuxRtt::GetRto() const
{
    if (m_smoothed == 0)
    {
        return Seconds(1);
    }
    uint64_t us = (m_smoothed >> 3) + m_variation;
    return MilliSeconds(std::min<uint64_t>((us + 999) / 1000, 120000));
}

Time
TcpLinuxRtt::GetRtoMin() const
{
    return MicroSeconds(m_rtoMin);
}

} // namespace ns3
