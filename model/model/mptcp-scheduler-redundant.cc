/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-scheduler-redundant.h"

#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(MptcpSchedulerRedundant);

TypeId
MptcpSchedulerRedundant::GetTypeId()
{
    static TypeId tid = TypeId("ns3::MptcpSchedulerRedundant")
                            .SetParent<MptcpScheduler>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<MptcpSchedulerRedundant>();
    return tid;
}

MptcpScheduler::Choice
MptcpSchedulerRedundant::ChooseSend(MptcpSocket& connection)
{
    std::vector<Ptr<MptcpSubflow>> all = GetCandidates(connection);
    // one without room would hold everything up that the others could send
    std::erase_if(all, [](const auto& subflow) { return !subflow->HasSndMemory(); });
    if (all.empty())
    {
        return {};
    }
    Choice choice = Burst(connection, all.front());
    choice.subflows = std::move(all);
    return choice;
}

} // namespace ns3
