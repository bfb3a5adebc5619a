/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-scheduler-blest.h"

#include "mptcp-socket.h"
#include "mptcp-subflow.h"

#include "ns3/double.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(MptcpSchedulerBlest);

TypeId
MptcpSchedulerBlest::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::MptcpSchedulerBlest")
            .SetParent<MptcpScheduler>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<MptcpSchedulerBlest>()
            .AddAttribute("Lambda",
                          "Scales the estimate of what the fastest subflow will send.",
                          DoubleValue(1.0),
                          MakeDoubleAccessor(&MptcpSchedulerBlest::m_lambda),
                          MakeDoubleChecker<double>(0.0));
    return tid;
}

MptcpScheduler::Choice
MptcpSchedulerBlest::ChooseSend(MptcpSocket& connection)
{
    std::vector<Ptr<MptcpSubflow>> all = GetCandidates(connection);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return a->GetSrtt() < b->GetSrtt();
    });
    // it decides by congestion windows, so nothing queues behind them
    auto ready = [](const Ptr<MptcpSubflow>& subflow) {
        return subflow->GetCongestionWindow() > subflow->GetQueued();
    };
    auto chosen = std::find_if(all.begin(), all.end(), ready);
    if (chosen == all.end() ||
        (chosen != all.begin() && WouldBlock(connection, *all.front(), **chosen)))
    {
        return {};
    }
    return Burst(connection, *chosen);
}

bool
MptcpSchedulerBlest::WouldBlock(const MptcpSocket& connection,
                                const MptcpSubflow& fast,
                                const MptcpSubflow& slow) const
{
    const double fastRtt = fast.GetSrtt().GetSeconds();
    if (fastRtt <= 0)
    {
        return false;
    }
    const double rounds = slow.GetSrtt().GetSeconds() / fastRtt;
    const double mss = fast.GetMss();
    // the window grows by a segment a round trip
    const double sends = m_lambda * (fast.GetCongestionWindow() + mss * (rounds - 1) / 2) * rounds;
    const auto window =
        static_cast<double>(connection.GetWindowEnd() - connection.GetSendUnacknowledged());
    return sends > window - (slow.GetInFlight() + slow.GetMss());
}

} // namespace ns3
