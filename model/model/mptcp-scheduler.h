/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SCHEDULER_H
#define MPTCP_SCHEDULER_H

#include "ns3/object.h"
#include "ns3/ptr.h"

#include <vector>

namespace ns3
{

class MptcpSocket;
class MptcpSubflow;

/**
 * @ingroup nvme-mptcp
 * Decides which subflow sends what comes next, as Linux's struct mptcp_sched_ops does. Each
 * connection has one of its own. To use another: write a subclass and set
 * MptcpPathManager::Scheduler to its TypeId.
 */
class MptcpScheduler : public Object
{
  public:
    /// Bytes that Linux gives to a subflow before it chooses again (MPTCP_SEND_BURST_SIZE).
    static constexpr uint32_t BURST_BYTES = 65428;

    /// What a scheduler decided.
    struct Choice
    {
        /// who sends; several send the same data, none: wait until something is acknowledged
        std::vector<Ptr<MptcpSubflow>> subflows;
        uint32_t burst{0};    //!< bytes after which to choose again
        bool isStrict{false}; //!< not even to finish the chunk at hand
        uint32_t hold{0};     //!< bytes of MSG_MORE data that wait for more before the next choice
    };

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    /**
     * Choose for new data.
     * @param connection the connection, with data to send
     * @return who sends it
     */
    virtual Choice ChooseSend(MptcpSocket& connection) = 0;

    /**
     * Choose for data that the peer didn't acknowledge in time. Linux takes a subflow that has
     * nothing to do, a backup only if there is no progress on any other.
     * @param connection the connection
     * @return who sends it, null if no one should
     */
    virtual Ptr<MptcpSubflow> ChooseRetransmit(MptcpSocket& connection);

  protected:
    /**
     * The subflows to choose from: active ones that are no backups, or, without such, backups.
     * @param connection the connection
     * @return the subflows
     */
    static std::vector<Ptr<MptcpSubflow>> GetCandidates(const MptcpSocket& connection);

    /**
     * The usual choice: a burst as long as the connection's send window allows.
     * @param connection the connection
     * @param subflow who sends; null: no one
     * @return the choice
     */
    static Choice Burst(const MptcpSocket& connection, Ptr<MptcpSubflow> subflow);
};

} // namespace ns3

#endif // MPTCP_SCHEDULER_H
