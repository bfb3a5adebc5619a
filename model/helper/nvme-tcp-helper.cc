/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tcp-helper.h"

#include "ns3/abort.h"
#include "ns3/mptcp-address.h"
#include "ns3/node.h"
#include "ns3/simulator.h"

namespace ns3
{

namespace
{

/// Whether a class has an attribute, by its own name or that of a parent.
bool
Has(TypeId tid, const std::string& name)
{
    TypeId::AttributeInformation information;
    return tid.LookupAttributeByName(name, &information, true);
}

} // namespace

NvmeTcpHelper::NvmeTcpHelper(const std::string& socketFactory)
{
    SetSocketFactory(socketFactory);
}

void
NvmeTcpHelper::SetSocketFactory(const std::string& socketFactory)
{
    m_socketFactory = TypeId::LookupByName(socketFactory);
}

void
NvmeTcpHelper::SetAttribute(const std::string& name, const AttributeValue& value)
{
    const TypeId types[] = {NvmeTcpController::GetTypeId(),
                            NvmeMultipath::GetTypeId(),
                            NvmeTcpTarget::GetTypeId(),
                            NvmeDevice::GetTypeId(),
                            FioJob::GetTypeId()};
    bool known = false;
    for (const auto& tid : types)
    {
        known = known || Has(tid, name);
    }
    NS_ABORT_MSG_UNLESS(known, "no class of NVMe/TCP has an attribute " << name);
    m_attributes.emplace_back(name, value.Copy());
}

template <typename T>
Ptr<T>
NvmeTcpHelper::Make() const
{
    ObjectFactory factory;
    factory.SetTypeId(T::GetTypeId());
    for (const auto& [name, value] : m_attributes)
    {
        if (Has(T::GetTypeId(), name))
        {
            factory.Set(name, *value);
        }
    }
    return factory.Create<T>();
}

Ptr<NvmeTcpTarget>
NvmeTcpHelper::InstallTarget(Ptr<Node> node, const std::vector<Address>& addresses)
{
    auto target = Make<NvmeTcpTarget>();
    // at the end, so that sockets and those who wait for them let go of each other
    Simulator::ScheduleDestroy(&NvmeTcpTarget::Dispose, target);
    for (const auto& address : addresses)
    {
        target->AddPort(node, m_socketFactory, MptcpWithPort(address, PORT));
    }
    return target;
}

Ptr<NvmeDevice>
NvmeTcpHelper::AddSubsystem(Ptr<NvmeTcpTarget> target, const std::string& name)
{
    auto device = Make<NvmeDevice>();
    target->AddSubsystem(name, device);
    return device;
}

Ptr<NvmeMultipath>
NvmeTcpHelper::Connect(Ptr<Node> host,
                       const std::vector<Address>& addresses,
                       const std::string& subsystem,
                       uint32_t perAddress)
{
    auto disk = Make<NvmeMultipath>();
    Simulator::ScheduleDestroy(&NvmeMultipath::Dispose, disk);
    const std::string name = "nqn.2014-08.org.nvmexpress:uuid:host" + std::to_string(++m_hosts);
    for (uint32_t i = 0; i < perAddress; i++)
    {
        for (const auto& address : addresses)
        {
            auto controller = Make<NvmeTcpController>();
            controller->Setup(host, m_socketFactory, MptcpWithPort(address, PORT), subsystem, name);
            disk->AddPath(controller);
            Simulator::ScheduleNow(&NvmeTcpController::Start, controller);
        }
    }
    return disk;
}

std::vector<Ptr<FioJob>>
NvmeTcpHelper::InstallJobs(Ptr<NvmeMultipath> disk, uint32_t count, Time start, Ptr<NvmeCpu> shared)
{
    std::vector<Ptr<FioJob>> jobs;
    for (uint32_t cpu = 0; cpu < count; cpu++)
    {
        auto job = Make<FioJob>();
        job->Setup(disk, cpu, shared);
        Simulator::Schedule(start - Simulator::Now(), &FioJob::Start, job);
        jobs.push_back(job);
    }
    return jobs;
}

} // namespace ns3
