/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// What MptcpSocket sends, on which subflow, and what it does when no data ACK comes: Linux's
// __mptcp_push_pending(), __mptcp_retrans() and mptcp_pm_chk_stale().

#include "mptcp-coupled-congestion.h"
#include "mptcp-scheduler.h"
#include "mptcp-sequence.h"
#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include "ns3/log.h"
#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("MptcpSocketOutput");

namespace
{

/// How often RTO_MIN is doubled for a DATA_FIN that is not acknowledged (TCP_RTO_MAX, 120 s).
constexpr uint32_t FIN_BACKOFF_MOST = 9;

} // namespace

void
MptcpSocket::PushPending()
{
    if (m_pushing || m_subflows.empty())
    {
        return;
    }
    m_pushing = true;
    bool sent = false;
    while (m_sendQueue.GetPending())
    {
        MptcpScheduler::Choice choice;
        if (m_fallback)
        {
            if (m_subflows.front()->HasSndMemory())
            {
                choice = {{m_subflows.front()}, MptcpScheduler::BURST_BYTES};
            }
        }
        else
        {
            UpdateTimeout();
            choice = m_scheduler->ChooseSend(*this);
            // as the project's kernel patch: the buffer that data wait for may grow
            m_waitsForRoom = m_waitsForRoom || (choice.subflows.empty() && HasFullSubflow());
        }
        if (choice.subflows.empty())
        {
            break;
        }
        m_hold = choice.hold;
        const uint32_t bytes = PushBurst(choice.subflows, choice.burst, choice.isStrict);
        for (const Ptr<MptcpSubflow>& subflow : choice.subflows)
        {
            subflow->PushQueued();
        }
        if (bytes == 0)
        {
            break;
        }
        sent = true;
    }
    m_pushing = false;
    if (sent || m_sendQueue.GetPending())
    {
        if (!m_retransmitEvent.IsPending())
        {
            ResetTimer();
        }
        CheckSendFin();
    }
}

uint32_t
MptcpSocket::PushBurst(const std::vector<Ptr<MptcpSubflow>>& subflows,
                       uint32_t burst,
                       bool isStrict)
{
    MptcpSubflow& first = *subflows.front();
    uint32_t total = 0;
    while (const MptcpSendQueue::Chunk* chunk = m_sendQueue.GetPending())
    {
        const uint64_t dsn = chunk->dsn + chunk->sent;
        uint32_t bytes = chunk->data->GetSize() - chunk->sent;
        if (!m_fallback)
        {
            const uint64_t window = MptcpBefore(dsn, m_windowEnd) ? m_windowEnd - dsn : 0;
            bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, window));
            if (bytes == 0)
            {
                ProbeWindow(first);
                break;
            }
        }
        if (isStrict && burst > total)
        {
            bytes = std::min(bytes, burst - total);
        }
        const bool again = MptcpBefore(dsn, m_sendNext);
        for (const Ptr<MptcpSubflow>& subflow : subflows)
        {
            Queue(*subflow, *chunk, chunk->sent, bytes);
            const bool copy = again || subflow != subflows.front();
            (copy ? m_reinjectTrace : m_sendTrace)(this, subflow, dsn, bytes);
            m_statistics.bytesReinjected += copy ? bytes : 0;
        }
        const bool whole = chunk->sent + bytes == chunk->data->GetSize();
        m_sendQueue.MarkSent(bytes);
        if (MptcpBefore(m_sendNext, dsn + bytes))
        {
            m_sendNext = dsn + bytes;
        }
        total += bytes;
        if ((whole || isStrict) && (total >= burst || !first.HasSndMemory() || !first.IsActive()))
        {
            break;
        }
    }
    return total;
}

void
MptcpSocket::Queue(MptcpSubflow& subflow,
                   const MptcpSendQueue::Chunk& chunk,
                   uint32_t offset,
                   uint32_t bytes)
{
    const bool last = offset + bytes == chunk.data->GetSize();
    Ptr<Packet> piece =
        offset == 0 && last ? chunk.data->Copy() : chunk.data->CreateFragment(offset, bytes);
    subflow.Queue(chunk.dsn + offset, piece, chunk.endOfRecord && last);
}

void
MptcpSocket::ProbeWindow(MptcpSubflow& subflow)
{
    if (m_sendUnacknowledged == m_sendNext && subflow.IsIdle())
    {
        subflow.Queue(m_sendNext - 1, Create<Packet>(1), true);
        subflow.PushQueued();
    }
}

void
MptcpSocket::OnDataAck(uint64_t ack, bool whole, uint32_t window)
{
    uint64_t acked = whole ? ack : MptcpExpand(m_sendUnacknowledged, static_cast<uint32_t>(ack));
    if (MptcpBefore(m_sendNext, acked))
    {
        acked = m_sendUnacknowledged;
    }
    // the window counts from the data ACK of the same segment (RFC 8684 §3.3.1)
    if (MptcpBefore(m_windowEnd, acked + window))
    {
        m_windowEnd = acked + window;
    }
    if (MptcpBefore(m_sendNext, m_windowEnd))
    {
        PushPending();
    }
    if (MptcpBefore(m_sendUnacknowledged, acked))
    {
        m_sendUnacknowledged = acked;
        m_sendQueue.Acknowledge(acked);
        m_finRetries = 0;
        if (acked == m_sendNext && m_sendQueue.IsEmpty())
        {
            m_retransmitEvent.Cancel();
        }
        else
        {
            ResetTimer();
        }
        NotifyRoom();
        CheckFinAcknowledged();
    }
}

void
MptcpSocket::OnPlainAck()
{
    m_sendUnacknowledged = m_sendNext;
    m_sendQueue.Acknowledge(m_sendNext);
    PushPending();
    NotifyRoom();
}

bool
MptcpSocket::HasFullSubflow() const
{
    return std::any_of(m_subflows.begin(), m_subflows.end(), [](const auto& subflow) {
        return subflow->IsActive() && !subflow->HasSndMemory();
    });
}

bool
MptcpSocket::WaitsForRoom() const
{
    return m_waitsForRoom;
}

void
MptcpSocket::NotifyRoom()
{
    if (!m_waitsForRoom)
    {
        return;
    }
    const uint32_t room = GetTxAvailable();
    if (room > 0 && room >= m_sendQueue.GetBytes() / 2) // sk_stream_is_writeable
    {
        m_waitsForRoom = false;
        NotifySend(room);
    }
}

void
MptcpSocket::UpdateTimeout()
{
    Time longest;
    for (const Ptr<MptcpSubflow>& subflow : m_subflows)
    {
        if (subflow->GetStale().count == 0 && subflow->IsActive())
        {
            longest = Max(longest, subflow->GetTimerLeft());
        }
    }
    m_retransmitTimeout = longest.IsStrictlyPositive() ? longest : RTO_MIN;
}

void
MptcpSocket::ResetTimer()
{
    if (m_fallback || m_state == TcpSocket::CLOSED)
    {
        return;
    }
    m_retransmitAt = Simulator::Now() + m_retransmitTimeout;
    if (m_retransmitEvent.IsPending())
    {
        if (TimeStep(m_retransmitEvent.GetTs()) <= m_retransmitAt)
        {
            return; // OnRetransmitTimer() waits for the rest
        }
        m_retransmitEvent.Cancel();
    }
    m_retransmitEvent =
        Simulator::Schedule(m_retransmitTimeout, &MptcpSocket::OnRetransmitTimer, this);
}

void
MptcpSocket::OnRetransmitTimer()
{
    if (Simulator::Now() < m_retransmitAt)
    {
        m_retransmitEvent = Simulator::Schedule(m_retransmitAt - Simulator::Now(),
                                                &MptcpSocket::OnRetransmitTimer,
                                                this);
        return;
    }
    Retransmit();
}

void
MptcpSocket::Retransmit()
{
    ++m_statistics.retransmitTimeouts;
    CheckStale();
    uint64_t dsn = m_sendUnacknowledged;
    while (Ptr<MptcpSubflow> subflow = m_scheduler->ChooseRetransmit(*this))
    {
        const uint32_t bytes = PushAgain(*subflow, dsn);
        if (bytes == 0)
        {
            break;
        }
        dsn += bytes;
    }
    if (m_sendQueue.IsEmpty() && m_finSent)
    {
        m_finRetries = std::min(m_finRetries + 1, FIN_BACKOFF_MOST);
        m_retransmitTimeout = RTO_MIN * (int64_t{1} << m_finRetries);
        for (const Ptr<MptcpSubflow>& subflow : m_subflows)
        {
            subflow->SendAck();
        }
    }
    PushPending();
    if (!m_sendQueue.IsEmpty() || m_finSent)
    {
        ResetTimer();
    }
}

uint32_t
MptcpSocket::PushAgain(MptcpSubflow& subflow, uint64_t dsn)
{
    uint32_t total = 0;
    while (total < MptcpSendQueue::CHUNK_BYTES)
    {
        const MptcpSendQueue::Chunk* chunk = m_sendQueue.GetSentFrom(dsn + total);
        if (!chunk)
        {
            break;
        }
        const auto offset = static_cast<uint32_t>(dsn + total - chunk->dsn);
        const uint32_t bytes = chunk->sent - offset;
        Queue(subflow, *chunk, offset, bytes);
        m_reinjectTrace(this, &subflow, dsn + total, bytes);
        m_statistics.bytesReinjected += bytes;
        total += bytes;
        if (chunk->sent < chunk->data->GetSize())
        {
            break;
        }
    }
    if (total > 0)
    {
        ++m_statistics.retransmittedChunks;
        subflow.PushQueued();
    }
    return total;
}

void
MptcpSocket::CheckStale()
{
    for (const Ptr<MptcpSubflow>& subflow : std::vector(m_subflows))
    {
        if (!subflow->IsUsable())
        {
            continue;
        }
        MptcpSubflow::Stale& state = subflow->GetStale();
        if (subflow->IsIdle())
        {
            state.count = 0; // all that it was given is acknowledged
        }
        else if (state.count == 0)
        {
            state.lastReceived = subflow->GetLastReceived();
            ++state.count;
        }
        else if (state.lastReceived == subflow->GetLastReceived())
        {
            ++state.count;
            MarkStale(*subflow);
        }
        else
        {
            state.count = 0;
            state.isStale = false;
        }
    }
}

void
MptcpSocket::MarkStale(MptcpSubflow& stuck)
{
    const uint32_t most = m_pathManager->GetStaleLossCount();
    if (stuck.GetStale().isStale || most == 0 || stuck.GetStale().count <= most)
    {
        return;
    }
    for (const Ptr<MptcpSubflow>& other : m_subflows)
    {
        if (PeekPointer(other) != &stuck && other->IsActive() &&
            other->GetStale().count < std::max(most - 1, 1U))
        {
            NS_LOG_INFO("subflow " << stuck.GetId() << " is stale");
            stuck.GetStale().isStale = true;
            ++m_statistics.staleSubflows;
            m_subflowStale(this, &stuck);
            Reinject();
            PushPending();
            return;
        }
    }
}

void
MptcpSocket::Reinject()
{
    if (!m_fallback && !m_sendQueue.IsEmpty())
    {
        m_sendQueue.Restart();
    }
}

} // namespace ns3
