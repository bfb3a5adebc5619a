/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// The MPTCP options that MptcpSubflow sends and receives.

#include "gso-tag.h"
#include "mptcp-path-manager.h"
#include "mptcp-sequence.h"
#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/simulator.h"
#include "ns3/tcp-congestion-ops.h"
#include "ns3/tcp-l4-protocol.h"

#include <algorithm>

namespace ns3
{

namespace
{

/// What of a HMAC the third packet of a join carries.
std::array<uint8_t, 20>
Truncate(const Sha256Digest& hmac)
{
    std::array<uint8_t, 20> bytes;
    std::copy_n(hmac.begin(), bytes.size(), bytes.begin());
    return bytes;
}

} // namespace

void
MptcpSubflow::AddOptionsTag(Ptr<const Packet> packet,
                            const TcpHeader& header,
                            Ptr<const TcpSocketBase> socket)
{
    auto subflow = const_cast<MptcpSubflow*>(static_cast<const MptcpSubflow*>(PeekPointer(socket)));
    const uint32_t size = packet->GetSize();
    const MptcpOptionTag tag = subflow->ComposeOptions(size, header);
    const uint32_t bytes = Padded(tag.GetBytes().size());
    if (bytes == 0)
    {
        return;
    }
    packet->AddPacketTag(tag);
    GsoTag gso;
    if (!packet->PeekPacketTag(gso))
    {
        const uint16_t ip = subflow->m_endPoint6 ? 40 : 20;
        gso = GsoTag(size, std::max(size, subflow->GetMss()), ip + header.GetSerializedSize());
    }
    gso = GsoTag(gso.GetPayload(), gso.GetSegmentPayload(), gso.GetSegmentHeader() + bytes);
    const_cast<Packet*>(PeekPointer(packet))->ReplacePacketTag(gso);
}

MptcpOptionTag
MptcpSubflow::ComposeOptions(uint32_t size, const TcpHeader& header)
{
    MptcpOptionTag tag;
    if (header.GetFlags() & TcpHeader::SYN)
    {
        m_localIsn = header.GetSequenceNumber();
        m_optionsReserved = !IsPlain(); // by GetOptionBytes(), as the segment size was chosen
        ComposeSyn(header.GetFlags() & TcpHeader::ACK, tag);
    }
    else if (header.GetFlags() & TcpHeader::RST)
    {
        ComposeReset(tag);
    }
    else if (m_connection && (m_role == Role::INITIAL || m_role == Role::JOIN))
    {
        const uint32_t ssn = ToSsn(header.GetSequenceNumber());
        MptcpMapping* mapping = size > 0 ? m_sendMappings.Find(ssn) : nullptr;
        if (mapping)
        {
            mapping->frozen = true;
            if (mapping->data)
            {
                mapping->dataFin = m_connection->GetFin() == mapping->dsn + mapping->length;
                mapping->checksum = MptcpDssChecksum(mapping->dsn,
                                                     mapping->ssn,
                                                     mapping->length + mapping->dataFin,
                                                     mapping->data);
                mapping->data = nullptr;
            }
        }
        if (!m_fullyEstablished && !m_passive && ssn == 1)
        {
            ComposeHandshakeAck(mapping, tag);
        }
        else if (size == 0 && !m_signals.empty())
        {
            // like Linux: a signal takes the place of the DSS
            tag.Append(m_signals.front());
            m_signals.pop_front();
        }
        else
        {
            tag.Append(ComposeDss(mapping).Encode());
        }
        m_sendMappings.DiscardBefore(1 + static_cast<uint32_t>(GetBytesAcked()));
    }
    return tag;
}

void
MptcpSubflow::ComposeSyn(bool ack, MptcpOptionTag& tag) const
{
    if (m_role == Role::INITIAL)
    {
        MptcpCapable capable;
        capable.checksumRequired = m_pathManager->HasChecksum();
        if (ack)
        {
            capable.checksumRequired |= m_remoteChecksum;
            capable.senderKey = m_localKey;
        }
        tag.Append(capable.Encode());
    }
    else if (m_role == Role::JOIN && ack)
    {
        MptcpJoinSynAck join{m_requestBackup, m_localId, {}, m_localNonce};
        Ptr<MptcpSocket> connection = m_pathManager->FindConnection(m_token);
        if (connection)
        {
            const Sha256Digest hmac = MptcpJoinHmac(connection->GetLocalKey(),
                                                    connection->GetRemoteKey(),
                                                    m_localNonce,
                                                    m_remoteNonce);
            std::copy_n(hmac.begin(), join.hmac.size(), join.hmac.begin());
        }
        tag.Append(join.Encode());
    }
    else if (m_role == Role::JOIN)
    {
        const uint32_t token = MptcpToken(m_connection->GetRemoteKey());
        tag.Append(MptcpJoinSyn{m_requestBackup, m_localId, token, m_localNonce}.Encode());
    }
}

void
MptcpSubflow::ComposeReset(MptcpOptionTag& tag) const
{
    if (m_fastClose)
    {
        tag.Append(MptcpFastclose{m_connection->GetRemoteKey()}.Encode());
    }
    else if (m_resetReason)
    {
        tag.Append(MptcpReset{false, *m_resetReason}.Encode());
    }
}

void
MptcpSubflow::ComposeHandshakeAck(const MptcpMapping* mapping, MptcpOptionTag& tag)
{
    if (m_role == Role::JOIN)
    {
        const Sha256Digest hmac = MptcpJoinHmac(m_connection->GetLocalKey(),
                                                m_connection->GetRemoteKey(),
                                                m_localNonce,
                                                m_remoteNonce);
        tag.Append(MptcpJoinAck{Truncate(hmac)}.Encode());
        if (!m_joinAckEvent.IsPending())
        {
            // nothing else would bring it again if it is lost (RFC 8684 §3.2)
            const Time delay = Max(2 * GetSrtt(), MilliSeconds(1));
            m_joinAckEvent = Simulator::Schedule(delay, &MptcpSubflow::ResendJoinAck, this);
        }
        return;
    }
    MptcpCapable capable;
    capable.checksumRequired = m_connection->HasChecksum();
    capable.senderKey = m_connection->GetLocalKey();
    capable.receiverKey = m_connection->GetRemoteKey();
    if (mapping)
    {
        capable.length = mapping->length;
        capable.checksum = mapping->checksum;
    }
    tag.Append(capable.Encode());
}

MptcpDss
MptcpSubflow::ComposeDss(const MptcpMapping* mapping) const
{
    MptcpDss dss;
    dss.dataAck = m_connection->GetDataAck();
    dss.ack8 = m_connection->Uses8ByteAck();
    const std::optional<uint64_t> fin = m_connection->GetFin();
    if (mapping)
    {
        dss.dsn = mapping->dsn;
        dss.ssn = mapping->ssn;
        dss.checksum = mapping->checksum;
        dss.dataFin = mapping->checksum ? mapping->dataFin : fin == mapping->dsn + mapping->length;
        dss.length = mapping->length + dss.dataFin;
    }
    else if (fin)
    {
        dss.dsn = *fin;
        dss.length = 1;
        dss.dataFin = true;
        if (m_connection->HasChecksum())
        {
            dss.checksum = MptcpDssChecksum(*fin, 0, 1, std::span<const uint8_t>());
        }
    }
    return dss;
}

void
MptcpSubflow::ResendJoinAck()
{
    if (!m_fullyEstablished && m_state == ESTABLISHED)
    {
        SendAck();
    }
}

Ptr<TcpSocketBase>
MptcpSubflow::Fork()
{
    return CopyObject<MptcpSubflow>(this);
}

void
MptcpSubflow::DoForwardUp(Ptr<Packet> packet, const Address& fromAddress, const Address& toAddress)
{
    Ptr<MptcpSubflow> alive(this);
    MptcpOptionTag tag;
    std::vector<MptcpOption> options;
    if (packet->RemovePacketTag(tag))
    {
        options = DecodeMptcpOptions(tag.GetBytes());
    }
    TcpHeader header;
    const uint32_t size = packet->GetSize() - packet->PeekHeader(header);
    const uint8_t flags = header.GetFlags();

    if (m_state == LISTEN)
    {
        if ((flags & TcpHeader::SYN) && !AcceptSyn(options, toAddress))
        {
            Refuse(header, fromAddress, toAddress);
            return;
        }
        TcpLinuxSocket::DoForwardUp(packet, fromAddress, toAddress); // forks by what it found
        m_role = Role::LISTENER;
        return;
    }

    bool goOn = true;
    if (flags & TcpHeader::SYN)
    {
        m_remoteIsn = header.GetSequenceNumber();
        goOn = m_state != SYN_SENT || !(flags & TcpHeader::ACK) || ReadSynAck(options);
    }
    else if (m_role != Role::PLAIN)
    {
        goOn = ReadHandshake(options, header, size);
    }
    if (!goOn)
    {
        return;
    }
    if (m_connection && m_fullyEstablished && size > 0)
    {
        UpdateOwnWindow();
    }
    const bool wasPending = m_passive && m_state == SYN_RCVD;
    TcpLinuxSocket::DoForwardUp(packet, fromAddress, toAddress);
    if (!m_connection || !(flags & TcpHeader::ACK) || (flags & (TcpHeader::SYN | TcpHeader::RST)))
    {
        return;
    }
    m_lastReceived = Simulator::Now();
    if (m_role == Role::PLAIN)
    {
        m_connection->OnPlainAck();
        return;
    }
    if (wasPending && m_state != SYN_RCVD)
    {
        m_connection->OnSubflowEstablished(this);
        if (m_role == Role::JOIN && m_connection)
        {
            SendAck(); // tells the peer that it may send data
        }
    }
    if (const auto* dss = FindMptcpOption<MptcpDss>(options); dss && m_connection)
    {
        if (dss->dataFin && dss->dsn)
        {
            const uint64_t begin = m_connection->ExpandDsn(*dss->dsn, dss->dsn8);
            m_connection->OnFin(begin + dss->length - 1);
        }
        if (dss->dataAck && m_connection)
        {
            UpdateDrainRate();
            m_connection->OnDataAck(*dss->dataAck,
                                    dss->ack8,
                                    header.GetWindowSize() << m_sndWindShift);
        }
    }
    if (m_connection)
    {
        ReadSignals(options);
    }
}

bool
MptcpSubflow::AcceptSyn(const std::vector<MptcpOption>& options, const Address& toAddress)
{
    m_role = Role::PLAIN;
    if (const auto* join = FindMptcpOption<MptcpJoinSyn>(options))
    {
        Ptr<MptcpSocket> connection = m_pathManager->FindConnection(join->token);
        if (!connection || !connection->MayBeJoined() || !m_pathManager->MayAccept(*connection))
        {
            return false;
        }
        m_role = Role::JOIN;
        m_localId = m_pathManager->FindEndpoint(toAddress);
        m_requestBackup = m_pathManager->IsBackup(m_localId);
        m_localNonce = m_pathManager->DrawNonce();
        m_token = join->token;
        m_remoteNonce = join->nonce;
        m_remoteId = join->addressId;
        m_backup = join->backup;
        return true;
    }
    if (!m_connection)
    {
        return false; // joins only
    }
    if (const auto* capable = FindMptcpOption<MptcpCapable>(options);
        capable && m_pathManager->IsEnabled())
    {
        m_role = Role::INITIAL;
        m_remoteChecksum = capable->checksumRequired;
        m_localKey = m_pathManager->DrawKey();
    }
    return true;
}

bool
MptcpSubflow::ReadSynAck(const std::vector<MptcpOption>& options)
{
    if (m_role == Role::INITIAL)
    {
        const auto* capable = FindMptcpOption<MptcpCapable>(options);
        if (!capable || !capable->senderKey)
        {
            m_connection->Fallback(this);
            return true;
        }
        m_remoteKey = *capable->senderKey;
        m_connection->SetRemote(m_remoteKey, capable->checksumRequired);
    }
    else if (m_role == Role::JOIN)
    {
        const auto* join = FindMptcpOption<MptcpJoinSynAck>(options);
        bool valid = false;
        if (join)
        {
            m_remoteNonce = join->nonce;
            m_backup = join->backup;
            const Sha256Digest hmac = MptcpJoinHmac(m_connection->GetRemoteKey(),
                                                    m_connection->GetLocalKey(),
                                                    m_remoteNonce,
                                                    m_localNonce);
            valid = std::equal(join->hmac.begin(), join->hmac.end(), hmac.begin());
        }
        if (!valid)
        {
            Reset(RESET_MPTCP);
            return false;
        }
    }
    return true;
}

bool
MptcpSubflow::ReadHandshake(const std::vector<MptcpOption>& options,
                            const TcpHeader& header,
                            uint32_t size)
{
    if (header.GetFlags() & TcpHeader::RST)
    {
        const auto* fastClose = FindMptcpOption<MptcpFastclose>(options);
        if (fastClose && m_connection && fastClose->receiverKey == m_connection->GetLocalKey())
        {
            m_connection->OnFastClose();
            return false;
        }
        return true;
    }

    const auto* capable = FindMptcpOption<MptcpCapable>(options);
    const auto* dss = FindMptcpOption<MptcpDss>(options);
    if (m_state == SYN_RCVD && (header.GetFlags() & TcpHeader::ACK))
    {
        if (m_role == Role::JOIN)
        {
            const auto* join = FindMptcpOption<MptcpJoinAck>(options);
            Ptr<MptcpSocket> connection = m_pathManager->FindConnection(m_token);
            if (!join || !connection ||
                join->hmac != Truncate(MptcpJoinHmac(connection->GetRemoteKey(),
                                                     connection->GetLocalKey(),
                                                     m_remoteNonce,
                                                     m_localNonce)))
            {
                Reset(RESET_MPTCP);
                return false;
            }
            m_fullyEstablished = true;
        }
        else if (capable && capable->receiverKey == m_localKey)
        {
            m_remoteKey = *capable->senderKey;
            m_fullyEstablished = true;
        }
        else
        {
            SetPlain(); // RFC 8684 §3.7: the peer's options got lost
            return true;
        }
    }
    else if (!m_fullyEstablished && m_connection &&
             header.GetSequenceNumber() == m_remoteIsn + SequenceNumber32(1))
    {
        if ((dss && dss->dataAck) || FindMptcpOption<MptcpAddAddr>(options))
        {
            SetFullyEstablished();
        }
        else if (m_role == Role::JOIN)
        {
            Reset(RESET_MPTCP);
            return false;
        }
        else if (options.empty())
        {
            m_connection->Fallback(this);
            return true;
        }
    }
    else if (m_passive && m_role == Role::JOIN && FindMptcpOption<MptcpJoinAck>(options))
    {
        SendAck(); // the peer did not see the one that confirms the join
    }

    if (size == 0)
    {
        return true;
    }
    MptcpDss mapping;
    if (dss)
    {
        mapping = *dss;
    }
    else if (capable && capable->length)
    {
        // the first data (RFC 8684 §3.1)
        mapping.dsn = MptcpIdsn(m_remoteKey) + 1;
        mapping.ssn = 1;
        mapping.length = *capable->length;
        mapping.checksum = capable->checksum;
    }
    if (mapping.dsn && !ReadMapping(mapping))
    {
        Reset(RESET_MPTCP);
        return false;
    }
    return true;
}

bool
MptcpSubflow::ReadMapping(const MptcpDss& dss)
{
    MptcpMapping mapping;
    mapping.dsn = m_connection ? m_connection->ExpandDsn(*dss.dsn, dss.dsn8)
                               : MptcpExpand(MptcpIdsn(m_remoteKey) + 1, *dss.dsn);
    mapping.ssn = dss.ssn;
    mapping.dataFin = dss.dataFin;
    mapping.length = dss.length - dss.dataFin;
    mapping.checksum = dss.checksum;
    if (mapping.length == 0 || !MptcpSubflowBefore(m_readSsn, mapping.GetEnd()))
    {
        return true; // a DATA_FIN alone, or data that was delivered
    }
    return m_readMappings.Insert(mapping);
}

void
MptcpSubflow::SetFullyEstablished()
{
    m_fullyEstablished = true;
    m_joinAckEvent.Cancel();
    m_connection->OnSubflowEstablished(this);
}

void
MptcpSubflow::ReadSignals(const std::vector<MptcpOption>& options)
{
    for (const MptcpOption& option : options)
    {
        if (!m_connection)
        {
            return;
        }
        if (const auto* add = std::get_if<MptcpAddAddr>(&option))
        {
            m_pathManager->OnAddAddr(*m_connection, *this, *add);
        }
        else if (const auto* remove = std::get_if<MptcpRemoveAddr>(&option))
        {
            m_pathManager->OnRemoveAddr(*m_connection, *remove);
        }
        else if (const auto* prio = std::get_if<MptcpPrio>(&option))
        {
            m_backup = prio->backup;
            m_connection->PushPending();
        }
    }
}

void
MptcpSubflow::OnDataQueued()
{
    while (m_connection && GetRxAvailable() > 0)
    {
        if (IsPlain())
        {
            m_connection->Receive(*this, m_connection->GetDataAck(), Recv(UINT32_MAX, 0));
            continue;
        }
        const MptcpMapping* found = m_readMappings.Find(m_readSsn);
        if (!found)
        {
            // someone took the option away
            Simulator::ScheduleNow(&MptcpSubflow::Reset, this, RESET_MIDDLEBOX);
            return;
        }
        const MptcpMapping mapping = *found;
        Ptr<Packet> data = TakeMapped(mapping);
        if (!data)
        {
            return;
        }
        const uint64_t dsn = mapping.dsn + (m_readSsn - mapping.ssn);
        m_readSsn += data->GetSize();
        m_readMappings.DiscardBefore(m_readSsn);
        if (mapping.checksum && !Verify(mapping, data))
        {
            Signal(MptcpFail{mapping.dsn}.Encode());
            SendAck();
            Simulator::ScheduleNow(&MptcpSubflow::Reset, this, RESET_MIDDLEBOX);
            return;
        }
        m_connection->Receive(*this, dsn, data);
    }
}

Ptr<Packet>
MptcpSubflow::TakeMapped(const MptcpMapping& mapping)
{
    const uint32_t most = mapping.GetEnd() - m_readSsn;
    if (!mapping.checksum)
    {
        return Recv(most, 0);
    }
    if (GetRxAvailable() < most)
    {
        return nullptr;
    }
    Ptr<Packet> data = Create<Packet>();
    while (data->GetSize() < most)
    {
        data->AddAtEnd(Recv(most - data->GetSize(), 0));
    }
    return data;
}

void
MptcpSubflow::NotifyData(Ptr<Socket> /* socket */)
{
    if (m_connection)
    {
        m_connection->UpdateReceiveRtt(*this);
        m_connection->DataReady();
    }
}

bool
MptcpSubflow::Verify(const MptcpMapping& mapping, Ptr<const Packet> data)
{
    const uint16_t length = mapping.length + mapping.dataFin;
    return MptcpDssChecksum(mapping.dsn, mapping.ssn, length, data) == mapping.checksum;
}

void
MptcpSubflow::Refuse(const TcpHeader& header, const Address& from, const Address& to)
{
    TcpHeader reset;
    reset.SetFlags(TcpHeader::RST); // without ACK, which ns-3 ignores before it is connected
    reset.SetSourcePort(header.GetDestinationPort());
    reset.SetDestinationPort(header.GetSourcePort());
    m_resetReason = RESET_MPTCP;
    Ptr<Packet> packet = Create<Packet>();
    m_txTrace(packet, reset, this);
    m_tcp->SendPacket(packet, reset, to, from, GetBoundNetDevice());
}

} // namespace ns3
