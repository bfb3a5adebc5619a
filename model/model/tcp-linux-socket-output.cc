/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// What TcpLinuxSocket sends, and when: Linux's net/ipv4/tcp_output.c and tcp_timer.c.

#include "gso-tag.h"
#include "netem-device.h"
#include "tcp-linux-congestion.h"
#include "tcp-linux-socket.h"

#include "ns3/ipv4-end-point.h"
#include "ns3/ipv6-end-point.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-option-rfc793.h"
#include "ns3/tcp-option-sack.h"
#include "ns3/tcp-option-winscale.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpLinuxSocketOutput");

namespace
{

constexpr uint32_t OPTION_SPACE = 40;    // RFC 9293 §3.1
constexpr uint32_t TIMESTAMP_BYTES = 12; // option with padding
constexpr uint32_t SACK_BASE = 4;        // kind, length and padding
constexpr uint32_t SACK_BLOCK = 8;
const Time TIMEOUT_MIN = MilliSeconds(2); // TCP_TIMEOUT_MIN_US

} // namespace

// A packet without data. The base class calls this in handshakes, and to reset.
void
TcpLinuxSocket::SendEmptyPacket(uint8_t flags)
{
    if (m_endPoint == nullptr && m_endPoint6 == nullptr)
    {
        return;
    }
    Configure();
    if (flags & TcpHeader::SYN)
    {
        SendHandshake(flags);
    }
    else if (flags & TcpHeader::RST)
    {
        SendControl(flags, m_ready ? m_out->GetNext() : m_tcb->m_nextTxSequence.Get().GetValue());
    }
    else
    {
        if (m_state == ESTABLISHED)
        {
            InitTransfer();
        }
        SendAck();
    }
}

void
TcpLinuxSocket::SendHandshake(uint8_t flags)
{
    if (m_synCount == 0)
    {
        m_state = CLOSED;
        NotifyConnectionFailed();
        DeallocateEndPoint();
        return;
    }
    uint32_t sent = m_synRetries - m_synCount;
    m_synSent = sent == 0 ? Simulator::Now() : Time(-1); // Karn: a repeated SYN gives no sample
    --m_synCount;

    TcpHeader header;
    header.SetFlags(flags);
    header.SetSequenceNumber(m_tcb->m_nextTxSequence);
    header.SetAckNumber(m_tcb->m_rxBuffer->NextRxSequence());
    auto mss = CreateObject<TcpOptionMSS>();
    mss->SetMSS(std::min<uint32_t>(m_advMss, UINT16_MAX));
    header.AppendOption(mss);
    AddOptions(header);
    if (m_winScalingEnabled)
    {
        auto option = CreateObject<TcpOptionWinScale>();
        option->SetScale(m_rcvWindShift);
        header.AppendOption(option);
    }
    if (m_sackEnabled)
    {
        AddOptionSackPermitted(header);
    }
    header.SetWindowSize(std::min<uint32_t>(m_rcvWindow.GetInitialWindow(), 65535));
    auto packet = Create<Packet>();
    AddSocketTags(packet, false);
    SendSegment(packet, header, false);

    uint32_t doublings = sent < m_synLinear ? 0 : std::min(sent - m_synLinear + 1, 16U);
    if (flags & TcpHeader::ACK) // SYN-ACKs have no linear time-outs
    {
        doublings = std::min(sent, 16U);
    }
    Time timeout = Min(m_synTimeout * int64_t(1ULL << doublings), m_rtoMax);
    m_retxEvent.Cancel();
    m_retxEvent = Simulator::Schedule(GetTimerExpiry(timeout) - Simulator::Now(),
                                      &TcpLinuxSocket::SendEmptyPacket,
                                      this,
                                      flags);
}

// An ACK, a reset or a window probe.
void
TcpLinuxSocket::SendControl(uint8_t flags, uint64_t seq)
{
    TcpHeader header;
    header.SetFlags(flags);
    header.SetSequenceNumber(ToWire(seq));
    header.SetAckNumber(m_ready ? ToWire(m_in->GetNext() + (m_finSeen ? 1 : 0))
                                : m_tcb->m_rxBuffer->NextRxSequence());
    AddOptions(header);
    header.SetWindowSize(AdvertisedWindowSize());
    auto packet = Create<Packet>();
    AddSocketTags(packet, false);
    SendSegment(packet, header, false);
}

void
TcpLinuxSocket::AddSackBlocks(TcpHeader& header, bool data)
{
    if (!m_sackEnabled || !m_in)
    {
        return;
    }
    uint32_t used = header.GetOptionLength() + GetOptionBytes(data);
    uint32_t blocks = used + SACK_BASE + SACK_BLOCK <= OPTION_SPACE
                          ? (OPTION_SPACE - used - SACK_BASE) / SACK_BLOCK
                          : 0;
    auto dsack = m_in->TakeDsack();
    if (blocks == 0 || (!dsack && m_in->GetSackBlocks().empty()))
    {
        return;
    }
    auto option = CreateObject<TcpOptionSack>();
    if (dsack)
    {
        option->AddSackBlock({ToWire(dsack->first), ToWire(dsack->second)});
        --blocks;
    }
    for (const auto& [start, end] : m_in->GetSackBlocks())
    {
        if (blocks == 0)
        {
            break;
        }
        option->AddSackBlock({ToWire(start), ToWire(end)});
        --blocks;
    }
    header.AppendOption(option);
}

// All packets of the connection pass here. Returns whether the device took the packet.
bool
TcpLinuxSocket::SendSegment(Ptr<Packet> packet, TcpHeader& header, bool data)
{
    uint8_t flags = header.GetFlags();
    if (m_endPoint)
    {
        header.SetSourcePort(m_endPoint->GetLocalPort());
        header.SetDestinationPort(m_endPoint->GetPeerPort());
    }
    else
    {
        header.SetSourcePort(m_endPoint6->GetLocalPort());
        header.SetDestinationPort(m_endPoint6->GetPeerPort());
    }
    if (!(flags & TcpHeader::SYN) && (flags & TcpHeader::ACK) && m_ready)
    {
        AddSackBlocks(header, data);
        if (m_ecnEcho)
        {
            header.SetFlags(flags | TcpHeader::ECE);
        }
    }
    uint32_t network = m_endPoint ? 20 : 40;
    uint32_t segment = data ? GetCurrentMss() : m_tcb->m_segmentSize;
    packet->AddPacketTag(GsoTag(packet->GetSize(), segment, network + header.GetSerializedSize()));
    m_txTrace(packet, header, this);
    if ((flags & TcpHeader::ACK) && m_ready)
    {
        m_rcvWindow.Offered(m_in->GetNext(), uint32_t(header.GetWindowSize()) << m_rcvWindShift);
        AckSent();
    }
    auto refused = NetemNetDevice::GetRefusals();
    if (m_endPoint)
    {
        m_tcp->SendPacket(packet,
                          header,
                          m_endPoint->GetLocalAddress(),
                          m_endPoint->GetPeerAddress(),
                          m_boundnetdevice);
    }
    else
    {
        m_tcp->SendPacket(packet,
                          header,
                          m_endPoint6->GetLocalAddress(),
                          m_endPoint6->GetPeerAddress(),
                          m_boundnetdevice);
    }
    const auto& after = NetemNetDevice::GetRefusals();
    if (m_ready && (after.full > refused.full || after.down > refused.down))
    {
        EnterCwr(); // the own host's queue is congested
    }
    return after.full == refused.full;
}

// Send an skb of the retransmission queue. Returns whether the device took it.
bool
TcpLinuxSocket::Transmit(TcpLinuxSkb& skb, bool resent)
{
    Time now = Simulator::Now();
    uint32_t size = skb.GetSize();
    if (m_out->GetPacketsOut() == skb.segments && !resent)
    {
        m_firstSent = m_deliveredTime = now; // a new flight, for rate samples
    }
    skb.firstSent = m_firstSent;
    skb.deliveredTime = m_deliveredTime;
    skb.delivered = m_delivered;
    skb.appLimited = m_appLimited > 0;
    m_out->Stamp(skb, now);

    auto packet = size > 0 ? m_out->CopyData(skb.seq, size) : Create<Packet>();
    TcpHeader header;
    uint8_t flags = TcpHeader::ACK;
    flags |= skb.push ? TcpHeader::PSH : 0;
    flags |= skb.fin ? TcpHeader::FIN : 0;
    if (m_ecnReduced && !resent && size > 0)
    {
        flags |= TcpHeader::CWR;
        m_ecnReduced = false;
    }
    header.SetFlags(flags);
    header.SetSequenceNumber(ToWire(skb.seq));
    header.SetAckNumber(ToWire(m_in->GetNext() + (m_finSeen ? 1 : 0)));
    AddOptions(header);
    header.SetWindowSize(AdvertisedWindowSize());
    AddSocketTags(packet, IsEct(resent ? TcpPacketType_t::RE_XMT : TcpPacketType_t::DATA));

    // as tcp_event_data_sent()
    if (m_lastSend.IsPositive() && m_out->GetInFlight() == (resent ? 0 : skb.segments))
    {
        auto congestion = ShowCongestion(false);
        m_congestionControl->CwndEvent(m_tcb, TcpSocketState::CA_EVENT_TX_START);
        if (m_congestionControl->HasCongControl())
        {
            TakePacingRate();
        }
        if (congestion)
        {
            congestion->Resume(now - m_lastSend);
        }
    }
    m_lastSend = now;
    if (m_tick.IsStrictlyPositive() &&
        now.GetTimeStep() / m_tick.GetTimeStep() - m_lastReceived < m_ato)
    {
        ++m_pingpong;
    }
    m_bytesSent += size;
    Pace(size);
    m_transmitTrace(skb.seq, size, skb.segments, resent);
    return SendSegment(packet, header, true);
}

uint32_t
TcpLinuxSocket::GetCurrentMss() const
{
    uint32_t mss = m_tcb->m_segmentSize;
    if (m_sackEnabled && m_in && !m_in->GetSackBlocks().empty())
    {
        uint32_t used = (m_timestampEnabled ? TIMESTAMP_BYTES : 0) + GetOptionBytes(true);
        if (used + SACK_BASE + SACK_BLOCK <= OPTION_SPACE)
        {
            uint32_t room = (OPTION_SPACE - used - SACK_BASE) / SACK_BLOCK;
            mss -= SACK_BASE + SACK_BLOCK * std::min<uint32_t>(room, m_in->GetSackBlocks().size());
        }
    }
    return mss;
}

// tcp_tso_autosize()
uint32_t
TcpLinuxSocket::GetTsoSegments() const
{
    if (!m_gso)
    {
        return 1;
    }
    uint64_t bytes = m_pacingBytes >> m_pacingShift;
    Time least = m_rttLinux.GetMin();
    uint64_t halvings = least == Time::Max() ? 32 : least.GetMicroSeconds() >> m_tsoRttLog;
    if (halvings < 32)
    {
        bytes += m_gsoMaxSize >> halvings;
    }
    bytes = std::min<uint64_t>(bytes, m_gsoMaxSize);
    return std::max<uint32_t>(bytes / GetCurrentMss(), m_minTsoSegments);
}

uint64_t
TcpLinuxSocket::GetWindowEnd() const
{
    return m_out->GetUna() + m_sndWnd;
}

// Nagle's algorithm with Minshall's modification
bool
TcpLinuxSocket::HoldsBack(bool partial, bool nagle, bool cork) const
{
    return partial && (cork || (nagle && m_out->GetPacketsOut() > 0 &&
                                m_smallEnd > m_out->GetUna() && m_smallEnd <= m_out->GetNext()));
}

// tcp_tso_should_defer(): wait for more to be sendable at once
bool
TcpLinuxSocket::ShouldDefer(const TcpLinuxSkb& skb, bool& cwndLimited, uint32_t maxSegments)
{
    Time now = Simulator::Now();
    if (m_tcb->m_congState >= TcpSocketState::CA_RECOVERY || now - m_lastSend > MilliSeconds(1) ||
        m_out->GetSent().empty())
    {
        return false;
    }
    uint64_t mss = m_tcb->m_segmentSize;
    uint64_t sendWindow = GetWindowEnd() - skb.seq;
    uint64_t congWindow = (GetCwndPackets() - m_out->GetInFlight()) * mss;
    uint64_t limit = std::min(sendWindow, congWindow);
    if (limit >= maxSegments * mss || (!m_out->IsTail(skb) && limit >= skb.GetSize()))
    {
        return false;
    }
    if (m_tsoWinDivisor > 0)
    {
        if (limit >= std::min<uint64_t>(m_sndWnd, GetCwndPackets() * mss) / m_tsoWinDivisor)
        {
            return false;
        }
    }
    else if (limit > 3 * mss)
    {
        return false;
    }
    Time smoothed = NanoSeconds(m_rttLinux.GetSmoothedEighths() * 125LL);
    Time expected = m_out->GetSent().begin()->second.sent + smoothed - now;
    if (expected > Min(smoothed / 2, MilliSeconds(1)))
    {
        return false; // the next ACK is too far away
    }
    if (congWindow < sendWindow)
    {
        if (congWindow <= skb.GetSize())
        {
            cwndLimited = true;
            return true;
        }
    }
    else if (sendWindow <= skb.GetSize())
    {
        return true;
    }
    return !skb.fin && !skb.eor;
}

// tcp_write_xmit(). pushOne 2: send one packet whatever the congestion window says. Returns whether
// nothing is in flight and yet nothing can be sent.
bool
TcpLinuxSocket::WriteXmit(bool nagle, bool cork, int pushOne)
{
    uint32_t mss = GetCurrentMss();
    uint32_t maxSegments = GetTsoSegments();
    bool cwndLimited = false;
    uint32_t sent = 0;
    while (auto skb = m_out->GetHead())
    {
        if (IsPaced())
        {
            break;
        }
        uint32_t window = GetCwndPackets();
        uint32_t inFlight = m_out->GetInFlight();
        // two packets at least in flight make better use of the window than one
        uint32_t quota =
            inFlight >= window ? 0 : std::min(std::max(window / 2, 1U), window - inFlight);
        if (quota == 0)
        {
            if (pushOne != 2)
            {
                break;
            }
            quota = 1;
        }
        quota = std::min(quota, maxSegments);
        if (skb->GetSize() < quota * mss)
        {
            m_out->GrowHead(quota * mss);
            skb = m_out->GetHead();
        }
        uint32_t size = skb->GetSize();
        uint32_t segments = TcpLinuxSendQueue::CountSegments(size, mss);
        if (skb->seq + std::min(size, mss) > GetWindowEnd())
        {
            break;
        }
        if (segments == 1)
        {
            bool small = size < mss && !skb->fin && m_out->IsTail(*skb);
            if (HoldsBack(small, nagle, cork))
            {
                break;
            }
        }
        else if (pushOne == 0 && ShouldDefer(*skb, cwndLimited, maxSegments))
        {
            break;
        }
        uint32_t limit = mss;
        if (segments > 1)
        {
            uint64_t room = GetWindowEnd() - skb->seq;
            limit = quota * mss;
            if (limit > room || m_out->IsTail(*skb))
            {
                uint32_t needed = std::min<uint64_t>(size, room);
                if (limit > needed)
                {
                    uint32_t partial = needed % mss;
                    limit = HoldsBack(partial != 0, nagle, cork) ? needed - partial : needed;
                }
            }
        }
        if (size > 0)
        {
            limit = std::min(limit, LimitSegment(ToWire(skb->seq), std::min(size, limit)));
        }
        if (size > limit)
        {
            m_out->SplitHead(limit);
        }
        bool wasEmpty = m_out->GetPacketsOut() == 0;
        auto& placed = m_out->Sent(mss);
        if (!Transmit(placed, false))
        {
            m_out->Unsend();
            break;
        }
        m_tcb->m_nextTxSequence = ToWire(placed.end);
        m_tcb->m_highTxMark = ToWire(placed.end);
        sent += placed.segments;
        if (placed.GetSize() < placed.segments * mss)
        {
            m_smallEnd = placed.end;
        }
        if (wasEmpty || m_timer == TIMER_PROBE)
        {
            RearmRto();
        }
        if (pushOne != 0)
        {
            break;
        }
    }
    cwndLimited = cwndLimited || m_out->GetInFlight() >= GetCwndPackets();
    if (sent > 0 || cwndLimited)
    {
        ValidateCwnd(cwndLimited);
    }
    if (sent > 0)
    {
        if (InReduction())
        {
            m_prrOut += sent;
        }
        if (pushOne != 2)
        {
            ScheduleProbe(false);
        }
        m_tcb->m_bytesInFlight = m_out->GetInFlight() * m_tcb->m_segmentSize;
        return false;
    }
    return m_out->GetPacketsOut() == 0 && m_out->GetHead() != nullptr;
}

bool
TcpLinuxSocket::IsCwndLimited() const
{
    return m_cwndLimited || (InSlowStart() && GetCwndPackets() < 2 * m_maxPacketsOut);
}

// tcp_cwnd_validate(): a window that is not used does not stay
void
TcpLinuxSocket::ValidateCwnd(bool limited)
{
    uint32_t out = m_out->GetPacketsOut();
    if (m_out->GetUna() >= m_cwndUsageEnd || limited || (!m_cwndLimited && out > m_maxPacketsOut))
    {
        m_cwndLimited = limited;
        m_maxPacketsOut = out;
        m_cwndUsageEnd = m_out->GetNext();
    }
    Time now = Simulator::Now();
    if (IsCwndLimited())
    {
        m_cwndUsed = 0;
        m_cwndStamp = now;
        return;
    }
    m_cwndUsed = std::max(m_cwndUsed, out);
    if (m_slowStartAfterIdle && now - m_cwndStamp >= m_rtoNow &&
        !m_congestionControl->HasCongControl())
    {
        if (m_tcb->m_congState == TcpSocketState::CA_OPEN && !WaitsForRoom())
        {
            uint32_t used = std::max(m_cwndUsed, GetInitialCwnd());
            if (used < GetCwndPackets())
            {
                m_tcb->m_ssThresh = GetCurrentThreshold() * m_tcb->m_segmentSize;
                SetCwnd((GetCwndPackets() + used) / 2);
            }
            m_cwndUsed = 0;
        }
        m_cwndStamp = now;
    }
}

// tcp_slow_start_after_idle_check(): what the window was before a pause says little
void
TcpLinuxSocket::CheckIdle()
{
    Time pause = Simulator::Now() - m_lastSend;
    if (!m_slowStartAfterIdle || m_lastSend.IsNegative() || pause <= m_rtoNow ||
        m_congestionControl->HasCongControl())
    {
        return;
    }
    m_congestionControl->CwndEvent(m_tcb, TcpSocketState::CA_EVENT_CWND_RESTART);
    m_tcb->m_ssThresh = GetCurrentThreshold() * m_tcb->m_segmentSize;
    uint32_t window = GetCwndPackets();
    uint32_t restart = std::min(GetInitialCwnd(), window);
    for (pause -= m_rtoNow; pause.IsStrictlyPositive() && window > restart; pause -= m_rtoNow)
    {
        window /= 2;
    }
    SetCwnd(std::max(window, restart));
    m_cwndStamp = Simulator::Now();
    m_cwndUsed = 0;
}

// __tcp_retransmit_skb()
bool
TcpLinuxSocket::Retransmit(TcpLinuxSendQueue::RtxQueue::iterator it, uint32_t segments)
{
    auto& skb = it->second;
    uint32_t mss = GetCurrentMss();
    int64_t room = int64_t(GetWindowEnd()) - int64_t(skb.seq);
    if (room <= 0)
    {
        if (skb.seq != m_out->GetUna())
        {
            return false;
        }
        room = mss; // one segment probes the window
    }
    uint32_t limit = segments * mss;
    if (limit > room)
    {
        limit = std::max<uint32_t>(room / mss * mss, std::min<int64_t>(room, mss));
    }
    if (skb.GetSize() > 0)
    {
        limit = std::min(limit, LimitSegment(ToWire(skb.seq), std::min(skb.GetSize(), limit)));
    }
    if (skb.GetSize() > limit)
    {
        m_out->SplitSent(it, limit, mss);
    }
    m_totalRetransmits += skb.segments;
    skb.everResent = true;
    return Transmit(skb, true);
}

// tcp_retransmit_skb()
bool
TcpLinuxSocket::RetransmitCounted(TcpLinuxSendQueue::RtxQueue::iterator it, uint32_t segments)
{
    if (!Retransmit(it, segments))
    {
        return false;
    }
    m_out->MarkResent(it->second);
    if (!m_resentStamp)
    {
        m_resentStamp = Simulator::Now().GetMilliSeconds();
    }
    m_undoRetrans = std::max<int64_t>(m_undoRetrans, 0) + it->second.segments;
    return true;
}

// tcp_xmit_retransmit_queue()
void
TcpLinuxSocket::RetransmitLost()
{
    auto& queue = m_out->GetSent();
    if (queue.empty())
    {
        return;
    }
    uint32_t maxSegments = GetTsoSegments();
    bool rearm = false;
    auto it = queue.lower_bound(m_resendHint);
    while (it != queue.end() && m_out->GetResentOut() < m_out->GetLostOut())
    {
        auto& skb = it->second;
        if (skb.lost && !skb.sacked && !skb.resent)
        {
            int64_t room = int64_t(GetCwndPackets()) - m_out->GetInFlight();
            if (room <= 0 || IsPaced())
            {
                break;
            }
            if (!RetransmitCounted(it, std::min<int64_t>(room, maxSegments)))
            {
                break;
            }
            if (InReduction())
            {
                m_prrOut += skb.segments;
            }
            rearm = rearm || (it == queue.begin() && m_timer != TIMER_REORDER);
        }
        m_resendHint = skb.end;
        ++it;
    }
    if (rearm)
    {
        SetTimer(TIMER_RTO, m_rtoNow);
    }
}

// tcp_pacing_check(): whether pacing holds back the next packet. Only some congestion controls
// pace.
bool
TcpLinuxSocket::IsPaced()
{
    Time now = Simulator::Now();
    if (!m_tcb->m_pacing || m_nextPaced <= now)
    {
        return false;
    }
    if (!m_pacedEvent.IsPending())
    {
        m_pacedEvent = Simulator::Schedule(m_nextPaced - now, &TcpLinuxSocket::ResumePaced, this);
    }
    return true;
}

// tcp_update_skb_after_send(): a packet takes its time of the pacing rate
void
TcpLinuxSocket::Pace(uint32_t size)
{
    Time now = Simulator::Now();
    Time prior = m_nextPaced;
    m_nextPaced = Max(m_nextPaced, now);
    if (!m_tcb->m_pacing || m_pacingBytes == 0 || m_bytesSent < 10 * m_tcb->m_segmentSize)
    {
        return; // the initial window goes at once
    }
    Time takes = NanoSeconds(size * 1000000000ULL / m_pacingBytes);
    m_nextPaced += takes - Min(takes / 2, m_nextPaced - prior); // being late is made up for
}

void
TcpLinuxSocket::ResumePaced()
{
    if (m_state == CLOSED || m_state == TIME_WAIT)
    {
        return;
    }
    if (m_out->GetLostOut() > m_out->GetResentOut())
    {
        RetransmitLost();
    }
    Push();
}

// When a timer of the kernel's wheel expires that is set now: never early, and coarser the later.
Time
TcpLinuxSocket::GetTimerExpiry(Time delay) const
{
    Time now = Simulator::Now();
    if (!m_tick.IsStrictlyPositive())
    {
        return now + delay;
    }
    int64_t tick = m_tick.GetTimeStep();
    int64_t ticks = (delay.GetTimeStep() + tick - 1) / tick;
    int64_t expiry = now.GetTimeStep() / tick + ticks;
    int64_t grain = 1;
    for (int64_t reach = 63; ticks >= reach && grain < (1 << 21); reach *= 8)
    {
        grain *= 8;
    }
    return TimeStep((expiry / grain + 1) * grain * tick);
}

void
TcpLinuxSocket::SetTimer(TimerKind kind, Time delay)
{
    m_timer = kind;
    if (kind == TIMER_NONE)
    {
        return; // a pending event finds nothing to do
    }
    m_timerExpiry = GetTimerExpiry(Min(delay, m_rtoMax));
    if (m_retxEvent.IsPending() && m_timerEvent <= m_timerExpiry)
    {
        return; // the event moves itself
    }
    m_retxEvent.Cancel();
    m_timerEvent = m_timerExpiry;
    m_retxEvent =
        Simulator::Schedule(m_timerExpiry - Simulator::Now(), &TcpLinuxSocket::TimerExpired, this);
}

void
TcpLinuxSocket::TimerExpired()
{
    if (m_timer == TIMER_NONE || m_state == CLOSED || m_state == TIME_WAIT)
    {
        return;
    }
    if (m_timerExpiry > Simulator::Now())
    {
        m_timerEvent = m_timerExpiry;
        m_retxEvent = Simulator::Schedule(m_timerExpiry - Simulator::Now(),
                                          &TcpLinuxSocket::TimerExpired,
                                          this);
        return;
    }
    switch (m_timer)
    {
    case TIMER_REORDER:
        ReorderTimeout();
        break;
    case TIMER_PROBE:
        SendProbe();
        break;
    default:
        m_timer = TIMER_NONE;
        ReTxTimeout();
        break;
    }
}

// tcp_rto_delta_us(): how long until the time-out of the oldest packet
Time
TcpLinuxSocket::GetRtoDelta() const
{
    auto& queue = const_cast<TcpLinuxSendQueue&>(*m_out).GetSent();
    Time sent = queue.empty() ? Simulator::Now() : queue.begin()->second.sent;
    return sent + m_rtoNow - Simulator::Now();
}

void
TcpLinuxSocket::RearmRto()
{
    if (m_out->GetPacketsOut() == 0)
    {
        SetTimer(TIMER_NONE, Time(0));
        return;
    }
    Time rto = m_rtoNow;
    if (m_timer == TIMER_REORDER || m_timer == TIMER_PROBE)
    {
        rto = Max(GetRtoDelta(), MicroSeconds(1)); // these have taken part of the time
    }
    SetTimer(TIMER_RTO, rto);
}

// tcp_schedule_loss_probe()
bool
TcpLinuxSocket::ScheduleProbe(bool advancing)
{
    auto state = m_tcb->m_congState.Get();
    if (!m_earlyRetransmit || !m_sackEnabled ||
        (state != TcpSocketState::CA_OPEN && state != TcpSocketState::CA_CWR))
    {
        return false;
    }
    Time timeout = Seconds(1);
    if (m_rttLinux.HasSample())
    {
        timeout = MicroSeconds(m_rttLinux.GetSmoothedEighths() / 4);
        timeout += m_out->GetPacketsOut() == 1 ? m_rttLinux.GetRtoMin() : TIMEOUT_MIN;
    }
    Time rto = advancing ? m_rtoNow : GetRtoDelta();
    if (rto.IsStrictlyPositive())
    {
        timeout = Min(timeout, rto);
    }
    SetTimer(TIMER_PROBE, timeout);
    return true;
}

// tcp_send_loss_probe(): new data if there is, else the last packet again
void
TcpLinuxSocket::SendProbe()
{
    if (!m_probeOut)
    {
        bool sent = false;
        m_probeResent = false;
        auto head = m_out->GetHead();
        uint32_t mss = GetCurrentMss();
        if (head && head->seq + std::min(head->GetSize(), mss) <= GetWindowEnd())
        {
            uint32_t before = m_out->GetPacketsOut();
            WriteXmit(false, false, 2);
            sent = m_out->GetPacketsOut() > before;
        }
        else if (!m_out->GetSent().empty())
        {
            auto last = std::prev(m_out->GetSent().end());
            if (last->second.segments > 1)
            {
                m_out->SplitSent(last, (last->second.segments - 1) * mss, mss);
                last = std::prev(m_out->GetSent().end());
            }
            sent = m_probeResent = Retransmit(last, 1);
        }
        if (sent)
        {
            m_probeOut = true;
            m_probeEnd = m_out->GetNext();
            m_timer = TIMER_NONE; // the time-out begins anew
        }
    }
    RearmRto();
}

// tcp_retransmit_timer()
void
TcpLinuxSocket::ReTxTimeout()
{
    if (!m_ready || m_out->GetPacketsOut() == 0)
    {
        return;
    }
    if (m_retransmits >= m_retries)
    {
        NS_LOG_LOGIC(this << " gives up after " << m_retransmits << " time-outs");
        m_state = CLOSED;
        if (!m_closeNotified)
        {
            m_closeNotified = true;
            NotifyErrorClose();
        }
        DeallocateEndPoint();
        return;
    }
    ++m_timeouts;
    EnterLoss();
    ++m_retransmits;
    if (!RetransmitCounted(m_out->GetSent().begin(), 1))
    {
        SetTimer(TIMER_RTO, MilliSeconds(500)); // TCP_RESOURCE_PROBE_INTERVAL
        OnRto();
        return;
    }
    ++m_backoff;
    m_rtoNow = Min(m_rtoNow * 2, m_rtoMax);
    m_rto = m_rtoNow;
    SetTimer(TIMER_RTO, m_rtoNow);
    OnRto();
}

// The peer's window is closed and nothing is in flight: ask now and then.
void
TcpLinuxSocket::CheckWindowProbe()
{
    if (m_timer == TIMER_NONE && !m_persistEvent.IsPending())
    {
        Time delay =
            Min(Max(m_rtoNow, m_rtoMin) * int64_t(1LL << std::min(m_backoff, 16U)), m_rtoMax);
        m_persistEvent = Simulator::Schedule(GetTimerExpiry(delay) - Simulator::Now(),
                                             &TcpLinuxSocket::PersistTimeout,
                                             this);
    }
}

void
TcpLinuxSocket::PersistTimeout()
{
    if (m_state == CLOSED || m_state == TIME_WAIT || m_out->GetPacketsOut() > 0 ||
        m_out->GetHead() == nullptr)
    {
        return;
    }
    auto head = m_out->GetHead();
    if (head->seq < GetWindowEnd())
    {
        uint32_t size =
            std::min<uint64_t>({GetWindowEnd() - head->seq, head->GetSize(), GetCurrentMss()});
        if (size > 0 && size < head->GetSize())
        {
            m_out->SplitHead(size);
        }
        auto& placed = m_out->Sent(GetCurrentMss());
        if (Transmit(placed, false))
        {
            m_tcb->m_nextTxSequence = ToWire(placed.end);
            m_tcb->m_highTxMark = ToWire(placed.end);
            RearmRto();
            return;
        }
        m_out->Unsend();
        ++m_backoff;
        CheckWindowProbe();
        return;
    }
    SendControl(TcpHeader::ACK, m_out->GetUna() - 1);
    ++m_backoff;
    CheckWindowProbe();
}

} // namespace ns3
