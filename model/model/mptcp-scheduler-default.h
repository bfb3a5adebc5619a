/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SCHEDULER_DEFAULT_H
#define MPTCP_SCHEDULER_DEFAULT_H

#include "mptcp-scheduler.h"

#include <map>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Linux's default scheduler with the measured drain rate of the project's patch: the subflow whose
 * queue would be empty first gets the next burst.
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
    bool m_measured{true}; //!< use the measured drain rate; otherwise the pacing rate alone
    std::map<uint32_t, uint64_t> m_averageRate; //!< of subflows by ID, in bytes per second
};

} // namespace ns3

#endif // MPTCP_SCHEDULER_DEFAULT_H
