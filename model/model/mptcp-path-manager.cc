/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-path-manager.h"

#include "mptcp-address.h"
#include "mptcp-crypto.h"
#include "mptcp-scheduler-default.h"
#include "mptcp-socket.h"
#include "mptcp-subflow.h"
#include "network-order.h"
#include "tcp-linux-cubic.h"
#include "tcp-linux-socket-factory.h"

#include "ns3/boolean.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/object-factory.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("MptcpPathManager");

NS_OBJECT_ENSURE_REGISTERED(MptcpPathManager);

namespace
{

/// How often an address is announced before Linux gives up (ADD_ADDR_RETRANS_MAX).
constexpr uint32_t ANNOUNCE_TRIES = 3;

/// @return the bytes of an address in network order
std::vector<uint8_t>
Bytes(const Address& address)
{
    std::vector<uint8_t> bytes(address.GetLength());
    address.CopyTo(bytes.data());
    return bytes;
}

} // namespace

TypeId
MptcpPathManager::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::MptcpPathManager")
            .SetParent<Object>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<MptcpPathManager>()
            .AddAttribute("Enabled",
                          "Whether the node speaks MPTCP (net.mptcp.enabled).",
                          BooleanValue(true),
                          MakeBooleanAccessor(&MptcpPathManager::m_enabled),
                          MakeBooleanChecker())
            .AddAttribute("Checksum",
                          "Whether DSS checksums are asked for (net.mptcp.checksum_enabled).",
                          BooleanValue(false),
                          MakeBooleanAccessor(&MptcpPathManager::m_checksum),
                          MakeBooleanChecker())
            .AddAttribute("Subflows",
                          "Most subflows of a connection besides the first (ip mptcp limits).",
                          UintegerValue(2),
                          MakeUintegerAccessor(&MptcpPathManager::m_subflowLimit),
                          MakeUintegerChecker<uint32_t>(0, 64))
            .AddAttribute("AddAddrAccepted",
                          "Most announced addresses used by a connection (ip mptcp limits).",
                          UintegerValue(0),
                          MakeUintegerAccessor(&MptcpPathManager::m_addAddrAccepted),
                          MakeUintegerChecker<uint32_t>(0, 64))
            .AddAttribute("StaleLossCount",
                          "Retransmission periods without progress after which a subflow is stale; "
                          "0: never (net.mptcp.stale_loss_cnt).",
                          UintegerValue(4),
                          MakeUintegerAccessor(&MptcpPathManager::m_staleLossCount),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute(
                "AddAddrTimeout",
                "When to announce an address again; 0: never (net.mptcp.add_addr_timeout).",
                TimeValue(Seconds(120)),
                MakeTimeAccessor(&MptcpPathManager::m_addAddrTimeout),
                MakeTimeChecker(Time(0)))
            .AddAttribute("CloseTimeout",
                          "How long a connection without subflows waits for one "
                          "(net.mptcp.close_timeout).",
                          TimeValue(Seconds(60)),
                          MakeTimeAccessor(&MptcpPathManager::m_closeTimeout),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("Scheduler",
                          "Class of the packet scheduler (net.mptcp.scheduler).",
                          TypeIdValue(MptcpSchedulerDefault::GetTypeId()),
                          MakeTypeIdAccessor(&MptcpPathManager::m_scheduler),
                          MakeTypeIdChecker())
            .AddAttribute("CongestionControl",
                          "Class of the subflows' congestion control.",
                          TypeIdValue(TcpLinuxCubic::GetTypeId()),
                          MakeTypeIdAccessor(&MptcpPathManager::m_congestionControl),
                          MakeTypeIdChecker());
    return tid;
}

MptcpPathManager::MptcpPathManager()
    : m_random(CreateObject<UniformRandomVariable>())
{
}

MptcpPathManager::~MptcpPathManager() = default;

void
MptcpPathManager::NotifyNewAggregate()
{
    if (!m_node)
    {
        m_node = GetObject<Node>();
    }
    Object::NotifyNewAggregate();
}

void
MptcpPathManager::DoDispose()
{
    auto connections = std::move(m_connections);
    m_connections.clear();
    for (auto& [token, connection] : connections)
    {
        connection->Dispose();
    }
    m_listeners.clear();
    m_node = nullptr;
    Object::DoDispose();
}

Ptr<Node>
MptcpPathManager::GetNode() const
{
    return m_node;
}

int64_t
MptcpPathManager::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    return 1;
}

bool
MptcpPathManager::IsEnabled() const
{
    return m_enabled;
}

bool
MptcpPathManager::HasChecksum() const
{
    return m_checksum;
}

uint32_t
MptcpPathManager::GetStaleLossCount() const
{
    return m_staleLossCount;
}

Time
MptcpPathManager::GetCloseTimeout() const
{
    return m_closeTimeout;
}

TypeId
MptcpPathManager::GetCongestionControl() const
{
    return m_congestionControl;
}

Ptr<MptcpScheduler>
MptcpPathManager::MakeScheduler() const
{
    ObjectFactory factory;
    factory.SetTypeId(m_scheduler);
    auto scheduler = factory.Create<MptcpScheduler>();
    NS_ABORT_MSG_UNLESS(scheduler, m_scheduler.GetName() << " is no MptcpScheduler");
    return scheduler;
}

uint64_t
MptcpPathManager::DrawKey()
{
    uint64_t key = 0;
    do
    {
        key = (static_cast<uint64_t>(DrawNonce()) << 32) | DrawNonce();
    } while (m_connections.count(MptcpToken(key)) > 0);
    return key;
}

uint32_t
MptcpPathManager::DrawNonce()
{
    return m_random->GetInteger(0, UINT32_MAX);
}

void
MptcpPathManager::AddConnection(uint32_t token, Ptr<MptcpSocket> connection)
{
    m_connections[token] = connection;
}

void
MptcpPathManager::RemoveConnection(uint32_t token)
{
    m_connections.erase(token);
}

Ptr<MptcpSocket>
MptcpPathManager::FindConnection(uint32_t token) const
{
    auto found = m_connections.find(token);
    return found == m_connections.end() ? nullptr : found->second;
}

uint8_t
MptcpPathManager::FindEndpoint(const Address& address) const
{
    const Address wanted = MptcpWithoutPort(address);
    for (const auto& [id, endpoint] : m_endpoints)
    {
        if (endpoint.address == wanted)
        {
            return id;
        }
    }
    return 0;
}

bool
MptcpPathManager::IsBackup(uint8_t id) const
{
    auto found = m_endpoints.find(id);
    return found != m_endpoints.end() && (found->second.flags & BACKUP);
}

uint8_t
MptcpPathManager::AddEndpoint(const Address& address, uint8_t flags, uint16_t port)
{
    NS_ABORT_MSG_IF(m_endpoints.size() == UINT8_MAX, "an address ID has 8 bits");
    do
    {
        ++m_lastId;
    } while (m_lastId == 0 || m_endpoints.count(m_lastId) > 0);
    m_endpoints[m_lastId] = {address, flags, port};
    for (auto [token, connection] : std::map(m_connections))
    {
        if (connection->MayBeJoined())
        {
            QueueAnnouncement(*connection, m_lastId);
            Announce(*connection);
            OpenSubflows(*connection);
        }
    }
    return m_lastId;
}

void
MptcpPathManager::RemoveEndpoint(uint8_t id)
{
    auto found = m_endpoints.find(id);
    NS_ABORT_MSG_IF(found == m_endpoints.end(), "no endpoint has the ID " << +id);
    const Address address = found->second.address;
    m_endpoints.erase(found);
    for (auto [token, connection] : std::map(m_connections))
    {
        MptcpPathState& state = connection->GetPathState();
        std::erase(state.toAnnounce, id);
        if (auto unconfirmed = state.unconfirmed.extract(id))
        {
            unconfirmed.mapped().again.Cancel();
        }
        if (state.announced.erase(id) > 0)
        {
            connection->SignalAll(MptcpRemoveAddr{{id}}.Encode());
        }
        connection->CloseSubflows([&](const MptcpSubflow& subflow) {
            Address local;
            subflow.GetSockName(local);
            return MptcpWithoutPort(local) == address;
        });
    }
}

void
MptcpPathManager::SetBackup(uint8_t id, bool backup)
{
    auto found = m_endpoints.find(id);
    NS_ABORT_MSG_IF(found == m_endpoints.end(), "no endpoint has the ID " << +id);
    auto& [address, flags, port] = found->second;
    flags = backup ? flags | BACKUP : flags & ~BACKUP;
    for (auto [token, connection] : std::map(m_connections))
    {
        for (const Ptr<MptcpSubflow>& subflow : connection->GetSubflows())
        {
            Address local;
            subflow->GetSockName(local);
            if (MptcpWithoutPort(local) == address)
            {
                subflow->SetBackup(backup);
            }
        }
    }
}

bool
MptcpPathManager::MayAccept(const MptcpSocket& connection) const
{
    return connection.GetPathState().subflows < m_subflowLimit;
}

void
MptcpPathManager::OnEstablished(MptcpSocket& connection)
{
    for (const auto& [id, endpoint] : m_endpoints)
    {
        QueueAnnouncement(connection, id);
    }
    Announce(connection);
    OpenSubflows(connection);
}

// mptcp_pm_create_subflow_or_signal_addr(): a new subflow is an occasion to announce the next
// address, as an echo is
void
MptcpPathManager::OnJoined(MptcpSocket& connection)
{
    Announce(connection);
}

void
MptcpPathManager::QueueAnnouncement(MptcpSocket& connection, uint8_t id)
{
    const Endpoint& endpoint = m_endpoints.at(id);
    MptcpPathState& state = connection.GetPathState();
    Address local;
    connection.GetSockName(local);
    // the peer knows the address that it connected to; hosts don't announce: nothing listens there
    if ((endpoint.flags & SIGNAL) && state.passive && MptcpWithoutPort(local) != endpoint.address)
    {
        state.toAnnounce.push_back(id);
    }
}

void
MptcpPathManager::Announce(MptcpSocket& connection)
{
    MptcpPathState& state = connection.GetPathState();
    if (!state.toAnnounce.empty())
    {
        const uint8_t id = state.toAnnounce.front();
        state.toAnnounce.pop_front();
        SendAddAddr(connection, id);
    }
}

void
MptcpPathManager::SendAddAddr(MptcpSocket& connection, uint8_t id)
{
    MptcpPathState& state = connection.GetPathState();
    const Endpoint& endpoint = m_endpoints.at(id);
    Address local;
    connection.GetSockName(local);
    const uint16_t port = endpoint.port != 0 ? endpoint.port : MptcpGetPort(local);
    ListenForJoins(endpoint.address, port);

    MptcpAddAddr option;
    option.addressId = id;
    if (Ipv6Address::IsMatchingType(endpoint.address))
    {
        option.address = Ipv6Address::ConvertFrom(endpoint.address);
    }
    else
    {
        option.address = Ipv4Address::ConvertFrom(endpoint.address);
    }
    if (endpoint.port != 0)
    {
        option.port = endpoint.port;
    }
    option.hmac = MptcpAddAddrHmac(connection.GetLocalKey(),
                                   connection.GetRemoteKey(),
                                   id,
                                   Bytes(endpoint.address),
                                   endpoint.port);
    NS_LOG_INFO("announce address " << +id);
    state.announced.insert(id);
    if (m_addAddrTimeout.IsStrictlyPositive())
    {
        state.unconfirmed[id].again =
            Simulator::Schedule(Min(m_addAddrTimeout, connection.GetLongestRto()),
                                &MptcpPathManager::AnnounceAgain,
                                this,
                                connection.GetLocalToken(),
                                id);
    }
    connection.SignalAny(option.Encode());
}

void
MptcpPathManager::AnnounceAgain(uint32_t token, uint8_t id)
{
    Ptr<MptcpSocket> connection = FindConnection(token);
    if (!connection)
    {
        return;
    }
    MptcpPathState& state = connection->GetPathState();
    if (++state.unconfirmed[id].tries == ANNOUNCE_TRIES)
    {
        state.unconfirmed.erase(id);
        Announce(*connection);
        return;
    }
    SendAddAddr(*connection, id);
}

void
MptcpPathManager::StopAnnouncing(MptcpPathState& state)
{
    for (auto& [id, unconfirmed] : state.unconfirmed)
    {
        unconfirmed.again.Cancel();
    }
    state.unconfirmed.clear();
    state.toAnnounce.clear();
}

void
MptcpPathManager::OnAddAddr(MptcpSocket& connection,
                            MptcpSubflow& subflow,
                            const MptcpAddAddr& option)
{
    MptcpPathState& state = connection.GetPathState();
    if (option.echo)
    {
        auto found = state.unconfirmed.find(option.addressId);
        if (found != state.unconfirmed.end())
        {
            found->second.again.Cancel();
            state.unconfirmed.erase(found);
            Announce(connection);
        }
        return;
    }
    const Address address =
        std::visit([](const auto& known) { return Address(known); }, option.address);
    const uint16_t port = option.port.value_or(0);
    const uint64_t hmac = MptcpAddAddrHmac(connection.GetRemoteKey(),
                                           connection.GetLocalKey(),
                                           option.addressId,
                                           Bytes(address),
                                           port);
    if (hmac != option.hmac)
    {
        NS_LOG_WARN("announced address with a wrong HMAC");
        return;
    }
    MptcpAddAddr echo = option;
    echo.echo = true;
    subflow.Signal(echo.Encode());
    subflow.SendAck();

    const Address remote = MptcpWithPort(address, port != 0 ? port : state.remotePort);
    if (state.accepted >= m_addAddrAccepted || state.subflows >= m_subflowLimit ||
        connection.HasSubflowTo(remote))
    {
        return;
    }
    ++state.accepted;
    bool fullmesh = false;
    for (const auto& [id, endpoint] : m_endpoints)
    {
        if ((endpoint.flags & FULLMESH) && state.subflows < m_subflowLimit &&
            Ipv6Address::IsMatchingType(endpoint.address) == Ipv6Address::IsMatchingType(address))
        {
            fullmesh = true;
            connection.OpenSubflow(MptcpWithPort(endpoint.address, 0),
                                   id,
                                   remote,
                                   option.addressId,
                                   endpoint.flags & BACKUP);
        }
    }
    if (!fullmesh)
    {
        connection.OpenSubflow(Address(), 0, remote, option.addressId, false);
    }
}

void
MptcpPathManager::OnRemoveAddr(MptcpSocket& connection, const MptcpRemoveAddr& option)
{
    MptcpPathState& state = connection.GetPathState();
    for (uint8_t id : option.addressIds)
    {
        if (state.accepted > 0)
        {
            --state.accepted;
        }
        connection.CloseSubflows(
            [id](const MptcpSubflow& subflow) { return subflow.GetRemoteId() == id; });
    }
}

void
MptcpPathManager::OpenSubflows(MptcpSocket& connection)
{
    MptcpPathState& state = connection.GetPathState();
    if (state.passive)
    {
        return; // the peer may be behind a firewall or NAT
    }
    Address remote;
    connection.GetPeerName(remote);
    for (const auto& [id, endpoint] : m_endpoints)
    {
        if ((endpoint.flags & (SUBFLOW | FULLMESH)) && state.subflows < m_subflowLimit &&
            Ipv6Address::IsMatchingType(endpoint.address) ==
                Inet6SocketAddress::IsMatchingType(remote) &&
            !connection.HasSubflowFrom(endpoint.address))
        {
            connection.OpenSubflow(MptcpWithPort(endpoint.address, 0),
                                   id,
                                   remote,
                                   0,
                                   endpoint.flags & BACKUP);
        }
    }
}

void
MptcpPathManager::ListenForJoins(const Address& address, uint16_t port)
{
    auto listener = DynamicCast<MptcpSubflow>(
        TcpLinuxSocketFactory::Create(m_node, MptcpSubflow::GetTypeId(), m_congestionControl));
    listener->SetPathManager(this);
    if (listener->Bind(MptcpWithPort(address, port)) != 0)
    {
        return; // a listener of the application's: it takes joins, too
    }
    listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                MakeCallback(&MptcpSocket::AcceptSubflow));
    listener->Listen();
    m_listeners.push_back(listener);
}

} // namespace ns3
