/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-scheduler-default.h"

#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include "ns3/boolean.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(MptcpSchedulerDefault);

TypeId
MptcpSchedulerDefault::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::MptcpSchedulerDefault")
            .SetParent<MptcpScheduler>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<MptcpSchedulerDefault>()
            .AddAttribute("Measured",
                          "Use the measured drain rate of a subflow where it is below the pacing "
                          "rate, as the project's kernel patch does.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&MptcpSchedulerDefault::m_measured),
                          MakeBooleanChecker());
    return tid;
}

MptcpScheduler::Choice
MptcpSchedulerDefault::ChooseSend(MptcpSocket& connection)
{
    auto rate = [this](const MptcpSubflow& subflow) {
        return m_measured ? subflow.GetDrainRate() : subflow.GetPacingRateBytes();
    };
    Ptr<MptcpSubflow> best;
    double shortest = 0;
    for (const Ptr<MptcpSubflow>& subflow : GetCandidates(connection))
    {
        uint64_t& average = m_averageRate[subflow->GetId()];
        if (average == 0)
        {
            average = rate(*subflow);
            if (average == 0)
            {
                continue;
            }
        }
        const double linger = static_cast<double>(subflow->GetSndMemory()) / average;
        if (!best || linger < shortest)
        {
            best = subflow;
            shortest = linger;
        }
    }
    if (!best || !best->HasSndMemory())
    {
        return {};
    }
    Choice choice = Burst(connection, best);
    if (choice.burst > 0)
    {
        const uint64_t queued = best->GetSndMemory();
        uint64_t& average = m_averageRate[best->GetId()];
        average = (average * queued + rate(*best) * choice.burst) / (choice.burst + queued);
    }
    return choice;
}

} // namespace ns3
