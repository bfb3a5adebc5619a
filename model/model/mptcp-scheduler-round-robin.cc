/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-scheduler-round-robin.h"

#include "mptcp-socket.h"
#include "mptcp-subflow.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(MptcpSchedulerRoundRobin);

TypeId
MptcpSchedulerRoundRobin::GetTypeId()
{
    static TypeId tid = TypeId("ns3::MptcpSchedulerRoundRobin")
                            .SetParent<MptcpScheduler>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<MptcpSchedulerRoundRobin>();
    return tid;
}

MptcpScheduler::Choice
MptcpSchedulerRoundRobin::ChooseSend(MptcpSocket& connection)
{
    // the next one by number that has room, else the first one
    Ptr<MptcpSubflow> first;
    Ptr<MptcpSubflow> next;
    for (const Ptr<MptcpSubflow>& subflow : GetCandidates(connection))
    {
        if (!subflow->HasSndMemory())
        {
            continue;
        }
        if (!first || subflow->GetId() < first->GetId())
        {
            first = subflow;
        }
        if (subflow->GetId() > m_last && (!next || subflow->GetId() < next->GetId()))
        {
            next = subflow;
        }
    }
    Ptr<MptcpSubflow> chosen = next ? next : first;
    if (chosen)
    {
        m_last = chosen->GetId();
    }
    return Burst(connection, chosen);
}

} // namespace ns3
