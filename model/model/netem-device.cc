/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "netem-device.h"

#include "gso-tag.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("NetemNetDevice");

NS_OBJECT_ENSURE_REGISTERED(NetemChannel);
NS_OBJECT_ENSURE_REGISTERED(NetemNetDevice);

namespace
{

constexpr uint32_t ETHERNET_HEADER = 14;

} // namespace

NetemNetDevice::Refusals NetemNetDevice::m_refusals;

TypeId
NetemChannel::GetTypeId()
{
    static TypeId tid = TypeId("ns3::NetemChannel")
                            .SetParent<Channel>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<NetemChannel>();
    return tid;
}

void
NetemChannel::Attach(Ptr<NetemNetDevice> device)
{
    NS_ABORT_MSG_IF(m_ends[1], "a NetemChannel joins two devices, not three");
    m_ends[m_ends[0] ? 1 : 0] = device;
    device->SetChannel(this);
}

Ptr<NetemNetDevice>
NetemChannel::GetPeer(const NetemNetDevice* device) const
{
    return PeekPointer(m_ends[0]) == device ? m_ends[1] : m_ends[0];
}

std::size_t
NetemChannel::GetNDevices() const
{
    return (m_ends[0] ? 1 : 0) + (m_ends[1] ? 1 : 0);
}

Ptr<NetDevice>
NetemChannel::GetDevice(std::size_t i) const
{
    return m_ends[i];
}

TypeId
NetemNetDevice::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::NetemNetDevice")
            .SetParent<NetDevice>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<NetemNetDevice>()
            .AddAttribute("Rate",
                          "Rate of the link; 0: no limit.",
                          DataRateValue(DataRate(0)),
                          MakeDataRateAccessor(&NetemNetDevice::m_rate),
                          MakeDataRateChecker())
            .AddAttribute("Delay",
                          "Delay of each packet.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&NetemNetDevice::m_delay),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("Jitter",
                          "Delays are uniformly distributed from Delay - Jitter to Delay + Jitter.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&NetemNetDevice::m_jitter),
                          MakeTimeChecker(Time(0), Seconds(2)))
            .AddAttribute("Loss",
                          "Probability that a packet (a GSO packet as a whole) is lost.",
                          DoubleValue(0.0),
                          MakeDoubleAccessor(&NetemNetDevice::m_loss),
                          MakeDoubleChecker<double>(0.0, 1.0))
            .AddAttribute("Limit",
                          "Most packets in the queue, those that only wait for their delay too.",
                          UintegerValue(1000),
                          MakeUintegerAccessor(&NetemNetDevice::m_limit),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("EcnThreshold",
                          "Packets that find this many in the queue are marked CE if their IP "
                          "header allows it; 0: none is. Not of netem: a switch's step marking.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&NetemNetDevice::m_ecnThreshold),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute(
                "Mtu",
                "Largest IP packet on the wire, in bytes. GSO packets are larger.",
                UintegerValue(1500),
                MakeUintegerAccessor(&NetemNetDevice::SetMtu, &NetemNetDevice::GetLinkMtu),
                MakeUintegerChecker<uint16_t>(576))
            .AddAttribute("NeedsArp",
                          "Look up the peer's hardware address (ARP, neighbour discovery) before "
                          "the first packet, as Ethernet does. A handshake that waits for it has a "
                          "first RTT sample of twice the round trip. False: it is known.",
                          BooleanValue(false),
                          MakeBooleanAccessor(&NetemNetDevice::m_needsArp),
                          MakeBooleanChecker())
            .AddAttribute("Up",
                          "Whether this end is up; a link is up if both its ends are.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&NetemNetDevice::SetUp, &NetemNetDevice::GetUp),
                          MakeBooleanChecker())
            .AddTraceSource("Enqueue",
                            "A packet was handed over by the IP layer.",
                            MakeTraceSourceAccessor(&NetemNetDevice::m_enqueueTrace),
                            "ns3::NetemNetDevice::PacketTracedCallback")
            .AddTraceSource("Send",
                            "A packet left.",
                            MakeTraceSourceAccessor(&NetemNetDevice::m_sendTrace),
                            "ns3::NetemNetDevice::PacketTracedCallback")
            .AddTraceSource("Receive",
                            "A packet arrived from the other end.",
                            MakeTraceSourceAccessor(&NetemNetDevice::m_receiveTrace),
                            "ns3::NetemNetDevice::PacketTracedCallback")
            .AddTraceSource("Drop",
                            "A packet was dropped.",
                            MakeTraceSourceAccessor(&NetemNetDevice::m_dropTrace),
                            "ns3::NetemNetDevice::DropTracedCallback");
    return tid;
}

NetemNetDevice::NetemNetDevice()
    : m_lossRandom(CreateObject<UniformRandomVariable>()),
      m_jitterRandom(CreateObject<UniformRandomVariable>())
{
}

NetemNetDevice::~NetemNetDevice() = default;

void
NetemNetDevice::DoDispose()
{
    m_queue.clear();
    m_channel = nullptr;
    m_node = nullptr;
    m_receive = ReceiveCallback();
    m_promisc = PromiscReceiveCallback();
    NetDevice::DoDispose();
}

std::pair<Ptr<NetemNetDevice>, Ptr<NetemNetDevice>>
NetemNetDevice::Connect(Ptr<Node> a, Ptr<Node> b)
{
    auto channel = CreateObject<NetemChannel>();
    auto make = [&channel](Ptr<Node> node) {
        auto device = CreateObject<NetemNetDevice>();
        device->SetAddress(Mac48Address::Allocate());
        node->AddDevice(device);
        channel->Attach(device);
        return device;
    };
    auto first = make(a);
    return {first, make(b)};
}

uint32_t
NetemNetDevice::GetWireBytes(Ptr<const Packet> packet)
{
    GsoTag tag;
    if (packet->PeekPacketTag(tag))
    {
        return tag.GetIpBytes() + tag.GetSegments() * ETHERNET_HEADER;
    }
    return packet->GetSize() + ETHERNET_HEADER;
}

Time
NetemNetDevice::GetDeparture(Ptr<const Packet> packet) const
{
    Time from = Simulator::Now();
    Time delay = m_delay;
    if (m_jitter.IsStrictlyPositive())
    {
        int64_t width = 2 * m_jitter.GetNanoSeconds();
        delay += NanoSeconds(m_jitterRandom->GetInteger(0, width - 1)) - m_jitter;
    }
    if (m_rate.GetBitRate() > 0)
    {
        if (!m_queue.empty())
        {
            // behind the last packet: the time until that one leaves is part of the delay
            Time last = m_queue.back().leaves;
            delay = Max(Time(0), delay - (last - from));
            from = last;
        }
        uint64_t bytesPerSecond = m_rate.GetBitRate() / 8;
        delay += NanoSeconds(GetWireBytes(packet) * 1000000000ULL / bytesPerSecond);
    }
    return from + delay;
}

void
NetemNetDevice::MarkCongestion(Ptr<Packet> packet, uint16_t protocol)
{
    if (protocol != Ipv4L3Protocol::PROT_NUMBER)
    {
        return;
    }
    Ipv4Header header;
    packet->PeekHeader(header);
    if (header.GetEcn() == Ipv4Header::ECN_ECT0 || header.GetEcn() == Ipv4Header::ECN_ECT1)
    {
        packet->RemoveHeader(header);
        header.SetEcn(Ipv4Header::ECN_CE);
        packet->AddHeader(header);
    }
}

bool
NetemNetDevice::Send(Ptr<Packet> packet, const Address&, uint16_t protocol)
{
    m_enqueueTrace(packet, GetWireBytes(packet));
    if (!IsLinkUp())
    {
        ++m_refusals.down;
        m_dropTrace(packet, DROP_DOWN);
        return false;
    }
    // netem's order: loss is drawn first, then the queue's length is looked at
    if (m_loss > 0 && m_lossRandom->GetValue() < m_loss)
    {
        m_dropTrace(packet, DROP_LOSS);
        return true;
    }
    if (m_queue.size() >= m_limit)
    {
        ++m_refusals.full;
        m_dropTrace(packet, DROP_LIMIT);
        return false;
    }
    if (m_ecnThreshold > 0 && m_queue.size() >= m_ecnThreshold)
    {
        MarkCongestion(packet, protocol);
    }

    Queued entry{Max(GetDeparture(packet), Simulator::Now()), packet, protocol};
    auto place = m_queue.end();
    while (place != m_queue.begin() && entry.leaves < std::prev(place)->leaves)
    {
        --place; // only jitter without a rate gets here
    }
    bool first = place == m_queue.begin();
    m_queue.insert(place, entry);
    if (first)
    {
        ScheduleFirst();
    }
    return true;
}

void
NetemNetDevice::ScheduleFirst()
{
    // in the other node's context, where the packet arrives; such events can't be cancelled
    auto peer = m_channel->GetPeer(this);
    Simulator::ScheduleWithContext(peer->GetNode()->GetId(),
                                   m_queue.front().leaves - Simulator::Now(),
                                   &NetemNetDevice::Deliver,
                                   Ptr<NetemNetDevice>(this));
}

void
NetemNetDevice::Deliver()
{
    // nothing is due if the queue was emptied, or an earlier packet came in between
    auto peer = m_channel ? m_channel->GetPeer(this) : nullptr;
    bool delivered = false;
    while (!m_queue.empty() && m_queue.front().leaves <= Simulator::Now())
    {
        Queued entry = m_queue.front();
        m_queue.pop_front();
        m_sendTrace(entry.packet, GetWireBytes(entry.packet));
        peer->Receive(entry.packet, entry.protocol);
        delivered = true;
    }
    if (delivered && !m_queue.empty())
    {
        ScheduleFirst();
    }
}

void
NetemNetDevice::Receive(Ptr<Packet> packet, uint16_t protocol)
{
    m_receiveTrace(packet, GetWireBytes(packet));
    auto from = m_channel->GetPeer(this)->GetAddress();
    if (!m_promisc.IsNull())
    {
        m_promisc(this, packet, protocol, from, m_address, NetDevice::PACKET_HOST);
    }
    if (!m_receive.IsNull())
    {
        m_receive(this, packet, protocol, from);
    }
}

void
NetemNetDevice::Flush()
{
    std::deque<Queued> queue;
    queue.swap(m_queue);
    for (const auto& entry : queue)
    {
        m_dropTrace(entry.packet, DROP_DOWN);
    }
}

void
NetemNetDevice::LinkChanged()
{
    if (!IsLinkUp())
    {
        Flush();
    }
    m_linkChange();
}

void
NetemNetDevice::SetUp(bool up)
{
    if (m_up == up)
    {
        return;
    }
    m_up = up;
    if (auto peer = m_channel ? m_channel->GetPeer(this) : nullptr)
    {
        LinkChanged();
        peer->LinkChanged();
    }
}

bool
NetemNetDevice::GetUp() const
{
    return m_up;
}

bool
NetemNetDevice::IsLinkUp() const
{
    auto peer = m_channel ? m_channel->GetPeer(this) : nullptr;
    return m_up && peer && peer->m_up;
}

uint32_t
NetemNetDevice::GetQueueLength() const
{
    return m_queue.size();
}

const NetemNetDevice::Refusals&
NetemNetDevice::GetRefusals()
{
    return m_refusals;
}

int64_t
NetemNetDevice::AssignStreams(int64_t stream)
{
    m_lossRandom->SetStream(stream);
    m_jitterRandom->SetStream(stream + 1);
    return 2;
}

void
NetemNetDevice::SetChannel(Ptr<NetemChannel> channel)
{
    m_channel = channel;
}

void
NetemNetDevice::SetIfIndex(const uint32_t index)
{
    m_ifIndex = index;
}

uint32_t
NetemNetDevice::GetIfIndex() const
{
    return m_ifIndex;
}

Ptr<Channel>
NetemNetDevice::GetChannel() const
{
    return m_channel;
}

void
NetemNetDevice::SetAddress(Address address)
{
    m_address = Mac48Address::ConvertFrom(address);
}

Address
NetemNetDevice::GetAddress() const
{
    return m_address;
}

bool
NetemNetDevice::SetMtu(const uint16_t mtu)
{
    m_mtu = mtu;
    return true;
}

uint16_t
NetemNetDevice::GetMtu() const
{
    return 65535;
}

uint16_t
NetemNetDevice::GetLinkMtu() const
{
    return m_mtu;
}

void
NetemNetDevice::AddLinkChangeCallback(Callback<void> callback)
{
    m_linkChange.ConnectWithoutContext(callback);
}

bool
NetemNetDevice::IsBroadcast() const
{
    return true;
}

Address
NetemNetDevice::GetBroadcast() const
{
    return Mac48Address::GetBroadcast();
}

bool
NetemNetDevice::IsMulticast() const
{
    return true;
}

Address
NetemNetDevice::GetMulticast(Ipv4Address group) const
{
    return Mac48Address::GetMulticast(group);
}

Address
NetemNetDevice::GetMulticast(Ipv6Address group) const
{
    return Mac48Address::GetMulticast(group);
}

bool
NetemNetDevice::IsPointToPoint() const
{
    return true;
}

bool
NetemNetDevice::IsBridge() const
{
    return false;
}

bool
NetemNetDevice::SendFrom(Ptr<Packet> packet, const Address&, const Address& dest, uint16_t protocol)
{
    return Send(packet, dest, protocol);
}

Ptr<Node>
NetemNetDevice::GetNode() const
{
    return m_node;
}

void
NetemNetDevice::SetNode(Ptr<Node> node)
{
    m_node = node;
}

bool
NetemNetDevice::NeedsArp() const
{
    return m_needsArp;
}

void
NetemNetDevice::SetReceiveCallback(ReceiveCallback cb)
{
    m_receive = cb;
}

void
NetemNetDevice::SetPromiscReceiveCallback(PromiscReceiveCallback cb)
{
    m_promisc = cb;
}

bool
NetemNetDevice::SupportsSendFrom() const
{
    return true;
}

} // namespace ns3
