/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-socket-factory.h"

#include "mptcp-socket.h"

#include "ns3/node.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(MptcpSocketFactory);

TypeId
MptcpSocketFactory::GetTypeId()
{
    static TypeId tid = TypeId("ns3::MptcpSocketFactory")
                            .SetParent<SocketFactory>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<MptcpSocketFactory>();
    return tid;
}

Ptr<Socket>
MptcpSocketFactory::CreateSocket()
{
    auto socket = CreateObject<MptcpSocket>();
    socket->SetNode(GetObject<Node>());
    return socket;
}

} // namespace ns3
