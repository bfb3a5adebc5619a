/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-scheduler.h"

#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(MptcpScheduler);

TypeId
MptcpScheduler::GetTypeId()
{
    static TypeId tid = TypeId("ns3::MptcpScheduler").SetParent<Object>().SetGroupName("NvmeMptcp");
    return tid;
}

std::vector<Ptr<MptcpSubflow>>
MptcpScheduler::GetCandidates(const MptcpSocket& connection)
{
    std::vector<Ptr<MptcpSubflow>> active;
    std::vector<Ptr<MptcpSubflow>> backup;
    for (const Ptr<MptcpSubflow>& subflow : connection.GetSubflows())
    {
        if (subflow->IsActive())
        {
            (subflow->IsBackup() ? backup : active).push_back(subflow);
        }
    }
    return active.empty() ? backup : active;
}

MptcpScheduler::Choice
MptcpScheduler::Burst(const MptcpSocket& connection, Ptr<MptcpSubflow> subflow)
{
    if (!subflow)
    {
        return {};
    }
    const uint64_t window = connection.GetWindowEnd() - connection.GetSendNext();
    return {{subflow}, static_cast<uint32_t>(std::min<uint64_t>(BURST_BYTES, window))};
}

Ptr<MptcpSubflow>
MptcpScheduler::ChooseRetransmit(MptcpSocket& connection)
{
    Ptr<MptcpSubflow> backup;
    uint32_t leastStale = UINT32_MAX;
    for (const Ptr<MptcpSubflow>& subflow : connection.GetSubflows())
    {
        if (!subflow->IsUsable())
        {
            continue;
        }
        if (!subflow->IsIdle())
        {
            leastStale = std::min(leastStale, subflow->GetStale().count);
        }
        else if (!subflow->IsBackup())
        {
            return subflow;
        }
        else if (!backup)
        {
            backup = subflow;
        }
    }
    return leastStale > 1 ? backup : nullptr;
}

} // namespace ns3
