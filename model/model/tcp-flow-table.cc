/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-flow-table.h"

#include "tcp-linux-socket.h"

#include "ns3/abort.h"
#include "ns3/ipv4-interface.h"
#include "ns3/ipv4.h"
#include "ns3/ipv6-interface.h"
#include "ns3/node.h"
#include "ns3/packet.h"
#include "ns3/tcp-l4-protocol.h"

#include <array>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(TcpFlowTable);

TypeId
TcpFlowTable::GetTypeId()
{
    static TypeId tid = TypeId("ns3::TcpFlowTable")
                            .SetParent<IpL4Protocol>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<TcpFlowTable>();
    return tid;
}

void
TcpFlowTable::Install(Ptr<Node> node)
{
    if (node->GetObject<TcpFlowTable>())
    {
        return;
    }
    auto table = CreateObject<TcpFlowTable>();
    table->m_tcp = node->GetObject<TcpL4Protocol>();
    NS_ABORT_MSG_UNLESS(table->m_tcp,
                        "node " << node->GetId() << " has no TCP: install an internet stack");
    node->AggregateObject(table);
    if (auto ipv4 = node->GetObject<Ipv4>())
    {
        ipv4->Insert(table);
    }
}

void
TcpFlowTable::DoDispose()
{
    m_sockets.clear();
    m_tcp = nullptr;
    IpL4Protocol::DoDispose();
}

void
TcpFlowTable::Add(const Flow& flow, TcpLinuxSocket* socket)
{
    m_sockets[flow] = socket;
}

void
TcpFlowTable::Remove(const Flow& flow, const TcpLinuxSocket* socket)
{
    const auto found = m_sockets.find(flow);
    if (found != m_sockets.end() && found->second == socket)
    {
        m_sockets.erase(found);
    }
}

std::vector<Ptr<TcpLinuxSocket>>
TcpFlowTable::GetSockets() const
{
    std::vector<Ptr<TcpLinuxSocket>> sockets;
    for (const auto& [flow, socket] : m_sockets)
    {
        sockets.emplace_back(socket);
    }
    return sockets;
}

uint64_t
TcpFlowTable::GetFound() const
{
    return m_found;
}

int
TcpFlowTable::GetProtocolNumber() const
{
    return m_tcp->GetProtocolNumber();
}

IpL4Protocol::RxStatus
TcpFlowTable::Receive(Ptr<Packet> p, const Ipv4Header& header, Ptr<Ipv4Interface> incomingInterface)
{
    std::array<uint8_t, 4> ports{}; // source and destination, the first bytes of a TCP header
    p->CopyData(ports.data(), ports.size());
    const auto port = [&ports](std::size_t at) {
        return static_cast<uint16_t>(ports[at] << 8 | ports[at + 1]);
    };
    const auto found =
        m_sockets.find({header.GetDestination(), port(2), header.GetSource(), port(0)});
    if (found != m_sockets.end() && !Node::ChecksumEnabled() &&
        found->second->Receive(p, header, port(0), incomingInterface))
    {
        m_found++;
        return RX_OK;
    }
    return m_tcp->Receive(p, header, incomingInterface);
}

IpL4Protocol::RxStatus
TcpFlowTable::Receive(Ptr<Packet> p, const Ipv6Header& header, Ptr<Ipv6Interface> incomingInterface)
{
    return m_tcp->Receive(p, header, incomingInterface);
}

void
TcpFlowTable::ReceiveIcmp(Ipv4Address icmpSource,
                          uint8_t icmpTtl,
                          uint8_t icmpType,
                          uint8_t icmpCode,
                          uint32_t icmpInfo,
                          Ipv4Address payloadSource,
                          Ipv4Address payloadDestination,
                          const uint8_t payload[8])
{
    m_tcp->ReceiveIcmp(icmpSource,
                       icmpTtl,
                       icmpType,
                       icmpCode,
                       icmpInfo,
                       payloadSource,
                       payloadDestination,
                       payload);
}

void
TcpFlowTable::SetDownTarget(DownTargetCallback cb)
{
    m_tcp->SetDownTarget(cb);
}

void
TcpFlowTable::SetDownTarget6(DownTargetCallback6 cb)
{
    m_tcp->SetDownTarget6(cb);
}

IpL4Protocol::DownTargetCallback
TcpFlowTable::GetDownTarget() const
{
    return m_tcp->GetDownTarget();
}

IpL4Protocol::DownTargetCallback6
TcpFlowTable::GetDownTarget6() const
{
    return m_tcp->GetDownTarget6();
}

} // namespace ns3
