/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_CPU_H
#define NVME_CPU_H

#include "ns3/random-variable-stream.h"
#include "ns3/simple-ref-count.h"

#include <functional>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * A CPU that threads share: one of them runs until it sleeps, then another one that was woken
 * meanwhile. Which one is random: schedulers follow what each used of the CPU before, down to
 * nanoseconds.
 */
class NvmeCpu : public SimpleRefCount<NvmeCpu>
{
  public:
    NvmeCpu();

    /**
     * Wake a thread.
     * @param thread called when it has the CPU, until it calls Release()
     */
    void Request(std::function<void()> thread);

    /**
     * The thread that runs goes to sleep.
     */
    void Release();

    /**
     * @param stream number of the random variable
     */
    void SetStream(int64_t stream);

  private:
    void ScheduleDispatch(); ///< let a thread run, after what is going on

    Ptr<UniformRandomVariable> m_variable;        ///< chooses threads
    std::vector<std::function<void()>> m_waiting; ///< woken threads
    bool m_busy{false};                           ///< whether a thread runs
    bool m_dispatching{false};                    ///< whether one is about to
};

} // namespace ns3

#endif // NVME_CPU_H
