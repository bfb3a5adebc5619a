/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SCHEDULER_ROUND_ROBIN_H
#define MPTCP_SCHEDULER_ROUND_ROBIN_H

#include "mptcp-scheduler.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Each subflow gets a burst in turn, if it has room.
 */
class MptcpSchedulerRoundRobin : public MptcpScheduler
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    Choice ChooseSend(MptcpSocket& connection) override;

  private:
    uint32_t m_last{0}; //!< number of the subflow that sent last
};

} // namespace ns3

#endif // MPTCP_SCHEDULER_ROUND_ROBIN_H
