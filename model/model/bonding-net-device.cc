/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "bonding-net-device.h"

#include "ns3/assert.h"
#include "ns3/channel.h"
#include "ns3/enum.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv6-header.h"
#include "ns3/ipv6-l3-protocol.h"
#include "ns3/log.h"
#include "ns3/mac48-address.h"
#include "ns3/node.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/udp-l4-protocol.h"

#include <algorithm>
#include <array>
#include <limits>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("BondingNetDevice");

NS_OBJECT_ENSURE_REGISTERED(BondingNetDevice);

namespace
{

/**
 * XOR a header's 32-bit words, each read in the order of a little-endian machine, as Linux does
 * with fields that it doesn't bring into its own order.
 * @param bytes the first byte
 * @param words number of words
 * @return the XOR
 */
uint32_t
XorWords(const uint8_t* bytes, std::size_t words)
{
    uint32_t value = 0;
    for (std::size_t i = 0; i < 4 * words; i++)
    {
        value ^= static_cast<uint32_t>(bytes[i]) << (8 * (i % 4));
    }
    return value;
}

} // namespace

TypeId
BondingNetDevice::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::BondingNetDevice")
            .SetParent<NetDevice>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<BondingNetDevice>()
            .AddAttribute("Mode",
                          "How the slave is chosen that sends a packet.",
                          EnumValue(BALANCE_RR),
                          MakeEnumAccessor<Mode>(&BondingNetDevice::m_mode),
                          MakeEnumChecker(BALANCE_RR, "balance-rr", IEEE_802_3AD, "802.3ad"))
            .AddAttribute("MiiMonitor",
                          "Time between two looks at the slaves' links (miimon).",
                          TimeValue(MilliSeconds(100)),
                          MakeTimeAccessor(&BondingNetDevice::m_miiMonitor),
                          MakeTimeChecker(NanoSeconds(1)))
            .AddAttribute("AggregateDelay",
                          "How long LACP waits before it uses a link that came back; 802.3ad "
                          "only. IEEE 802.1AX's Aggregate_Wait_Time is 2 s.",
                          TimeValue(Seconds(2)),
                          MakeTimeAccessor(&BondingNetDevice::m_aggregateDelay),
                          MakeTimeChecker(Seconds(0)))
            .AddTraceSource("Send",
                            "A packet was handed to a slave.",
                            MakeTraceSourceAccessor(&BondingNetDevice::m_sendTrace),
                            "ns3::BondingNetDevice::SendTracedCallback")
            .AddTraceSource("Drop",
                            "A packet was dropped, since no slave can send.",
                            MakeTraceSourceAccessor(&BondingNetDevice::m_dropTrace),
                            "ns3::Packet::TracedCallback");
    return tid;
}

BondingNetDevice::BondingNetDevice()
    : m_address(Mac48Address::Allocate())
{
}

BondingNetDevice::~BondingNetDevice() = default;

void
BondingNetDevice::DoDispose()
{
    for (Slave& slave : m_slaves)
    {
        slave.comesBack.Cancel();
    }
    m_slaves.clear();
    m_node = nullptr;
    m_receive =
        MakeNullCallback<bool, Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&>();
    m_promisc = MakeNullCallback<bool,
                                 Ptr<NetDevice>,
                                 Ptr<const Packet>,
                                 uint16_t,
                                 const Address&,
                                 const Address&,
                                 PacketType>();
    NetDevice::DoDispose();
}

void
BondingNetDevice::AddSlave(Ptr<NetDevice> slave)
{
    NS_LOG_FUNCTION(this << slave);
    NS_ASSERT_MSG(m_node, "add the bonding device to its node before it gets slaves");
    NS_ASSERT_MSG(slave->GetNode() == m_node, "a slave has to be in the bonding device's node");
    slave->SetAddress(m_address);
    m_node->RegisterProtocolHandler(MakeCallback(&BondingNetDevice::ReceiveFromSlave, this),
                                    0,
                                    slave);
    slave->AddLinkChangeCallback(MakeCallback(&BondingNetDevice::LinksChanged, this));
    m_slaves.push_back({slave, slave->IsLinkUp(), {}});
}

std::size_t
BondingNetDevice::GetNSlaves() const
{
    return m_slaves.size();
}

void
BondingNetDevice::LinksChanged()
{
    // Linux looks at regular times; the first one after the change is known without looking
    const int64_t period = m_miiMonitor.GetTimeStep();
    const int64_t now = Simulator::Now().GetTimeStep();
    Time wait = TimeStep(period - now % period);
    if (m_mode == IEEE_802_3AD)
    {
        wait += m_aggregateDelay;
    }
    for (std::size_t i = 0; i < m_slaves.size(); i++)
    {
        Slave& slave = m_slaves[i];
        if (!slave.device->IsLinkUp())
        {
            NS_LOG_LOGIC("slave " << i << " lost its link");
            slave.usable = false;
            slave.comesBack.Cancel();
        }
        else if (!slave.usable && !slave.comesBack.IsPending())
        {
            slave.comesBack = Simulator::Schedule(wait, &BondingNetDevice::UseSlave, this, i);
        }
    }
    m_linkChange();
}

void
BondingNetDevice::UseSlave(std::size_t index)
{
    NS_LOG_LOGIC("slave " << index << " is used again");
    m_slaves[index].usable = true;
    m_linkChange();
}

uint32_t
BondingNetDevice::GetHash(Ptr<const Packet> packet, uint16_t protocol)
{
    // layer3+4: the ports' word, XOR both addresses, folded; the lowest bit is left out, since
    // ports are often even
    constexpr std::size_t MOST = 60 + 4; // longest IPv4 header, ports
    std::array<uint8_t, MOST> bytes;
    const uint32_t size = packet->CopyData(bytes.data(), bytes.size());
    uint32_t hash = 0;
    uint32_t header;
    uint8_t next;
    if (protocol == Ipv4L3Protocol::PROT_NUMBER && size >= 20)
    {
        header = 4 * (bytes[0] & 0x0f);
        const bool fragment = (bytes[6] & 0x3f) || bytes[7];
        next = fragment ? 0 : bytes[9];
        hash = XorWords(&bytes[12], 2);
    }
    else if (protocol == Ipv6L3Protocol::PROT_NUMBER && size >= 40)
    {
        header = 40;
        next = bytes[6];
        hash = XorWords(&bytes[8], 8);
    }
    else
    {
        return 0;
    }
    const bool ports = next == TcpL4Protocol::PROT_NUMBER || next == UdpL4Protocol::PROT_NUMBER;
    if (ports && size >= header + 4)
    {
        hash ^= XorWords(&bytes[header], 1);
    }
    hash ^= hash >> 16;
    hash ^= hash >> 8;
    return hash >> 1;
}

std::size_t
BondingNetDevice::ChooseSlave(Ptr<const Packet> packet, uint16_t protocol)
{
    if (m_slaves.empty())
    {
        return 0;
    }
    if (m_mode == BALANCE_RR)
    {
        // the next of all slaves, or the first after it that can send
        const std::size_t first = ++m_sent % m_slaves.size();
        for (std::size_t i = 0; i < m_slaves.size(); i++)
        {
            const std::size_t index = (first + i) % m_slaves.size();
            if (m_slaves[index].usable)
            {
                return index;
            }
        }
        return m_slaves.size();
    }
    // the hash counts the usable ones
    const auto usable = std::count_if(m_slaves.begin(), m_slaves.end(), [](const Slave& slave) {
        return slave.usable;
    });
    if (usable == 0)
    {
        return m_slaves.size();
    }
    auto skip = GetHash(packet, protocol) % usable;
    for (std::size_t i = 0; i < m_slaves.size(); i++)
    {
        if (m_slaves[i].usable && skip-- == 0)
        {
            return i;
        }
    }
    return m_slaves.size();
}

Ptr<NetDevice>
BondingNetDevice::TakeSlave(Ptr<const Packet> packet, uint16_t protocol)
{
    const std::size_t index = ChooseSlave(packet, protocol);
    if (index == m_slaves.size())
    {
        m_dropTrace(packet);
        return nullptr;
    }
    m_sendTrace(packet, index);
    return m_slaves[index].device;
}

bool
BondingNetDevice::Send(Ptr<Packet> packet, const Address& dest, uint16_t protocol)
{
    const auto slave = TakeSlave(packet, protocol);
    return slave && slave->Send(packet, dest, protocol);
}

bool
BondingNetDevice::SendFrom(Ptr<Packet> packet,
                           const Address& source,
                           const Address& dest,
                           uint16_t protocol)
{
    const auto slave = TakeSlave(packet, protocol);
    return slave && slave->SendFrom(packet, source, dest, protocol);
}

void
BondingNetDevice::ReceiveFromSlave(Ptr<NetDevice> device,
                                   Ptr<const Packet> packet,
                                   uint16_t protocol,
                                   const Address& from,
                                   const Address& to,
                                   PacketType type)
{
    NS_LOG_FUNCTION(this << device << packet << protocol << from << to << type);
    if (!m_promisc.IsNull())
    {
        m_promisc(this, packet, protocol, from, to, type);
    }
    m_receive(this, packet, protocol, from);
}

void
BondingNetDevice::SetIfIndex(const uint32_t index)
{
    m_ifIndex = index;
}

uint32_t
BondingNetDevice::GetIfIndex() const
{
    return m_ifIndex;
}

Ptr<Channel>
BondingNetDevice::GetChannel() const
{
    return m_slaves.empty() ? nullptr : m_slaves.front().device->GetChannel();
}

void
BondingNetDevice::SetAddress(Address address)
{
    m_address = address;
    for (const Slave& slave : m_slaves)
    {
        slave.device->SetAddress(address);
    }
}

Address
BondingNetDevice::GetAddress() const
{
    return m_address;
}

bool
BondingNetDevice::SetMtu(const uint16_t mtu)
{
    return std::all_of(m_slaves.begin(), m_slaves.end(), [mtu](const Slave& slave) {
        return slave.device->SetMtu(mtu);
    });
}

uint16_t
BondingNetDevice::GetMtu() const
{
    uint16_t mtu = std::numeric_limits<uint16_t>::max();
    for (const Slave& slave : m_slaves)
    {
        mtu = std::min(mtu, slave.device->GetMtu());
    }
    return mtu;
}

std::vector<Ptr<NetDevice>>
BondingNetDevice::GetSlaves() const
{
    std::vector<Ptr<NetDevice>> devices;
    for (const Slave& slave : m_slaves)
    {
        devices.push_back(slave.device);
    }
    return devices;
}

bool
BondingNetDevice::IsLinkUp() const
{
    return std::any_of(m_slaves.begin(), m_slaves.end(), [](const Slave& slave) {
        return slave.usable;
    });
}

void
BondingNetDevice::AddLinkChangeCallback(Callback<void> callback)
{
    m_linkChange.ConnectWithoutContext(callback);
}

bool
BondingNetDevice::IsBroadcast() const
{
    return true;
}

Address
BondingNetDevice::GetBroadcast() const
{
    return Mac48Address::GetBroadcast();
}

bool
BondingNetDevice::IsMulticast() const
{
    return true;
}

Address
BondingNetDevice::GetMulticast(Ipv4Address group) const
{
    return Mac48Address::GetMulticast(group);
}

Address
BondingNetDevice::GetMulticast(Ipv6Address group) const
{
    return Mac48Address::GetMulticast(group);
}

bool
BondingNetDevice::IsPointToPoint() const
{
    return std::all_of(m_slaves.begin(), m_slaves.end(), [](const Slave& slave) {
        return slave.device->IsPointToPoint();
    });
}

bool
BondingNetDevice::IsBridge() const
{
    return false;
}

Ptr<Node>
BondingNetDevice::GetNode() const
{
    return m_node;
}

void
BondingNetDevice::SetNode(Ptr<Node> node)
{
    m_node = node;
}

bool
BondingNetDevice::NeedsArp() const
{
    return std::any_of(m_slaves.begin(), m_slaves.end(), [](const Slave& slave) {
        return slave.device->NeedsArp();
    });
}

void
BondingNetDevice::SetReceiveCallback(ReceiveCallback callback)
{
    m_receive = callback;
}

void
BondingNetDevice::SetPromiscReceiveCallback(PromiscReceiveCallback callback)
{
    m_promisc = callback;
}

bool
BondingNetDevice::SupportsSendFrom() const
{
    return std::all_of(m_slaves.begin(), m_slaves.end(), [](const Slave& slave) {
        return slave.device->SupportsSendFrom();
    });
}

} // namespace ns3
