/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tcp-target-queue.h"

#include "nvme-identify.h"

#include "ns3/log.h"
#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("NvmeTcpTargetQueue");

namespace
{

// Turns of drivers/nvme/target/tcp.c
constexpr uint32_t RECEIVE_BUDGET = 8;
constexpr uint32_t SEND_BUDGET = 8;

constexpr uint32_t GET_LOG_PAGE = 0x02;
constexpr uint32_t ANA_GROUP_STATE = 16 + 16; // of the ANA log page with one group
constexpr uint16_t INVALID_OPCODE = 0x001;
constexpr uint32_t ANA_CHANGE_EVENT = 0x0c0302; // notice, ANA change, log page 0x0c

/**
 * Status that commands get in an ANA state (code type 3); 0: they are executed.
 */
uint16_t
AnaStatus(NvmeAnaState state)
{
    switch (state)
    {
    case NvmeAnaState::PERSISTENT_LOSS:
        return 0x301;
    case NvmeAnaState::INACCESSIBLE:
        return 0x302;
    case NvmeAnaState::CHANGE:
        return 0x303;
    default:
        return 0;
    }
}

} // namespace

bool
NvmeTcpTargetQueue::Command::IsWrite() const
{
    // opcodes say by their last two bits where data go; of fabrics commands, their type does
    return ((command.opcode == NvmeCommand::FABRICS ? command.nsid : command.opcode) & 3) == 1;
}

NvmeTcpTargetQueue::NvmeTcpTargetQueue(NvmeTcpTarget* target, uint32_t port, Ptr<Socket> socket)
    : m_target(target),
      m_port(port),
      m_socket(socket),
      m_stream(Create<NvmeTcpStream>(socket))
{
}

void
NvmeTcpTargetQueue::Start()
{
    Ptr<NvmeTcpTargetQueue> self(this);
    m_socket->SetRecvCallback([self](Ptr<Socket>) { self->ScheduleWork(); });
    m_socket->SetSendCallback([self](Ptr<Socket>, uint32_t) {
        if (self->m_sending || !self->m_sendList.empty())
        {
            self->ScheduleWork();
        }
    });
    auto closed = [self](Ptr<Socket>) { self->Fail("the connection was closed"); };
    m_socket->SetCloseCallbacks(closed, closed);
    ScheduleWork();
}

void
NvmeTcpTargetQueue::Stop(bool close)
{
    if (!m_socket)
    {
        return;
    }
    Ptr<NvmeTcpTargetQueue> self(this);
    auto nothing = [](Ptr<Socket>) {};
    m_socket->SetRecvCallback(nothing);
    m_socket->SetSendCallback([](Ptr<Socket>, uint32_t) {});
    m_socket->SetCloseCallbacks(nothing, nothing);
    if (close)
    {
        m_socket->Close();
    }
    m_socket = nullptr;
    m_stream = nullptr;
    m_responses.clear();
    m_sendList.clear();
    m_transfers.clear();
    m_sending = nullptr;
    m_asyncEvent = nullptr;
    if (m_controller)
    {
        m_controller->queues.erase(this);
        m_controller = nullptr;
    }
    m_target->m_queues.erase(self);
}

uint32_t
NvmeTcpTargetQueue::GetPort() const
{
    return m_port;
}

void
NvmeTcpTargetQueue::Fail(const std::string& reason)
{
    if (!m_socket)
    {
        return;
    }
    NS_LOG_INFO("queue " << m_id << ": " << reason);
    if (m_controller)
    {
        m_target->Remove(m_controller);
    }
    else
    {
        Stop();
    }
}

uint8_t
NvmeTcpTargetQueue::DigestFlags(bool data) const
{
    return (m_headerDigest ? NvmeTcpPdu::HDGST : 0) |
           (data && m_dataDigest ? NvmeTcpPdu::DDGST : 0);
}

void
NvmeTcpTargetQueue::ScheduleWork()
{
    if (!m_workPending)
    {
        m_workPending = true;
        Simulator::ScheduleNow([self = Ptr<NvmeTcpTargetQueue>(this)] {
            self->m_workPending = false;
            self->Work();
        });
    }
}

void
NvmeTcpTargetQueue::Work()
{
    if (m_computing)
    {
        return; // the worker goes on then
    }
    for (bool pending = true; pending && m_socket;)
    {
        while (m_received < RECEIVE_BUDGET && m_socket && TryReceive())
        {
            m_received++;
            if (m_computing)
            {
                return;
            }
        }
        pending = m_received == RECEIVE_BUDGET;
        m_received = 0;
        for (uint32_t i = 0; i < SEND_BUDGET && m_socket; i++)
        {
            m_lastInBatch = i == SEND_BUDGET - 1;
            if (!TrySend())
            {
                break;
            }
            pending = pending || m_lastInBatch;
        }
    }
}

bool
NvmeTcpTargetQueue::TryReceive()
{
    Ptr<NvmeTcpStream> stream = m_stream; // the queue may end meanwhile
    bool whole = false;
    if (m_inData || stream->ReadHeader(m_pdu))
    {
        whole = stream->ReadData();
        m_inData = !whole;
        if (whole)
        {
            Received();
        }
    }
    if (m_stream && !stream->GetError().empty())
    {
        Fail(stream->GetError());
    }
    return whole;
}

void
NvmeTcpTargetQueue::Received()
{
    const NvmeTcpPdu& pdu = m_pdu;
    if (!m_initialized)
    {
        if (pdu.type != NvmeTcpPdu::IC_REQ)
        {
            Fail("another PDU than an ICReq came first");
            return;
        }
        m_initialized = true;
        NvmeTcpPdu response;
        response.type = NvmeTcpPdu::IC_RESP;
        response.digests = pdu.digests & 3;
        response.maxH2cData = m_target->m_maxH2cData;
        response.SetDataLength(0);
        auto output = NvmeTcpStream::Prepare(response);
        m_stream->Send(output, false);
        m_headerDigest = pdu.digests & 1;
        m_dataDigest = pdu.digests & 2;
        m_stream->SetDigests(m_headerDigest, m_dataDigest);
        return;
    }
    if (pdu.type == NvmeTcpPdu::CAPSULE_CMD)
    {
        ReceivedCommand();
        return;
    }
    auto found = m_transfers.find(pdu.ttag);
    if (pdu.type != NvmeTcpPdu::H2C_DATA || found == m_transfers.end() ||
        pdu.offset != found->second->received ||
        pdu.offset + pdu.length > found->second->command.dataLength)
    {
        Fail("a PDU came that doesn't belong here");
        return;
    }
    Ptr<Command> command = found->second;
    command->received += pdu.length;
    if (command->received == command->command.dataLength)
    {
        m_transfers.erase(found);
        Execute(command);
    }
}

void
NvmeTcpTargetQueue::ReceivedCommand()
{
    auto command = Create<Command>();
    command->command = m_pdu.command;
    command->completion.cid = m_pdu.command.cid;
    m_inFlight++;
    if (m_controller)
    {
        m_controller->commandSeen = true;
        m_target->m_inFlightTrace(m_controller->cntlid, m_id, m_inFlight);
    }
    m_sqhd = static_cast<uint16_t>((m_sqhd + 1) % m_size);
    if (command->IsWrite())
    {
        command->received = m_pdu.GetDataLength();
        if (command->received > m_target->m_inCapsule && m_id)
        {
            Fail("a capsule has more data than it may");
            return;
        }
        if (command->received < command->command.dataLength)
        {
            command->ttag = m_nextTtag++;
            m_transfers[command->ttag] = command;
            QueueResponse(command); // the R2T
            return;
        }
    }
    Execute(command);
}

void
NvmeTcpTargetQueue::Execute(Ptr<Command> command)
{
    m_target->m_commands++;
    Ptr<NvmeTcpTargetQueue> self(this);
    auto finish = [self, command](uint16_t status) {
        command->completion.status = static_cast<uint16_t>(status << 1);
        command->executed = true;
        if (self->m_socket)
        {
            self->QueueResponse(command);
        }
    };
    const uint8_t opcode = command->command.opcode;
    if (m_id == 0 || opcode == NvmeCommand::FABRICS)
    {
        if (ExecuteAdmin(command) && m_socket)
        {
            finish(command->completion.status);
        }
    }
    else if (opcode != NvmeCommand::READ && opcode != NvmeCommand::WRITE)
    {
        finish(INVALID_OPCODE);
    }
    else if (const uint16_t status = AnaStatus(m_target->m_ports[m_port].ana))
    {
        finish(status);
    }
    else
    {
        auto submit = [self, command, finish] {
            if (self->m_controller)
            {
                self->m_controller->device->Submit(command->command.opcode == NvmeCommand::WRITE,
                                                   command->command.dataLength,
                                                   [finish] { finish(0); });
            }
        };
        if (m_target->m_commandTime.IsZero())
        {
            submit();
            return;
        }
        // nvmet_tcp_io_work() executes what it has received: nothing that came later is looked at,
        // or answered, meanwhile
        m_computing = true;
        Simulator::Schedule(m_target->m_commandTime, [self, submit] {
            self->m_computing = false;
            submit();
            self->Work();
        });
    }
}

bool
NvmeTcpTargetQueue::ExecuteAdmin(Ptr<Command> command)
{
    using namespace nvme_identify;

    const auto& sqe = command->command;
    auto put = [&](uint32_t at, uint32_t value, uint32_t size) {
        for (uint32_t i = 0; i < size && at + i < command->content.size(); i++)
        {
            command->content[at + i] = static_cast<uint8_t>(value >> (8 * i));
        }
    };
    if (sqe.opcode == NvmeCommand::FABRICS && sqe.nsid == NvmeCommand::CONNECT)
    {
        m_id = static_cast<uint16_t>(sqe.dwords[0] >> 16);
        m_size = static_cast<uint16_t>((sqe.dwords[1] & 0xffff) + 1);
        m_sqFlowDisabled = sqe.dwords[1] >> 18 & 1;
        m_controller =
            m_target->Connect(this, sqe, m_stream->GetData(), command->completion.status);
        if (m_controller)
        {
            command->completion.result = m_controller->cntlid;
            m_stream->KeepData(m_id == 0);
        }
        return true;
    }
    if (!m_controller)
    {
        Fail("a command came before Connect");
        return false;
    }
    switch (sqe.opcode)
    {
    case NvmeCommand::FABRICS:
    case NvmeCommand::SET_FEATURES:
    case NvmeCommand::KEEP_ALIVE:
        break;
    case NvmeCommand::ASYNC_EVENT:
        m_asyncEvent = command;
        return false;
    case NvmeCommand::IDENTIFY:
        command->content.resize(sqe.dataLength);
        put(MDTS, m_target->m_mdts, 1);
        put(CNTLID, m_controller->cntlid, 2);
        put(CTRATT, TBKAS, 4);
        put(KAS, 10, 2); // in units of 100 ms, as nvmet
        put(MAXCMD, m_size, 2);
        put(IOCCSZ, (64 + m_target->m_inCapsule) / 16, 4);
        put(IORCSZ, 1, 4);
        break;
    case GET_LOG_PAGE:
        command->content.resize(sqe.dataLength);
        put(ANA_GROUP_STATE, static_cast<uint32_t>(m_target->m_ports[m_port].ana), 1);
        break;
    default:
        command->completion.status = INVALID_OPCODE;
    }
    return true;
}

void
NvmeTcpTargetQueue::NotifyAnaChange()
{
    if (auto command = std::exchange(m_asyncEvent, nullptr))
    {
        command->completion.result = ANA_CHANGE_EVENT;
        command->executed = true;
        QueueResponse(command);
    }
}

void
NvmeTcpTargetQueue::QueueResponse(Ptr<Command> command)
{
    m_responses.push_back(command);
    ScheduleWork();
}

void
NvmeTcpTargetQueue::PrepareNext(Ptr<Command> command)
{
    const auto& sqe = command->command;
    NvmeTcpPdu pdu;
    pdu.cid = sqe.cid;
    if (!command->executed)
    {
        pdu.type = NvmeTcpPdu::R2T;
        pdu.flags = DigestFlags(false);
        pdu.ttag = command->ttag;
        pdu.offset = command->received;
        pdu.length = sqe.dataLength - command->received;
        pdu.SetDataLength(0);
        command->output = NvmeTcpStream::Prepare(pdu);
    }
    else if (!command->IsWrite() && sqe.dataLength && !command->completion.status)
    {
        pdu.type = NvmeTcpPdu::C2H_DATA;
        pdu.flags =
            DigestFlags(true) | NvmeTcpPdu::LAST_PDU | (m_sqFlowDisabled ? NvmeTcpPdu::SUCCESS : 0);
        pdu.length = sqe.dataLength;
        pdu.SetDataLength(sqe.dataLength);
        command->output = NvmeTcpStream::Prepare(pdu, command->content);
    }
    else
    {
        command->dataSent = true;
        PrepareResponse(command);
    }
}

void
NvmeTcpTargetQueue::PrepareResponse(Ptr<Command> command)
{
    NvmeTcpPdu pdu;
    pdu.type = NvmeTcpPdu::CAPSULE_RESP;
    pdu.flags = DigestFlags(false);
    pdu.completion = command->completion;
    pdu.completion.sqhd = m_sqFlowDisabled ? 0 : m_sqhd;
    pdu.SetDataLength(0);
    command->output = NvmeTcpStream::Prepare(pdu);
}

bool
NvmeTcpTargetQueue::TrySend()
{
    if (!m_sending)
    {
        if (m_sendList.empty())
        {
            m_sendList.swap(m_responses);
        }
        if (m_sendList.empty())
        {
            return false;
        }
        m_sending = m_sendList.front();
        m_sendList.pop_front();
        PrepareNext(m_sending);
    }
    Ptr<NvmeTcpStream> stream = m_stream; // the queue may end meanwhile
    Ptr<Command> command = m_sending;
    const bool more = !m_lastInBatch && !m_sendList.empty();
    if (command->executed && !command->dataSent)
    {
        if (!stream->Send(command->output, more || !m_sqFlowDisabled) || !m_stream)
        {
            return false;
        }
        command->dataSent = true;
        if (!m_sqFlowDisabled)
        {
            PrepareResponse(command);
        }
    }
    if (!stream->Send(command->output, more) || !m_stream)
    {
        return false;
    }
    m_sending = nullptr;
    if (command->executed)
    {
        m_inFlight--;
    }
    return true;
}

} // namespace ns3
