/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// What data does to TcpLinuxSocket, and when it acknowledges: Linux's tcp_data_queue(),
// __tcp_ack_snd_check() and tcp_cleanup_rbuf().

#include "tcp-linux-socket.h"

#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/tcp-header.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpLinuxSocketReceive");

namespace
{

constexpr uint32_t MAX_QUICK_ACKS = 16; // TCP_MAX_QUICKACKS
constexpr int64_t DELACK_MIN = 40;      // TCP_DELACK_MIN, TCP_ATO_MIN, in ms
constexpr int64_t DELACK_MAX = 200;     // TCP_DELACK_MAX, in ms
constexpr uint32_t DUP_ACKS = 3;        // TCP_FASTRETRANS_THRESH
constexpr uint32_t GROW_FROM = 128;     // smaller packets don't open the window
constexpr uint32_t REBASE = 1U << 28;   // see InitTransfer

/**
 * @return now, in ms
 */
int64_t
NowMs()
{
    return Simulator::Now().GetMilliSeconds();
}

} // namespace

uint32_t
TcpLinuxSocket::SelectWindow() const
{
    int64_t free = m_rcvWindow.GetFree(m_in->GetMemory());
    int64_t full = m_rcvWindow.GetFull();
    AdjustReceiveSpace(free, full);
    bool tight = false;
    uint32_t window = m_rcvWindow.Select(free, full, tight);
    if (tight)
    {
        const_cast<TcpLinuxSocket*>(this)->m_quickAcks = 0;
    }
    return window;
}

// tcp_select_window()
uint16_t
TcpLinuxSocket::AdvertisedWindowSize(bool scale) const
{
    if (!m_ready)
    {
        uint32_t window = m_rcvWindow.GetInitialWindow();
        return std::min<uint32_t>(scale ? window >> m_rcvWindShift : window, 65535);
    }
    uint32_t unit = 1U << m_rcvWindShift;
    uint32_t current = m_rcvWindow.GetRemaining(m_in->GetNext());
    uint32_t window = std::max(SelectWindow(), (current + unit - 1) / unit * unit);
    return std::min<uint32_t>(window >> m_rcvWindShift, 65535);
}

// tcp_rcv_rtt_measure_ts()
void
TcpLinuxSocket::MeasureRttByTimestamp(const TcpHeader&, uint32_t payload)
{
    if (!m_timestampEnabled || m_tsEcho == m_rcvTsEcho)
    {
        return;
    }
    m_rcvTsEcho = m_tsEcho;
    int64_t elapsed = NowMs() - int64_t(m_tsEcho);
    if (payload >= m_rcvWindow.GetSegment() && m_tsEcho != 0 && elapsed > 0)
    {
        m_rcvWindow.AddRttSample(MilliSeconds(elapsed), false, m_in->GetAvailable() == 0);
    }
}

// tcp_measure_rcv_mss()
void
TcpLinuxSocket::MeasureSegment(uint32_t payload, uint32_t segment, uint32_t memory)
{
    uint32_t last = m_lastSegment;
    m_lastSegment = 0;
    if (!m_rcvWindow.MeasureSegment(segment, payload, memory))
    {
        return;
    }
    // small ones count once two of the same size came in a row
    if (segment + 20 >= 536 + 20)
    {
        m_lastSegment = segment;
        if (segment == last)
        {
            return;
        }
    }
    m_ackPushed2 = m_ackPushed2 || m_ackPushed;
    m_ackPushed = true;
}

void
TcpLinuxSocket::RaiseQuickAcks()
{
    uint32_t acks = m_rcvWindow.GetWindow() / (2 * m_rcvWindow.GetSegment());
    acks = std::min(acks > 0 ? acks : 2, MAX_QUICK_ACKS);
    m_quickAcks = std::max(m_quickAcks, acks);
}

void
TcpLinuxSocket::EnterQuickAck()
{
    RaiseQuickAcks();
    m_pingpong = 0;
    m_ato = DELACK_MIN;
}

bool
TcpLinuxSocket::InQuickAck() const
{
    return m_quickAcks > 0 && m_pingpong < m_pingpongThreshold;
}

// tcp_event_data_recv()
void
TcpLinuxSocket::EventDataReceived(uint32_t payload, uint32_t segment, uint32_t memory)
{
    m_ackScheduled = true;
    MeasureSegment(payload, segment, memory);
    m_rcvWindow.MeasureRtt(m_in->GetNext());
    int64_t now = NowMs();
    int64_t rto = m_rtoNow.GetMilliSeconds();
    if (m_ato == 0)
    {
        RaiseQuickAcks(); // the first data
        m_ato = DELACK_MIN;
    }
    else
    {
        int64_t gap = now - m_lastReceived;
        if (gap <= DELACK_MIN / 2)
        {
            m_ato = m_ato / 2 + DELACK_MIN / 2;
        }
        else if (gap < m_ato)
        {
            m_ato = std::min({m_ato / 2 + gap, rto, DELACK_MAX});
        }
        else if (gap > rto)
        {
            RaiseQuickAcks(); // the sender may have restarted with a small window
        }
    }
    m_lastReceived = now;
    if (payload >= GROW_FROM && m_rcvWindow.Grow(payload, memory, m_in->GetMemory()))
    {
        m_quickAcks |= 1;
    }
}

// tcp_data_queue()
void
TcpLinuxSocket::QueueData(Ptr<Packet> packet, uint64_t seq)
{
    uint32_t payload = packet->GetSize();
    uint32_t segment = std::min(payload, m_rxSegment);
    uint32_t memory = payload + m_skbOverhead;
    uint64_t next = m_in->GetNext();
    uint32_t window = m_rcvWindow.GetRemaining(next);
    bool beyond = seq + payload > next && (window == 0 || seq >= next + window);
    if (beyond)
    {
        EnterQuickAck();
        m_ackScheduled = true;
        return;
    }
    if (seq + payload > next && !m_rcvWindow.MakeRoom(m_in->GetMemory()))
    {
        m_ackScheduled = m_ackNow = true; // no memory: dropped, to be sent again
        return;
    }
    bool hadGap = m_in->HasGap();
    switch (m_in->Insert(seq, packet))
    {
    case TcpLinuxReceiveQueue::OLD:
        EnterQuickAck();
        m_ackScheduled = true;
        break;
    case TcpLinuxReceiveQueue::OUT_OF_ORDER:
        MeasureSegment(payload, segment, memory);
        m_ackScheduled = true;
        if (m_in->IsSackUrgent() && m_compressed > 0)
        {
            SendAck();
            m_ackScheduled = true;
        }
        m_rcvWindow.Grow(payload, memory, m_in->GetMemory());
        m_rcvWindow.AdjustForGap(m_in->GetNext(), m_in->GetHighest());
        break;
    default:
        EventDataReceived(payload, segment, memory);
        m_ackNow = m_ackNow || (hadGap && !m_in->HasGap()); // RFC 5681 §4.2
        if (m_in->GetNext() - FromWire(m_tcb->m_rxBuffer->NextRxSequence(), m_in->GetNext()) >
            3 * uint64_t(REBASE))
        {
            m_tcb->m_rxBuffer->SetNextRxSequence(ToWire(m_in->GetNext() - 2 * uint64_t(REBASE)));
        }
    }
}

// tcp_ack_snd_check()
void
TcpLinuxSocket::CheckAck()
{
    if (!m_ackScheduled)
    {
        return;
    }
    uint64_t received = m_in->GetNext() - m_rcvWindow.GetLastAck();
    // What waits to be read may be acknowledged then. An MPTCP subflow has handed all on by now.
    const bool read = m_in->GetAvailable() == 0;
    if ((received > m_rcvWindow.GetSegment() &&
         (read || SelectWindow() >= m_rcvWindow.GetWindow())) ||
        InQuickAck() || m_ackNow)
    {
        SendAck();
        return;
    }
    if (!m_in->HasGap())
    {
        SendDelayedAck();
        return;
    }
    CompressAck();
}

// With a gap each packet is acknowledged, but not each at once.
void
TcpLinuxSocket::CompressAck()
{
    if (!m_sackEnabled || m_compressed >= m_compSackCount)
    {
        SendAck();
        return;
    }
    if (m_compressedNext != m_in->GetNext())
    {
        m_compressedNext = m_in->GetNext();
        m_dupAcks = 0;
    }
    if (m_dupAcks < DUP_ACKS)
    {
        ++m_dupAcks;
        SendAck();
        return;
    }
    ++m_compressed;
    if (m_compressEvent.IsPending())
    {
        return;
    }
    Time rtt = m_rcvWindow.GetRtt();
    if (m_rttLinux.HasSample())
    {
        rtt = Min(rtt, m_rttLinux.GetSmoothed());
    }
    Time delay = Min(rtt * int64_t(m_compSackPercent) / 100, m_compSackDelay);
    m_compressEvent = Simulator::Schedule(delay, &TcpLinuxSocket::SendAck, this);
}

void
TcpLinuxSocket::SendAck()
{
    if (m_state == CLOSED || (m_endPoint == nullptr && m_endPoint6 == nullptr))
    {
        return;
    }
    SendControl(TcpHeader::ACK,
                m_ready ? m_out->GetNext() : m_tcb->m_nextTxSequence.Get().GetValue());
}

// tcp_event_ack_sent(): any packet that was sent acknowledges all
void
TcpLinuxSocket::AckSent()
{
    m_compressed = 0;
    m_compressEvent.Cancel();
    if (m_quickAcks > 0 && m_ackScheduled)
    {
        if (--m_quickAcks == 0)
        {
            m_ato = DELACK_MIN;
        }
    }
    m_ackScheduled = m_ackNow = m_ackPushed = m_ackPushed2 = false;
    m_delAckEvent.Cancel();
}

// tcp_send_delayed_ack()
void
TcpLinuxSocket::SendDelayedAck()
{
    int64_t ato = m_ato;
    if (ato > DELACK_MIN)
    {
        int64_t most = m_pingpong >= m_pingpongThreshold || m_ackPushed ? DELACK_MAX : 500;
        if (m_rttLinux.HasSample())
        {
            int64_t rtt = (m_rttLinux.GetSmoothed().GetMicroSeconds() + 999) / 1000;
            most = std::min(most, std::max(rtt, DELACK_MIN));
        }
        ato = std::min(ato, most);
    }
    ato = std::min(ato, std::max<int64_t>(m_rtoMin.GetMilliSeconds(), 2) - 1); // tcp_delack_max()
    Time expiry = GetTimerExpiry(MilliSeconds(ato));
    if (m_delAckEvent.IsPending())
    {
        if (m_delAckExpiry <= GetTimerExpiry(MilliSeconds(ato / 4)))
        {
            SendAck();
            return;
        }
        if (expiry >= m_delAckExpiry)
        {
            return;
        }
        m_delAckEvent.Cancel();
    }
    m_delAckExpiry = expiry;
    m_delAckEvent =
        Simulator::Schedule(expiry - Simulator::Now(), &TcpLinuxSocket::DelAckTimeout, this);
}

// tcp_delack_timer_handler()
void
TcpLinuxSocket::DelAckTimeout()
{
    if (m_compressed > 0)
    {
        SendAck();
        return;
    }
    if (!m_ackScheduled)
    {
        return;
    }
    if (m_pingpong < m_pingpongThreshold)
    {
        m_ato = std::min({m_ato * 2, m_rtoNow.GetMilliSeconds(), DELACK_MAX});
    }
    else
    {
        m_pingpong = 0;
        m_ato = DELACK_MIN;
    }
    SendAck();
}

// Let the application read.
void
TcpLinuxSocket::Deliver()
{
    if (m_shutdownRecv)
    {
        while (m_in->Read(UINT32_MAX))
        {
        }
        return;
    }
    m_delivering = true;
    m_readInDelivery = false;
    NotifyDataRecv();
    m_delivering = false;
    if (m_readInDelivery && m_state != CLOSED)
    {
        CleanReceived(true);
    }
}

// mptcp_subflow_could_cleanup()
bool
TcpLinuxSocket::OwesAck(bool empty) const
{
    return m_ackScheduled &&
           (m_in->GetNext() - m_rcvWindow.GetLastAck() > m_rcvWindow.GetSegment() ||
            (empty && (m_ackPushed || m_ackPushed2)));
}

// tcp_rcv_space_adjust() and tcp_cleanup_rbuf()
void
TcpLinuxSocket::CleanReceived(bool copied)
{
    if (TunesReceiveBuffer())
    {
        m_rcvWindow.Adjust(m_in->GetCopied(), m_in->GetNext(), m_in->GetHighest());
    }
    bool ack = false;
    if (m_ackScheduled)
    {
        bool drained = m_in->GetAvailable() == 0 && !m_in->HasGap();
        bool interactive = m_pingpong >= m_pingpongThreshold;
        ack = m_in->GetNext() - m_rcvWindow.GetLastAck() > m_rcvWindow.GetSegment() ||
              (copied && drained && (m_ackPushed2 || (m_ackPushed && !interactive)));
    }
    if (!ack && copied && !m_finSeen)
    {
        uint64_t remaining = m_rcvWindow.GetRemaining(m_in->GetNext());
        if (2 * remaining <= m_rcvWindow.GetClamp())
        {
            uint64_t window = SelectWindow();
            ack = window > 0 && window >= 2 * remaining;
        }
    }
    if (ack)
    {
        SendAck();
    }
}

} // namespace ns3
