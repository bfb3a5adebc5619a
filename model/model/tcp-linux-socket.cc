/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Attributes, the handshake, closing, and what the application calls. The rest of the class is in
// tcp-linux-socket-output.cc, -ack.cc and -receive.cc.

#include "tcp-linux-socket.h"

#include "gso-tag.h"
#include "link-mtu.h"
#include "tcp-linux-congestion.h"

#include "ns3/boolean.h"
#include "ns3/ipv4-end-point.h"
#include "ns3/ipv4-interface.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv6-end-point.h"
#include "ns3/ipv6-l3-protocol.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/simulator.h"
#include "ns3/socket.h"
#include "ns3/string.h"
#include "ns3/tcp-congestion-ops.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-option-rfc793.h"
#include "ns3/tcp-option-ts.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <bit>
#include <sstream>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpLinuxSocket");

NS_OBJECT_ENSURE_REGISTERED(TcpLinuxSocket);

namespace
{

constexpr uint32_t DEFAULT_BUFFER = 131072;    // TcpSocket's default of SndBufSize and RcvBufSize
constexpr uint32_t DEFAULT_SEGMENT_SIZE = 536; // TcpSocket's default of SegmentSize
constexpr uint32_t DEFAULT_MTU = 1500;         // where the device is not known
constexpr uint32_t TIMESTAMP_BYTES = 12;       // option with padding
constexpr uint32_t TCP_HEADER = 20;            // without options
constexpr uint32_t IPV4_HEADER = 20;
constexpr uint32_t IPV6_HEADER = 40;
constexpr uint32_t MIN_MSS = 48;            // tcp_min_snd_mss
constexpr uint32_t SHARED_INFO_BYTES = 320; // struct skb_shared_info, after the data of an skb
constexpr uint32_t SK_BUFF_BYTES = 256;     // struct sk_buff
constexpr uint32_t ANY_SEQUENCE = 1U << 30; // the base class's check of sequence numbers is off

} // namespace

TypeId
TcpLinuxSocket::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::TcpLinuxSocket")
            .SetParent<TcpSocketBase>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<TcpLinuxSocket>()
            .AddAttribute("Rmem",
                          "tcp_rmem: least, first and largest receive buffer, in bytes. A "
                          "RcvBufSize other than its default fixes the size.",
                          StringValue("4096 131072 6291456"),
                          MakeStringAccessor(&TcpLinuxSocket::SetRmem, &TcpLinuxSocket::GetRmem),
                          MakeStringChecker())
            .AddAttribute("Wmem",
                          "tcp_wmem: least, first and largest send buffer, in bytes. A SndBufSize "
                          "other than its default fixes the size.",
                          StringValue("4096 16384 4194304"),
                          MakeStringAccessor(&TcpLinuxSocket::SetWmem, &TcpLinuxSocket::GetWmem),
                          MakeStringChecker())
            .AddAttribute("Gso",
                          "Make GSO packets of several segments.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&TcpLinuxSocket::m_gso),
                          MakeBooleanChecker())
            .AddAttribute("GsoMaxSize",
                          "Largest payload of a GSO packet in bytes (sk_gso_max_size).",
                          UintegerValue(65215),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_gsoMaxSize),
                          MakeUintegerChecker<uint32_t>(1, 65215))
            .AddAttribute("MinTsoSegments",
                          "Least segments of a GSO packet (tcp_min_tso_segs).",
                          UintegerValue(2),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_minTsoSegments),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("TsoRttLog",
                          "The allowance of GSO packets for near peers halves with each 2^n us of "
                          "round-trip time (tcp_tso_rtt_log).",
                          UintegerValue(9),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_tsoRttLog),
                          MakeUintegerChecker<uint32_t>(0, 31))
            .AddAttribute("TsoWinDivisor",
                          "Part of a window that is sent without waiting for more "
                          "(tcp_tso_win_divisor).",
                          UintegerValue(3),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_tsoWinDivisor),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("PacingShift",
                          "A GSO packet takes 2^-n s of the pacing rate (sk_pacing_shift).",
                          UintegerValue(10),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_pacingShift),
                          MakeUintegerChecker<uint32_t>(0, 31))
            .AddAttribute("PacingSlowStartRatio",
                          "Pacing rate in percent of window / RTT, in slow start "
                          "(tcp_pacing_ss_ratio).",
                          UintegerValue(200),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_pacingSsRatio),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("PacingAvoidanceRatio",
                          "The same in congestion avoidance (tcp_pacing_ca_ratio).",
                          UintegerValue(120),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_pacingCaRatio),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("Tick",
                          "Timers of a jiffy's granularity expire as Linux's timer wheel has it; "
                          "0: exactly.",
                          TimeValue(MilliSeconds(1)),
                          MakeTimeAccessor(&TcpLinuxSocket::m_tick),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("RtoMin",
                          "Least variation that the retransmission time-out counts (tcp_rto_min).",
                          TimeValue(MilliSeconds(200)),
                          MakeTimeAccessor(&TcpLinuxSocket::m_rtoMin),
                          MakeTimeChecker(MilliSeconds(1)))
            .AddAttribute("RtoMax",
                          "Largest retransmission time-out (tcp_rto_max_ms).",
                          TimeValue(Seconds(120)),
                          MakeTimeAccessor(&TcpLinuxSocket::m_rtoMax),
                          MakeTimeChecker(Seconds(1)))
            .AddAttribute("MinRttWindow",
                          "How long a least round-trip time counts (tcp_min_rtt_wlen).",
                          TimeValue(Seconds(300)),
                          MakeTimeAccessor(&TcpLinuxSocket::m_minRttWindow),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("SynTimeout",
                          "First time-out of a SYN.",
                          TimeValue(Seconds(1)),
                          MakeTimeAccessor(&TcpLinuxSocket::m_synTimeout),
                          MakeTimeChecker(MilliSeconds(1)))
            .AddAttribute("SynLinearTimeouts",
                          "Time-outs of a SYN before they double (tcp_syn_linear_timeouts).",
                          UintegerValue(4),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_synLinear),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("Retries",
                          "Time-outs in a row after which the connection is given up "
                          "(tcp_retries2).",
                          UintegerValue(15),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_retries),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("SlowStartAfterIdle",
                          "Shrink the window after pauses (tcp_slow_start_after_idle).",
                          BooleanValue(true),
                          MakeBooleanAccessor(&TcpLinuxSocket::m_slowStartAfterIdle),
                          MakeBooleanChecker())
            .AddAttribute("Frto",
                          "Find spurious time-outs (tcp_frto).",
                          BooleanValue(true),
                          MakeBooleanAccessor(&TcpLinuxSocket::m_frtoEnabled),
                          MakeBooleanChecker())
            .AddAttribute("EarlyRetransmit",
                          "Send tail-loss probes (tcp_early_retrans).",
                          BooleanValue(true),
                          MakeBooleanAccessor(&TcpLinuxSocket::m_earlyRetransmit),
                          MakeBooleanChecker())
            .AddAttribute("Reordering",
                          "Packets of reordering that are no loss, at first (tcp_reordering).",
                          UintegerValue(3),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_initialReordering),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("MaxReordering",
                          "The same, at most (tcp_max_reordering).",
                          UintegerValue(300),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_maxReordering),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("CompSackDelay",
                          "How long ACKs of packets out of order may be held back "
                          "(tcp_comp_sack_delay_ns).",
                          TimeValue(MilliSeconds(1)),
                          MakeTimeAccessor(&TcpLinuxSocket::m_compSackDelay),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("CompSackPercent",
                          "The same in percent of the round-trip time "
                          "(tcp_comp_sack_rtt_percent).",
                          UintegerValue(33),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_compSackPercent),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("CompSackCount",
                          "Most ACKs held back (tcp_comp_sack_nr).",
                          UintegerValue(44),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_compSackCount),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("SkbOverhead",
                          "Memory that a packet takes in the buffers beside its data, in bytes.",
                          UintegerValue(896),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_skbOverhead),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute(
                "MaxTcpHeader",
                "Room for headers before each segment, in bytes (MAX_TCP_HEADER). Linux's "
                "configuration decides: 192 without wireless networks and tunnels, as in "
                "the lab; 320 with both, as distributions have it, where a segment of "
                "1460 bytes takes a block of 4096 bytes, not of 2048, and send buffers "
                "grow to almost twice the size.",
                UintegerValue(192),
                MakeUintegerAccessor(&TcpLinuxSocket::m_maxTcpHeader),
                MakeUintegerChecker<uint32_t>())
            .AddAttribute("PingpongThreshold",
                          "Answers within the ACK delay that make a connection interactive "
                          "(tcp_pingpong_thresh).",
                          UintegerValue(1),
                          MakeUintegerAccessor(&TcpLinuxSocket::m_pingpongThreshold),
                          MakeUintegerChecker<uint32_t>())
            .AddTraceSource("Transmit",
                            "A packet with data was sent or resent.",
                            MakeTraceSourceAccessor(&TcpLinuxSocket::m_transmitTrace),
                            "ns3::TcpLinuxSocket::TransmitTracedCallback");
    return tid;
}

TcpLinuxSocket::TcpLinuxSocket() = default;

TcpLinuxSocket::TcpLinuxSocket(const TcpLinuxSocket& sock)
    : TcpSocketTypeId(sock),
      m_rcvBufLock(sock.m_rcvBufLock),
      m_sndBufLock(sock.m_sndBufLock),
      m_gso(sock.m_gso),
      m_gsoMaxSize(sock.m_gsoMaxSize),
      m_minTsoSegments(sock.m_minTsoSegments),
      m_tsoRttLog(sock.m_tsoRttLog),
      m_tsoWinDivisor(sock.m_tsoWinDivisor),
      m_pacingShift(sock.m_pacingShift),
      m_pacingSsRatio(sock.m_pacingSsRatio),
      m_pacingCaRatio(sock.m_pacingCaRatio),
      m_tick(sock.m_tick),
      m_rtoMin(sock.m_rtoMin),
      m_rtoMax(sock.m_rtoMax),
      m_minRttWindow(sock.m_minRttWindow),
      m_synTimeout(sock.m_synTimeout),
      m_synLinear(sock.m_synLinear),
      m_retries(sock.m_retries),
      m_slowStartAfterIdle(sock.m_slowStartAfterIdle),
      m_frtoEnabled(sock.m_frtoEnabled),
      m_earlyRetransmit(sock.m_earlyRetransmit),
      m_initialReordering(sock.m_initialReordering),
      m_maxReordering(sock.m_maxReordering),
      m_compSackDelay(sock.m_compSackDelay),
      m_compSackPercent(sock.m_compSackPercent),
      m_compSackCount(sock.m_compSackCount),
      m_skbOverhead(sock.m_skbOverhead),
      m_maxTcpHeader(sock.m_maxTcpHeader),
      m_pingpongThreshold(sock.m_pingpongThreshold),
      m_peerMss(sock.m_peerMss),
      m_tsEcho(sock.m_tsEcho)
{
    // a listening socket has no connection; whoever watches it doesn't watch the new one
    std::copy(std::begin(sock.m_rmem), std::end(sock.m_rmem), m_rmem);
    std::copy(std::begin(sock.m_wmem), std::end(sock.m_wmem), m_wmem);
    m_txTrace = decltype(m_txTrace)();
    m_rxTrace = decltype(m_rxTrace)();
}

TcpLinuxSocket::~TcpLinuxSocket()
{
    m_compressEvent.Cancel();
    m_pacedEvent.Cancel();
    if (m_flows)
    {
        m_flows->Remove(m_flow, this);
    }
}

// Packets of an established connection need no search for their socket.
void
TcpLinuxSocket::EnterFlowTable()
{
    m_flowTableAsked = true;
    m_flows = m_endPoint ? m_node->GetObject<TcpFlowTable>() : nullptr;
    if (m_flows)
    {
        m_flow = {m_endPoint->GetLocalAddress(),
                  m_endPoint->GetLocalPort(),
                  m_endPoint->GetPeerAddress(),
                  m_endPoint->GetPeerPort()};
        m_flows->Add(m_flow, this);
    }
}

bool
TcpLinuxSocket::Receive(Ptr<Packet> packet,
                        const Ipv4Header& header,
                        uint16_t port,
                        Ptr<Ipv4Interface> interface)
{
    // as Ipv4EndPointDemux: the end point may be gone, deaf, or bound to another device
    if (!m_endPoint || !m_endPoint->IsRxEnabled() ||
        (m_endPoint->GetBoundNetDevice() &&
         m_endPoint->GetBoundNetDevice() != interface->GetDevice()))
    {
        return false;
    }
    m_endPoint->ForwardUp(packet, header, port, interface);
    return true;
}

Ptr<TcpSocketBase>
TcpLinuxSocket::Fork()
{
    return CopyObject<TcpLinuxSocket>(this);
}

void
TcpLinuxSocket::SetSysctl(uint32_t (&triple)[3], const std::string& value, const char* name)
{
    std::istringstream words(value);
    uint32_t read[3];
    std::string rest;
    bool good = bool(words >> read[0] >> read[1] >> read[2]) && !(words >> rest) &&
                read[0] <= read[1] && read[1] <= read[2];
    NS_ABORT_MSG_UNLESS(good,
                        "ns3::TcpLinuxSocket::" << name << ": must be three increasing sizes in "
                                                << "bytes, not '" << value << "'");
    std::copy(std::begin(read), std::end(read), triple);
}

void
TcpLinuxSocket::SetRmem(std::string value)
{
    SetSysctl(m_rmem, value, "Rmem");
}

std::string
TcpLinuxSocket::GetRmem() const
{
    std::ostringstream words;
    words << m_rmem[0] << " " << m_rmem[1] << " " << m_rmem[2];
    return words.str();
}

void
TcpLinuxSocket::SetWmem(std::string value)
{
    SetSysctl(m_wmem, value, "Wmem");
    m_sndBuf = m_wmem[1];
}

std::string
TcpLinuxSocket::GetWmem() const
{
    std::ostringstream words;
    words << m_wmem[0] << " " << m_wmem[1] << " " << m_wmem[2];
    return words.str();
}

void
TcpLinuxSocket::SetSndBufSize(uint32_t size)
{
    m_sndBufLock = size == DEFAULT_BUFFER ? 0 : size;
}

uint32_t
TcpLinuxSocket::GetSndBufSize() const
{
    return m_sndBufLock > 0 ? m_sndBufLock : m_sndBuf;
}

void
TcpLinuxSocket::SetRcvBufSize(uint32_t size)
{
    m_rcvBufLock = size == DEFAULT_BUFFER ? 0 : size;
}

uint32_t
TcpLinuxSocket::GetRcvBufSize() const
{
    return m_ready ? m_rcvWindow.GetBuffer() : m_rcvBufLock > 0 ? m_rcvBufLock : m_rmem[1];
}

SequenceNumber32
TcpLinuxSocket::ToWire(uint64_t seq)
{
    return SequenceNumber32(static_cast<uint32_t>(seq));
}

uint64_t
TcpLinuxSocket::FromWire(SequenceNumber32 seq, uint64_t near) const
{
    return near + static_cast<int32_t>(seq.GetValue() - static_cast<uint32_t>(near));
}

// Before the first SYN: the addresses are known, and with them the link's MTU.
void
TcpLinuxSocket::Configure()
{
    if (m_configured)
    {
        return;
    }
    m_configured = true;
    Ptr<NetDevice> device;
    if (auto ipv4 = m_node->GetObject<Ipv4L3Protocol>(); m_endPoint && ipv4)
    {
        int32_t interface = ipv4->GetInterfaceForAddress(m_endPoint->GetLocalAddress());
        device = interface >= 0 ? ipv4->GetNetDevice(interface) : nullptr;
    }
    else if (auto ipv6 = m_node->GetObject<Ipv6L3Protocol>(); m_endPoint6 && ipv6)
    {
        int32_t interface = ipv6->GetInterfaceForAddress(m_endPoint6->GetLocalAddress());
        device = interface >= 0 ? ipv6->GetNetDevice(interface) : nullptr;
    }
    const uint32_t mtu = device ? GetLinkMtu(device) : DEFAULT_MTU;
    m_advMss = mtu - TCP_HEADER - (m_endPoint6 ? IPV6_HEADER : IPV4_HEADER);
    if (m_tcb->m_segmentSize == DEFAULT_SEGMENT_SIZE)
    {
        m_tcb->m_segmentSize =
            m_advMss - (m_timestampEnabled ? TIMESTAMP_BYTES : 0) - GetOptionBytes(true);
    }
    m_out.emplace(m_skbOverhead);
    m_in.emplace(m_skbOverhead);
    m_rttLinux.Configure(m_rtoMin, m_minRttWindow);
    m_rtoNow = m_rttLinux.GetRto();
    m_reordering = m_initialReordering;
    m_rcvWindow.Configure(m_rcvBufLock > 0 ? m_rcvBufLock : m_rmem[1],
                          m_rmem[2],
                          m_rcvBufLock > 0,
                          m_advMss);
    m_rcvWindShift = m_winScalingEnabled ? m_rcvWindow.GetScale() : 0;
    m_sndBuf = m_sndBufLock > 0 ? m_sndBufLock : m_wmem[1];
}

// The handshake is over.
void
TcpLinuxSocket::InitTransfer()
{
    if (m_ready)
    {
        return;
    }
    m_ready = true;
    const uint32_t options = (m_timestampEnabled ? TIMESTAMP_BYTES : 0) + GetOptionBytes(true);
    m_tcb->m_segmentSize = std::min(m_tcb->m_segmentSize, std::max(m_peerMss, MIN_MSS) - options);
    if (!m_winScalingEnabled)
    {
        m_rcvWindShift = m_sndWindShift = 0;
    }
    m_firstSeq = m_tcb->m_nextTxSequence.Get().GetValue();
    m_firstRx = m_tcb->m_rxBuffer->NextRxSequence().GetValue();
    m_out->Start(m_firstSeq);
    m_in->Start(m_firstRx);
    m_wndSeq = m_firstRx;
    m_sndWnd = m_rWnd;
    m_maxWindow = m_sndWnd;
    m_highSeq = m_firstSeq;
    m_cwndUsageEnd = m_firstSeq;
    m_cwndStamp = Simulator::Now();
    m_tcb->m_highTxMark = ToWire(m_firstSeq);
    m_tcb->m_lastAckedSeq = ToWire(m_firstSeq);
    m_tcb->m_rxBuffer->SetMaxBufferSize(ANY_SEQUENCE);
    m_tcb->m_rxBuffer->SetNextRxSequence(ToWire(m_firstRx - ANY_SEQUENCE / 2));
    SetCwnd(GetInitialCwnd());
    m_congestionControl->Init(m_tcb);
    m_rcvWindow.Start(m_tcb->m_segmentSize, m_firstRx);
    ExpandSndBuf();
    if (m_congestionControl->HasCongControl())
    {
        TakePacingRate();
    }
    else
    {
        UpdatePacing();
    }
}

void
TcpLinuxSocket::DoForwardUp(Ptr<Packet> packet,
                            const Address& fromAddress,
                            const Address& toAddress)
{
    TcpHeader header;
    packet->PeekHeader(header);
    uint8_t flags = header.GetFlags();
    GsoTag gso;
    m_rxSegment = packet->PeekPacketTag(gso) ? gso.GetSegmentPayload() : UINT32_MAX;
    bool established = m_ready && m_state != CLOSED && m_state != TIME_WAIT;
    if (!established && m_state == SYN_RCVD && (flags & TcpHeader::FIN) && (flags & TcpHeader::ACK))
    {
        // its ACK ends the handshake, then it is a packet like others
        TcpHeader ack = header;
        ack.SetFlags(TcpHeader::ACK);
        auto bare = Create<Packet>();
        bare->AddHeader(ack);
        TcpSocketBase::DoForwardUp(bare, fromAddress, toAddress);
        established = m_ready;
    }
    if (!established)
    {
        if (flags & TcpHeader::SYN)
        {
            // a listener's goes to the new socket
            auto option = DynamicCast<const TcpOptionMSS>(header.GetOption(TcpOption::MSS));
            m_peerMss = option ? option->GetMSS() : UINT32_MAX;
        }
        Ptr<TcpLinuxSocket> keep(this);
        TcpSocketBase::DoForwardUp(packet, fromAddress, toAddress);
        if (m_ready && m_state == ESTABLISHED)
        {
            Push();
        }
        return;
    }
    Ptr<TcpLinuxSocket> keep(this); // the application may drop its reference
    if (!m_flowTableAsked)
    {
        EnterFlowTable();
    }
    packet->RemoveHeader(header);
    packet->RemoveAllPacketTags();
    m_rxTrace(packet, header, this);
    Input(packet, header);
}

// Called by the base class for the ACK that ends the handshake on the passive side.
void
TcpLinuxSocket::ReceivedAck(Ptr<Packet> packet, const TcpHeader& header)
{
    InitTransfer();
    packet->RemoveAllPacketTags();
    Input(packet, header);
}

// The base class calls this for each packet of the handshake.
void
TcpLinuxSocket::EstimateRtt(const TcpHeader&)
{
    if (!m_ready && m_synSent.IsPositive())
    {
        const Time sample = GetHandshakeRtt(m_synSent);
        m_synSent = Time(-1);
        uint64_t next = m_tcb->m_nextTxSequence.Get().GetValue() + 1;
        m_rttLinux.AddMinSample(sample);
        m_rttLinux.AddSample(sample, next, next);
        m_rtoNow = m_rttLinux.GetRto();
        m_tcb->m_srtt = m_rttLinux.GetSmoothed();
        m_tcb->m_minRtt = m_rttLinux.GetMin();
    }
}

Time
TcpLinuxSocket::GetHandshakeRtt(Time sent) const
{
    // from stamps in whole microseconds, as all samples
    return MicroSeconds(Simulator::Now().GetMicroSeconds() - sent.GetMicroSeconds());
}

void
TcpLinuxSocket::Input(Ptr<Packet> packet, const TcpHeader& header)
{
    uint8_t flags = header.GetFlags();
    uint64_t seq = FromWire(header.GetSequenceNumber(), m_in->GetNext());
    uint32_t size = packet->GetSize();
    if (flags & TcpHeader::RST)
    {
        if (seq >= m_rcvWindow.GetLastAck() &&
            seq <= m_in->GetNext() + m_rcvWindow.GetRemaining(m_in->GetNext()))
        {
            Reset();
        }
        return;
    }
    if (flags & TcpHeader::SYN)
    {
        SendAck(); // the peer missed the end of the handshake
        return;
    }
    if (m_timestampEnabled)
    {
        if (auto option = DynamicCast<const TcpOptionTS>(header.GetOption(TcpOption::TS)))
        {
            m_tsEcho = option->GetEcho();
            if (seq <= m_rcvWindow.GetLastAck())
            {
                m_timestampToEcho = option->GetTimestamp();
            }
        }
    }
    if (m_tcb->m_ecnState == TcpSocketState::ECN_CE_RCVD)
    {
        m_ecnEcho = true;
        m_tcb->m_ecnState = TcpSocketState::ECN_IDLE;
        m_ackNow = true;
    }
    else if (flags & TcpHeader::CWR)
    {
        m_ecnEcho = false;
    }
    if (!(flags & TcpHeader::ACK))
    {
        return;
    }

    ProcessAck(packet, header);
    if (m_state == CLOSED || m_state == TIME_WAIT)
    {
        return;
    }
    uint64_t before = m_in->GetNext();
    if (size > 0)
    {
        MeasureRttByTimestamp(header, size);
        QueueData(packet, seq);
    }
    if ((flags & TcpHeader::FIN) && seq <= m_in->GetNext() + m_rcvWindow.GetRemaining(before))
    {
        m_in->SetFin(seq + size);
    }
    if (m_in->IsFinished() && !m_finSeen)
    {
        m_finSeen = true;
        m_ackScheduled = m_ackNow = true;
    }
    else if ((flags & TcpHeader::FIN) && m_finSeen)
    {
        m_ackScheduled = m_ackNow = true; // our ACK was lost
    }
    if (m_in->GetNext() > before)
    {
        m_delivering = true;
        OnDataQueued();
        m_delivering = false;
    }
    Push();
    CheckAck();
    NotifyRoom();
    if (m_in->GetNext() > before)
    {
        Deliver();
    }
    if (m_finSeen && (m_state == ESTABLISHED || m_state == FIN_WAIT_1 || m_state == FIN_WAIT_2))
    {
        FinReceived();
    }
}

void
TcpLinuxSocket::Reset()
{
    NS_LOG_LOGIC(this << " reset by the peer");
    m_state = CLOSED;
    if (!m_closeNotified)
    {
        m_closeNotified = true;
        NotifyErrorClose();
    }
    m_compressEvent.Cancel();
    DeallocateEndPoint();
}

void
TcpLinuxSocket::FinAcked()
{
    if (m_state == FIN_WAIT_1)
    {
        m_state = FIN_WAIT_2;
    }
    else if (m_state == CLOSING)
    {
        TimeWait();
    }
    else if (m_state == LAST_ACK)
    {
        CloseAndNotify();
    }
}

void
TcpLinuxSocket::FinReceived()
{
    if (m_state == FIN_WAIT_1)
    {
        m_state = CLOSING;
    }
    else if (m_state == FIN_WAIT_2)
    {
        TimeWait();
    }
    else
    {
        m_state = CLOSE_WAIT;
        if (!m_closeNotified)
        {
            m_closeNotified = true;
            NotifyNormalClose();
        }
        if (m_shutdownSend && m_state == CLOSE_WAIT)
        {
            Close();
        }
    }
}

int
TcpLinuxSocket::Close()
{
    NS_LOG_FUNCTION(this);
    if (!m_ready || m_state == CLOSED || m_state == TIME_WAIT)
    {
        return DoClose();
    }
    if (m_in->GetAvailable() > 0)
    {
        SendRST(); // the peer is to know that data was not read (RFC 2525 §2.17)
        m_state = CLOSED;
        return 0;
    }
    return ShutdownSend();
}

int
TcpLinuxSocket::ShutdownSend()
{
    m_shutdownSend = true;
    if (!m_ready || m_finQueued || (m_state != ESTABLISHED && m_state != CLOSE_WAIT))
    {
        return 0;
    }
    m_finQueued = true;
    m_out->AppendFin();
    m_state = m_state == ESTABLISHED ? FIN_WAIT_1 : LAST_ACK;
    Push();
    return 0;
}

uint32_t
TcpLinuxSocket::GetSizeGoal() const
{
    uint64_t goal = m_gso ? m_gsoMaxSize : m_tcb->m_segmentSize;
    uint64_t cutoff = m_maxWindow > DEFAULT_SEGMENT_SIZE ? m_maxWindow / 2 : m_maxWindow;
    if (cutoff > 0)
    {
        goal = std::min(goal, cutoff);
    }
    uint32_t mss = GetCurrentMss();
    return std::max<uint32_t>(goal / mss * mss, mss);
}

void
TcpLinuxSocket::Append(Ptr<Packet> p, bool eor)
{
    Configure();
    m_out->Append(p, GetSizeGoal(), eor);
}

void
TcpLinuxSocket::Push(bool more)
{
    if (!m_ready || m_state == CLOSED || m_state == TIME_WAIT)
    {
        return;
    }
    if (!more)
    {
        m_out->MarkPush();
    }
    if (WriteXmit(!m_noDelay, more, 0))
    {
        CheckWindowProbe();
    }
}

int
TcpLinuxSocket::Send(Ptr<Packet> p, uint32_t flags)
{
    if (m_shutdownSend)
    {
        m_errno = ERROR_SHUTDOWN;
        return -1;
    }
    if (m_state != ESTABLISHED && m_state != SYN_SENT && m_state != CLOSE_WAIT)
    {
        m_errno = ERROR_NOTCONN;
        return -1;
    }
    // what is larger than the buffer goes into an empty one
    if (p->GetSize() > GetTxAvailable() && GetSndMemory() > 0)
    {
        m_noSpace = true;
        m_errno = ERROR_MSGSIZE;
        return -1;
    }
    bool idle = m_ready && m_out->GetPacketsOut() == 0 && m_out->GetHead() == nullptr;
    if (idle)
    {
        CheckIdle();
    }
    CheckAppLimited();
    Append(p, flags & SEND_EOR);
    Push(flags & SEND_MORE);
    return p->GetSize();
}

int
TcpLinuxSocket::SendTo(Ptr<Packet> p, uint32_t flags, const Address&)
{
    return Send(p, flags);
}

uint32_t
TcpLinuxSocket::GetTxAvailable() const
{
    if (!m_out)
    {
        return m_wmem[1];
    }
    uint64_t goal = GetSizeGoal();
    uint64_t room = m_out->GetTailRoom(goal);
    uint64_t memory = m_out->GetMemory();
    if (memory < m_sndBuf) // a new packet may be begun while any memory is left
    {
        uint64_t each = goal + m_skbOverhead;
        room += (m_sndBuf - memory + each - 1) / each * goal;
    }
    return room;
}

bool
TcpLinuxSocket::HasSndMemory() const
{
    return !m_out || m_out->GetMemory() < m_sndBuf;
}

// tcp_sndbuf_expand()
void
TcpLinuxSocket::ExpandSndBuf()
{
    if (m_sndBufLock > 0)
    {
        return;
    }
    // each segment and its headers in a block of their own
    const uint32_t block = std::bit_ceil(m_advMss + m_maxTcpHeader + SHARED_INFO_BYTES);
    const uint32_t perSegment = block + SK_BUFF_BYTES;
    const uint64_t segments = std::max({10U, GetCwndPackets(), m_reordering + 1});
    auto congestion = DynamicCast<TcpLinuxCongestion>(m_congestionControl);
    const uint64_t windows =
        congestion ? congestion->GetSndBufWindows() : TcpLinuxCongestion::SNDBUF_WINDOWS;
    m_sndBuf = std::max(m_sndBuf, std::min<uint64_t>(windows * segments * perSegment, m_wmem[2]));
}

bool
TcpLinuxSocket::WaitsForRoom() const
{
    return m_noSpace;
}

// tcp_should_expand_sndbuf()
void
TcpLinuxSocket::GrowSndBuf()
{
    if (m_out->GetInFlight() < GetCwndPackets())
    {
        ExpandSndBuf();
        m_cwndStamp = Simulator::Now();
    }
}

// tcp_check_space(): the application may go on once a third of the buffer is free.
void
TcpLinuxSocket::NotifyRoom()
{
    if (m_noSpace)
    {
        GrowSndBuf();
    }
    if ((m_noSpace || m_freed) && m_out->GetMemory() + m_out->GetMemory() / 2 <= m_sndBuf)
    {
        m_noSpace = m_freed = false;
        NotifySend(GetTxAvailable());
    }
}

Ptr<Packet>
TcpLinuxSocket::Recv(uint32_t maxSize, uint32_t)
{
    auto packet = m_in ? m_in->Read(maxSize) : nullptr;
    if (!packet)
    {
        return m_finSeen ? Create<Packet>() : nullptr;
    }
    if (m_delivering)
    {
        m_readInDelivery = true;
    }
    else
    {
        CleanReceived(true);
    }
    return packet;
}

uint32_t
TcpLinuxSocket::GetRxAvailable() const
{
    return m_in ? m_in->GetAvailable() : 0;
}

Time
TcpLinuxSocket::GetSrtt() const
{
    return m_rttLinux.GetSmoothed();
}

Time
TcpLinuxSocket::GetMinRtt() const
{
    return m_rttLinux.GetMin();
}

double
TcpLinuxSocket::GetDeliveryRate() const
{
    return m_deliveryRate;
}

Time
TcpLinuxSocket::GetNewestDelivered() const
{
    return m_rackSent;
}

uint64_t
TcpLinuxSocket::GetPacingRateBytes() const
{
    return m_pacingBytes;
}

uint64_t
TcpLinuxSocket::GetBytesAcked() const
{
    return m_ready ? m_out->GetUna() - m_firstSeq : 0;
}

uint64_t
TcpLinuxSocket::GetBytesUnacknowledged() const
{
    return m_ready ? m_out->GetNext() - m_out->GetUna() : 0;
}

Time
TcpLinuxSocket::GetIdle() const
{
    return m_lastSend.IsNegative() ? Time(0) : Simulator::Now() - m_lastSend;
}

uint64_t
TcpLinuxSocket::GetBytesReceived() const
{
    return m_ready ? m_in->GetNext() - m_firstRx : 0;
}

uint32_t
TcpLinuxSocket::GetCwndPackets() const
{
    return m_tcb->GetCwndInSegments();
}

uint32_t
TcpLinuxSocket::GetPacketsOut() const
{
    return m_out ? m_out->GetPacketsOut() : 0;
}

uint32_t
TcpLinuxSocket::GetPacketsInFlight() const
{
    return m_out ? m_out->GetInFlight() : 0;
}

bool
TcpLinuxSocket::InSlowStart() const
{
    return GetCwndPackets() < GetThreshold();
}

uint64_t
TcpLinuxSocket::GetUnsent() const
{
    return m_out ? m_out->GetWriteSeq() - m_out->GetNext() : 0;
}

uint64_t
TcpLinuxSocket::GetQueued() const
{
    return m_out ? m_out->GetWriteSeq() - m_out->GetUna() : 0;
}

uint32_t
TcpLinuxSocket::GetRetransmits() const
{
    return m_retransmits;
}

uint64_t
TcpLinuxSocket::GetTotalRetransmits() const
{
    return m_totalRetransmits;
}

uint64_t
TcpLinuxSocket::GetBytesSent() const
{
    return m_bytesSent;
}

uint64_t
TcpLinuxSocket::GetTimeouts() const
{
    return m_timeouts;
}

Time
TcpLinuxSocket::GetRto() const
{
    return m_rtoNow;
}

uint64_t
TcpLinuxSocket::GetSndBuf() const
{
    return m_sndBuf;
}

uint64_t
TcpLinuxSocket::GetSndMemory() const
{
    return m_out ? m_out->GetMemory() : 0;
}

uint32_t
TcpLinuxSocket::LimitSegment(SequenceNumber32, uint32_t size) const
{
    return size;
}

uint32_t
TcpLinuxSocket::GetOptionBytes(bool) const
{
    return 0;
}

void
TcpLinuxSocket::AdjustReceiveSpace(int64_t&, int64_t&) const
{
}

void
TcpLinuxSocket::OnRto()
{
}

void
TcpLinuxSocket::OnDataQueued()
{
}

bool
TcpLinuxSocket::TunesReceiveBuffer() const
{
    return true;
}

Time
TcpLinuxSocket::GetTimerLeft() const
{
    return m_timer == TIMER_NONE ? Time(0) : Max(m_timerExpiry - Simulator::Now(), Time(0));
}

} // namespace ns3
