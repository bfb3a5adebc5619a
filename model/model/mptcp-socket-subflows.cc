/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// How MptcpSocket gets subflows, and loses them.

#include "mptcp-address.h"
#include "mptcp-coupled-congestion.h"
#include "mptcp-crypto.h"
#include "mptcp-scheduler.h"
#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include "ns3/ipv4.h"
#include "ns3/ipv6.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("MptcpSocketSubflows");

namespace
{

/// @return the node's device with an address, null if there is none
Ptr<NetDevice>
FindDevice(Ptr<Node> node, const Address& address)
{
    if (Inet6SocketAddress::IsMatchingType(address))
    {
        auto ip = node->GetObject<Ipv6>();
        int32_t i = ip->GetInterfaceForAddress(Inet6SocketAddress::ConvertFrom(address).GetIpv6());
        return i < 0 ? nullptr : ip->GetNetDevice(i);
    }
    auto ip = node->GetObject<Ipv4>();
    int32_t i = ip->GetInterfaceForAddress(InetSocketAddress::ConvertFrom(address).GetIpv4());
    return i < 0 ? nullptr : ip->GetNetDevice(i);
}

} // namespace

void
MptcpSocket::OpenSubflow(const Address& local,
                         uint8_t localId,
                         const Address& remote,
                         uint8_t remoteId,
                         bool backup)
{
    Ptr<MptcpSubflow> subflow = CreateSubflow();
    Adopt(subflow);
    ++m_pathState.subflows;
    subflow->SetJoin(localId, remoteId, backup);
    if (!local.IsInvalid())
    {
        // bound to the device as well: routing chooses by source then
        if (subflow->Bind(local) != 0)
        {
            NS_LOG_WARN("can't bind a subflow");
            Remove(subflow);
            return;
        }
        subflow->BindToNetDevice(FindDevice(m_node, local));
    }
    if (subflow->Connect(remote) != 0)
    {
        NS_LOG_WARN("no route for a subflow");
        Remove(subflow);
    }
}

void
MptcpSocket::CloseSubflows(const std::function<bool(const MptcpSubflow&)>& which)
{
    for (const Ptr<MptcpSubflow>& subflow : std::vector(m_subflows))
    {
        if (which(*subflow))
        {
            OnSubflowClosed(subflow);
        }
    }
}

bool
MptcpSocket::HasSubflowTo(const Address& remote) const
{
    return std::any_of(m_subflows.begin(), m_subflows.end(), [&](const auto& subflow) {
        Address name;
        return subflow->GetPeerName(name) == 0 && name == remote;
    });
}

bool
MptcpSocket::HasSubflowFrom(const Address& local) const
{
    return std::any_of(m_subflows.begin(), m_subflows.end(), [&](const auto& subflow) {
        Address name;
        return subflow->GetSockName(name) == 0 && MptcpWithoutPort(name) == local;
    });
}

void
MptcpSocket::SignalAny(const std::vector<uint8_t>& option)
{
    for (const Ptr<MptcpSubflow>& subflow : m_subflows)
    {
        if (subflow->IsActive())
        {
            subflow->Signal(option);
            subflow->SendAck();
            return;
        }
    }
}

void
MptcpSocket::SignalAll(const std::vector<uint8_t>& option)
{
    for (const Ptr<MptcpSubflow>& subflow : m_subflows)
    {
        if (subflow->IsUsable())
        {
            subflow->Signal(option);
            subflow->SendAck();
        }
    }
}

Time
MptcpSocket::GetLongestRto() const
{
    Time longest = RTO_MIN;
    for (const Ptr<MptcpSubflow>& subflow : m_subflows)
    {
        longest = Max(longest, subflow->GetRto());
    }
    return longest;
}

void
MptcpSocket::OnConnected(Ptr<Socket> socket)
{
    auto subflow = DynamicCast<MptcpSubflow>(socket);
    if (subflow->IsJoin())
    {
        return; // of use when the peer confirmed the join
    }
    m_state = TcpSocket::ESTABLISHED;
    subflow->GetSockName(m_localName);
    m_windowEnd = m_sendNext + subflow->GetPeerWindow();
    if (!m_fallback)
    {
        m_pathManager->AddConnection(GetLocalToken(), this);
    }
    m_subflowOpened(this, subflow);
    NotifyConnectionSucceeded();
    NotifySend(GetTxAvailable());
}

void
MptcpSocket::OnConnectFailed(Ptr<Socket> socket)
{
    auto subflow = DynamicCast<MptcpSubflow>(socket);
    Remove(subflow);
    if (m_state == TcpSocket::SYN_SENT)
    {
        m_state = TcpSocket::CLOSED;
        NotifyConnectionFailed();
    }
}

void
MptcpSocket::OnSubflowClosed(Ptr<Socket> socket)
{
    Ptr<MptcpSocket> alive(this);
    auto subflow = DynamicCast<MptcpSubflow>(socket);
    if (m_state == TcpSocket::SYN_SENT)
    {
        OnConnectFailed(socket);
        return;
    }
    if (m_fallback && m_state != TcpSocket::CLOSED && subflow->HasPeerClosed())
    {
        OnFin(m_receiveQueue.GetNext()); // the connection's FIN is the subflow's
        return;
    }
    const bool idle = subflow->IsIdle();
    Remove(subflow);
    if (subflow->HasPeerClosed() || subflow->IsUsable())
    {
        if (idle)
        {
            subflow->Close();
        }
        else
        {
            subflow->Reset(MptcpSubflow::RESET_PERFORMANCE);
        }
    }
    if (m_state == TcpSocket::CLOSED)
    {
        return;
    }
    m_subflowClosed(this, subflow);
    if (m_fallback)
    {
        Finish();
        if (!m_closeNotified)
        {
            m_closeNotified = true;
            NotifyErrorClose();
        }
        return;
    }
    Reinject();
    PushPending();
    CheckSendFin();
    if (m_subflows.empty() && !m_closeEvent.IsPending())
    {
        m_closeEvent = Simulator::Schedule(m_pathManager->GetCloseTimeout(),
                                           &MptcpSocket::OnCloseTimeout,
                                           this);
    }
}

void
MptcpSocket::Remove(Ptr<MptcpSubflow> subflow)
{
    subflow->SetConnection(nullptr);
    subflow->SetConnectCallback(MakeNullCallback<void, Ptr<Socket>>(),
                                MakeNullCallback<void, Ptr<Socket>>());
    subflow->SetCloseCallbacks(MakeNullCallback<void, Ptr<Socket>>(),
                               MakeNullCallback<void, Ptr<Socket>>());
    m_group->Remove(subflow->GetCongestionOps());
    if (std::erase(m_subflows, subflow) > 0 && subflow->IsJoin() && m_pathState.subflows > 0)
    {
        --m_pathState.subflows;
    }
}

bool
MptcpSocket::OnRequest(Ptr<Socket> /* socket */, const Address& from)
{
    return NotifyConnectionRequest(from);
}

void
MptcpSocket::OnAccept(Ptr<Socket> socket, const Address& from)
{
    auto subflow = DynamicCast<MptcpSubflow>(socket);
    if (subflow->IsJoin())
    {
        AcceptSubflow(socket, from);
        return;
    }
    auto connection = CopyObject<MptcpSocket>(this);
    connection->m_scheduler = m_pathManager->MakeScheduler();
    connection->m_pathState.passive = true;
    connection->m_state = TcpSocket::ESTABLISHED;
    connection->Adopt(subflow);
    connection->m_peerName = from;
    connection->m_pathState.remotePort = MptcpGetPort(from);
    subflow->GetSockName(connection->m_localName);
    if (subflow->IsPlain())
    {
        connection->SetLocal(m_pathManager->DrawKey());
        connection->Fallback(PeekPointer(subflow));
    }
    else
    {
        connection->SetLocal(subflow->GetLocalKey());
        connection->SetRemote(subflow->GetRemoteKey(), subflow->WantsChecksum());
        m_pathManager->AddConnection(connection->GetLocalToken(), connection);
    }
    connection->m_windowEnd = connection->m_sendNext + subflow->GetPeerWindow();
    connection->m_subflowOpened(connection, subflow);
    NotifyNewConnectionCreated(connection, from);
}

void
MptcpSocket::AcceptSubflow(Ptr<Socket> socket, const Address& /* from */)
{
    auto subflow = DynamicCast<MptcpSubflow>(socket);
    Ptr<MptcpPathManager> pathManager = subflow->GetPathManager();
    Ptr<MptcpSocket> connection = pathManager->FindConnection(subflow->GetToken());
    if (!connection || !connection->MayBeJoined() || !pathManager->MayAccept(*connection))
    {
        Simulator::ScheduleNow(&MptcpSubflow::Reset, subflow, MptcpSubflow::RESET_PROHIBITED);
        return;
    }
    ++connection->m_pathState.subflows;
    connection->Adopt(subflow);
}

void
MptcpSocket::OnSubflowEstablished(MptcpSubflow* subflow)
{
    if (subflow->IsJoin())
    {
        m_subflowOpened(this, subflow);
        if (!m_shutdownSend)
        {
            m_closeEvent.Cancel(); // there is a way again
        }
        m_pathManager->OnJoined(*this);
        PushPending();
    }
    else
    {
        m_established = true;
        m_pathManager->OnEstablished(*this);
    }
}

void
MptcpSocket::Fallback(MptcpSubflow* subflow)
{
    NS_LOG_INFO("fall back to TCP");
    m_fallback = true;
    subflow->SetPlain();
    m_retransmitEvent.Cancel();
    m_pathManager->RemoveConnection(GetLocalToken());
}

} // namespace ns3
