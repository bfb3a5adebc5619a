/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-cpu.h"

#include "ns3/simulator.h"

namespace ns3
{

NvmeCpu::NvmeCpu()
    : m_variable(CreateObject<UniformRandomVariable>())
{
}

void
NvmeCpu::Request(std::function<void()> thread)
{
    m_waiting.push_back(std::move(thread));
    if (!m_busy)
    {
        ScheduleDispatch();
    }
}

void
NvmeCpu::Release()
{
    m_busy = false;
    if (!m_waiting.empty())
    {
        ScheduleDispatch();
    }
}

void
NvmeCpu::ScheduleDispatch()
{
    if (m_dispatching)
    {
        return;
    }
    m_dispatching = true;
    Simulator::ScheduleNow([cpu = Ptr<NvmeCpu>(this)] {
        cpu->m_dispatching = false;
        cpu->m_busy = true;
        const auto last = static_cast<uint32_t>(cpu->m_waiting.size() - 1);
        std::swap(cpu->m_waiting[last ? cpu->m_variable->GetInteger(0, last) : 0],
                  cpu->m_waiting[last]);
        auto thread = std::move(cpu->m_waiting[last]);
        cpu->m_waiting.pop_back();
        thread();
    });
}

void
NvmeCpu::SetStream(int64_t stream)
{
    m_variable->SetStream(stream);
}

} // namespace ns3
