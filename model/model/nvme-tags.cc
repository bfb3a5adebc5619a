/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tags.h"

#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

NvmeTags::NvmeTags(uint32_t depth)
    : m_depth(depth)
{
    for (uint32_t tag = depth; tag-- > 0;)
    {
        m_free.push_back(static_cast<int32_t>(tag));
    }
    SetUsers(1);
}

void
NvmeTags::SetUsers(uint32_t users)
{
    const uint32_t share = (m_depth + users - 1) / users;
    m_limit = std::max(share, 4U);
    m_wakeBatch = std::clamp(share / WAIT_QUEUES, 1U, WAKE_BATCH);
}

int32_t
NvmeTags::Get()
{
    if (m_free.empty() || GetInUse() >= m_limit)
    {
        return -1;
    }
    const int32_t tag = m_free.back();
    m_free.pop_back();
    return tag;
}

void
NvmeTags::Put(int32_t tag)
{
    m_free.push_back(tag);
    if (m_sleepers && ++m_returned >= m_wakeBatch)
    {
        m_returned -= m_wakeBatch;
        Wake(m_wakeBatch);
    }
}

void
NvmeTags::Wait(std::function<void()> wake)
{
    m_waiting[m_waitIndex].push_back(std::move(wake));
    m_waitIndex = (m_waitIndex + 1) % WAIT_QUEUES;
    m_sleepers++;
}

void
NvmeTags::WakeAll()
{
    Wake(m_sleepers);
}

void
NvmeTags::Wake(uint32_t count)
{
    for (uint32_t i = 0; i < WAIT_QUEUES && count; i++)
    {
        auto& waiting = m_waiting[m_wakeIndex];
        m_wakeIndex = (m_wakeIndex + 1) % WAIT_QUEUES;
        for (; !waiting.empty() && count; count--)
        {
            Simulator::ScheduleNow([this, wake = std::move(waiting.front())] {
                m_sleepers--;
                wake();
            });
            waiting.pop_front();
        }
    }
}

uint32_t
NvmeTags::GetInUse() const
{
    return m_depth - static_cast<uint32_t>(m_free.size());
}

uint32_t
NvmeTags::GetDepth() const
{
    return m_depth;
}

} // namespace ns3
