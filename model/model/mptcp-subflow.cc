/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Accessors, and what a subflow sends. The options of its segments are in mptcp-subflow-options.cc.

#include "mptcp-subflow.h"

#include "mptcp-path-manager.h"
#include "mptcp-sequence.h"
#include "mptcp-socket.h"

#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/tcp-congestion-ops.h"
#include "ns3/tcp-l4-protocol.h"

#include <algorithm>
#include <utility>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("MptcpSubflow");

namespace
{

/// Option space that a DSS with mapping and 8-byte data ACK takes from each segment's data.
constexpr uint32_t DSS_BYTES = 28;

/// Most bytes in a mapping: those of a GSO packet.
constexpr uint32_t GSO_BYTES = 65483;

/// Shortest sample of the drain rate.
const Time DRAIN_SAMPLE = MilliSeconds(1);

/// Smallest one, in bytes.
constexpr uint64_t DRAIN_SAMPLE_BYTES = 16384;

/// For each such time that a subflow isn't used its drain rate doubles,
const Time DRAIN_FORGET = MilliSeconds(10);

/// up to so many times.
constexpr int64_t DRAIN_FORGET_MOST = 16;

} // namespace

NS_OBJECT_ENSURE_REGISTERED(MptcpSubflow);

TypeId
MptcpSubflow::GetTypeId()
{
    static TypeId tid = TypeId("ns3::MptcpSubflow")
                            .SetParent<TcpLinuxSocket>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<MptcpSubflow>();
    return tid;
}

MptcpSubflow::MptcpSubflow()
{
    m_txTrace.ConnectWithoutContext(MakeCallback(&MptcpSubflow::AddOptionsTag));
}

MptcpSubflow::MptcpSubflow(const MptcpSubflow& subflow)
    : TcpSocketTypeId(subflow),
      m_pathManager(subflow.m_pathManager),
      m_role(subflow.m_role),
      m_localId(subflow.m_localId),
      m_remoteId(subflow.m_remoteId),
      m_backup(subflow.m_backup),
      m_requestBackup(subflow.m_requestBackup),
      m_passive(true),
      m_localKey(subflow.m_localKey),
      m_remoteChecksum(subflow.m_remoteChecksum),
      m_localNonce(subflow.m_localNonce),
      m_remoteNonce(subflow.m_remoteNonce),
      m_token(subflow.m_token)
{
    m_txTrace.ConnectWithoutContext(MakeCallback(&MptcpSubflow::AddOptionsTag));
}

MptcpSubflow::~MptcpSubflow() = default;

void
MptcpSubflow::DoDispose()
{
    m_joinAckEvent.Cancel();
    m_connection = nullptr;
    m_pathManager = nullptr;
    TcpLinuxSocket::DoDispose();
}

void
MptcpSubflow::SetConnection(MptcpSocket* connection)
{
    m_connection = connection;
    if (connection)
    {
        SetRecvCallback(MakeCallback(&MptcpSubflow::NotifyData, this));
    }
    else
    {
        SetRecvCallback(MakeNullCallback<void, Ptr<Socket>>());
        m_joinAckEvent.Cancel();
    }
}

MptcpSocket*
MptcpSubflow::GetConnection() const
{
    return m_connection;
}

void
MptcpSubflow::SetInitial()
{
    m_role = Role::INITIAL;
    m_localKey = m_connection->GetLocalKey();
}

void
MptcpSubflow::SetJoin(uint8_t localId, uint8_t remoteId, bool backup)
{
    m_role = Role::JOIN;
    m_localId = localId;
    m_remoteId = remoteId;
    m_requestBackup = backup;
    m_localNonce = m_connection->GetPathManager()->DrawNonce();
}

bool
MptcpSubflow::IsJoin() const
{
    return m_role == Role::JOIN;
}

bool
MptcpSubflow::IsUsable() const
{
    if (m_failed || (m_state != ESTABLISHED && m_state != CLOSE_WAIT))
    {
        return false;
    }
    return m_role != Role::JOIN || m_fullyEstablished;
}

bool
MptcpSubflow::IsActive()
{
    if (m_stale.isStale)
    {
        if (m_stale.lastReceived == m_lastReceived)
        {
            return false;
        }
        m_stale.isStale = false;
    }
    return IsUsable();
}

bool
MptcpSubflow::IsBackup() const
{
    return m_backup || m_requestBackup;
}

void
MptcpSubflow::SetBackup(bool backup)
{
    m_requestBackup = backup;
    Signal(MptcpPrio{backup}.Encode());
    SendAck();
}

uint32_t
MptcpSubflow::GetId() const
{
    return m_id;
}

void
MptcpSubflow::SetId(uint32_t id)
{
    m_id = id;
}

uint8_t
MptcpSubflow::GetLocalId() const
{
    return m_localId;
}

uint8_t
MptcpSubflow::GetRemoteId() const
{
    return m_remoteId;
}

MptcpSubflow::Stale&
MptcpSubflow::GetStale()
{
    return m_stale;
}

void
MptcpSubflow::SetPathManager(Ptr<MptcpPathManager> pathManager)
{
    m_pathManager = pathManager;
}

Ptr<MptcpPathManager>
MptcpSubflow::GetPathManager() const
{
    return m_pathManager;
}

uint64_t
MptcpSubflow::GetLocalKey() const
{
    return m_localKey;
}

uint64_t
MptcpSubflow::GetRemoteKey() const
{
    return m_remoteKey;
}

bool
MptcpSubflow::WantsChecksum() const
{
    return m_remoteChecksum || m_pathManager->HasChecksum();
}

uint32_t
MptcpSubflow::GetToken() const
{
    return m_token;
}

bool
MptcpSubflow::IsPlain() const
{
    return m_role == Role::PLAIN;
}

void
MptcpSubflow::SetPlain()
{
    m_role = Role::PLAIN;
    if (m_optionsReserved)
    {
        m_tcb->m_segmentSize += DSS_BYTES;
        m_optionsReserved = false;
    }
}

bool
MptcpSubflow::HasPeerClosed() const
{
    return m_state == CLOSE_WAIT;
}

void
MptcpSubflow::Queue(uint64_t dsn, Ptr<Packet> data, bool endOfRecord)
{
    if (m_role != Role::PLAIN)
    {
        const uint32_t most = GSO_BYTES / GetMss() * GetMss();
        m_sendMappings.Append(m_writeSsn, dsn, data, most, m_connection->HasChecksum());
        if (endOfRecord)
        {
            m_sendMappings.Close();
        }
    }
    m_writeSsn += data->GetSize();
    Append(data, endOfRecord);
}

void
MptcpSubflow::PushQueued()
{
    Push();
}

bool
MptcpSubflow::WaitsForRoom() const
{
    return m_connection && m_connection->WaitsForRoom();
}

void
MptcpSubflow::NotifyRoom()
{
    if (WaitsForRoom())
    {
        GrowSndBuf();
        m_connection->NotifyRoom();
    }
}

uint32_t
MptcpSubflow::LimitSegment(SequenceNumber32 seq, uint32_t size) const
{
    const uint32_t ssn = ToSsn(seq);
    const MptcpMapping* mapping = m_sendMappings.Find(ssn);
    return mapping ? std::min(size, mapping->GetEnd() - ssn) : size;
}

uint32_t
MptcpSubflow::GetOptionBytes(bool data) const
{
    if (m_role == Role::PLAIN)
    {
        return 0;
    }
    return data ? DSS_BYTES : m_connection && m_connection->Uses8ByteAck() ? 12 : 8;
}

bool
MptcpSubflow::IsIdle() const
{
    return GetQueued() == 0;
}

Ptr<TcpCongestionOps>
MptcpSubflow::GetCongestionOps() const
{
    return m_congestionControl;
}

uint32_t
MptcpSubflow::GetCongestionWindow() const
{
    return m_tcb->m_cWnd;
}

uint32_t
MptcpSubflow::GetInFlight() const
{
    return GetPacketsInFlight() * m_tcb->m_segmentSize;
}

uint32_t
MptcpSubflow::GetMss() const
{
    return m_tcb->m_segmentSize;
}

uint32_t
MptcpSubflow::GetPeerWindow() const
{
    return m_rWnd;
}

uint64_t
MptcpSubflow::GetDrainRate() const
{
    const uint64_t pace = GetPacingRateBytes();
    if (m_drainRate == 0)
    {
        return pace;
    }
    uint64_t rate = InSlowStart() ? 2 * m_drainRate : m_drainRate;
    if (!m_drainStamp.IsStrictlyPositive())
    {
        // next to nothing in flight: what is known may be old
        rate = std::max(rate, static_cast<uint64_t>(GetDeliveryRate() / 2));
        const int64_t unused = (GetIdle() / DRAIN_FORGET).GetHigh();
        rate <<= std::min<int64_t>(unused, DRAIN_FORGET_MOST);
    }
    return std::min(rate, pace);
}

void
MptcpSubflow::UpdateDrainRate()
{
    // the ACK of less than a segment may be a delayed one
    const bool busy = GetBytesUnacknowledged() > GetMss();
    const uint64_t acked = GetBytesAcked();
    if (m_drainStamp.IsStrictlyPositive())
    {
        const Time elapsed = Simulator::Now() - m_drainStamp;
        const uint64_t size = acked - m_drainAcked;
        const bool enough = elapsed >= DRAIN_SAMPLE && size >= DRAIN_SAMPLE_BYTES;
        if (busy && (!enough || elapsed < GetSrtt() / 2))
        {
            return;
        }
        if (enough)
        {
            const auto rate = static_cast<uint64_t>(size * 1e9 / elapsed.GetNanoSeconds());
            // in whole us, as Linux has them
            const bool byPath =
                Simulator::Now().GetMicroSeconds() - m_drainStamp.GetMicroSeconds() >
                GetNewestDelivered().GetMicroSeconds() - m_drainSent.GetMicroSeconds();
            if (rate >= m_drainRate)
            {
                m_drainRate = rate;
            }
            else if (byPath)
            {
                m_drainRate = (3 * m_drainRate + rate) / 4;
            }
        }
    }
    m_drainStamp = busy ? Simulator::Now() : Time(0);
    m_drainSent = GetNewestDelivered();
    m_drainAcked = acked;
}

Time
MptcpSubflow::GetLastReceived() const
{
    return m_lastReceived;
}

void
MptcpSubflow::SendAck()
{
    if (m_state != CLOSED && m_state != LISTEN && m_state != SYN_SENT && m_state != SYN_RCVD)
    {
        SendEmptyPacket(TcpHeader::ACK);
    }
}

void
MptcpSubflow::Signal(std::vector<uint8_t> option)
{
    m_signals.push_back(std::move(option));
}

void
MptcpSubflow::Reset(uint8_t reason)
{
    NS_LOG_FUNCTION(this << +reason);
    Ptr<MptcpSubflow> alive(this); // whoever hears of the end may drop the last reference
    m_failed = true;
    m_resetReason = reason;
    SendRST();
    m_state = CLOSED;
}

void
MptcpSubflow::FastClose()
{
    Ptr<MptcpSubflow> alive(this);
    m_failed = true;
    m_fastClose = true;
    SendEmptyPacket(TcpHeader::RST);
    m_state = CLOSED;
    DeallocateEndPoint();
}

// For an MP_JOIN tcp_check_req() returns before it would measure the SYN-ACK's round trip, so that
// the first sample is that of the timestamps: whole milliseconds, at least one.
Time
MptcpSubflow::GetHandshakeRtt(Time sent) const
{
    if (!m_passive || m_role != Role::JOIN)
    {
        return TcpLinuxSocket::GetHandshakeRtt(sent);
    }
    const int64_t gone = Simulator::Now().GetMilliSeconds() - sent.GetMilliSeconds();
    return MilliSeconds(std::max<int64_t>(gone, 1));
}

// mptcp_space(): the buffer is the connection's
void
MptcpSubflow::AdjustReceiveSpace(int64_t& free, int64_t& full) const
{
    if (m_connection && !IsPlain())
    {
        free = m_connection->GetFreeWindow();
        full = m_connection->GetFullWindow();
    }
}

// mptcp_set_rwin()
uint16_t
MptcpSubflow::AdvertisedWindowSize(bool scale) const
{
    if (!m_connection || !scale || IsPlain() || m_state == LISTEN)
    {
        return TcpLinuxSocket::AdvertisedWindowSize(scale);
    }
    // what this subflow offered before doesn't bind it: others may have used it up
    m_rcvWindow.Offered(m_rcvWindow.GetLastAck(), 0);
    const uint16_t own = TcpLinuxSocket::AdvertisedWindowSize(scale);
    const uint32_t window = m_connection->OfferWindow(uint32_t{own} << m_rcvWindShift);
    return static_cast<uint16_t>(std::min<uint32_t>(window >> m_rcvWindShift, UINT16_MAX));
}

// rwin_update(): another subflow may have offered more since this one did
void
MptcpSubflow::UpdateOwnWindow()
{
    const uint64_t offered = m_connection->GetOfferedWindow();
    const uint64_t next = m_rcvWindow.GetLastAck();
    if (offered > m_rcvWindow.GetWindow())
    {
        m_rcvWindow.Offered(next, static_cast<uint32_t>(offered));
    }
}

void
MptcpSubflow::GrowReceiveBuffer(uint32_t bytes)
{
    m_rcvWindow.GrowBuffer(bytes, 0, 0);
}

bool
MptcpSubflow::TunesReceiveBuffer() const
{
    return IsPlain();
}

void
MptcpSubflow::OnRead(bool update, bool empty)
{
    if (update || OwesAck(empty))
    {
        CleanReceived(true);
    }
}

Time
MptcpSubflow::TakeReceiveRtt()
{
    const uint64_t end = m_rcvWindow.GetRttEnd();
    return std::exchange(m_receiveRttEnd, end) == end ? Time(0) : m_rcvWindow.GetRtt();
}

double
MptcpSubflow::GetDataShare() const
{
    return static_cast<double>(m_rcvWindow.GetFull()) / m_rcvWindow.GetBuffer();
}

uint32_t
MptcpSubflow::ToSsn(SequenceNumber32 sequence) const
{
    return sequence.GetValue() - m_localIsn.GetValue();
}

uint32_t
MptcpSubflow::Padded(uint32_t bytes)
{
    return (bytes + 3) / 4 * 4;
}

} // namespace ns3
