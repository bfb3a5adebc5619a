/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SCHEDULER_REDUNDANT_H
#define MPTCP_SCHEDULER_REDUNDANT_H

#include "mptcp-scheduler.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Everything goes over every subflow. What comes first counts: the connection is as fast as its
 * best subflow at any time, and as fast as its slowest in the long run.
 */
class MptcpSchedulerRedundant : public MptcpScheduler
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    Choice ChooseSend(MptcpSocket& connection) override;
};

} // namespace ns3

#endif // MPTCP_SCHEDULER_REDUNDANT_H
