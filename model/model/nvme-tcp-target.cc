/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tcp-target.h"

#include "nvme-tcp-target-queue.h"

#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("NvmeTcpTarget");
NS_OBJECT_ENSURE_REGISTERED(NvmeTcpTarget);

namespace
{

constexpr uint16_t CONNECT_INVALID_PARAMETERS = 0x182;
constexpr uint16_t ANY_CONTROLLER = 0xffff;
constexpr uint32_t NQN_SIZE = 256;

} // namespace

TypeId
NvmeTcpTarget::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::NvmeTcpTarget")
            .SetParent<Object>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<NvmeTcpTarget>()
            .AddAttribute("InCapsuleDataSize",
                          "Bytes of data that a write's capsule may carry"
                          " (param_inline_data_size).",
                          UintegerValue(16384),
                          MakeUintegerAccessor(&NvmeTcpTarget::m_inCapsule),
                          MakeUintegerChecker<uint32_t>(0, 1 << 20))
            .AddAttribute("MaxH2cData",
                          "MAXH2CDATA: bytes of data that one H2CData PDU may carry.",
                          UintegerValue(0x400000),
                          MakeUintegerAccessor(&NvmeTcpTarget::m_maxH2cData),
                          MakeUintegerChecker<uint32_t>(4096))
            .AddAttribute("Mdts",
                          "Maximum Data Transfer Size, as a power of two of 4096 bytes; 0: no"
                          " limit.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&NvmeTcpTarget::m_mdts),
                          MakeUintegerChecker<uint8_t>(0, 16))
            .AddAttribute("CommandTime",
                          "CPU time that each read or write takes before it is answered.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&NvmeTcpTarget::m_commandTime),
                          MakeTimeChecker(Time(0)))
            .AddTraceSource("InFlight",
                            "Commands received and not answered on a queue",
                            MakeTraceSourceAccessor(&NvmeTcpTarget::m_inFlightTrace),
                            "ns3::NvmeTcpTarget::InFlightCallback");
    return tid;
}

void
NvmeTcpTarget::DoDispose()
{
    for (const auto& queue : std::vector(m_queues.begin(), m_queues.end()))
    {
        queue->Stop(false);
    }
    for (auto& [cntlid, controller] : m_controllers)
    {
        controller->keepAliveTimer.Cancel();
    }
    for (auto& port : m_ports)
    {
        port.listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                         MakeNullCallback<void, Ptr<Socket>, const Address&>());
        port.listener = nullptr;
    }
    m_controllers.clear();
    m_subsystems.clear();
    Object::DoDispose();
}

void
NvmeTcpTarget::AddSubsystem(const std::string& name, Ptr<NvmeDevice> device)
{
    m_subsystems[name] = device;
}

uint32_t
NvmeTcpTarget::AddPort(Ptr<Node> node, TypeId socketFactory, const Address& address)
{
    const auto number = static_cast<uint32_t>(m_ports.size());
    Ptr<Socket> listener = Socket::CreateSocket(node, socketFactory);
    listener->SetAttributeFailSafe("TcpNoDelay", BooleanValue(true));
    if (listener->Bind(address) != 0 || listener->Listen() != 0)
    {
        NS_FATAL_ERROR("the target can't listen on " << address);
    }
    listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                [this, number](Ptr<Socket> socket, const Address&) {
                                    auto queue = Create<NvmeTcpTargetQueue>(this, number, socket);
                                    m_queues.insert(queue);
                                    queue->Start();
                                });
    m_ports.push_back({listener});
    return number;
}

void
NvmeTcpTarget::SetAnaState(uint32_t port, NvmeAnaState state)
{
    m_ports.at(port).ana = state;
    for (const auto& queue : m_queues)
    {
        if (queue->GetPort() == port)
        {
            queue->NotifyAnaChange();
        }
    }
}

uint32_t
NvmeTcpTarget::GetControllerCount() const
{
    return static_cast<uint32_t>(m_controllers.size());
}

uint64_t
NvmeTcpTarget::GetCommandCount() const
{
    return m_commands;
}

std::shared_ptr<NvmeTcpTarget::Controller>
NvmeTcpTarget::Connect(NvmeTcpTargetQueue* queue,
                       const NvmeCommand& command,
                       const std::vector<uint8_t>& data,
                       uint16_t& status)
{
    status = CONNECT_INVALID_PARAMETERS;
    if (data.size() != NvmeTcpPdu::CONNECT_DATA_SIZE)
    {
        return nullptr;
    }
    const auto cntlid = static_cast<uint16_t>(data[16] | data[17] << 8);
    const uint16_t id = command.dwords[0] >> 16;
    std::shared_ptr<Controller> controller;
    if (id)
    {
        auto found = m_controllers.find(cntlid);
        controller = found == m_controllers.end() ? nullptr : found->second;
    }
    else if (cntlid == ANY_CONTROLLER)
    {
        const auto begin = data.begin() + 256;
        const auto end = std::find(begin, begin + NQN_SIZE, 0);
        auto subsystem = m_subsystems.find(std::string(begin, end));
        if (subsystem != m_subsystems.end())
        {
            controller = std::make_shared<Controller>();
            controller->cntlid = m_nextCntlid++;
            controller->port = queue->GetPort();
            controller->device = subsystem->second;
            controller->keepAlive = MilliSeconds(command.dwords[2]);
            m_controllers[controller->cntlid] = controller;
            ArmKeepAlive(controller);
        }
    }
    if (controller)
    {
        status = 0;
        controller->queues.insert(queue);
    }
    return controller;
}

void
NvmeTcpTarget::ArmKeepAlive(const std::shared_ptr<Controller>& controller)
{
    if (controller->keepAlive.IsZero())
    {
        return;
    }
    controller->keepAliveTimer = Simulator::Schedule(controller->keepAlive, [this, controller] {
        if (std::exchange(controller->commandSeen, false))
        {
            ArmKeepAlive(controller);
        }
        else
        {
            NS_LOG_INFO("controller " << controller->cntlid << ": keep alive timer expired");
            Remove(controller);
        }
    });
}

void
NvmeTcpTarget::Remove(const std::shared_ptr<Controller>& controller)
{
    controller->keepAliveTimer.Cancel();
    m_controllers.erase(controller->cntlid);
    for (auto* queue : std::vector(controller->queues.begin(), controller->queues.end()))
    {
        queue->Stop();
    }
}

} // namespace ns3
