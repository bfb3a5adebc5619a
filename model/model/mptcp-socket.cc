/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Settings, the socket's API and accessors. The rest of the class is in mptcp-socket-subflows.cc,
// -output.cc and -input.cc.

#include "mptcp-socket.h"

#include "mptcp-address.h"
#include "mptcp-coupled-congestion.h"
#include "mptcp-crypto.h"
#include "mptcp-scheduler.h"
#include "mptcp-sequence.h"
#include "mptcp-subflow.h"
#include "tcp-linux-socket-factory.h"

#include "ns3/node.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

namespace
{

/// The first of net.ipv4.tcp_wmem, which the connection has besides its subflows' buffers.
constexpr uint32_t SEND_BUFFER_BASE = 4096;

} // namespace

NS_OBJECT_ENSURE_REGISTERED(MptcpSocket);

const Time MptcpSocket::RTO_MIN = MilliSeconds(200);

TypeId
MptcpSocket::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::MptcpSocket")
            .SetParent<Socket>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<MptcpSocket>()
            .AddAttribute("RcvBuf",
                          "First size of the receive buffer in bytes (net.ipv4.tcp_rmem).",
                          UintegerValue(131072),
                          MakeUintegerAccessor(&MptcpSocket::m_receiveBufferInitial),
                          MakeUintegerChecker<uint32_t>(2048))
            .AddAttribute("RcvBufMax",
                          "Largest size of the receive buffer in bytes (net.ipv4.tcp_rmem).",
                          UintegerValue(6291456),
                          MakeUintegerAccessor(&MptcpSocket::m_receiveBufferMost),
                          MakeUintegerChecker<uint32_t>(2048))
            .AddTraceSource("Send",
                            "Data given to a subflow for the first time.",
                            MakeTraceSourceAccessor(&MptcpSocket::m_sendTrace),
                            "ns3::MptcpSocket::DataTracedCallback")
            .AddTraceSource("Reinject",
                            "Data given to a subflow that was given to one before.",
                            MakeTraceSourceAccessor(&MptcpSocket::m_reinjectTrace),
                            "ns3::MptcpSocket::DataTracedCallback")
            .AddTraceSource("Receive",
                            "Data that a subflow delivered, duplicates as well.",
                            MakeTraceSourceAccessor(&MptcpSocket::m_receiveTrace),
                            "ns3::MptcpSocket::DataTracedCallback")
            .AddTraceSource("SubflowOpened",
                            "A subflow can be used.",
                            MakeTraceSourceAccessor(&MptcpSocket::m_subflowOpened),
                            "ns3::MptcpSocket::SubflowTracedCallback")
            .AddTraceSource("SubflowClosed",
                            "A subflow is gone.",
                            MakeTraceSourceAccessor(&MptcpSocket::m_subflowClosed),
                            "ns3::MptcpSocket::SubflowTracedCallback")
            .AddTraceSource("SubflowStale",
                            "A subflow is left out, since it makes no progress.",
                            MakeTraceSourceAccessor(&MptcpSocket::m_subflowStale),
                            "ns3::MptcpSocket::SubflowTracedCallback")
            .AddTraceSource("DataAck",
                            "The peer's data ACK.",
                            MakeTraceSourceAccessor(&MptcpSocket::m_sendUnacknowledged),
                            "ns3::TracedValueCallback::Uint64")
            .AddTraceSource("OutOfOrderBytes",
                            "Bytes in the receive buffer that wait for others before them.",
                            MakeTraceSourceAccessor(&MptcpSocket::m_outOfOrderBytes),
                            "ns3::TracedValueCallback::Uint32");
    return tid;
}

MptcpSocket::MptcpSocket() = default;

MptcpSocket::MptcpSocket(const MptcpSocket& socket)
    : Socket(socket),
      m_node(socket.m_node),
      m_pathManager(socket.m_pathManager),
      m_receiveBufferInitial(socket.m_receiveBufferInitial),
      m_receiveBufferMost(socket.m_receiveBufferMost),
      m_sendTrace(socket.m_sendTrace),
      m_reinjectTrace(socket.m_reinjectTrace),
      m_receiveTrace(socket.m_receiveTrace),
      m_subflowOpened(socket.m_subflowOpened),
      m_subflowClosed(socket.m_subflowClosed),
      m_subflowStale(socket.m_subflowStale)
{
    SetConnectCallback(MakeNullCallback<void, Ptr<Socket>>(),
                       MakeNullCallback<void, Ptr<Socket>>());
    SetDataSentCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
    SetSendCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
    SetRecvCallback(MakeNullCallback<void, Ptr<Socket>>());
}

MptcpSocket::~MptcpSocket() = default;

void
MptcpSocket::DoDispose()
{
    m_retransmitEvent.Cancel();
    m_closeEvent.Cancel();
    m_readEvent.Cancel();
    MptcpPathManager::StopAnnouncing(m_pathState);
    for (const Ptr<MptcpSubflow>& subflow : std::vector(m_subflows))
    {
        Remove(subflow);
    }
    m_listener = nullptr;
    m_scheduler = nullptr;
    m_pathManager = nullptr;
    m_node = nullptr;
    Socket::DoDispose();
}

void
MptcpSocket::SetNode(Ptr<Node> node)
{
    m_node = node;
    m_pathManager = node->GetObject<MptcpPathManager>();
    NS_ABORT_MSG_UNLESS(m_pathManager,
                        "node " << node->GetId() << " has no path manager: use MptcpHelper");
}

// ---- the socket's API

Socket::SocketErrno
MptcpSocket::GetErrno() const
{
    return m_errno;
}

Socket::SocketType
MptcpSocket::GetSocketType() const
{
    return NS3_SOCK_STREAM;
}

Ptr<Node>
MptcpSocket::GetNode() const
{
    return m_node;
}

Ptr<MptcpSubflow>
MptcpSocket::CreateSubflow()
{
    auto subflow = DynamicCast<MptcpSubflow>(
        TcpLinuxSocketFactory::Create(m_node,
                                      MptcpSubflow::GetTypeId(),
                                      m_pathManager->GetCongestionControl()));
    subflow->SetPathManager(m_pathManager);
    return subflow;
}

MptcpSubflow&
MptcpSocket::GetFirst()
{
    if (m_subflows.empty())
    {
        Adopt(CreateSubflow());
    }
    return *m_subflows.front();
}

void
MptcpSocket::Adopt(Ptr<MptcpSubflow> subflow)
{
    const Ptr<MptcpSocket> self(this);
    subflow->SetId(m_nextSubflowId++);
    subflow->SetConnection(this);
    subflow->SetConnectCallback(MakeCallback(&MptcpSocket::OnConnected, self),
                                MakeCallback(&MptcpSocket::OnConnectFailed, self));
    subflow->SetCloseCallbacks(MakeCallback(&MptcpSocket::OnSubflowClosed, self),
                               MakeCallback(&MptcpSocket::OnSubflowClosed, self));
    m_subflows.push_back(subflow);
    UintegerValue overhead;
    subflow->GetAttribute("SkbOverhead", overhead);
    m_skbOverhead = overhead.Get();
    if (!m_group)
    {
        m_group = Create<MptcpCoupledGroup>();
    }
    m_group->Add(subflow->GetCongestionOps());
}

int
MptcpSocket::Bind()
{
    return GetFirst().Bind();
}

int
MptcpSocket::Bind6()
{
    return GetFirst().Bind6();
}

int
MptcpSocket::Bind(const Address& address)
{
    const int result = GetFirst().Bind(address);
    m_errno = GetFirst().GetErrno();
    return result;
}

int
MptcpSocket::Connect(const Address& address)
{
    if (m_state != TcpSocket::CLOSED || m_nextSubflowId > 1)
    {
        m_errno = ERROR_ISCONN;
        return -1;
    }
    MptcpSubflow& first = GetFirst();
    m_scheduler = m_pathManager->MakeScheduler();
    SetLocal(m_pathManager->DrawKey());
    if (m_pathManager->IsEnabled())
    {
        first.SetInitial();
    }
    else
    {
        Fallback(&first);
    }
    m_state = TcpSocket::SYN_SENT;
    m_peerName = address;
    m_pathState.remotePort = MptcpGetPort(address);
    const int result = first.Connect(address);
    m_errno = first.GetErrno();
    if (result != 0)
    {
        m_state = TcpSocket::CLOSED;
    }
    return result;
}

int
MptcpSocket::Listen()
{
    if (m_state != TcpSocket::CLOSED || m_subflows.empty())
    {
        m_errno = ERROR_INVAL;
        return -1;
    }
    m_listener = m_subflows.front();
    m_subflows.clear();
    m_listener->SetAcceptCallback(MakeCallback(&MptcpSocket::OnRequest, Ptr<MptcpSocket>(this)),
                                  MakeCallback(&MptcpSocket::OnAccept, Ptr<MptcpSocket>(this)));
    m_state = TcpSocket::LISTEN;
    return m_listener->Listen();
}

int
MptcpSocket::Close()
{
    switch (m_state)
    {
    case TcpSocket::LISTEN:
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      MakeNullCallback<void, Ptr<Socket>, const Address&>());
        m_listener->SetConnection(nullptr);
        m_listener->Close();
        m_listener = nullptr;
        m_state = TcpSocket::CLOSED;
        break;
    case TcpSocket::SYN_SENT:
        m_closeNotified = true;
        Finish();
        break;
    case TcpSocket::ESTABLISHED:
    case TcpSocket::CLOSE_WAIT:
        m_closeNotified = true;
        if (m_receiveQueue.GetInOrderBytes() > 0)
        {
            Abort(); // like TCP: the peer is to know that data was not read
            break;
        }
        ShutdownSend();
        m_closeEvent = Simulator::Schedule(m_pathManager->GetCloseTimeout(),
                                           &MptcpSocket::OnCloseTimeout,
                                           this);
        break;
    default:
        break;
    }
    return 0;
}

int
MptcpSocket::ShutdownSend()
{
    if (m_shutdownSend || (m_state != TcpSocket::ESTABLISHED && m_state != TcpSocket::CLOSE_WAIT))
    {
        return 0;
    }
    m_shutdownSend = true;
    m_state = m_state == TcpSocket::ESTABLISHED ? TcpSocket::FIN_WAIT_1 : TcpSocket::LAST_ACK;
    PushPending();
    CheckSendFin();
    return 0;
}

int
MptcpSocket::ShutdownRecv()
{
    m_shutdownReceive = true;
    return 0;
}

int
MptcpSocket::Send(Ptr<Packet> packet, uint32_t flags)
{
    if (m_shutdownSend)
    {
        m_errno = ERROR_SHUTDOWN;
        return -1;
    }
    if (m_state != TcpSocket::ESTABLISHED && m_state != TcpSocket::CLOSE_WAIT)
    {
        m_errno = ERROR_NOTCONN;
        return -1;
    }
    if (GetTxAvailable() == 0)
    {
        m_waitsForRoom = true;
        m_errno = ERROR_AGAIN;
        return -1;
    }
    m_sendQueue.Add(packet, flags & TcpLinuxSocket::SEND_EOR);
    if (!HoldsBack(flags))
    {
        PushPending();
    }
    else if (!m_retransmitEvent.IsPending())
    {
        UpdateTimeout();
        ResetTimer();
    }
    m_waitsForRoom = m_waitsForRoom || GetTxAvailable() == 0;
    return static_cast<int>(packet->GetSize());
}

bool
MptcpSocket::HoldsBack(uint32_t flags) const
{
    return (flags & TcpLinuxSocket::SEND_MORE) && !m_fallback &&
           m_sendQueue.GetEnd() - m_sendNext < m_hold &&
           (m_sendUnacknowledged != m_sendNext || GetTxAvailable() > 0);
}

int
MptcpSocket::SendTo(Ptr<Packet> packet, uint32_t flags, const Address& /* address */)
{
    return Send(packet, flags);
}

Ptr<Packet>
MptcpSocket::Recv(uint32_t maxSize, uint32_t /* flags */)
{
    Ptr<Packet> packet = m_receiveQueue.Extract(maxSize);
    if (!packet)
    {
        if (m_state == TcpSocket::CLOSE_WAIT)
        {
            return Create<Packet>(); // end of the stream, as ns-3's TCP tells it
        }
        m_errno = ERROR_AGAIN;
        return nullptr;
    }
    m_readBytes += packet->GetSize();
    if (!m_readEvent.IsPending())
    {
        // once the application has read all that it wants now
        m_readEvent = Simulator::ScheduleNow(&MptcpSocket::OnRead, this);
    }
    return packet;
}

Ptr<Packet>
MptcpSocket::RecvFrom(uint32_t maxSize, uint32_t flags, Address& from)
{
    GetPeerName(from);
    return Recv(maxSize, flags);
}

uint32_t
MptcpSocket::GetTxAvailable() const
{
    if (m_state != TcpSocket::ESTABLISHED && m_state != TcpSocket::CLOSE_WAIT)
    {
        return 0;
    }
    uint32_t buffer = SEND_BUFFER_BASE;
    for (const Ptr<MptcpSubflow>& subflow : m_subflows)
    {
        buffer += subflow->GetSndBuf();
    }
    const uint32_t used = m_sendQueue.GetBytes();
    return used < buffer ? buffer - used : 0;
}

uint32_t
MptcpSocket::GetRxAvailable() const
{
    return m_receiveQueue.GetInOrderBytes();
}

int
MptcpSocket::GetSockName(Address& address) const
{
    if (m_localName.IsInvalid())
    {
        return m_listener           ? m_listener->GetSockName(address)
               : m_subflows.empty() ? -1
                                    : m_subflows.front()->GetSockName(address);
    }
    address = m_localName;
    return 0;
}

int
MptcpSocket::GetPeerName(Address& address) const
{
    if (m_peerName.IsInvalid())
    {
        m_errno = ERROR_NOTCONN;
        return -1;
    }
    address = m_peerName;
    return 0;
}

bool
MptcpSocket::SetAllowBroadcast(bool allowBroadcast)
{
    return !allowBroadcast;
}

bool
MptcpSocket::GetAllowBroadcast() const
{
    return false;
}

void
MptcpSocket::Abort()
{
    m_closeNotified = true;
    for (const Ptr<MptcpSubflow>& subflow : std::vector(m_subflows))
    {
        subflow->FastClose();
        Remove(subflow);
    }
    Finish();
}

// ---- what others want to know

TcpSocket::TcpStates_t
MptcpSocket::GetState() const
{
    return m_state;
}

const std::vector<Ptr<MptcpSubflow>>&
MptcpSocket::GetSubflows() const
{
    return m_subflows;
}

bool
MptcpSocket::HasFallenBack() const
{
    return m_fallback;
}

uint64_t
MptcpSocket::GetSendNext() const
{
    return m_sendNext;
}

uint64_t
MptcpSocket::GetSendUnacknowledged() const
{
    return m_sendUnacknowledged;
}

uint64_t
MptcpSocket::GetWindowEnd() const
{
    return m_windowEnd;
}

uint32_t
MptcpSocket::GetOutOfOrderBytes() const
{
    return m_receiveQueue.GetOutOfOrderBytes();
}

uint32_t
MptcpSocket::GetLocalToken() const
{
    return MptcpToken(m_localKey);
}

Ptr<MptcpPathManager>
MptcpSocket::GetPathManager() const
{
    return m_pathManager;
}

const MptcpSocket::Statistics&
MptcpSocket::GetStatistics() const
{
    return m_statistics;
}

uint64_t
MptcpSocket::GetLocalKey() const
{
    return m_localKey;
}

uint64_t
MptcpSocket::GetRemoteKey() const
{
    return m_remoteKey;
}

void
MptcpSocket::SetLocal(uint64_t key)
{
    m_localKey = key;
    m_sendNext = MptcpIdsn(key) + 1;
    m_sendUnacknowledged = m_sendNext;
    m_windowEnd = m_sendNext;
    m_sendQueue.Reset(m_sendNext);
    m_receiveBuffer = m_receiveBufferInitial;
    m_retransmitTimeout = RTO_MIN;
}

void
MptcpSocket::SetRemote(uint64_t key, bool checksum)
{
    m_remoteKey = key;
    m_checksum = checksum || m_pathManager->HasChecksum();
    m_receiveQueue.Reset(MptcpIdsn(key) + 1);
    m_windowSent = m_receiveQueue.GetNext();
}

bool
MptcpSocket::HasChecksum() const
{
    return m_checksum;
}

bool
MptcpSocket::Uses8ByteAck() const
{
    return m_8ByteAck;
}

std::optional<uint64_t>
MptcpSocket::GetFin() const
{
    if (m_finSent)
    {
        return m_sendQueue.GetEnd();
    }
    return std::nullopt;
}

uint64_t
MptcpSocket::GetDataAck() const
{
    return m_receiveQueue.GetNext();
}

uint64_t
MptcpSocket::ExpandDsn(uint64_t dsn, bool whole)
{
    m_8ByteAck = whole;
    return whole ? dsn : MptcpExpand(GetDataAck(), static_cast<uint32_t>(dsn));
}

bool
MptcpSocket::MayBeJoined() const
{
    return m_established && !m_fallback && m_state == TcpSocket::ESTABLISHED;
}

MptcpPathState&
MptcpSocket::GetPathState()
{
    return m_pathState;
}

const MptcpPathState&
MptcpSocket::GetPathState() const
{
    return m_pathState;
}

} // namespace ns3
