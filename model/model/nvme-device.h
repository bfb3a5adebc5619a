/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_DEVICE_H
#define NVME_DEVICE_H

#include "ns3/nstime.h"
#include "ns3/object.h"
#include "ns3/random-variable-stream.h"

#include <deque>
#include <functional>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * What a namespace lies on: takes a command, and is done with it some time later.
 *
 * Commands are served in their order by `Channels` servers. Without service times it answers at
 * once, as Linux's null_blk does. Give ReadTime and WriteTime any random variable: a constant, an
 * exponential or log-normal one, or ns3::EmpiricalRandomVariable for what was measured.
 */
class NvmeDevice : public Object
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    /**
     * Read or write.
     * @param write whether it is a write
     * @param size in bytes
     * @param done called when it is done, maybe before this returns
     */
    void Submit(bool write, uint32_t size, std::function<void()> done);

    /**
     * @param stream first stream number of the random variables
     * @return how many streams were taken
     */
    int64_t AssignStreams(int64_t stream);

  protected:
    void DoDispose() override;

  private:
    /// A command that waits for a channel
    struct Waiting
    {
        Time service;               ///< how long it takes
        std::function<void()> done; ///< what then
    };

    /**
     * Serve a command on a free channel.
     * @param command the command
     */
    void Serve(Waiting command);

    Ptr<RandomVariableStream> m_readTime;  ///< seconds; null: none
    Ptr<RandomVariableStream> m_writeTime; ///< seconds; null: none
    Time m_timePerByte;                    ///< added to each service time
    uint32_t m_channels;                   ///< commands served at a time; 0: any number
    uint32_t m_busy{0};                    ///< channels that serve
    std::deque<Waiting> m_queue;           ///< waiting for one
};

} // namespace ns3

#endif // NVME_DEVICE_H
