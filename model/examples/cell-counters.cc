/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "cell-counters.h"

#include "ns3/gso-tag.h"
#include "ns3/inet-socket-address.h"
#include "ns3/inet6-socket-address.h"
#include "ns3/ipv4.h"
#include "ns3/mptcp-subflow.h"
#include "ns3/object-vector.h"
#include "ns3/simulator.h"
#include "ns3/tcp-flow-table.h"
#include "ns3/tcp-l4-protocol.h"

#include <iomanip>
#include <sstream>

using namespace ns3;

namespace cell
{

namespace
{

// Sockets that are closed sooner than this after they were made aren't counted.
const Time COLLECT_INTERVAL = MilliSeconds(100);

std::string
Ip(const Address& address)
{
    std::ostringstream text;
    if (Inet6SocketAddress::IsMatchingType(address))
    {
        text << Inet6SocketAddress::ConvertFrom(address).GetIpv6();
    }
    else
    {
        text << InetSocketAddress::ConvertFrom(address).GetIpv4();
    }
    return text.str();
}

/// Connected sockets of a node.
std::vector<Ptr<TcpLinuxSocket>>
FindSockets(Ptr<Node> node)
{
    auto sockets = node->GetObject<TcpFlowTable>()->GetSockets();
    if (!sockets.empty() || node->GetObject<Ipv4>())
    {
        return sockets;
    }
    // The table has no IPv6. This takes a time that grows with the square of the sockets.
    ObjectVectorValue listed;
    node->GetObject<TcpL4Protocol>()->GetAttribute("SocketList", listed);
    for (auto entry = listed.Begin(); entry != listed.End(); entry++)
    {
        const Ptr<Object> object = entry->second;
        if (auto socket = DynamicCast<TcpLinuxSocket>(object))
        {
            sockets.push_back(socket);
        }
    }
    return sockets;
}

} // namespace

Counters::Counters(const Network& network)
    : m_network(network)
{
    for (const auto& device : network.GetDevices())
    {
        device->TraceConnectWithoutContext(
            "Send",
            Callback<void, Ptr<const Packet>, uint32_t>([this](auto packet, uint32_t bytes) {
                if (m_counting)
                {
                    GsoTag tag;
                    m_packets += packet->PeekPacketTag(tag) ? tag.GetSegments() : 1;
                    m_bytes += bytes;
                }
            }));
        device->TraceConnectWithoutContext(
            "Drop",
            Callback<void, Ptr<const Packet>, NetemNetDevice::DropReason>(
                [this](auto, auto) { m_drops += m_counting; }));
    }
}

Counters::Values
Counters::Read(Ptr<TcpLinuxSocket> socket)
{
    return {socket->GetBytesSent(),
            socket->GetBytesReceived(),
            socket->GetTotalRetransmits(),
            socket->GetTimeouts()};
}

void
Counters::Start()
{
    Collect();
    for (auto& [socket, values] : m_sockets)
    {
        values = Read(socket);
    }
    for (auto& [connection, reinjections] : m_connections)
    {
        reinjections = connection->GetStatistics().retransmittedChunks;
    }
    m_counting = true;
}

void
Counters::Collect()
{
    const NodeContainer ends = m_network.GetEnds();
    for (uint32_t i = 0; i < ends.GetN(); i++)
    {
        for (const auto& socket : FindSockets(ends.Get(i)))
        {
            m_sockets.try_emplace(socket);
            const auto subflow = DynamicCast<MptcpSubflow>(socket);
            if (subflow && subflow->GetConnection())
            {
                m_connections.try_emplace(subflow->GetConnection());
            }
        }
    }
    Simulator::Schedule(COLLECT_INTERVAL, &Counters::Collect, this);
}

nlohmann::json
Counters::Get()
{
    uint64_t retransmitted = 0;
    uint64_t timeouts = 0;
    for (const auto& [socket, before] : m_sockets)
    {
        const Values now = Read(socket);
        retransmitted += now.retransmitted - before.retransmitted;
        timeouts += now.timeouts - before.timeouts;
    }
    uint64_t reinjections = 0;
    for (const auto& [connection, before] : m_connections)
    {
        reinjections += connection->GetStatistics().retransmittedChunks - before;
    }
    return {{"netem.packets", m_packets},
            {"netem.bytes", m_bytes},
            {"netem.drops", m_drops},
            {"Tcp.RetransSegs", retransmitted},
            {"TcpExt.TCPTimeouts", timeouts},
            {"MPTcpExt.MPTCPRetrans", reinjections}};
}

nlohmann::json
Counters::GetSubflows() const
{
    auto subflows = nlohmann::json::array();
    for (const auto& [socket, before] : m_sockets)
    {
        Address local;
        Address remote;
        if (socket->GetNode() == m_network.GetTarget() || socket->GetSockName(local) != 0 ||
            socket->GetPeerName(remote) != 0)
        {
            continue;
        }
        const Values now = Read(socket);
        nlohmann::json flow = {{"local", Ip(local)},
                               {"remote", Ip(remote)},
                               {"token", nullptr},
                               {"bytes_sent", now.sent - before.sent},
                               {"bytes_received", now.received - before.received}};
        const auto subflow = DynamicCast<MptcpSubflow>(socket);
        if (subflow && subflow->GetConnection())
        {
            std::ostringstream token;
            token << std::hex << std::setw(8) << std::setfill('0')
                  << subflow->GetConnection()->GetLocalToken();
            flow["token"] = token.str();
        }
        subflows.push_back(flow);
    }
    return subflows;
}

} // namespace cell
