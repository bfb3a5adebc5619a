/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-device.h"

#include "ns3/pointer.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(NvmeDevice);

TypeId
NvmeDevice::GetTypeId()
{
    static TypeId tid = TypeId("ns3::NvmeDevice")
                            .SetParent<Object>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<NvmeDevice>()
                            .AddAttribute("ReadTime",
                                          "Service time of a read, in seconds; none: at once.",
                                          PointerValue(),
                                          MakePointerAccessor(&NvmeDevice::m_readTime),
                                          MakePointerChecker<RandomVariableStream>())
                            .AddAttribute("WriteTime",
                                          "Service time of a write, in seconds; none: at once.",
                                          PointerValue(),
                                          MakePointerAccessor(&NvmeDevice::m_writeTime),
                                          MakePointerChecker<RandomVariableStream>())
                            .AddAttribute("TimePerByte",
                                          "Added to the service time for each byte.",
                                          TimeValue(Time(0)),
                                          MakeTimeAccessor(&NvmeDevice::m_timePerByte),
                                          MakeTimeChecker(Time(0)))
                            .AddAttribute("Channels",
                                          "Commands that are served at a time; 0: any number.",
                                          UintegerValue(0),
                                          MakeUintegerAccessor(&NvmeDevice::m_channels),
                                          MakeUintegerChecker<uint32_t>());
    return tid;
}

void
NvmeDevice::DoDispose()
{
    m_queue.clear();
    Object::DoDispose();
}

int64_t
NvmeDevice::AssignStreams(int64_t stream)
{
    int64_t taken = 0;
    for (const auto& variable : {m_readTime, m_writeTime})
    {
        if (variable)
        {
            variable->SetStream(stream + taken++);
        }
    }
    return taken;
}

void
NvmeDevice::Submit(bool write, uint32_t size, std::function<void()> done)
{
    const auto& variable = write ? m_writeTime : m_readTime;
    Time service = m_timePerByte * static_cast<int64_t>(size);
    if (variable)
    {
        service += Seconds(std::max(0.0, variable->GetValue()));
    }
    if (service.IsZero())
    {
        done();
    }
    else if (m_channels && m_busy == m_channels)
    {
        m_queue.push_back({service, std::move(done)});
    }
    else
    {
        Serve({service, std::move(done)});
    }
}

void
NvmeDevice::Serve(Waiting command)
{
    m_busy++;
    Simulator::Schedule(command.service, [device = Ptr<NvmeDevice>(this), done = command.done] {
        device->m_busy--;
        done();
        if (!device->m_queue.empty() &&
            (!device->m_channels || device->m_busy < device->m_channels))
        {
            Waiting next = std::move(device->m_queue.front());
            device->m_queue.pop_front();
            device->Serve(std::move(next));
        }
    });
}

} // namespace ns3
