/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_TAGS_H
#define NVME_TAGS_H

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * The tags of a queue's commands, as Linux's blk-mq hands them out (block/blk-mq-tag.c,
 * lib/sbitmap.c).
 *
 * Whoever finds none sleeps on one of eight wait queues, and is woken when a batch of up to eight
 * tags was given back since: it decides how long submitters sleep at a full queue.
 */
class NvmeTags
{
  public:
    /**
     * @param depth tags in all
     */
    explicit NvmeTags(uint32_t depth);

    /**
     * Linux divides tags among the request queues that were used lately. A fabrics controller has
     * two of them, I/O and Connect, the latter for some seconds after a connection was made.
     * @param users how many use them
     */
    void SetUsers(uint32_t users);

    /**
     * @return a tag, or -1 if there is none to have
     */
    int32_t Get();

    /**
     * Give a tag back.
     * @param tag the tag
     */
    void Put(int32_t tag);

    /**
     * Sleep until some tags are back, to try again then: somebody else may have been faster.
     * @param wake called once, by the simulator
     */
    void Wait(std::function<void()> wake);

    /**
     * Wake all that sleep.
     */
    void WakeAll();

    /**
     * @return tags that are in use
     */
    uint32_t GetInUse() const;

    /**
     * @return tags in all
     */
    uint32_t GetDepth() const;

  private:
    static constexpr uint32_t WAIT_QUEUES = 8; ///< SBQ_WAIT_QUEUES
    static constexpr uint32_t WAKE_BATCH = 8;  ///< SBQ_WAKE_BATCH

    /**
     * Wake up to so many sleepers, from one wait queue after the other.
     * @param count how many
     */
    void Wake(uint32_t count);

    uint32_t m_depth;            ///< tags in all
    uint32_t m_limit;            ///< that may be in use
    uint32_t m_wakeBatch;        ///< given back before anybody is woken
    std::vector<int32_t> m_free; ///< tags
    uint32_t m_sleepers{0};      ///< who sleep, or were woken and didn't run yet
    uint32_t m_returned{0};      ///< tags given back while somebody slept, since the last batch
    uint32_t m_waitIndex{0};     ///< wait queue of the next sleeper
    uint32_t m_wakeIndex{0};     ///< wait queue that is woken next
    std::array<std::deque<std::function<void()>>, WAIT_QUEUES> m_waiting; ///< sleepers
};

} // namespace ns3

#endif // NVME_TAGS_H
