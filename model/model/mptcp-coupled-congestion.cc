/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-coupled-congestion.h"

#include "ns3/log.h"
#include "ns3/tcp-socket-state.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("MptcpCoupledCongestion");

NS_OBJECT_ENSURE_REGISTERED(MptcpCoupledCongestion);
NS_OBJECT_ENSURE_REGISTERED(MptcpLia);
NS_OBJECT_ENSURE_REGISTERED(MptcpOlia);

namespace
{

/**
 * Rate of all subflows together.
 * @param active the subflows
 * @return sum of window over round-trip time, in segments a second
 */
double
SumRates(const std::vector<const MptcpCoupledCongestion*>& active)
{
    double sum = 0;
    for (const auto* subflow : active)
    {
        sum += subflow->GetWindow() / subflow->GetRtt();
    }
    return sum;
}

} // namespace

MptcpCoupledGroup::~MptcpCoupledGroup()
{
    for (auto* member : m_members)
    {
        member->m_group = nullptr;
    }
}

void
MptcpCoupledGroup::Add(Ptr<TcpCongestionOps> congestion)
{
    if (auto coupled = DynamicCast<MptcpCoupledCongestion>(congestion))
    {
        if (coupled->m_group)
        {
            coupled->m_group->Remove(PeekPointer(coupled));
        }
        coupled->m_group = this;
        m_members.push_back(PeekPointer(coupled));
    }
}

void
MptcpCoupledGroup::Remove(Ptr<TcpCongestionOps> congestion)
{
    if (auto coupled = DynamicCast<MptcpCoupledCongestion>(congestion))
    {
        Remove(PeekPointer(coupled));
        coupled->m_group = nullptr;
    }
}

void
MptcpCoupledGroup::Remove(const MptcpCoupledCongestion* congestion)
{
    m_members.erase(std::remove(m_members.begin(), m_members.end(), congestion), m_members.end());
}

std::vector<const MptcpCoupledCongestion*>
MptcpCoupledGroup::GetActive() const
{
    std::vector<const MptcpCoupledCongestion*> active;
    std::copy_if(m_members.begin(),
                 m_members.end(),
                 std::back_inserter(active),
                 [](const MptcpCoupledCongestion* member) {
                     return member->m_tcb && member->GetWindow() > 0 && member->GetRtt() > 0;
                 });
    return active;
}

TypeId
MptcpCoupledCongestion::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::MptcpCoupledCongestion").SetParent<TcpLinuxReno>().SetGroupName("NvmeMptcp");
    return tid;
}

MptcpCoupledCongestion::MptcpCoupledCongestion()
{
    // TcpLinuxSocket doesn't ask for more window when it has not used what there is
    SetSuppressIncreaseIfCwndLimited(false);
}

MptcpCoupledCongestion::MptcpCoupledCongestion(const MptcpCoupledCongestion& other)
    : TcpLinuxReno(other)
{
}

MptcpCoupledCongestion::~MptcpCoupledCongestion()
{
    if (m_group)
    {
        m_group->Remove(this);
    }
}

double
MptcpCoupledCongestion::GetWindow() const
{
    const uint32_t bytes = m_tcb->m_congState == TcpSocketState::CA_RECOVERY
                               ? m_tcb->m_ssThresh.Get()
                               : m_tcb->m_cWnd.Get();
    return static_cast<double>(bytes) / m_tcb->m_segmentSize;
}

double
MptcpCoupledCongestion::GetRtt() const
{
    return m_tcb->m_srtt.Get().GetSeconds();
}

double
MptcpCoupledCongestion::GetQuality() const
{
    const double segments = std::max(m_sinceLoss, m_betweenLosses);
    return segments / (GetRtt() * GetRtt());
}

void
MptcpCoupledCongestion::PktsAcked(Ptr<TcpSocketState> tcb,
                                  uint32_t segmentsAcked,
                                  const Time& /* rtt */)
{
    m_tcb = tcb;
    m_sinceLoss += segmentsAcked;
}

void
MptcpCoupledCongestion::CongestionStateSet(Ptr<TcpSocketState> tcb,
                                           const TcpSocketState::TcpCongState_t newState)
{
    TcpLinuxReno::CongestionStateSet(tcb, newState);
    const bool loss = newState == TcpSocketState::CA_RECOVERY ||
                      newState == TcpSocketState::CA_LOSS || newState == TcpSocketState::CA_CWR;
    if (loss && m_sinceLoss > 0)
    {
        m_betweenLosses = m_sinceLoss;
        m_sinceLoss = 0;
    }
}

void
MptcpCoupledCongestion::IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked)
{
    m_tcb = tcb;
    TcpLinuxReno::IncreaseWindow(tcb, segmentsAcked);
}

void
MptcpCoupledCongestion::CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked)
{
    auto active = m_group ? m_group->GetActive() : std::vector<const MptcpCoupledCongestion*>{};
    if (std::find(active.begin(), active.end(), this) == active.end())
    {
        TcpLinuxReno::CongestionAvoidance(tcb, segmentsAcked);
        return;
    }
    m_fraction += segmentsAcked * GetIncrease(active);
    const double whole = std::trunc(m_fraction);
    m_fraction -= whole;
    const double window = std::max(1.0, tcb->GetCwndInSegments() + whole);
    if (whole != 0)
    {
        tcb->m_cWnd = static_cast<uint32_t>(window) * tcb->m_segmentSize;
        NS_LOG_LOGIC("window of " << window << " segments");
    }
}

TypeId
MptcpLia::GetTypeId()
{
    static TypeId tid = TypeId("ns3::MptcpLia")
                            .SetParent<MptcpCoupledCongestion>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<MptcpLia>();
    return tid;
}

std::string
MptcpLia::GetName() const
{
    return "MptcpLia";
}

Ptr<TcpCongestionOps>
MptcpLia::Fork()
{
    return CopyObject<MptcpLia>(this);
}

double
MptcpLia::GetAlpha(const std::vector<const MptcpCoupledCongestion*>& active)
{
    double total = 0;
    double best = 0;
    for (const auto* subflow : active)
    {
        const double rtt = subflow->GetRtt();
        total += subflow->GetWindow();
        best = std::max(best, subflow->GetWindow() / (rtt * rtt));
    }
    const double rates = SumRates(active);
    return total * best / (rates * rates);
}

double
MptcpLia::GetIncrease(const std::vector<const MptcpCoupledCongestion*>& active) const
{
    double total = 0;
    for (const auto* subflow : active)
    {
        total += subflow->GetWindow();
    }
    return std::min(GetAlpha(active) / total, 1 / GetWindow());
}

TypeId
MptcpOlia::GetTypeId()
{
    static TypeId tid = TypeId("ns3::MptcpOlia")
                            .SetParent<MptcpCoupledCongestion>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<MptcpOlia>();
    return tid;
}

std::string
MptcpOlia::GetName() const
{
    return "MptcpOlia";
}

Ptr<TcpCongestionOps>
MptcpOlia::Fork()
{
    return CopyObject<MptcpOlia>(this);
}

double
MptcpOlia::GetAlpha(const std::vector<const MptcpCoupledCongestion*>& active) const
{
    double bestQuality = 0;
    double maxWindow = 0;
    for (const auto* member : active)
    {
        bestQuality = std::max(bestQuality, member->GetQuality());
        maxWindow = std::max(maxWindow, member->GetWindow());
    }
    const auto hasMaxWindow = [maxWindow](const MptcpCoupledCongestion* member) {
        return member->GetWindow() == maxWindow;
    };
    // the best paths whose window isn't among the largest
    const auto isCollected = [bestQuality, &hasMaxWindow](const MptcpCoupledCongestion* member) {
        return !hasMaxWindow(member) && member->GetQuality() == bestQuality;
    };
    const double collected = std::count_if(active.begin(), active.end(), isCollected);
    if (collected == 0)
    {
        return 0;
    }
    if (isCollected(this))
    {
        return 1 / (active.size() * collected);
    }
    if (hasMaxWindow(this))
    {
        return -1 /
               (active.size() * double(std::count_if(active.begin(), active.end(), hasMaxWindow)));
    }
    return 0;
}

double
MptcpOlia::GetIncrease(const std::vector<const MptcpCoupledCongestion*>& active) const
{
    const double rates = SumRates(active);
    return GetWindow() / (GetRtt() * GetRtt() * rates * rates) + GetAlpha(active) / GetWindow();
}

} // namespace ns3
