/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-pcap-helper.h"

#include "ns3/abort.h"
#include "ns3/arp-l3-protocol.h"
#include "ns3/boolean.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv6-l3-protocol.h"
#include "ns3/mac48-address.h"
#include "ns3/netem-device.h"
#include "ns3/network-order.h"
#include "ns3/pcap-file-wrapper.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/ppp-header.h"
#include "ns3/simulator.h"
#include "ns3/tcp-wire-image.h"

namespace ns3
{

namespace
{

using Bytes = std::vector<uint8_t>;

/// A capture file, and how to write to it
struct Capture
{
    Ptr<PcapFileWrapper> file; //!< the file
    bool sliced;               //!< write segments of GSO packets

    bool operator==(const Capture&) const = default;
};

/**
 * Write an IP packet.
 * @param capture where
 * @param link header of the link layer
 * @param packet the packet
 */
void
WriteIp(const Capture& capture, const Bytes& link, Ptr<const Packet> packet)
{
    for (const Bytes& ip : GetTcpWireImage(packet, capture.sliced))
    {
        Bytes frame = link;
        frame.insert(frame.end(), ip.begin(), ip.end());
        capture.file->Write(Simulator::Now(), frame.data(), frame.size());
    }
}

/**
 * Write what a NetemNetDevice sends or receives.
 * @param capture where
 * @param addresses Ethernet addresses: destination, source
 * @param packet the packet
 */
void
WriteNetem(Capture capture, Bytes addresses, Ptr<const Packet> packet, uint32_t /* bytes */)
{
    uint8_t first = 0;
    packet->CopyData(&first, 1);
    const uint8_t version = first >> 4;
    AppendNetworkOrder(addresses,
                       version == 4   ? Ipv4L3Protocol::PROT_NUMBER
                       : version == 6 ? Ipv6L3Protocol::PROT_NUMBER
                                      : ArpL3Protocol::PROT_NUMBER);
    WriteIp(capture, addresses, packet);
}

/**
 * Write what a PointToPointNetDevice sends or receives.
 * @param capture where
 * @param packet the packet with its PPP header
 */
void
WritePointToPoint(Capture capture, Ptr<const Packet> packet)
{
    Bytes header(PppHeader().GetSerializedSize());
    packet->CopyData(header.data(), header.size());
    Ptr<Packet> ip = packet->Copy();
    ip->RemoveAtStart(header.size());
    WriteIp(capture, header, ip);
}

/**
 * Make the addresses of an Ethernet header.
 * @param to the receiver
 * @param from the sender
 * @return 12 bytes
 */
Bytes
GetAddresses(Ptr<NetDevice> to, Ptr<NetDevice> from)
{
    Bytes addresses(12);
    Mac48Address::ConvertFrom(to->GetAddress()).CopyTo(&addresses[0]);
    Mac48Address::ConvertFrom(from->GetAddress()).CopyTo(&addresses[6]);
    return addresses;
}

} // namespace

void
MptcpPcapHelper::SetSliced(bool sliced)
{
    m_sliced = sliced;
}

void
MptcpPcapHelper::SetSnapLength(uint32_t bytes)
{
    m_snapLength = bytes;
}

void
MptcpPcapHelper::EnablePcapInternal(std::string prefix,
                                    Ptr<NetDevice> device,
                                    bool /* promiscuous */,
                                    bool explicitFilename)
{
    const auto netem = DynamicCast<NetemNetDevice>(device);
    if (!netem && !DynamicCast<PointToPointNetDevice>(device))
    {
        return; // as ns-3's helpers, which leave kinds of devices that they don't know to others
    }
    const std::string name =
        explicitFilename ? prefix : PcapHelper().GetFilenameFromDevice(prefix, device);
    auto file = CreateObjectWithAttributes<PcapFileWrapper>("NanosecMode", BooleanValue(true));
    file->Open(name, std::ios::out | std::ios::binary);
    NS_ABORT_MSG_IF(file->Fail(), "cannot write " << name);
    file->Init(netem ? PcapHelper::DLT_EN10MB : PcapHelper::DLT_PPP, m_snapLength);
    const Capture capture{file, m_sliced};
    if (netem)
    {
        const auto peer =
            DynamicCast<NetemChannel>(netem->GetChannel())->GetPeer(PeekPointer(netem));
        device->TraceConnectWithoutContext(
            "Send",
            MakeBoundCallback(&WriteNetem, capture, GetAddresses(peer, netem)));
        device->TraceConnectWithoutContext(
            "Receive",
            MakeBoundCallback(&WriteNetem, capture, GetAddresses(netem, peer)));
    }
    else
    {
        device->TraceConnectWithoutContext("PromiscSniffer",
                                           MakeBoundCallback(&WritePointToPoint, capture));
    }
}

} // namespace ns3
