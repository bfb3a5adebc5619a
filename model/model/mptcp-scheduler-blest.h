/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SCHEDULER_BLEST_H
#define MPTCP_SCHEDULER_BLEST_H

#include "mptcp-scheduler.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * BLEST, which sends on a slower subflow only if that doesn't block the faster one (Ferlin, Alay,
 * Mehani and Boreli, "BLEST: Blocking estimation-based MPTCP scheduler for heterogeneous networks",
 * IFIP Networking 2016). The fastest subflow is that with the shortest round-trip time. If its
 * congestion window is full, BLEST estimates what it will send during a round trip of the slower
 * one, and waits if that doesn't fit into the send window beside what the slower one would hold.
 */
class MptcpSchedulerBlest : public MptcpScheduler
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    Choice ChooseSend(MptcpSocket& connection) override;

  private:
    /**
     * Say whether a slower subflow would block the fastest one.
     * @param connection the connection
     * @param fast the fastest subflow
     * @param slow the slower one
     * @return whether it would
     */
    bool WouldBlock(const MptcpSocket& connection,
                    const MptcpSubflow& fast,
                    const MptcpSubflow& slow) const;

    double m_lambda; //!< scales the estimate of what the fastest subflow sends
};

} // namespace ns3

#endif // MPTCP_SCHEDULER_BLEST_H
