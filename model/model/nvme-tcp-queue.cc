/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tcp-queue.h"

#include "ns3/boolean.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("NvmeTcpQueue");

namespace
{

constexpr uint32_t SYN_ATTEMPTS = 2;        // TCP_SYNCNT is 1: one retry
constexpr uint32_t ADMIN_IN_CAPSULE = 8192; // bytes, NVME_TCP_ADMIN_CCSZ
constexpr uint16_t CONNECT_TAG = 0;         // before any other command

} // namespace

NvmeTcpQueue::NvmeTcpQueue(Settings settings)
    : m_settings(std::move(settings)),
      m_generations(m_settings.size + 1)
{
    if (m_settings.id == 0)
    {
        m_settings.inCapsuleSize = ADMIN_IN_CAPSULE;
    }
}

void
NvmeTcpQueue::Connect(std::function<void(bool)> ready,
                      std::function<void(const std::string&)> failed)
{
    m_ready = std::move(ready);
    m_failed = std::move(failed);
    m_socket = Socket::CreateSocket(m_settings.node, m_settings.socketFactory);
    m_socket->SetAttributeFailSafe("TcpNoDelay", BooleanValue(true));
    m_socket->SetAttributeFailSafe("ConnCount", UintegerValue(SYN_ATTEMPTS));
    m_stream = Create<NvmeTcpStream>(m_socket);
    Ptr<NvmeTcpQueue> self(this);
    m_socket->SetConnectCallback([self](Ptr<Socket>) { self->Connected(); },
                                 [self](Ptr<Socket>) { self->ConnectionFailed(); });
    m_socket->SetCloseCallbacks([self](Ptr<Socket>) { self->ConnectionFailed(); },
                                [self](Ptr<Socket>) { self->ConnectionFailed(); });
    m_timer = Simulator::Schedule(m_settings.icRespTimeout,
                                  [self] { self->Fail("no ICResp came in time"); });
    m_socket->Bind();
    if (m_socket->Connect(m_settings.target) != 0)
    {
        Simulator::ScheduleNow([self] { self->Fail("no route to the target"); });
    }
}

void
NvmeTcpQueue::Connected()
{
    NS_LOG_FUNCTION(this);
    Ptr<NvmeTcpQueue> self(this);
    m_socket->SetRecvCallback([self](Ptr<Socket>) { self->ScheduleWork(); });
    m_socket->SetSendCallback([self](Ptr<Socket>, uint32_t) {
        if (!self->m_sendList.empty())
        {
            self->ScheduleWork();
        }
    });
    NvmeTcpPdu pdu;
    pdu.type = NvmeTcpPdu::IC_REQ;
    pdu.digests = (m_settings.headerDigest ? 1 : 0) | (m_settings.dataDigest ? 2 : 0);
    pdu.SetDataLength(0);
    auto output = NvmeTcpStream::Prepare(pdu);
    if (!m_stream->Send(output, false))
    {
        Fail("the ICReq can't be sent");
    }
}

void
NvmeTcpQueue::ConnectionFailed()
{
    Fail("the connection broke");
}

void
NvmeTcpQueue::Fail(const std::string& reason)
{
    if (!m_socket)
    {
        return;
    }
    NS_LOG_INFO("queue " << m_settings.id << ": " << reason);
    m_timer.Cancel();
    auto ready = std::exchange(m_ready, nullptr);
    auto failed = std::exchange(m_failed, nullptr);
    if (ready)
    {
        Stop();
        ready(false);
    }
    else if (failed)
    {
        failed(reason);
    }
}

std::vector<Ptr<NvmeTcpRequest>>
NvmeTcpQueue::Stop(bool close)
{
    m_timer.Cancel();
    m_timer = EventId(); // it has a reference to this queue
    m_ready = nullptr;
    m_failed = nullptr;
    if (m_socket)
    {
        auto nothing = [](Ptr<Socket>) {};
        m_socket->SetConnectCallback(nothing, nothing);
        m_socket->SetCloseCallbacks(nothing, nothing);
        m_socket->SetRecvCallback(nothing);
        m_socket->SetSendCallback([](Ptr<Socket>, uint32_t) {});
        if (close)
        {
            m_socket->Close();
        }
        m_socket = nullptr;
        m_stream = nullptr;
    }
    m_sendList.clear();
    std::vector<Ptr<NvmeTcpRequest>> left;
    for (const auto& [cid, request] : m_inFlight)
    {
        left.push_back(request);
    }
    m_inFlight.clear();
    return left;
}

void
NvmeTcpQueue::SendConnectCommand()
{
    auto request = Create<NvmeTcpRequest>();
    request->write = true;
    request->tag = CONNECT_TAG;
    request->deadline = Time::Max();
    auto& command = request->command;
    command.opcode = NvmeCommand::FABRICS;
    command.nsid = NvmeCommand::CONNECT;
    command.dataLength = NvmeTcpPdu::CONNECT_DATA_SIZE;
    command.dwords[0] = static_cast<uint32_t>(m_settings.id) << 16;
    command.dwords[1] = (m_settings.size - 1) | (m_settings.disableSqFlow ? 1U << 18 : 0);
    command.dwords[2] = m_settings.keepAliveMs;
    auto& data = request->content;
    data.resize(NvmeTcpPdu::CONNECT_DATA_SIZE);
    data[16] = static_cast<uint8_t>(m_settings.cntlid);
    data[17] = static_cast<uint8_t>(m_settings.cntlid >> 8);
    std::copy(m_settings.subsystem.begin(), m_settings.subsystem.end(), data.begin() + 256);
    std::copy(m_settings.host.begin(), m_settings.host.end(), data.begin() + 512);
    Ptr<NvmeTcpQueue> self(this);
    request->done = [self](Ptr<NvmeTcpRequest> request, uint16_t status) {
        if (status)
        {
            self->Fail("the target refuses the connection");
            return;
        }
        self->m_cntlid = static_cast<uint16_t>(request->result);
        self->m_timer.Cancel();
        std::exchange(self->m_ready, nullptr)(true);
    };
    Submit(request);
}

void
NvmeTcpQueue::Submit(Ptr<NvmeTcpRequest> request)
{
    NS_ASSERT_MSG(m_stream, "the queue isn't connected");
    auto& command = request->command;
    // what a late answer to an earlier command with the same tag is told from
    const uint16_t generation = ++m_generations[request->tag] & 0xf;
    command.cid = static_cast<uint16_t>(generation << 12 | request->tag);
    const bool inCapsule = request->write && command.dataLength <= m_settings.inCapsuleSize;
    command.sglType = inCapsule ? NvmeCommand::IN_CAPSULE : NvmeCommand::TRANSPORT_DATA;
    NvmeTcpPdu pdu;
    pdu.type = NvmeTcpPdu::CAPSULE_CMD;
    pdu.command = command;
    pdu.flags = (m_settings.headerDigest ? NvmeTcpPdu::HDGST : 0) |
                (m_settings.dataDigest && inCapsule ? NvmeTcpPdu::DDGST : 0);
    pdu.SetDataLength(inCapsule ? command.dataLength : 0);
    request->output = NvmeTcpStream::Prepare(pdu, request->content);
    request->start = Simulator::Now();
    m_inFlight[command.cid] = request;
    const bool first = m_sendList.empty();
    m_sendList.push_back(request);
    if (first && !m_sending)
    {
        while (TrySend())
        {
        }
    }
    if (!m_sendList.empty())
    {
        ScheduleWork();
    }
}

void
NvmeTcpQueue::ScheduleWork()
{
    if (!m_workPending)
    {
        m_workPending = true;
        Simulator::ScheduleNow([self = Ptr<NvmeTcpQueue>(this)] {
            self->m_workPending = false;
            self->Work();
        });
    }
}

void
NvmeTcpQueue::Work()
{
    for (bool pending = true; pending && m_socket;)
    {
        const bool sent = TrySend();
        const bool received = TryReceive();
        pending = sent || received;
    }
}

bool
NvmeTcpQueue::TrySend()
{
    if (m_sendList.empty() || !m_stream)
    {
        return false;
    }
    m_sending = true;
    Ptr<NvmeTcpRequest> request = m_sendList.front();
    // it has left the list while it is sent, so that it doesn't count as one that waits
    const bool more = m_sendList.size() > 1;
    Ptr<NvmeTcpStream> stream = m_stream; // the queue may fail while it sends
    const bool done = stream->Send(request->output, more);
    m_sending = false;
    if (!done || !m_stream)
    {
        return false;
    }
    if (request->r2tLeft)
    {
        PrepareData(request);
    }
    else if (!m_sendList.empty() && m_sendList.front() == request)
    {
        m_sendList.pop_front();
    }
    return true;
}

bool
NvmeTcpQueue::TryReceive()
{
    bool any = false;
    Ptr<NvmeTcpStream> stream = m_stream; // the queue may fail while it receives
    while (m_stream)
    {
        if (!m_inData && !stream->ReadHeader(m_pdu))
        {
            break;
        }
        m_inData = true;
        if (!stream->ReadData())
        {
            break;
        }
        any = true;
        m_inData = false;
        Received();
    }
    if (m_stream && !stream->GetError().empty())
    {
        Fail(stream->GetError());
    }
    return any && m_stream;
}

Ptr<NvmeTcpRequest>
NvmeTcpQueue::Find(uint16_t cid)
{
    auto found = m_inFlight.find(cid);
    if (found == m_inFlight.end())
    {
        Fail("no command has the identifier " + std::to_string(cid));
        return nullptr;
    }
    return found->second;
}

void
NvmeTcpQueue::Received()
{
    const NvmeTcpPdu& pdu = m_pdu;
    if (!m_initialized)
    {
        if (pdu.type != NvmeTcpPdu::IC_RESP)
        {
            Fail("another PDU than an ICResp came first");
            return;
        }
        m_initialized = true;
        m_maxH2cData = pdu.maxH2cData;
        m_stream->SetDigests(m_settings.headerDigest, m_settings.dataDigest);
        m_stream->KeepData(m_settings.id == 0);
        SendConnectCommand();
        return;
    }
    switch (pdu.type)
    {
    case NvmeTcpPdu::C2H_DATA:
        if (auto request = Find(pdu.cid))
        {
            request->received += pdu.length;
            request->answer = m_stream->GetData();
            if (request->write || request->received > request->command.dataLength)
            {
                Fail("data came that nobody asked for");
            }
            else if (pdu.flags & NvmeTcpPdu::SUCCESS)
            {
                Complete(pdu.cid, 0);
            }
        }
        break;
    case NvmeTcpPdu::CAPSULE_RESP:
        if (auto request = Find(pdu.completion.cid))
        {
            const uint16_t status = pdu.completion.status >> 1;
            request->result = pdu.completion.result;
            if (!request->write && !status && request->received < request->command.dataLength)
            {
                Fail("a command ended before its data came");
                return;
            }
            Complete(pdu.completion.cid, status);
        }
        break;
    case NvmeTcpPdu::R2T:
        if (auto request = Find(pdu.cid))
        {
            if (!request->write || !pdu.length ||
                pdu.offset + pdu.length > request->command.dataLength)
            {
                Fail("an R2T is out of range");
                return;
            }
            request->r2tLeft = pdu.length;
            request->r2tOffset = pdu.offset;
            request->ttag = pdu.ttag;
            PrepareData(request);
            m_sendList.push_back(request);
        }
        break;
    default:
        Fail("a PDU of type " + std::to_string(pdu.type) + " came");
    }
}

void
NvmeTcpQueue::PrepareData(Ptr<NvmeTcpRequest> request)
{
    NvmeTcpPdu pdu;
    pdu.type = NvmeTcpPdu::H2C_DATA;
    pdu.cid = request->command.cid;
    pdu.ttag = request->ttag;
    pdu.offset = request->r2tOffset;
    pdu.length = std::min(request->r2tLeft, m_maxH2cData);
    request->r2tLeft -= pdu.length;
    request->r2tOffset += pdu.length;
    pdu.flags = (request->r2tLeft ? 0 : NvmeTcpPdu::LAST_PDU) |
                (m_settings.headerDigest ? NvmeTcpPdu::HDGST : 0) |
                (m_settings.dataDigest ? NvmeTcpPdu::DDGST : 0);
    pdu.SetDataLength(pdu.length);
    request->output = NvmeTcpStream::Prepare(pdu);
}

void
NvmeTcpQueue::Complete(uint16_t cid, uint16_t status)
{
    auto found = m_inFlight.find(cid);
    Ptr<NvmeTcpRequest> request = found->second;
    m_inFlight.erase(found);
    request->done(request, status);
}

uint16_t
NvmeTcpQueue::GetCntlid() const
{
    return m_cntlid;
}

uint32_t
NvmeTcpQueue::GetInFlight() const
{
    return static_cast<uint32_t>(m_inFlight.size());
}

Ptr<Socket>
NvmeTcpQueue::GetSocket() const
{
    return m_socket;
}

Time
NvmeTcpQueue::GetEarliestDeadline() const
{
    Time earliest = Time::Max();
    for (const auto& [cid, request] : m_inFlight)
    {
        earliest = std::min(earliest, request->deadline);
    }
    return earliest;
}

} // namespace ns3
