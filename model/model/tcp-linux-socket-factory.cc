/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-linux-socket-factory.h"

#include "tcp-flow-table.h"
#include "tcp-linux-cubic.h"
#include "tcp-linux-socket.h"

#include "ns3/node-container.h"
#include "ns3/node.h"
#include "ns3/rtt-estimator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-prr-recovery.h"
#include "ns3/type-id.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(TcpLinuxSocketFactory);

TypeId
TcpLinuxSocketFactory::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::TcpLinuxSocketFactory")
            .SetParent<SocketFactory>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<TcpLinuxSocketFactory>()
            .AddAttribute("SocketType",
                          "Class of the sockets: TcpLinuxSocket or a subclass.",
                          TypeIdValue(TcpLinuxSocket::GetTypeId()),
                          MakeTypeIdAccessor(&TcpLinuxSocketFactory::m_socketType),
                          MakeTypeIdChecker())
            .AddAttribute("CongestionControl",
                          "Class of the sockets' congestion control.",
                          TypeIdValue(TcpLinuxCubic::GetTypeId()),
                          MakeTypeIdAccessor(&TcpLinuxSocketFactory::m_congestionType),
                          MakeTypeIdChecker());
    return tid;
}

void
TcpLinuxSocketFactory::Install(const NodeContainer& nodes)
{
    for (auto it = nodes.Begin(); it != nodes.End(); ++it)
    {
        if (!(*it)->GetObject<TcpLinuxSocketFactory>())
        {
            (*it)->AggregateObject(CreateObject<TcpLinuxSocketFactory>());
        }
        TcpFlowTable::Install(*it);
    }
}

Ptr<TcpSocketBase>
TcpLinuxSocketFactory::Create(Ptr<Node> node, TypeId socketType, TypeId congestionType)
{
    auto tcp = node->GetObject<TcpL4Protocol>();
    NS_ABORT_MSG_UNLESS(tcp, "node " << node->GetId() << " has no TCP: install an internet stack");

    ObjectFactory make;
    make.SetTypeId(socketType);
    auto socket = make.Create<TcpSocketBase>();
    NS_ABORT_MSG_UNLESS(socket, socketType.GetName() << " is no TcpSocketBase");
    make.SetTypeId(congestionType);
    auto congestion = make.Create<TcpCongestionOps>();
    NS_ABORT_MSG_UNLESS(congestion, congestionType.GetName() << " is no TcpCongestionOps");

    socket->SetNode(node);
    socket->SetTcp(tcp);
    // the base class asks for both; TcpLinuxSocket has its own estimator and recovery
    socket->SetRtt(CreateObject<RttMeanDeviation>());
    socket->SetRecoveryAlgorithm(CreateObject<TcpPrrRecovery>());
    socket->SetCongestionControlAlgorithm(congestion);
    return socket;
}

Ptr<Socket>
TcpLinuxSocketFactory::CreateSocket()
{
    return Create(GetObject<Node>(), m_socketType, m_congestionType);
}

} // namespace ns3
