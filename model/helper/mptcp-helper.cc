/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-helper.h"

#include "ns3/mptcp-socket-factory.h"
#include "ns3/node.h"

namespace ns3
{

MptcpHelper::MptcpHelper()
{
    m_factory.SetTypeId(MptcpPathManager::GetTypeId());
}

void
MptcpHelper::Set(const std::string& name, const AttributeValue& value)
{
    m_factory.Set(name, value);
}

void
MptcpHelper::Install(const NodeContainer& nodes) const
{
    for (auto it = nodes.Begin(); it != nodes.End(); ++it)
    {
        (*it)->AggregateObject(m_factory.Create<MptcpPathManager>());
        (*it)->AggregateObject(CreateObject<MptcpSocketFactory>());
    }
}

uint8_t
MptcpHelper::AddEndpoint(Ptr<Node> node, const Address& address, uint8_t flags)
{
    auto pathManager = node->GetObject<MptcpPathManager>();
    NS_ABORT_MSG_UNLESS(pathManager, "node " << node->GetId() << " has no path manager");
    return pathManager->AddEndpoint(address, flags);
}

int64_t
MptcpHelper::AssignStreams(const NodeContainer& nodes, int64_t stream)
{
    const int64_t first = stream;
    for (auto it = nodes.Begin(); it != nodes.End(); ++it)
    {
        if (auto pathManager = (*it)->GetObject<MptcpPathManager>())
        {
            stream += pathManager->AssignStreams(stream);
        }
    }
    return stream - first;
}

} // namespace ns3
