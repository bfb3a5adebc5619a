/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "cell-network.h"

#include "ns3/arp-cache.h"
#include "ns3/bonding-net-device.h"
#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-interface.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv6.h"
#include "ns3/mptcp-helper.h"
#include "ns3/nvme-fabric-helper.h"
#include "ns3/string.h"
#include "ns3/tcp-linux-socket-factory.h"
#include "ns3/type-id.h"
#include "ns3/uinteger.h"

#include <cctype>
#include <charconv>
#include <sstream>
#include <utility>
#include <vector>

using namespace ns3;

namespace cell
{

namespace
{

constexpr uint32_t RTO_MIN_MOST = 120000000; // us
constexpr uint32_t UNRESOLVED_PACKETS = 101; // that wait for a hardware address (unres_qlen)
constexpr uint32_t BOND = 100; // a bonding device has the addresses of a path with this number

/// Gives a device fd00:NETWORK::END, as the lab does; ns-3's helper makes addresses of the MAC's.
Ipv6Address
AssignIpv6(Ptr<NetDevice> device, uint32_t network, uint32_t end)
{
    std::ostringstream text;
    text << "fd00:" << std::hex << network << "::" << end;
    const Ipv6Address address(text.str().c_str());
    auto ipv6 = device->GetNode()->GetObject<Ipv6>();
    const uint32_t interface = ipv6->AddInterface(device);
    ipv6->AddAddress(interface, Ipv6InterfaceAddress(address, Ipv6Prefix(64)));
    ipv6->SetUp(interface);
    return address;
}

void
Configure(Ptr<NetemNetDevice> device, const Direction& direction, uint32_t mtu)
{
    device->SetAttribute("Rate", DataRateValue(DataRate(direction.rate)));
    device->SetAttribute("Delay", TimeValue(MicroSeconds(1) * direction.delay));
    device->SetAttribute("Jitter", TimeValue(MicroSeconds(1) * direction.jitter));
    device->SetAttribute("Loss", DoubleValue(direction.loss));
    device->SetAttribute("Limit", UintegerValue(direction.limit));
    device->SetAttribute("EcnThreshold", UintegerValue(direction.ecnThreshold));
    device->SetAttribute("Mtu", UintegerValue(mtu));
}

/// A scheduler's class: "round-robin" is ns3::MptcpSchedulerRoundRobin; other classes by their
/// name.
TypeId
Scheduler(const std::string& name)
{
    std::string type = "ns3::MptcpScheduler";
    bool upper = true;
    for (const char letter : name)
    {
        if (letter != '-')
        {
            type += upper ? static_cast<char>(std::toupper(letter)) : letter;
        }
        upper = letter == '-';
    }
    for (const auto& known : {name, type})
    {
        if (IsClassOf(known, "ns3::MptcpScheduler"))
        {
            return TypeId::LookupByName(known);
        }
    }
    throw BadInput("mptcp.scheduler: there is no scheduler " + type + ", nor one named " + name);
}

/// A sysctl that is one of some words. @return what the word stands for
std::string
LookUp(const std::string& name,
       const std::string& value,
       const std::vector<std::pair<std::string, std::string>>& known)
{
    std::string words;
    for (const auto& [word, meaning] : known)
    {
        if (word == value)
        {
            return meaning;
        }
        const bool last = word == known.back().first;
        words += (words.empty() ? "" : last ? " or " : ", ") + word;
    }
    throw BadInput("sysctl." + name + ": must be " + words + ", not " + value);
}

/// net.ipv4.tcp_ecn: 0 off, 1 ask for it and accept it, 2 accept it
void
SetEcn(const std::string& value)
{
    const auto mode =
        LookUp("net.ipv4.tcp_ecn", value, {{"0", "Off"}, {"1", "On"}, {"2", "AcceptOnly"}});
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(mode));
}

/// net.ipv4.tcp_rmem and tcp_wmem: least, first and greatest size of a buffer, in bytes
void
SetBuffers(const std::string& name, const std::string& value)
{
    const BufferSizes sizes = ReadBufferSizes("sysctl." + name, value);
    const bool read = name == "net.ipv4.tcp_rmem";
    Config::SetDefault(read ? "ns3::TcpLinuxSocket::Rmem" : "ns3::TcpLinuxSocket::Wmem",
                       StringValue(value));
    if (read)
    {
        Config::SetDefault("ns3::MptcpSocket::RcvBuf", UintegerValue(sizes[1]));
        Config::SetDefault("ns3::MptcpSocket::RcvBufMax", UintegerValue(sizes[2]));
    }
}

/// net.ipv4.tcp_congestion_control: of plain TCP and of subflows
void
SetCongestionControl(const std::string& value)
{
    const auto type = LookUp("net.ipv4.tcp_congestion_control",
                             value,
                             {{"bbr", "ns3::TcpLinuxBbr"},
                              {"cubic", "ns3::TcpLinuxCubic"},
                              {"reno", "ns3::TcpNewReno"}});
    for (const auto owner : {"TcpLinuxSocketFactory", "MptcpPathManager"})
    {
        Config::SetDefault("ns3::" + std::string(owner) + "::CongestionControl",
                           TypeIdValue(TypeId::LookupByName(type)));
    }
}

/// A sysctl that is a number. @return it
uint32_t
ReadNumber(const std::string& name, const std::string& value, uint32_t least, uint32_t most)
{
    uint32_t number = 0;
    const auto end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || rest != end || number < least || number > most)
    {
        throw BadInput("sysctl." + name + ": must be a number from " + std::to_string(least) +
                       " to " + std::to_string(most) + ", not " + value);
    }
    return number;
}

/// Linux learns the asker's hardware address from its request, and ns-3 doesn't.
void
AddNeighbour(Ptr<Ipv4> ipv4, uint32_t interface, Ipv4Address neighbour, const Address& hardware)
{
    auto cache = DynamicCast<Ipv4L3Protocol>(ipv4)->GetInterface(interface)->GetArpCache();
    auto entry = cache->Add(neighbour);
    entry->SetMacAddress(hardware);
    entry->MarkPermanent();
}

/// Hosts look up hardware addresses as Linux does, at once and without a packet lost.
void
LookUpNeighbours()
{
    const StringValue atOnce("ns3::ConstantRandomVariable[Constant=0]");
    Config::SetDefault("ns3::NetemNetDevice::NeedsArp", BooleanValue(true));
    Config::SetDefault("ns3::ArpL3Protocol::RequestJitter", atOnce);
    Config::SetDefault("ns3::ArpCache::PendingQueueSize", UintegerValue(UNRESOLVED_PACKETS));
    // Linux takes what TCP receives for a proof that the neighbour is there (dst_confirm)
    Config::SetDefault("ns3::ArpCache::AliveTimeout", TimeValue(Hours(24)));
    Config::SetDefault("ns3::Icmpv6L4Protocol::SolicitationJitter", atOnce);
    // addresses are of use at once, without a second of duplicate address detection
    Config::SetDefault("ns3::Icmpv6L4Protocol::DAD", BooleanValue(false));
}

} // namespace

Network::Network(const Settings& settings)
    : m_settings(settings)
{
    SetSysctls();
    if (settings.fabric)
    {
        BuildFabric();
    }
    else
    {
        m_hosts.Create(1);
        m_target.Create(1);
        InternetStackHelper internet;
        internet.SetIpv4StackInstall(!settings.ipv6);
        internet.SetIpv6StackInstall(settings.ipv6);
        LookUpNeighbours();
        internet.Install(GetEnds());
        BuildLinks();
    }
    InstallSockets();
}

void
Network::SetSysctls() const
{
    if (!m_settings.gso)
    {
        Config::SetDefault("ns3::TcpLinuxSocket::Gso", BooleanValue(false));
    }
    for (const auto& [name, value] : m_settings.sysctl)
    {
        if (name == "net.ipv4.tcp_ecn")
        {
            SetEcn(value);
        }
        else if (name == "net.ipv4.tcp_rmem" || name == "net.ipv4.tcp_wmem")
        {
            SetBuffers(name, value);
        }
        else if (name == "net.ipv4.tcp_congestion_control")
        {
            SetCongestionControl(value);
        }
        else if (name == "net.ipv4.tcp_rto_min_us")
        {
            Config::SetDefault(
                "ns3::TcpLinuxSocket::RtoMin",
                TimeValue(MicroSeconds(ReadNumber(name, value, 1000, RTO_MIN_MOST))));
        }
        else if (name == "net.mptcp.stale_loss_cnt")
        {
            Config::SetDefault("ns3::MptcpPathManager::StaleLossCount",
                               UintegerValue(ReadNumber(name, value, 0, UINT32_MAX)));
        }
        else
        {
            throw BadInput("sysctl." + name +
                           ": the model has tcp_congestion_control, tcp_ecn, tcp_rmem, "
                           "tcp_rto_min_us, tcp_wmem and stale_loss_cnt only");
        }
    }
}

void
Network::BuildLinks()
{
    const bool bond = m_settings.bonding != "none";
    for (uint32_t path = 1; path <= m_settings.paths.size(); path++)
    {
        const auto& link = m_settings.paths[path - 1];
        auto [host, target] = NetemNetDevice::Connect(m_hosts.Get(0), m_target.Get(0));
        Configure(host, link.toTarget, m_settings.mtu);
        Configure(target, link.toHost, m_settings.mtu);
        m_devices.insert(m_devices.end(), {host, target});
        m_paths.emplace_back(host, target);
        if (!bond)
        {
            Assign(path, host, target);
        }
    }
    if (bond)
    {
        BuildBond();
    }
}

void
Network::Assign(uint32_t network, Ptr<NetDevice> host, Ptr<NetDevice> target)
{
    if (m_settings.ipv6)
    {
        m_hostAddresses.emplace_back(AssignIpv6(host, network, 1));
        m_ports.emplace_back(AssignIpv6(target, network, 2));
    }
    else
    {
        Ipv4AddressHelper helper(Ipv4Address((10U << 24) | (network << 8)), "255.255.255.0");
        const auto interfaces =
            helper.Assign(NetDeviceContainer(NetDeviceContainer(host), NetDeviceContainer(target)));
        m_hostAddresses.emplace_back(interfaces.GetAddress(0));
        m_ports.emplace_back(interfaces.GetAddress(1));
        const auto [ipv4, interface] = interfaces.Get(1);
        AddNeighbour(ipv4, interface, interfaces.GetAddress(0), host->GetAddress());
    }
}

void
Network::BuildBond()
{
    NetDeviceContainer bonds;
    for (uint32_t end = 0; end < 2; end++)
    {
        auto bond = CreateObject<BondingNetDevice>();
        bond->SetAttribute("Mode", StringValue(m_settings.bonding));
        GetEnds().Get(end)->AddDevice(bond);
        for (const auto& [host, target] : m_paths)
        {
            bond->AddSlave(end ? target : host);
        }
        bonds.Add(bond);
    }
    Assign(BOND, bonds.Get(0), bonds.Get(1));
}

void
Network::BuildFabric()
{
    const auto& wanted = *m_settings.fabric;
    const auto paths = static_cast<uint32_t>(m_settings.paths.size());
    NvmeFabricHelper fabric(m_settings.association.hosts, paths);
    const uint32_t mtu = m_settings.mtu;
    m_paths.resize(paths);
    fabric.SetTargetLink(
        [&](uint32_t path, Ptr<NetemNetDevice> target, Ptr<NetemNetDevice> switchEnd) {
            Configure(target, m_settings.paths[path - 1].toHost, mtu);
            Configure(switchEnd, m_settings.paths[path - 1].toTarget, mtu);
            m_paths[path - 1] = {switchEnd, target};
        });
    fabric.SetHostLink([&](uint32_t path, Ptr<NetemNetDevice> host, Ptr<NetemNetDevice> leafEnd) {
        Configure(host, wanted.hostLinks[path - 1].toTarget, mtu);
        Configure(leafEnd, wanted.hostLinks[path - 1].toHost, mtu);
    });
    fabric.SetUplink([&](Ptr<NetemNetDevice> leaf, Ptr<NetemNetDevice> spine) {
        Configure(leaf, wanted.uplink, mtu);
        Configure(spine, wanted.uplink, mtu);
    });
    if (wanted.kind == "switch")
    {
        fabric.InstallSwitches();
    }
    else
    {
        fabric.InstallLeafSpine(wanted.leaves, wanted.spines);
    }
    m_hosts = fabric.GetHosts();
    m_target.Add(fabric.GetTarget());
    m_devices = fabric.GetDevices();
    for (uint32_t path = 1; path <= paths; path++)
    {
        m_ports.emplace_back(NvmeFabricHelper::GetTargetAddress(path));
    }
}

void
Network::InstallSockets()
{
    TcpLinuxSocketFactory::Install(GetEnds());
    if (!m_settings.association.mptcp)
    {
        return;
    }
    const auto& wanted = m_settings.mptcp;
    MptcpHelper mptcp;
    mptcp.Set("Subflows", UintegerValue(wanted.subflows));
    mptcp.Set("AddAddrAccepted", UintegerValue(wanted.addAddrAccepted));
    mptcp.Set("Checksum", BooleanValue(wanted.checksum));
    mptcp.Set("Scheduler", TypeIdValue(Scheduler(wanted.scheduler)));
    mptcp.Install(GetEnds());
    // with a bond there is one port, whatever the number of links
    for (uint32_t path = 1; path <= m_ports.size(); path++)
    {
        const uint8_t backup = m_settings.paths[path - 1].backup ? MptcpPathManager::BACKUP : 0;
        if (wanted.targetEndpoints == "signal")
        {
            mptcp.AddEndpoint(GetTarget(), m_ports[path - 1], MptcpPathManager::SIGNAL | backup);
        }
        if (wanted.hostEndpoints != "none")
        {
            for (uint32_t host = 0; host < m_hosts.GetN(); host++)
            {
                const auto address = m_settings.fabric
                                         ? NvmeFabricHelper::GetHostAddress(host, path)
                                         : m_hostAddresses[path - 1];
                const uint8_t mesh =
                    wanted.hostEndpoints == "fullmesh" ? MptcpPathManager::FULLMESH : 0;
                mptcp.AddEndpoint(m_hosts.Get(host),
                                  address,
                                  MptcpPathManager::SUBFLOW | mesh | backup);
            }
        }
    }
}

Ptr<Node>
Network::GetHost(uint32_t host) const
{
    return m_hosts.Get(m_settings.fabric ? host : 0);
}

Ptr<Node>
Network::GetTarget() const
{
    return m_target.Get(0);
}

std::vector<Address>
Network::GetPorts() const
{
    const auto count = std::min<std::size_t>(m_settings.association.ports, m_ports.size());
    return {m_ports.begin(), m_ports.begin() + static_cast<std::ptrdiff_t>(count)};
}

const std::vector<Ptr<NetemNetDevice>>&
Network::GetDevices() const
{
    return m_devices;
}

NodeContainer
Network::GetEnds() const
{
    return NodeContainer(m_hosts, m_target);
}

void
Network::Apply(const Event& event)
{
    auto [toTarget, toHost] = m_paths[event.path];
    if (event.toTarget)
    {
        Configure(toTarget, *event.toTarget, m_settings.mtu);
    }
    if (event.toHost)
    {
        Configure(toHost, *event.toHost, m_settings.mtu);
    }
    if (event.up)
    {
        toHost->SetUp(*event.up);
    }
}

} // namespace cell
