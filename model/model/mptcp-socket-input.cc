/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// What MptcpSocket receives, the window that it offers, and the end of the connection.

#include "mptcp-coupled-congestion.h"
#include "mptcp-scheduler.h"
#include "mptcp-sequence.h"
#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

namespace
{

/// Linux's TCP_INIT_CWND.
constexpr uint32_t INITIAL_SEGMENTS = 10;

} // namespace

void
MptcpSocket::Receive(const MptcpSubflow& subflow, uint64_t dsn, Ptr<const Packet> data)
{
    const uint32_t size = data->GetSize();
    m_receiveTrace(this, &subflow, dsn, size);
    if (!m_fallback && dsn != GetDataAck() && MptcpBefore(m_windowSent, dsn + size))
    {
        m_statistics.bytesOutOfWindow += size;
        return;
    }
    m_statistics.bytesDuplicate += size - m_receiveQueue.Insert(dsn, data);
    if (m_outOfOrderBytes != m_receiveQueue.GetOutOfOrderBytes())
    {
        m_outOfOrderBytes = m_receiveQueue.GetOutOfOrderBytes();
    }
}

void
MptcpSocket::DataReady()
{
    Ptr<MptcpSocket> alive(this);
    if (m_receiveQueue.GetInOrderBytes() > 0)
    {
        if (m_shutdownReceive)
        {
            while (m_receiveQueue.Extract(UINT32_MAX))
            {
            }
        }
        else
        {
            NotifyDataRecv();
        }
    }
    CheckReceivedFin();
}

uint32_t
MptcpSocket::GetFreeWindow() const
{
    const uint64_t used = m_receiveQueue.GetInOrderBytes() + m_receiveQueue.GetOutOfOrderBytes() +
                          m_receiveQueue.GetPieces() * m_skbOverhead;
    return used < m_receiveBuffer ? static_cast<uint32_t>((m_receiveBuffer - used) * m_windowRatio)
                                  : 0;
}

uint32_t
MptcpSocket::GetFullWindow() const
{
    return static_cast<uint32_t>(m_receiveBuffer * m_windowRatio);
}

uint64_t
MptcpSocket::GetOfferedWindow() const
{
    return MptcpBefore(GetDataAck(), m_windowSent) ? m_windowSent - GetDataAck() : 0;
}

uint32_t
MptcpSocket::OfferWindow(uint32_t window)
{
    // mptcp_set_rwin()
    if (MptcpBefore(m_windowSent, GetDataAck() + window))
    {
        m_windowSent = GetDataAck() + window;
    }
    m_lastWindow = static_cast<uint32_t>(GetOfferedWindow());
    return m_lastWindow;
}

// mptcp_cleanup_rbuf()
void
MptcpSocket::OnRead()
{
    AdjustReceiveBuffer();
    const uint32_t window = GetFreeWindow();
    const bool update = window > 0 && window / 2 >= m_lastWindow;
    const bool empty =
        m_receiveQueue.GetInOrderBytes() == 0 && m_receiveQueue.GetOutOfOrderBytes() == 0;
    for (const Ptr<MptcpSubflow>& subflow : std::vector(m_subflows))
    {
        subflow->OnRead(update, empty);
    }
}

// mptcp_rcv_rtt_update()
void
MptcpSocket::UpdateReceiveRtt(MptcpSubflow& subflow)
{
    const Time sample = subflow.TakeReceiveRtt();
    if (sample.IsStrictlyPositive())
    {
        m_receiveRtt[m_nextReceiveRtt++ % m_receiveRtt.size()] = sample;
        m_windowRatio = (7 * m_windowRatio + subflow.GetDataShare()) / 8;
    }
}

// mptcp_rcv_space_adjust() and mptcp_rcvbuf_grow()
void
MptcpSocket::AdjustReceiveBuffer()
{
    const Time roundTrip = *std::min_element(m_receiveRtt.begin(), m_receiveRtt.end());
    if (roundTrip == Time::Max() || Simulator::Now() - m_readSince < roundTrip)
    {
        return;
    }
    if (m_readSpace == 0)
    {
        m_readSpace = INITIAL_SEGMENTS * m_subflows.front()->GetMss();
    }
    const uint32_t read = m_readBytes - std::min(m_readBytes, m_receiveQueue.GetInOrderBytes());
    if (read > m_readSpace)
    {
        double window = 2.0 * read; // what was read is a round trip old
        window += 2.0 * window * (read - m_readSpace) / m_readSpace; // the peer may double its rate
        const double buffer = std::min<double>(window / m_windowRatio, m_receiveBufferMost);
        m_readSpace = read;
        if (buffer > m_receiveBuffer)
        {
            m_receiveBuffer = static_cast<uint32_t>(buffer);
            for (const Ptr<MptcpSubflow>& subflow : m_subflows)
            {
                subflow->GrowReceiveBuffer(read);
            }
        }
    }
    m_readBytes = 0;
    m_readSince = Simulator::Now();
}

void
MptcpSocket::CheckSendFin()
{
    if (!m_shutdownSend || m_finSent || m_sendQueue.GetPending() || m_state == TcpSocket::CLOSED)
    {
        return;
    }
    if (m_fallback)
    {
        m_finSent = true;
        for (const Ptr<MptcpSubflow>& subflow : std::vector(m_subflows))
        {
            subflow->Close();
        }
        CheckFinAcknowledged();
        return;
    }
    m_finSent = true;
    m_sendNext = m_sendQueue.GetEnd() + 1;
    for (const Ptr<MptcpSubflow>& subflow : m_subflows)
    {
        subflow->SendAck();
    }
    if (!m_retransmitEvent.IsPending())
    {
        ResetTimer();
    }
}

void
MptcpSocket::CheckFinAcknowledged()
{
    if (!m_finSent || (!m_fallback && m_sendUnacknowledged != m_sendNext))
    {
        return;
    }
    if (m_state == TcpSocket::FIN_WAIT_1)
    {
        m_state = TcpSocket::FIN_WAIT_2;
    }
    else if (m_state == TcpSocket::CLOSING || m_state == TcpSocket::LAST_ACK)
    {
        Finish();
    }
}

void
MptcpSocket::OnFin(uint64_t dsn)
{
    if (MptcpBefore(dsn, GetDataAck()))
    {
        return; // again
    }
    m_remoteFin = dsn;
    CheckReceivedFin();
}

void
MptcpSocket::CheckReceivedFin()
{
    if (m_remoteFin != GetDataAck() || m_state == TcpSocket::CLOSED)
    {
        return;
    }
    m_remoteFin.reset();
    m_receiveQueue.SkipFin();
    if (!m_fallback)
    {
        for (const Ptr<MptcpSubflow>& subflow : m_subflows)
        {
            subflow->SendAck();
        }
    }
    if (m_state == TcpSocket::ESTABLISHED)
    {
        m_state = TcpSocket::CLOSE_WAIT;
        if (!m_closeNotified)
        {
            m_closeNotified = true;
            NotifyNormalClose();
        }
    }
    else if (m_state == TcpSocket::FIN_WAIT_1)
    {
        m_state = TcpSocket::CLOSING;
        CheckFinAcknowledged();
    }
    else if (m_state == TcpSocket::FIN_WAIT_2)
    {
        Finish();
    }
}

void
MptcpSocket::Finish()
{
    Ptr<MptcpSocket> alive(this);
    m_state = TcpSocket::CLOSED;
    m_retransmitEvent.Cancel();
    m_closeEvent.Cancel();
    MptcpPathManager::StopAnnouncing(m_pathState);
    m_pathManager->RemoveConnection(GetLocalToken());
    for (const Ptr<MptcpSubflow>& subflow : std::vector(m_subflows))
    {
        subflow->Close();
    }
}

void
MptcpSocket::OnFastClose()
{
    Ptr<MptcpSocket> alive(this);
    for (const Ptr<MptcpSubflow>& subflow : std::vector(m_subflows))
    {
        Remove(subflow);
        subflow->Reset(MptcpSubflow::RESET_PROHIBITED);
    }
    Finish();
    if (!m_closeNotified)
    {
        m_closeNotified = true;
        NotifyErrorClose();
    }
}

void
MptcpSocket::OnCloseTimeout()
{
    const bool known = m_closeNotified;
    Abort();
    if (!known)
    {
        NotifyErrorClose();
    }
}

} // namespace ns3
