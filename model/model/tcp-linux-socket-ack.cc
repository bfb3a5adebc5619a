/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// What ACKs do to TcpLinuxSocket: Linux's tcp_ack() and tcp_recovery.c. RFC 8985 (RACK-TLP), RFC
// 6937 (PRR), RFC 5682 (F-RTO).

#include "tcp-linux-congestion.h"
#include "tcp-linux-socket.h"

#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/tcp-congestion-ops.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-option-sack.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpLinuxSocketAck");

namespace
{

constexpr uint32_t RACK_PERSIST = 16;     // TCP_RACK_RECOVERY_THRESH
const Time TIMEOUT_MIN = MilliSeconds(2); // TCP_TIMEOUT_MIN_US

/**
 * A time as Linux takes it, from two stamps in whole microseconds (tcp_stamp_us_delta(),
 * tcp_skb_timestamp_us()). To cut the difference instead makes each sample half a microsecond too
 * short, which decides in tcp_tso_should_defer() on paths of 0.1 ms.
 * @param a a time, < 0: none
 * @param b another
 * @return the time since, < 0: none
 */
Time
Since(Time a, Time b)
{
    return a.IsNegative() ? Time(-1) : MicroSeconds(b.GetMicroSeconds() - a.GetMicroSeconds());
}

} // namespace

void
TcpLinuxSocket::SetCongState(TcpSocketState::TcpCongState_t state)
{
    m_congestionControl->CongestionStateSet(m_tcb, state);
    m_tcb->m_congState = state;
}

bool
TcpLinuxSocket::InReduction() const
{
    auto state = m_tcb->m_congState.Get();
    return state == TcpSocketState::CA_CWR || state == TcpSocketState::CA_RECOVERY;
}

void
TcpLinuxSocket::SetCwnd(uint32_t packets)
{
    m_tcb->m_cWnd = std::max(packets, 1U) * m_tcb->m_segmentSize;
    m_tcb->m_cWndInfl = m_tcb->m_cWnd.Get();
}

uint32_t
TcpLinuxSocket::GetThreshold() const
{
    return m_tcb->GetSsThreshInSegments();
}

uint32_t
TcpLinuxSocket::GetCurrentThreshold() const
{
    uint32_t window = GetCwndPackets();
    return InReduction() ? GetThreshold() : std::max(GetThreshold(), window / 2 + window / 4);
}

// tcp_any_retrans_done()
bool
TcpLinuxSocket::AnyResent()
{
    auto& queue = m_out->GetSent();
    return m_out->GetResentOut() > 0 || (!queue.empty() && queue.begin()->second.everResent);
}

bool
TcpLinuxSocket::UpdateWindow(const TcpHeader& header, uint64_t ack, uint64_t seq)
{
    uint64_t window = uint64_t(header.GetWindowSize()) << m_sndWindShift;
    if (ack <= m_out->GetUna() && seq <= m_wndSeq &&
        (seq != m_wndSeq || (window <= m_sndWnd && window > 0)))
    {
        return false;
    }
    m_wndSeq = seq;
    if (m_sndWnd != window)
    {
        m_sndWnd = window;
        m_rWnd = window;
        m_maxWindow = std::max(m_maxWindow, window);
        if (m_out->GetHead())
        {
            if (m_out->GetPacketsOut() == 0)
            {
                CheckIdle();
            }
        }
    }
    return true;
}

// tcp_ack()
void
TcpLinuxSocket::ProcessAck(Ptr<const Packet> packet, const TcpHeader& header)
{
    uint64_t una = m_out->GetUna();
    uint64_t ack = FromWire(header.GetAckNumber(), una);
    uint64_t seq = FromWire(header.GetSequenceNumber(), m_in->GetNext());
    AckFlags flags;
    Resend resend = RESEND_NONE;
    TcpLinuxSendQueue::AckResult acked;
    TcpLinuxSendQueue::AckResult sacked;
    if (ack > m_out->GetNext())
    {
        SendAck(); // of data never sent
        return;
    }
    if (ack < una)
    {
        ReadSack(header, una, flags, sacked); // an old ACK may bring news
        if (flags.sacked || flags.dsack)
        {
            m_delivered += sacked.delivered;
            FastRetransmitAlert(una, flags, resend);
            if (resend == RESEND_LOST)
            {
                RetransmitLost();
            }
        }
        return;
    }

    uint64_t lostBefore = m_out->GetLost();
    uint64_t deliveredBefore = m_delivered;
    uint32_t outBefore = m_out->GetPacketsOut();
    uint32_t sackedBefore = m_out->GetSackedOut();
    uint32_t inFlightBefore = m_out->GetInFlight();
    uint64_t highestBefore = m_out->GetHighestSack();
    bool full = m_out->GetMemory() >= m_sndBuf;
    flags.advanced = ack > una;
    flags.data = packet->GetSize() > 0 || (header.GetFlags() & TcpHeader::FIN);
    flags.ece = (header.GetFlags() & TcpHeader::ECE) != 0 &&
                m_tcb->m_ecnState != TcpSocketState::ECN_DISABLED;
    if (flags.advanced)
    {
        m_retransmits = 0;
    }
    flags.window = UpdateWindow(header, ack, seq);
    ReadSack(header, una, flags, sacked);
    if (outBefore == 0)
    {
        if (flags.dsack)
        {
            FastRetransmitAlert(una, flags, resend);
        }
        if (m_out->GetHead() && m_out->GetHead()->seq < GetWindowEnd())
        {
            m_backoff = 0;
            m_persistEvent.Cancel();
        }
        if (m_probeOut)
        {
            ProbeAcked(ack, flags);
        }
        return;
    }

    m_noSpace = m_noSpace || full;
    CleanQueue(ack, una, highestBefore, flags, acked, sacked);
    bool sampled = acked.anyDelivered || sacked.anyDelivered;
    if (sampled)
    {
        UpdateReorderWindow(std::max(acked.newest.delivered, sacked.newest.delivered));
    }
    // a lone runt that was acknowledged late says nothing of the path
    flags.maybeDelayed = flags.maybeDelayed && sackedBefore == 0;
    if (m_probeOut)
    {
        ProbeAcked(ack, flags);
    }
    bool notDup = flags.data || flags.window || flags.acked;
    bool alert = flags.sacked || flags.ece || flags.dsack;
    if (!notDup || alert || m_tcb->m_congState != TcpSocketState::CA_OPEN)
    {
        FastRetransmitAlert(una, flags, resend);
    }
    if (flags.setTimer)
    {
        if (m_out->GetPacketsOut() == 0 || !ScheduleProbe(true))
        {
            RearmRto();
        }
    }
    uint32_t delivered = m_delivered - deliveredBefore;
    uint32_t lost = m_out->GetLost() - lostBefore;
    m_tcb->m_bytesInFlight = m_out->GetInFlight() * m_tcb->m_segmentSize;
    ControlCongestion(flags, delivered, lost, acked, sacked, inFlightBefore);

    if (resend == RESEND_NEW)
    {
        WriteXmit(false, false, 0);
        if (m_out->GetNext() <= m_highSeq)
        {
            m_frto = false;
            resend = RESEND_LOST;
        }
    }
    if (resend == RESEND_LOST)
    {
        RetransmitLost();
    }
    if (m_finQueued && m_out->GetUna() == m_out->GetWriteSeq())
    {
        FinAcked();
    }
}

// tcp_check_dsack() and tcp_dsack_seen()
bool
TcpLinuxSocket::ReadDsack(uint64_t start, uint64_t end, uint64_t priorUna, AckFlags& flags)
{
    uint32_t mss = m_tcb->m_segmentSize;
    uint32_t segments = TcpLinuxSendQueue::CountSegments(end - start, mss);
    if (end - start > m_maxWindow)
    {
        return false;
    }
    if (end - start <= mss && m_probeOut && m_probeEnd == end)
    {
        flags.dsackTlp = true;
    }
    m_dsackDups += segments;
    if (m_dsackDups > m_totalRetransmits)
    {
        return true; // the network doubles packets
    }
    if (m_reorderSeen && !flags.dsackTlp)
    {
        m_rackDsack = true;
    }
    flags.dsack = true;
    m_delivered += segments;
    if (m_undoPossible && m_undoRetrans > 0 && end > m_undoMarker && end <= priorUna)
    {
        m_undoRetrans = std::max<int64_t>(0, m_undoRetrans - segments);
    }
    return true;
}

// tcp_sacktag_write_queue()
void
TcpLinuxSocket::ReadSack(const TcpHeader& header,
                         uint64_t priorUna,
                         AckFlags& flags,
                         TcpLinuxSendQueue::AckResult& result)
{
    auto option = DynamicCast<const TcpOptionSack>(header.GetOption(TcpOption::SACK));
    if (!option || !m_sackEnabled)
    {
        return;
    }
    std::vector<TcpLinuxReceiveQueue::Range> blocks;
    uint64_t una = m_out->GetUna();
    for (const auto& [start, end] : option->GetSackList())
    {
        blocks.emplace_back(FromWire(start, una), FromWire(end, una));
    }
    uint64_t ack = FromWire(header.GetAckNumber(), una);
    uint32_t mss = GetCurrentMss();
    auto delivered = MakeCallback(&TcpLinuxSocket::AdvanceRack, this);
    for (std::size_t i = 0; i < blocks.size(); ++i)
    {
        auto [start, end] = blocks[i];
        bool dsack = false;
        if (i == 0 && start < end)
        {
            bool inside = blocks.size() > 1 && start >= blocks[1].first && end <= blocks[1].second;
            if (start < ack || inside)
            {
                dsack = ReadDsack(start, end, priorUna, flags);
                if (dsack && inside && m_undoPossible && m_undoRetrans > 0)
                {
                    uint32_t resent = m_out->Dsack(start, end, m_undoMarker);
                    m_undoRetrans = std::max<int64_t>(0, m_undoRetrans - resent);
                }
            }
        }
        if (dsack || start >= end || end > m_out->GetNext() || end <= una)
        {
            continue;
        }
        m_out->Sack(std::max(start, una), end, mss, m_highSeq, delivered, result);
    }
    flags.sacked = result.delivered > 0;
    flags.originalAcked = result.originalAcked;
    m_delivered += result.delivered;
    if (result.anyDelivered)
    {
        m_deliveredTime = Simulator::Now();
    }
    if (result.reordered < m_out->GetHighestSack())
    {
        CheckReordering(result.reordered);
    }
}

// tcp_clean_rtx_queue()
void
TcpLinuxSocket::CleanQueue(uint64_t ack,
                           uint64_t priorUna,
                           uint64_t priorHighest,
                           AckFlags& flags,
                           TcpLinuxSendQueue::AckResult& acked,
                           const TcpLinuxSendQueue::AckResult& sacked)
{
    Time now = Simulator::Now();
    m_out->Acknowledge(ack,
                       GetCurrentMss(),
                       m_highSeq,
                       MakeCallback(&TcpLinuxSocket::AdvanceRackAcked, this),
                       acked);
    m_tcb->m_lastAckedSeq = ToWire(ack);
    m_highRxAckMark = ToWire(ack);
    m_delivered += acked.delivered;
    if (acked.anyDelivered)
    {
        m_deliveredTime = now;
    }
    if (m_appLimited > 0 && m_delivered > m_appLimited)
    {
        m_appLimited = 0;
    }
    flags.acked = acked.acked > 0;
    m_freed = m_freed || flags.acked;
    flags.originalAcked = flags.originalAcked || acked.originalAcked;

    Time smoothed(-1);
    Time exact(-1);
    if (!acked.firstSent.IsNegative() && !acked.resentAcked)
    {
        smoothed = Since(acked.firstSent, now);
        exact = Since(acked.lastSent, now);
        flags.maybeDelayed = acked.acked == 1 && ack - priorUna < m_tcb->m_segmentSize &&
                             acked.newest.delivered + 1 == m_delivered && !flags.sacked &&
                             !flags.ece && !flags.dsack;
    }
    Time sackTime = Since(sacked.firstSent, now);
    if (!sackTime.IsNegative())
    {
        exact = Since(sacked.lastSent, now);
        if (smoothed.IsNegative())
        {
            smoothed = sackTime;
        }
    }
    if (smoothed.IsNegative() && m_timestampEnabled && m_tsEcho != 0 && flags.acked)
    {
        int64_t elapsed = now.GetMilliSeconds() - int64_t(m_tsEcho);
        smoothed = exact = MilliSeconds(std::max<int64_t>(elapsed, 1));
    }
    UpdateRtt(flags, smoothed, exact);

    if (flags.acked)
    {
        flags.setTimer = true;
        if (acked.reordered < priorHighest)
        {
            CheckReordering(acked.reordered);
        }
    }
    else if (!m_out->GetSent().empty() && !sackTime.IsNegative() &&
             sackTime > Since(m_out->GetSent().begin()->second.sent, now))
    {
        flags.setTimer = true; // the sample is of data sent before the first packet was resent
    }
    m_congestionControl->PktsAcked(m_tcb, acked.acked, exact.IsNegative() ? Time(0) : exact);
}

// tcp_ack_update_rtt()
void
TcpLinuxSocket::UpdateRtt(const AckFlags& flags, Time smoothed, Time exact)
{
    if (smoothed.IsNegative())
    {
        return;
    }
    if (!flags.maybeDelayed || exact <= m_rttLinux.GetMin())
    {
        m_rttLinux.AddMinSample(exact);
    }
    m_rttLinux.AddSample(smoothed, m_out->GetUna(), m_out->GetNext());
    m_rtoNow = Min(m_rttLinux.GetRto(), m_rtoMax);
    m_rto = m_rtoNow;
    m_backoff = 0;
    m_tcb->m_srtt = m_rttLinux.GetSmoothed();
    m_tcb->m_lastRtt = exact;
    m_tcb->m_minRtt = m_rttLinux.GetMin();
}

// tcp_check_sack_reordering()
void
TcpLinuxSocket::CheckReordering(uint64_t low)
{
    uint64_t highest = m_out->GetHighestSack();
    if (low >= highest)
    {
        return;
    }
    uint64_t mss = m_tcb->m_segmentSize;
    uint64_t distance = highest - low;
    if (distance > m_reordering * mss)
    {
        m_reordering = std::min<uint64_t>((distance + mss - 1) / mss, m_maxReordering);
    }
    m_reorderSeen = true;
}

// tcp_rack_advance()
void
TcpLinuxSocket::AdvanceRack(const TcpLinuxSkb& skb)
{
    Time rtt = Since(skb.sent, Simulator::Now());
    if (skb.everResent && rtt < m_rttLinux.GetMin())
    {
        return; // what was delivered may be the original
    }
    m_rackAdvanced = true;
    m_rackRtt = rtt;
    if (skb.sent > m_rackSent || (skb.sent == m_rackSent && skb.end > m_rackEnd))
    {
        m_rackSent = skb.sent;
        m_rackEnd = skb.end;
    }
}

void
TcpLinuxSocket::AdvanceRackAcked(const TcpLinuxSkb& skb)
{
    bool spurious = skb.everResent && m_timestampEnabled && m_tsEcho != 0 &&
                    int64_t(m_tsEcho) < skb.sent.GetMilliSeconds();
    if (!spurious)
    {
        AdvanceRack(skb);
    }
}

// tcp_rack_update_reo_wnd()
void
TcpLinuxSocket::UpdateReorderWindow(uint64_t priorDelivered)
{
    if (priorDelivered < m_rackDelivered)
    {
        m_rackDsack = false; // changed less than a round trip ago
    }
    if (m_rackDsack)
    {
        m_rackSteps = std::min(255U, m_rackSteps + 1);
        m_rackDsack = false;
        m_rackDelivered = m_delivered;
        m_rackPersist = RACK_PERSIST;
    }
    else if (m_rackPersist == 0)
    {
        m_rackSteps = 1;
    }
}

// tcp_rack_reo_wnd()
Time
TcpLinuxSocket::GetReorderWindow() const
{
    if (!m_reorderSeen && (m_tcb->m_congState >= TcpSocketState::CA_RECOVERY ||
                           m_out->GetSackedOut() >= m_reordering))
    {
        return Time(0);
    }
    Time least = m_rttLinux.GetMin();
    Time smoothed = m_rttLinux.GetSmoothed();
    if (least == Time::Max())
    {
        return smoothed;
    }
    return Min(MicroSeconds((least.GetMicroSeconds() >> 2) * m_rackSteps), smoothed);
}

// tcp_rack_detect_loss(). Returns how long to wait for packets that may still come, 0: not.
Time
TcpLinuxSocket::DetectLoss()
{
    Time window = GetReorderWindow();
    Time now = Simulator::Now();
    Time wait(0);
    auto& queue = m_out->GetByTime();
    for (auto it = queue.begin(); it != queue.end();)
    {
        auto skb = *it++;
        if (skb->sent > m_rackSent || (skb->sent == m_rackSent && skb->end >= m_rackEnd))
        {
            break;
        }
        Time remaining = m_rackRtt + window - Since(skb->sent, now);
        if (!remaining.IsStrictlyPositive())
        {
            if (m_out->GetResentOut() >= m_out->GetLostOut() || skb->seq < m_resendHint)
            {
                m_resendHint = std::min(m_resendHint, skb->seq);
            }
            m_out->MarkLost(*skb);
        }
        else
        {
            wait = Max(wait, remaining);
        }
    }
    return wait;
}

// tcp_identify_packet_loss() and tcp_rack_mark_lost()
void
TcpLinuxSocket::IdentifyLoss(AckFlags& flags)
{
    if (m_out->GetSent().empty() || !m_rackAdvanced)
    {
        return;
    }
    m_rackAdvanced = false;
    uint32_t resent = m_out->GetResentOut();
    Time wait = DetectLoss();
    if (wait.IsStrictlyPositive())
    {
        SetTimer(TIMER_REORDER, Min(wait + TIMEOUT_MIN, m_rtoNow));
        flags.setTimer = false;
    }
    flags.lostResent = resent > m_out->GetResentOut();
}

// tcp_rack_reo_timeout()
void
TcpLinuxSocket::ReorderTimeout()
{
    uint32_t inFlight = m_out->GetInFlight();
    uint64_t lost = m_out->GetLost();
    DetectLoss();
    if (m_out->GetInFlight() != inFlight)
    {
        if (m_tcb->m_congState != TcpSocketState::CA_RECOVERY)
        {
            EnterRecovery(false);
            if (!m_congestionControl->HasCongControl())
            {
                ReduceCwnd(1, m_out->GetLost() - lost, false);
            }
        }
        RetransmitLost();
    }
    if (m_timer != TIMER_RTO)
    {
        RearmRto();
    }
}

// tcp_process_tlp_ack()
void
TcpLinuxSocket::ProbeAcked(uint64_t ack, const AckFlags& flags)
{
    if (ack < m_probeEnd)
    {
        return;
    }
    bool notDup = flags.data || flags.window || flags.acked;
    if (!m_probeResent || flags.dsackTlp)
    {
        m_probeOut = false;
    }
    else if (ack > m_probeEnd)
    {
        InitReduction(); // the probe repaired a loss, which is a sign of congestion
        SetCongState(TcpSocketState::CA_CWR);
        EndReduction();
        TryKeepOpen();
    }
    else if (!flags.advanced && !notDup && !flags.sacked)
    {
        m_probeOut = false;
    }
}

void
TcpLinuxSocket::InitUndo()
{
    m_undoMarker = m_out->GetUna();
    m_undoPossible = true;
    m_undoRetrans = m_out->GetResentOut() + (m_probeOut && m_probeResent ? 1 : 0);
    if (m_undoRetrans == 0)
    {
        m_undoRetrans = -1; // 0 says that all that was resent was so without need
    }
}

// tcp_packet_delayed()
bool
TcpLinuxSocket::PacketDelayed() const
{
    if (!m_resentStamp)
    {
        return true;
    }
    return m_timestampEnabled && m_tsEcho != 0 && int32_t(m_tsEcho - *m_resentStamp) < 0;
}

bool
TcpLinuxSocket::MayUndo() const
{
    return m_undoPossible && (m_undoRetrans == 0 || PacketDelayed());
}

void
TcpLinuxSocket::UndoReduction(bool unmark)
{
    if (unmark)
    {
        m_out->UnmarkLost();
        m_resendHint = 0;
    }
    if (m_priorThreshold > 0)
    {
        auto congestion = ShowCongestion(false);
        if (!congestion || !congestion->Undo())
        {
            SetCwnd(std::max(GetCwndPackets(), m_priorCwnd));
        }
        if (m_priorThreshold > GetThreshold())
        {
            uint64_t bytes = uint64_t(m_priorThreshold) * m_tcb->m_segmentSize;
            m_tcb->m_ssThresh = std::min<uint64_t>(bytes, UINT32_MAX);
        }
    }
    m_cwndStamp = Simulator::Now();
    m_undoPossible = false;
    m_rackAdvanced = true;
}

void
TcpLinuxSocket::TryUndoRecovery()
{
    if (MayUndo())
    {
        UndoReduction(false);
    }
    else if (m_rackPersist > 0)
    {
        --m_rackPersist;
    }
    SetCongState(TcpSocketState::CA_OPEN);
}

bool
TcpLinuxSocket::TryUndoDsack()
{
    if (!m_undoPossible || m_undoRetrans != 0)
    {
        return false;
    }
    m_rackPersist = std::min(RACK_PERSIST, m_rackPersist + 1);
    UndoReduction(false);
    return true;
}

bool
TcpLinuxSocket::TryUndoLoss(bool frto)
{
    if (!frto && !MayUndo())
    {
        return false;
    }
    UndoReduction(true);
    m_retransmits = 0;
    if (frto || m_sackEnabled)
    {
        SetCongState(TcpSocketState::CA_OPEN);
    }
    return true;
}

bool
TcpLinuxSocket::TryUndoPartial(uint64_t priorUna)
{
    if (!m_undoPossible || !PacketDelayed())
    {
        return false;
    }
    CheckReordering(priorUna); // the hole was filled by the original
    if (m_out->GetResentOut() > 0)
    {
        return true;
    }
    if (!AnyResent())
    {
        m_resentStamp.reset();
    }
    UndoReduction(true);
    TryKeepOpen();
    return false;
}

void
TcpLinuxSocket::TryKeepOpen()
{
    bool left = m_out->GetSackedOut() + m_out->GetLostOut() > 0 || AnyResent();
    auto state = left ? TcpSocketState::CA_DISORDER : TcpSocketState::CA_OPEN;
    if (m_tcb->m_congState != state)
    {
        SetCongState(state);
        m_highSeq = m_out->GetNext();
    }
}

void
TcpLinuxSocket::TryToOpen(const AckFlags& flags)
{
    if (!AnyResent())
    {
        m_resentStamp.reset();
    }
    if (flags.ece)
    {
        EnterCwr();
    }
    if (m_tcb->m_congState != TcpSocketState::CA_CWR)
    {
        TryKeepOpen();
    }
}

void
TcpLinuxSocket::InitReduction()
{
    m_highSeq = m_out->GetNext();
    m_probeOut = false;
    m_priorCwnd = GetCwndPackets();
    m_prrDelivered = 0;
    m_prrOut = 0;
    m_tcb->m_ssThresh =
        m_congestionControl->GetSsThresh(m_tcb, m_out->GetInFlight() * m_tcb->m_segmentSize);
    m_ecnReduced = m_tcb->m_ecnState != TcpSocketState::ECN_DISABLED;
}

// tcp_cwnd_reduction(): proportional rate reduction
void
TcpLinuxSocket::ReduceCwnd(uint32_t delivered, uint32_t lost, bool advanced)
{
    if (delivered == 0)
    {
        return;
    }
    int64_t inFlight = m_out->GetInFlight();
    int64_t delta = int64_t(GetThreshold()) - inFlight;
    int64_t send;
    m_prrDelivered += delivered;
    if (delta < 0)
    {
        uint64_t share = uint64_t(GetThreshold()) * m_prrDelivered + m_priorCwnd - 1;
        send = int64_t(share / m_priorCwnd) - m_prrOut;
    }
    else
    {
        send = std::max<int64_t>(int64_t(m_prrDelivered) - m_prrOut, delivered);
        send += advanced && lost == 0 ? 1 : 0;
        send = std::min(delta, send);
    }
    send = std::max<int64_t>(send, m_prrOut > 0 ? 0 : 1); // the first retransmission goes at once
    SetCwnd(inFlight + send);
}

void
TcpLinuxSocket::EndReduction()
{
    if (m_congestionControl->HasCongControl())
    {
        return;
    }
    if (m_tcb->m_ssThresh < UINT32_MAX &&
        (m_tcb->m_congState == TcpSocketState::CA_CWR || m_undoPossible))
    {
        SetCwnd(GetThreshold());
        m_cwndStamp = Simulator::Now();
    }
    m_congestionControl->CwndEvent(m_tcb, TcpSocketState::CA_EVENT_COMPLETE_CWR);
}

void
TcpLinuxSocket::EnterCwr()
{
    m_priorThreshold = 0;
    if (m_tcb->m_congState < TcpSocketState::CA_CWR)
    {
        m_undoPossible = false;
        InitReduction();
        SetCongState(TcpSocketState::CA_CWR);
    }
}

void
TcpLinuxSocket::EnterRecovery(bool ece)
{
    if (!AnyResent())
    {
        m_resentStamp.reset();
    }
    m_priorThreshold = 0;
    InitUndo();
    if (!InReduction())
    {
        if (!ece)
        {
            m_priorThreshold = GetCurrentThreshold();
        }
        InitReduction();
    }
    SetCongState(TcpSocketState::CA_RECOVERY);
}

// tcp_enter_loss()
void
TcpLinuxSocket::EnterLoss()
{
    auto state = m_tcb->m_congState.Get();
    bool fresh = state < TcpSocketState::CA_RECOVERY;
    auto& queue = m_out->GetSent();
    if (!queue.empty() && queue.begin()->second.sacked)
    {
        m_out->ForgetSacks(); // the receiver dropped what it had reported
    }
    Time now = Simulator::Now();
    for (auto it = queue.begin(); it != queue.end(); ++it)
    {
        auto& skb = it->second;
        bool recent = m_rackRtt > Since(skb.sent, now);
        if (it == queue.begin() || !recent)
        {
            m_out->MarkLost(skb);
        }
    }
    m_resendHint = 0;

    if (state <= TcpSocketState::CA_DISORDER || m_highSeq <= m_out->GetUna() ||
        (state == TcpSocketState::CA_LOSS && m_retransmits == 0))
    {
        m_priorThreshold = GetCurrentThreshold();
        m_priorCwnd = GetCwndPackets();
        m_tcb->m_ssThresh =
            m_congestionControl->GetSsThresh(m_tcb, m_out->GetInFlight() * m_tcb->m_segmentSize);
        m_congestionControl->CwndEvent(m_tcb, TcpSocketState::CA_EVENT_LOSS);
        InitUndo();
    }
    SetCwnd(m_out->GetInFlight() + 1);
    m_cwndStamp = now;
    if (state <= TcpSocketState::CA_DISORDER && m_out->GetSackedOut() >= m_initialReordering)
    {
        m_reordering = std::min(m_reordering, m_initialReordering);
    }
    SetCongState(TcpSocketState::CA_LOSS);
    m_highSeq = m_out->GetNext();
    m_probeOut = false;
    m_frto = m_frtoEnabled && (fresh || m_retransmits > 0);
}

// tcp_process_loss()
void
TcpLinuxSocket::ProcessLossState(const AckFlags& flags, Resend& resend)
{
    bool recovered = m_out->GetUna() >= m_highSeq;
    if (flags.advanced && TryUndoLoss(false))
    {
        return;
    }
    if (m_frto)
    {
        bool notDup = flags.data || flags.window || flags.acked;
        if (flags.originalAcked && TryUndoLoss(true))
        {
            return; // what was not resent has arrived: the time-out was spurious
        }
        if (m_out->GetNext() > m_highSeq)
        {
            if (flags.sacked || (!flags.advanced && !notDup && !flags.dsack))
            {
                m_frto = false; // the loss was real
            }
        }
        else if (flags.advanced && !recovered)
        {
            m_highSeq = m_out->GetNext();
            if (m_out->GetHead() && GetWindowEnd() > m_out->GetNext())
            {
                resend = RESEND_NEW;
                return;
            }
            m_frto = false;
        }
    }
    if (recovered)
    {
        TryUndoRecovery();
        return;
    }
    resend = RESEND_LOST;
}

// tcp_fastretrans_alert()
void
TcpLinuxSocket::FastRetransmitAlert(uint64_t priorUna, AckFlags& flags, Resend& resend)
{
    if (flags.ece)
    {
        m_priorThreshold = 0;
    }
    auto state = m_tcb->m_congState.Get();
    if (state == TcpSocketState::CA_OPEN)
    {
        m_resentStamp.reset();
    }
    else if (m_out->GetUna() >= m_highSeq)
    {
        if (state == TcpSocketState::CA_CWR && m_out->GetUna() != m_highSeq)
        {
            EndReduction();
            SetCongState(TcpSocketState::CA_OPEN);
        }
        else if (state == TcpSocketState::CA_RECOVERY)
        {
            TryUndoRecovery();
            EndReduction();
        }
    }

    switch (m_tcb->m_congState.Get())
    {
    case TcpSocketState::CA_RECOVERY:
        if (flags.advanced && TryUndoPartial(priorUna))
        {
            return;
        }
        if (TryUndoDsack())
        {
            TryToOpen(flags);
        }
        IdentifyLoss(flags);
        if (m_tcb->m_congState != TcpSocketState::CA_RECOVERY)
        {
            if (m_out->GetLostOut() == 0)
            {
                return;
            }
            EnterRecovery(flags.ece);
        }
        break;
    case TcpSocketState::CA_LOSS:
        ProcessLossState(flags, resend);
        IdentifyLoss(flags);
        if (m_tcb->m_congState != TcpSocketState::CA_OPEN && !flags.lostResent)
        {
            return;
        }
        [[fallthrough]];
    default:
        if (m_tcb->m_congState <= TcpSocketState::CA_DISORDER)
        {
            TryUndoDsack();
        }
        IdentifyLoss(flags);
        if (m_out->GetLostOut() == 0)
        {
            TryToOpen(flags);
            return;
        }
        EnterRecovery(flags.ece);
    }
    resend = RESEND_LOST;
}

// tcp_update_pacing_rate()
void
TcpLinuxSocket::UpdatePacing()
{
    uint64_t window = GetCwndPackets();
    uint64_t rate = uint64_t(m_tcb->m_segmentSize) * std::max<uint64_t>(window, GetPacketsOut());
    rate *= window < GetThreshold() / 2 ? m_pacingSsRatio : m_pacingCaRatio;
    rate *= 8 * 1000000 / 100;
    if (m_rttLinux.HasSample())
    {
        rate /= m_rttLinux.GetSmoothedEighths();
    }
    m_pacingBytes = rate;
    m_tcb->m_pacingRate = DataRate(rate * 8);
}

// A rate that the congestion control has set.
void
TcpLinuxSocket::TakePacingRate()
{
    m_pacingBytes = m_tcb->m_pacingRate.Get().GetBitRate() / 8;
}

// Show the state of the socket to a congestion control that wants to know it.
Ptr<TcpLinuxCongestion>
TcpLinuxSocket::ShowCongestion(bool ackDelayed)
{
    auto congestion = DynamicCast<TcpLinuxCongestion>(m_congestionControl);
    if (congestion)
    {
        congestion->SetSocketView({m_nextPaced, m_appLimited > 0, ackDelayed});
    }
    return congestion;
}

// tcp_rate_check_app_limited(), when the application writes. MPTCP doesn't ask, so each sample of a
// subflow counts.
void
TcpLinuxSocket::CheckAppLimited()
{
    if (m_ready && GetUnsent() < m_tcb->m_segmentSize && m_out->GetInFlight() < GetCwndPackets() &&
        m_out->GetLostOut() <= m_out->GetResentOut())
    {
        MarkAppLimited();
    }
}

// Rate samples of what is in flight are of the application, not of the path.
void
TcpLinuxSocket::MarkAppLimited()
{
    m_appLimited = std::max<uint64_t>(m_delivered + m_out->GetInFlight(), 1);
}

// tcp_rate_skb_delivered() and tcp_rate_gen(). A packet counts as a whole segment, as in Linux.
TcpRateOps::TcpRateSample
TcpLinuxSocket::SampleRate(const TcpLinuxSendQueue::AckResult& acked,
                           const TcpLinuxSendQueue::AckResult& sacked)
{
    TcpRateOps::TcpRateSample sample;
    if (!acked.anyDelivered && !sacked.anyDelivered)
    {
        return sample;
    }
    const bool fromSack = sacked.anyDelivered &&
                          (!acked.anyDelivered || sacked.newest.delivered > acked.newest.delivered);
    const TcpLinuxSkb& newest = fromSack ? sacked.newest : acked.newest;
    m_firstSent = newest.sent;
    const uint64_t mss = m_tcb->m_segmentSize;
    sample.m_isAppLimited = newest.appLimited;
    sample.m_priorDelivered = newest.delivered * mss;
    sample.m_priorTime = newest.deliveredTime;
    sample.m_sendElapsed = newest.sent - newest.firstSent;
    sample.m_ackElapsed = Simulator::Now() - newest.deliveredTime;
    sample.m_delivered = (m_delivered - newest.delivered) * mss;
    sample.m_interval = Max(sample.m_sendElapsed, sample.m_ackElapsed);
    if (sample.m_interval < m_rttLinux.GetMin())
    {
        sample.m_interval = Time(0);
        sample.m_priorTime = Time(0);
        return sample;
    }
    const double rate = sample.m_delivered / sample.m_interval.GetSeconds();
    sample.m_deliveryRate = DataRate(rate * 8.0);
    if (!sample.m_isAppLimited || rate >= m_deliveryRate)
    {
        m_deliveryRate = rate;
    }
    return sample;
}

// tcp_cong_control()
void
TcpLinuxSocket::ControlCongestion(const AckFlags& flags,
                                  uint32_t delivered,
                                  uint32_t lost,
                                  const TcpLinuxSendQueue::AckResult& acked,
                                  const TcpLinuxSendQueue::AckResult& sacked,
                                  uint32_t priorInFlight)
{
    uint32_t mss = m_tcb->m_segmentSize;
    m_tcb->m_lastAckedSackedBytes = delivered * mss;
    m_tcb->m_isCwndLimited = IsCwndLimited();
    TcpRateOps::TcpRateSample sample = SampleRate(acked, sacked);
    if (m_congestionControl->HasCongControl())
    {
        TcpRateOps::TcpRateConnection connection;
        connection.m_delivered = m_delivered * mss;
        connection.m_deliveredTime = m_deliveredTime;
        connection.m_firstSentTime = m_firstSent;
        connection.m_txItemDelivered = sample.m_priorDelivered;
        sample.m_bytesLoss = lost * mss;
        sample.m_priorInFlight = priorInFlight * mss;
        sample.m_ackedSacked = m_tcb->m_lastAckedSackedBytes;
        auto congestion = ShowCongestion(flags.maybeDelayed);
        m_congestionControl->CongControl(m_tcb, connection, sample);
        TakePacingRate();
        if (congestion && congestion->IsProbingRtt())
        {
            MarkAppLimited(); // what little is in flight says nothing of the bandwidth
        }
        return;
    }
    if (InReduction())
    {
        ReduceCwnd(delivered, lost, flags.advanced);
    }
    else if (flags.acked || (flags.sacked && m_reordering > m_initialReordering))
    {
        if (m_tcb->m_isCwndLimited && delivered > 0)
        {
            m_congestionControl->IncreaseWindow(m_tcb, delivered);
        }
        m_cwndStamp = Simulator::Now();
    }
    UpdatePacing();
}

} // namespace ns3
