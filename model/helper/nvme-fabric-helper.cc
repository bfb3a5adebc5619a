/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-fabric-helper.h"

#include "ns3/abort.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-interface-address.h"
#include "ns3/ipv4.h"

namespace ns3
{

namespace
{

/// Hosts of a second octet, and so of a third
constexpr uint32_t GROUP = 250;

/**
 * @param node a node of the fabric
 * @return its routing
 */
Ptr<FabricRouting>
RoutingOf(Ptr<Node> node)
{
    return DynamicCast<FabricRouting>(node->GetObject<Ipv4>()->GetRoutingProtocol());
}

} // namespace

NvmeFabricHelper::NvmeFabricHelper(uint32_t hosts, uint32_t paths)
    : m_paths(paths)
{
    NS_ABORT_MSG_IF(hosts > MAX_HOSTS || paths > MAX_PATHS || !paths,
                    "a fabric has up to " << MAX_HOSTS << " hosts and 1 to " << MAX_PATHS
                                          << " paths");
    for (uint32_t host = 0; host < hosts; host++)
    {
        AddNode(m_hosts);
    }
    AddNode(m_target);
}

void
NvmeFabricHelper::SetTargetLink(PathSettings settings)
{
    m_targetLink = std::move(settings);
}

void
NvmeFabricHelper::SetHostLink(PathSettings settings)
{
    m_hostLink = std::move(settings);
}

void
NvmeFabricHelper::SetUplink(LinkSettings settings)
{
    m_uplink = std::move(settings);
}

void
NvmeFabricHelper::InstallSwitches()
{
    for (uint32_t path = 1; path <= m_paths; path++)
    {
        AddNode(m_switches);
        Ptr<Node> at = m_switches.Get(path - 1);
        Attach(GetTarget(), GetTargetAddress(path), path, at, OfPath(m_targetLink, path));
        for (uint32_t host = 0; host < m_hosts.GetN(); host++)
        {
            Attach(m_hosts.Get(host),
                   GetHostAddress(host, path),
                   path,
                   at,
                   OfPath(m_hostLink, path));
        }
    }
}

void
NvmeFabricHelper::InstallLeafSpine(uint32_t leaves, uint32_t spines)
{
    NS_ABORT_MSG_IF(leaves < 2 || !spines, "a fabric has two leaves or more, and a spine or more");
    for (uint32_t number = 0; number < leaves + spines; number++)
    {
        AddNode(m_switches);
    }
    const auto leafOf = [this, leaves](uint32_t host) {
        return m_switches.Get(host % (leaves - 1));
    };
    for (uint32_t path = 1; path <= m_paths; path++)
    {
        Attach(GetTarget(),
               GetTargetAddress(path),
               path,
               m_switches.Get(leaves - 1),
               OfPath(m_targetLink, path));
        for (uint32_t host = 0; host < m_hosts.GetN(); host++)
        {
            Attach(m_hosts.Get(host),
                   GetHostAddress(host, path),
                   path,
                   leafOf(host),
                   OfPath(m_hostLink, path));
        }
    }
    for (uint32_t leaf = 0; leaf < leaves; leaf++)
    {
        for (uint32_t spine = 0; spine < spines; spine++)
        {
            Ptr<Node> above = m_switches.Get(leaves + spine);
            const auto [up, down] =
                Link(m_switches.Get(leaf), Ipv4Address::GetAny(), above, m_uplink);
            RoutingOf(m_switches.Get(leaf))->AddDefault(up);
            for (uint32_t path = 1; path <= m_paths; path++)
            {
                if (leaf == leaves - 1)
                {
                    RoutingOf(above)->AddRoute(GetTargetAddress(path), down);
                    continue;
                }
                for (uint32_t host = leaf; host < m_hosts.GetN(); host += leaves - 1)
                {
                    RoutingOf(above)->AddRoute(GetHostAddress(host, path), down);
                }
            }
        }
    }
}

Ipv4Address
NvmeFabricHelper::GetHostAddress(uint32_t host, uint32_t path)
{
    return Ipv4Address((10U << 24) | ((1 + host / GROUP) << 16) | (path << 8) | (1 + host % GROUP));
}

Ipv4Address
NvmeFabricHelper::GetTargetAddress(uint32_t path)
{
    return Ipv4Address((10U << 24) | (path << 8) | 2);
}

const NodeContainer&
NvmeFabricHelper::GetHosts() const
{
    return m_hosts;
}

Ptr<Node>
NvmeFabricHelper::GetTarget() const
{
    return m_target.Get(0);
}

const NodeContainer&
NvmeFabricHelper::GetSwitches() const
{
    return m_switches;
}

const std::vector<Ptr<NetemNetDevice>>&
NvmeFabricHelper::GetDevices() const
{
    return m_devices;
}

int64_t
NvmeFabricHelper::AssignStreams(int64_t stream)
{
    const int64_t first = stream;
    for (const auto& device : m_devices)
    {
        stream += device->AssignStreams(stream);
    }
    for (const auto& routing : m_routings)
    {
        stream += routing->AssignStreams(stream);
    }
    return stream - first;
}

void
NvmeFabricHelper::AddNode(NodeContainer& nodes)
{
    auto node = CreateObject<Node>();
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.Install(node);
    auto routing = CreateObject<FabricRouting>();
    node->GetObject<Ipv4>()->SetRoutingProtocol(routing);
    m_routings.push_back(routing);
    nodes.Add(node);
}

std::pair<uint32_t, uint32_t>
NvmeFabricHelper::Link(Ptr<Node> near,
                       Ipv4Address address,
                       Ptr<Node> far,
                       const LinkSettings& settings)
{
    const auto [nearEnd, farEnd] = NetemNetDevice::Connect(near, far);
    if (settings)
    {
        settings(nearEnd, farEnd);
    }
    const auto interfaceOf = [](Ptr<NetemNetDevice> device) {
        auto ipv4 = device->GetNode()->GetObject<Ipv4>();
        const uint32_t interface = ipv4->AddInterface(device);
        ipv4->SetMetric(interface, 1);
        return interface;
    };
    const std::pair interfaces(interfaceOf(nearEnd), interfaceOf(farEnd));
    auto ipv4 = near->GetObject<Ipv4>();
    if (address != Ipv4Address::GetAny())
    {
        ipv4->AddAddress(interfaces.first, Ipv4InterfaceAddress(address, Ipv4Mask::GetOnes()));
    }
    ipv4->SetUp(interfaces.first);
    far->GetObject<Ipv4>()->SetUp(interfaces.second);
    m_devices.insert(m_devices.end(), {nearEnd, farEnd});
    return interfaces;
}

void
NvmeFabricHelper::Attach(Ptr<Node> node,
                         Ipv4Address address,
                         uint32_t path,
                         Ptr<Node> at,
                         const LinkSettings& settings)
{
    const auto [own, port] = Link(node, address, at, settings);
    RoutingOf(at)->AddRoute(address, port);
    if (node != GetTarget())
    {
        RoutingOf(node)->AddRoute(GetTargetAddress(path), own);
        return;
    }
    for (uint32_t host = 0; host < m_hosts.GetN(); host++)
    {
        RoutingOf(node)->AddRoute(GetHostAddress(host, path), own);
    }
}

NvmeFabricHelper::LinkSettings
NvmeFabricHelper::OfPath(const PathSettings& settings, uint32_t path)
{
    return [&settings, path](Ptr<NetemNetDevice> near, Ptr<NetemNetDevice> far) {
        if (settings)
        {
            settings(path, near, far);
        }
    };
}

} // namespace ns3
