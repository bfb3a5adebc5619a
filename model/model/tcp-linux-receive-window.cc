/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-linux-receive-window.h"

#include "ns3/simulator.h"

#include <algorithm>
#include <bit>

namespace ns3
{

namespace
{

constexpr uint32_t SHARE_UNIT = 256;
constexpr uint32_t LOW_RTT = 1000;              // us; tcp_rcvbuf_low_rtt
constexpr uint32_t CORE_RMEM_MAX = 4 * 1048576; // net.core.rmem_max
constexpr uint32_t INITIAL_SEGMENTS = 10;

} // namespace

void
TcpLinuxReceiveWindow::Configure(uint32_t buffer, uint32_t largest, bool locked, uint32_t mss)
{
    m_buffer = buffer;
    m_largest = largest;
    m_locked = locked;
    m_mss = mss;
    m_window = FromSpace(buffer);
    if (m_window > mss)
    {
        m_window -= m_window % mss;
    }
    uint32_t space = std::max({m_window, largest, CORE_RMEM_MAX});
    m_scale = std::clamp<int>(std::bit_width(space) - 1 - 15, 0, 14);
    m_threshold = m_window;
}

void
TcpLinuxReceiveWindow::Start(uint32_t peerMss, uint64_t copied)
{
    m_segment = std::clamp<uint32_t>(std::min({m_mss, peerMss, m_window / 2}), 88, 536);
    // one segment of the window is kept back
    m_clamp = FromSpace(m_buffer);
    m_clamp = std::max(2 * m_mss, m_clamp > m_mss ? m_clamp - m_mss : 0);
    m_threshold = std::min(m_threshold, m_clamp);
    m_lastAck = copied;
    m_copied = std::min({m_threshold, m_window, INITIAL_SEGMENTS * m_mss});
    m_copiedSeq = copied;
    m_copiedSince = Simulator::Now();
}

int64_t
TcpLinuxReceiveWindow::FromSpace(int64_t space) const
{
    return space * m_share / SHARE_UNIT;
}

uint8_t
TcpLinuxReceiveWindow::GetScale() const
{
    return m_scale;
}

uint32_t
TcpLinuxReceiveWindow::GetInitialWindow() const
{
    return m_window;
}

bool
TcpLinuxReceiveWindow::MeasureSegment(uint32_t segment, uint32_t payload, uint32_t memory)
{
    if (segment < m_segment)
    {
        return true;
    }
    if (segment != m_segment)
    {
        uint32_t share = std::max<uint32_t>(uint64_t(payload) * SHARE_UNIT / memory, 1);
        if (share != m_share)
        {
            m_share = share;
            m_clamp = FromSpace(m_buffer);
            m_copied = std::min(m_copied, m_clamp);
        }
        m_segment = std::min(segment, m_mss);
    }
    return false;
}

bool
TcpLinuxReceiveWindow::Grow(uint32_t payload, uint32_t memory, uint64_t used)
{
    int64_t room = std::min<int64_t>(m_clamp, GetFree(used)) - m_threshold;
    if (room <= 0)
    {
        return false;
    }
    uint32_t more = 0;
    if (FromSpace(memory) <= payload)
    {
        more = 2 * m_mss;
    }
    else // much overhead: grow only while the window is small against the largest
    {
        int64_t cost = FromSpace(memory) / 2;
        for (int64_t window = FromSpace(m_largest) / 2; m_threshold <= window; window /= 2)
        {
            if (cost <= payload)
            {
                more = 2 * m_segment;
                break;
            }
            cost /= 2;
        }
    }
    if (more == 0)
    {
        return false;
    }
    m_threshold += std::min<int64_t>(room, std::max(more, 2 * payload));
    return true;
}

void
TcpLinuxReceiveWindow::AddRttSample(Time sample, bool byWindow, bool idle)
{
    auto us = static_cast<uint32_t>(std::max<int64_t>(sample.GetMicroSeconds(), 1));
    if (m_rtt == 0 || us * 8 < m_rtt)
    {
        m_rtt = us * 8;
    }
    else if (!byWindow && idle)
    {
        m_rtt = m_rtt - m_rtt / 8 + us;
    }
}

void
TcpLinuxReceiveWindow::MeasureRtt(uint64_t next)
{
    if (m_rttSince.IsPositive())
    {
        if (next < m_rttEnd)
        {
            return;
        }
        AddRttSample(Simulator::Now() - m_rttSince, true, false);
    }
    m_rttSince = Simulator::Now();
    m_rttEnd = next + m_window;
}

void
TcpLinuxReceiveWindow::GrowBuffer(uint32_t copied, uint64_t next, uint64_t highest)
{
    uint32_t before = m_copied;
    m_copied = copied;
    if (m_locked)
    {
        return;
    }
    uint64_t window = 2ULL * copied; // what was read is a round trip old
    uint32_t rtt = m_rtt / 8;
    if (rtt < LOW_RTT)
    {
        window += window * rtt / LOW_RTT;
    }
    else
    {
        window += 2 * window * (copied - before) / before; // the peer may double its rate
    }
    window += highest - next;
    auto buffer =
        static_cast<uint32_t>(std::min<uint64_t>(window * SHARE_UNIT / m_share, m_largest));
    if (buffer > m_buffer)
    {
        m_buffer = buffer;
        m_clamp = FromSpace(buffer);
    }
}

void
TcpLinuxReceiveWindow::Adjust(uint64_t copied, uint64_t next, uint64_t highest)
{
    if (m_rtt == 0 || Simulator::Now() - m_copiedSince < MicroSeconds(m_rtt / 8))
    {
        return;
    }
    int64_t read = int64_t(copied - m_copiedSeq) - int64_t(next - copied);
    if (read > int64_t(m_copied))
    {
        GrowBuffer(read, next, highest);
    }
    m_copiedSeq = copied;
    m_copiedSince = Simulator::Now();
}

void
TcpLinuxReceiveWindow::AdjustForGap(uint64_t next, uint64_t highest)
{
    GrowBuffer(m_copied, next, highest);
}

bool
TcpLinuxReceiveWindow::MakeRoom(uint64_t used)
{
    if (used <= m_buffer)
    {
        return true;
    }
    if (!m_locked && m_buffer < m_largest)
    {
        m_buffer = std::min<uint64_t>(used, m_largest);
    }
    if (used > m_buffer)
    {
        m_threshold = std::min(m_clamp, 2 * m_mss);
        return false;
    }
    return true;
}

int64_t
TcpLinuxReceiveWindow::GetFree(uint64_t used) const
{
    return FromSpace(int64_t(m_buffer) - int64_t(used));
}

int64_t
TcpLinuxReceiveWindow::GetFull() const
{
    return FromSpace(m_buffer);
}

uint32_t
TcpLinuxReceiveWindow::Select(int64_t free, int64_t full, bool& tight) const
{
    int64_t allowed = full;
    full = std::min<int64_t>(m_clamp, full);
    int64_t segment = std::min<int64_t>(m_segment, full);
    int64_t unit = 1LL << m_scale;
    tight = free < full / 2;
    if (segment <= 0)
    {
        return 0;
    }
    if (tight)
    {
        free = free > 0 ? free / unit * unit : 0;
        if (free < allowed / 16 || free < segment)
        {
            return 0;
        }
    }
    free = std::min<int64_t>(free, m_threshold);
    if (m_scale > 0)
    {
        return (free + unit - 1) / unit * unit;
    }
    return free - free % segment;
}

void
TcpLinuxReceiveWindow::Offered(uint64_t next, uint32_t window)
{
    m_lastAck = next;
    m_window = window;
}

uint32_t
TcpLinuxReceiveWindow::GetRemaining(uint64_t next) const
{
    int64_t remaining = int64_t(m_lastAck + m_window) - int64_t(next);
    return std::max<int64_t>(remaining, 0);
}

uint32_t
TcpLinuxReceiveWindow::GetWindow() const
{
    return m_window;
}

uint64_t
TcpLinuxReceiveWindow::GetLastAck() const
{
    return m_lastAck;
}

uint32_t
TcpLinuxReceiveWindow::GetSegment() const
{
    return m_segment;
}

uint32_t
TcpLinuxReceiveWindow::GetClamp() const
{
    return m_clamp;
}

uint32_t
TcpLinuxReceiveWindow::GetBuffer() const
{
    return m_buffer;
}

Time
TcpLinuxReceiveWindow::GetRtt() const
{
    return MicroSeconds(m_rtt / 8);
}

uint64_t
TcpLinuxReceiveWindow::GetRttEnd() const
{
    return m_rttEnd;
}

} // namespace ns3
