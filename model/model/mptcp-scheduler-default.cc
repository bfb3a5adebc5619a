/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-scheduler-default.h"

#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include "ns3/boolean.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(MptcpSchedulerDefault);

namespace
{

/// Bytes of the shortest burst, and of the least that MSG_MORE data waits for: a page, a header and
/// a trailer.
constexpr uint32_t BURST_LEAST = 4144;

} // namespace

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
                          MakeBooleanChecker())
            .AddAttribute("BurstByRate",
                          "Give a slower subflow so short a burst that it lasts no longer than a "
                          "whole one on the fastest, and use one on which even the least burst "
                          "lasts longer only if others would take as long, as the project's "
                          "kernel patches do. Linux gives each a whole one.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&MptcpSchedulerDefault::m_burstByRate),
                          MakeBooleanChecker())
            .AddAttribute("HoldTime",
                          "What is sent with MSG_MORE waits until there is as much as the subflow "
                          "chosen last delivers in this time; 0: each Send() is pushed to a "
                          "subflow at once, as Linux does without the project's patches.",
                          TimeValue(MicroSeconds(16)),
                          MakeTimeAccessor(&MptcpSchedulerDefault::m_holdTime),
                          MakeTimeChecker(Time(0)));
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
    uint64_t fastest = 0;
    const std::vector<Ptr<MptcpSubflow>> candidates = GetCandidates(connection);
    for (const Ptr<MptcpSubflow>& subflow : candidates)
    {
        uint64_t& average = m_averageRate[subflow->GetId()];
        if (average == 0 || (m_measured && subflow->GetSndMemory() == 0))
        {
            average = rate(*subflow);
        }
        fastest = std::max(fastest, average);
    }
    for (const Ptr<MptcpSubflow>& subflow : candidates)
    {
        const double average = m_averageRate[subflow->GetId()];
        if (average == 0)
        {
            continue;
        }
        double linger = subflow->GetSndMemory() / average;
        if (m_burstByRate)
        {
            // the least burst takes longer on a very slow subflow than a whole one on the fastest
            const double least = std::max(BURST_LEAST, subflow->GetMss()) / average;
            linger += std::max(0.0, least - static_cast<double>(BURST_BYTES) / fastest);
        }
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
    uint64_t& average = m_averageRate[best->GetId()];
    Choice choice = Burst(connection, best);
    if (m_burstByRate)
    {
        const auto share = static_cast<uint32_t>(BURST_BYTES * average / fastest);
        choice.burst = std::min(choice.burst, std::max({share, BURST_LEAST, best->GetMss()}));
        choice.isStrict = true;
    }
    if (m_holdTime.IsStrictlyPositive())
    {
        const double held = best->GetDeliveryRate() * m_holdTime.GetSeconds();
        choice.hold = std::clamp(static_cast<uint32_t>(std::min<double>(held, BURST_BYTES)),
                                 BURST_LEAST,
                                 BURST_BYTES / 4);
    }
    if (choice.burst > 0)
    {
        const uint64_t queued = best->GetSndMemory();
        average = (average * queued + rate(*best) * choice.burst) / (choice.burst + queued);
    }
    return choice;
}

} // namespace ns3
