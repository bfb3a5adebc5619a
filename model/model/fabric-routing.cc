/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "fabric-routing.h"

#include "ns3/hash.h"
#include "ns3/log.h"
#include "ns3/net-device.h"
#include "ns3/node.h"
#include "ns3/packet.h"

#include <array>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("FabricRouting");

NS_OBJECT_ENSURE_REGISTERED(FabricRouting);

TypeId
FabricRouting::GetTypeId()
{
    static TypeId tid = TypeId("ns3::FabricRouting")
                            .SetParent<Ipv4RoutingProtocol>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<FabricRouting>();
    return tid;
}

FabricRouting::FabricRouting()
    : m_random(CreateObject<UniformRandomVariable>())
{
}

FabricRouting::~FabricRouting()
{
}

void
FabricRouting::AddRoute(Ipv4Address destination, uint32_t interface)
{
    m_routes[destination.Get()].push_back(interface);
}

void
FabricRouting::AddDefault(uint32_t interface)
{
    m_default.push_back(interface);
}

int64_t
FabricRouting::AssignStreams(int64_t stream)
{
    m_random->SetStream(stream);
    return 1;
}

std::optional<uint32_t>
FabricRouting::Choose(Ptr<const Packet> packet, const Ipv4Header& header) const
{
    const auto found = m_routes.find(header.GetDestination().Get());
    const Ways& ways = found == m_routes.end() ? m_default : found->second;
    if (ways.size() <= 1)
    {
        return ways.empty() ? std::nullopt : std::make_optional(ways.front());
    }
    while (!m_salt)
    {
        m_salt = m_random->GetInteger(1, 0x7fffffff);
    }
    // source and destination port are the first four bytes of UDP's and TCP's header
    std::array<uint32_t, 5> flow{m_salt,
                                 header.GetSource().Get(),
                                 header.GetDestination().Get(),
                                 header.GetProtocol(),
                                 0};
    if (packet)
    {
        packet->CopyData(reinterpret_cast<uint8_t*>(&flow[4]), sizeof(flow[4]));
    }
    const uint32_t hash = Hash32(reinterpret_cast<const char*>(flow.data()), sizeof(flow));
    return ways[hash % ways.size()];
}

Ptr<Ipv4Route>
FabricRouting::GetRoute(uint32_t interface)
{
    if (m_made.size() <= interface)
    {
        m_made.resize(interface + 1);
    }
    Ptr<Ipv4Route>& route = m_made[interface];
    if (!route)
    {
        route = Create<Ipv4Route>();
        route->SetGateway(Ipv4Address::GetZero());
        route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
        if (m_ipv4->GetNAddresses(interface))
        {
            route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
        }
    }
    return route;
}

Ptr<Ipv4Route>
FabricRouting::RouteOutput(Ptr<Packet> p,
                           const Ipv4Header& header,
                           Ptr<NetDevice> oif,
                           Socket::SocketErrno& sockerr)
{
    const auto interface =
        oif ? std::make_optional<uint32_t>(m_ipv4->GetInterfaceForDevice(oif)) : Choose(p, header);
    if (!interface)
    {
        sockerr = Socket::ERROR_NOROUTETOHOST;
        return nullptr;
    }
    sockerr = Socket::ERROR_NOTERROR;
    return GetRoute(*interface);
}

bool
FabricRouting::RouteInput(Ptr<const Packet> p,
                          const Ipv4Header& header,
                          Ptr<const NetDevice> idev,
                          const UnicastForwardCallback& ucb,
                          const MulticastForwardCallback&,
                          const LocalDeliverCallback& lcb,
                          const ErrorCallback& ecb)
{
    const uint32_t from = m_ipv4->GetInterfaceForDevice(idev);
    // a switch's ports have no addresses, and there are too many to look at all of them
    if (m_ipv4->GetNAddresses(from) > 0 &&
        m_ipv4->IsDestinationAddress(header.GetDestination(), from))
    {
        if (lcb.IsNull())
        {
            return false;
        }
        lcb(p, header, from);
        return true;
    }
    const auto interface = Choose(p, header);
    if (!interface)
    {
        NS_LOG_LOGIC("no route to " << header.GetDestination());
        ecb(p, header, Socket::ERROR_NOROUTETOHOST);
        return true;
    }
    ucb(GetRoute(*interface), p, header);
    return true;
}

void
FabricRouting::NotifyInterfaceUp(uint32_t)
{
}

void
FabricRouting::NotifyInterfaceDown(uint32_t)
{
}

void
FabricRouting::NotifyAddAddress(uint32_t, Ipv4InterfaceAddress)
{
    m_made.clear();
}

void
FabricRouting::NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress)
{
    m_made.clear();
}

void
FabricRouting::SetIpv4(Ptr<Ipv4> ipv4)
{
    m_ipv4 = ipv4;
}

void
FabricRouting::PrintRoutingTable(Ptr<OutputStreamWrapper> stream, Time::Unit) const
{
    std::ostream& os = *stream->GetStream();
    const auto print = [&os](const Ways& ways) {
        for (const uint32_t interface : ways)
        {
            os << " " << interface;
        }
        os << "\n";
    };
    os << "Node " << m_ipv4->GetObject<Node>()->GetId() << ", FabricRouting: interfaces to\n";
    for (const auto& [destination, ways] : m_routes)
    {
        os << Ipv4Address(destination) << ":";
        print(ways);
    }
    os << "default:";
    print(m_default);
}

void
FabricRouting::DoDispose()
{
    m_made.clear();
    m_ipv4 = nullptr;
    Ipv4RoutingProtocol::DoDispose();
}

} // namespace ns3
