/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SCHEDULER_DEFAULT_H
#define MPTCP_SCHEDULER_DEFAULT_H

#include "mptcp-scheduler.h"

#include "ns3/nstime.h"

#include <map>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Linux's default scheduler with the measured drain rate of the project's patch: the subflow whose
 * queue would be empty first gets the next burst. Two more attributes are proposals.
 */
class MptcpSchedulerDefault : public MptcpScheduler
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    Choice ChooseSend(MptcpSocket& connection) override;

  private:
    bool m_measured{true};     //!< use the measured drain rate; otherwise the pacing rate alone
    bool m_burstByRate{false}; //!< size bursts by rate; otherwise all are whole
    Time m_holdTime;           //!< how long a subflow takes for what MSG_MORE data waits for
    std::map<uint32_t, uint64_t> m_averageRate; //!< of subflows by ID, in bytes per second
};

} // namespace ns3

#endif // MPTCP_SCHEDULER_DEFAULT_H
