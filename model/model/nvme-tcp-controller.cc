/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tcp-controller.h"

#include "nvme-identify.h"

#include "ns3/boolean.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("NvmeTcpController");
NS_OBJECT_ENSURE_REGISTERED(NvmeTcpController);

namespace
{

constexpr uint32_t ADMIN_QUEUE_SIZE = 32;    // NVME_AQ_DEPTH
constexpr int32_t ADMIN_TAGS = 30;           // of them for ordinary commands
constexpr int32_t ASYNC_EVENT_TAG = 31;      // not one of them
constexpr uint32_t BLOCK_SIZE = 512;         // bytes of a logical block
constexpr uint32_t PAGE = 4096;              // bytes, MDTS is in units of it
constexpr uint32_t ANA_LOG_PAGE = 0x0c;      // log page identifier
constexpr uint32_t ANA_LOG_SIZE = 52;        // bytes, one group with one namespace
constexpr uint32_t ANA_STATE_BYTE = 16 + 16; // of that log page
constexpr uint32_t GET_LOG_PAGE = 0x02;      // admin opcode

// Status codes of a path: code type 3 (NVMe Base, Path Related Status)
constexpr uint16_t PATH_STATUS = 0x300;
constexpr uint16_t STATUS_TYPE_MASK = 0x700;
constexpr uint16_t STATUS_MASK = 0x7ff;
constexpr uint16_t ANA_TRANSITION = 0x303;
constexpr uint16_t ANA_PERSISTENT_LOSS = 0x301;

const Time ADMIN_TIMEOUT = Seconds(60);
const Time IC_RESP_TIMEOUT = Seconds(10);
const Time MAX_TIMER = Seconds(5); // BLK_MAX_TIMEOUT
const Time TIMER_TOLERANCE = MilliSeconds(500);

} // namespace

TypeId
NvmeTcpController::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::NvmeTcpController")
            .SetParent<Object>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<NvmeTcpController>()
            .AddAttribute("QueueSize",
                          "Entries of an I/O submission queue (queue_size).",
                          UintegerValue(128),
                          MakeUintegerAccessor(&NvmeTcpController::m_queueSize),
                          MakeUintegerChecker<uint32_t>(8, 1024))
            .AddAttribute("IoQueues",
                          "I/O queues, each a connection (nr_io_queues).",
                          UintegerValue(1),
                          MakeUintegerAccessor(&NvmeTcpController::m_ioQueueCount),
                          MakeUintegerChecker<uint32_t>(1, 1024))
            .AddAttribute("KeepAliveTimeout",
                          "KATO (keep_alive_tmo); 0: no keep alive.",
                          TimeValue(Seconds(5)),
                          MakeTimeAccessor(&NvmeTcpController::m_keepAlive),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("ReconnectDelay",
                          "Time between two attempts to connect again (reconnect_delay).",
                          TimeValue(Seconds(10)),
                          MakeTimeAccessor(&NvmeTcpController::m_reconnectDelay),
                          MakeTimeChecker(Time(1)))
            .AddAttribute("ControllerLossTimeout",
                          "How long to attempt it (ctrl_loss_tmo).",
                          TimeValue(Seconds(600)),
                          MakeTimeAccessor(&NvmeTcpController::m_controllerLoss),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("IoTimeout",
                          "Time that a read or write may take (nvme_core.io_timeout).",
                          TimeValue(Seconds(30)),
                          MakeTimeAccessor(&NvmeTcpController::m_ioTimeout),
                          MakeTimeChecker(Time(1)))
            .AddAttribute("TimerSlack",
                          "Request timers expire so much later than they have to: Linux adds 1024"
                          " jiffies, here at 1000 Hz.",
                          TimeValue(MilliSeconds(1024)),
                          MakeTimeAccessor(&NvmeTcpController::m_timerSlack),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("HeaderDigest",
                          "Whether PDU headers have digests (hdr_digest).",
                          BooleanValue(false),
                          MakeBooleanAccessor(&NvmeTcpController::m_headerDigest),
                          MakeBooleanChecker())
            .AddAttribute("DataDigest",
                          "Whether PDU data have digests (data_digest).",
                          BooleanValue(false),
                          MakeBooleanAccessor(&NvmeTcpController::m_dataDigest),
                          MakeBooleanChecker())
            .AddAttribute("DisableSqFlow",
                          "Ask the target for no submission queue flow control, so that successful"
                          " reads need no response (disable_sqflow).",
                          BooleanValue(false),
                          MakeBooleanAccessor(&NvmeTcpController::m_disableSqFlow),
                          MakeBooleanChecker())
            .AddAttribute("NumaNode",
                          "NUMA node of the network device, for the policy numa.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&NvmeTcpController::m_numaNode),
                          MakeUintegerChecker<uint32_t>())
            .AddTraceSource("State",
                            "State of the controller",
                            MakeTraceSourceAccessor(&NvmeTcpController::m_stateTrace),
                            "ns3::NvmeTcpController::StateCallback")
            .AddTraceSource("InFlight",
                            "Commands under way on a queue",
                            MakeTraceSourceAccessor(&NvmeTcpController::m_inFlightTrace),
                            "ns3::NvmeTcpController::InFlightCallback");
    return tid;
}

void
NvmeTcpController::Setup(Ptr<Node> node,
                         TypeId socketFactory,
                         const Address& target,
                         const std::string& subsystem,
                         const std::string& host)
{
    m_node = node;
    m_socketFactory = socketFactory;
    m_target = target;
    m_subsystem = subsystem;
    m_host = host;
}

void
NvmeTcpController::DoDispose()
{
    m_retry = nullptr;
    m_changed = nullptr;
    for (auto* event : {&m_keepAliveEvent,
                        &m_shareEvent,
                        &m_reconnectEvent,
                        &m_adminTimer.event,
                        &m_ioTimer.event})
    {
        event->Cancel();
    }
    for (auto& io : m_io)
    {
        if (io.queue)
        {
            io.queue->Stop(false);
        }
    }
    if (m_admin)
    {
        m_admin->Stop(false);
    }
    m_io.clear();
    m_admin = nullptr;
    m_node = nullptr;
    Object::DoDispose();
}

void
NvmeTcpController::SetState(State state)
{
    if (state != m_state)
    {
        NS_LOG_INFO(Simulator::Now().As(Time::S) << " state " << m_state << " -> " << state);
        m_stateTrace(m_state, state);
        m_state = state;
        if (m_changed)
        {
            m_changed();
        }
    }
}

void
NvmeTcpController::Start()
{
    m_io.resize(m_ioQueueCount);
    for (auto& io : m_io)
    {
        // as many as SQSIZE, which is 0's based, less one that is reserved for Connect
        io.tags = std::make_unique<NvmeTags>(m_queueSize - 2);
    }
    SetState(CONNECTING);
    Connect();
}

void
NvmeTcpController::Delete()
{
    m_reconnectEvent.Cancel();
    SetState(DELETED);
    Teardown();
}

void
NvmeTcpController::Connect()
{
    NvmeTcpQueue::Settings settings;
    settings.node = m_node;
    settings.socketFactory = m_socketFactory;
    settings.target = m_target;
    settings.size = ADMIN_QUEUE_SIZE;
    settings.headerDigest = m_headerDigest;
    settings.dataDigest = m_dataDigest;
    settings.disableSqFlow = m_disableSqFlow;
    settings.keepAliveMs = static_cast<uint32_t>(m_keepAlive.GetMilliSeconds());
    settings.subsystem = m_subsystem;
    settings.host = m_host;
    settings.icRespTimeout = IC_RESP_TIMEOUT;
    m_admin = Create<NvmeTcpQueue>(settings);
    m_connected = 0;
    m_admin->Connect([this](bool ready) { ready ? Initialize(0) : ReconnectLater(); },
                     [this](const std::string& reason) { Recover("admin queue: " + reason); });
}

void
NvmeTcpController::SendAdmin(uint8_t opcode,
                             uint32_t nsid,
                             std::array<uint32_t, 6> dwords,
                             uint32_t answer,
                             Time timeout,
                             std::function<void(Ptr<NvmeTcpRequest>, uint16_t)> done)
{
    auto request = Create<NvmeTcpRequest>();
    request->command.opcode = opcode;
    request->command.nsid = nsid;
    request->command.dwords = dwords;
    request->command.dataLength = answer;
    const bool event = opcode == NvmeCommand::ASYNC_EVENT;
    m_adminTag = m_adminTag % ADMIN_TAGS + 1;
    request->tag = event ? ASYNC_EVENT_TAG : m_adminTag;
    request->deadline = event ? Time::Max() : Simulator::Now() + timeout;
    request->done = std::move(done);
    m_admin->Submit(request);
    if (!event)
    {
        Arm(m_adminTimer, request->deadline, true);
    }
}

void
NvmeTcpController::Initialize(uint32_t step)
{
    constexpr uint32_t CAP = 0x00;
    constexpr uint32_t CC = 0x14;
    constexpr uint32_t CSTS = 0x1c;
    constexpr uint32_t EIGHT_BYTES = 1;
    constexpr uint32_t ENABLE = 0x00460001; // 64 and 16 byte entries, enabled
    constexpr uint32_t IDENTIFY_CONTROLLER = 0x01;
    constexpr uint32_t NUMBER_OF_QUEUES = 0x07;

    struct Step
    {
        uint8_t opcode;
        uint32_t nsid;
        std::array<uint32_t, 6> dwords;
    };

    const uint32_t count = m_ioQueueCount - 1;
    const Step steps[] = {
        {NvmeCommand::FABRICS, NvmeCommand::PROPERTY_GET, {EIGHT_BYTES, CAP}},
        {NvmeCommand::FABRICS, NvmeCommand::PROPERTY_SET, {0, CC, ENABLE}},
        {NvmeCommand::FABRICS, NvmeCommand::PROPERTY_GET, {0, CSTS}},
        {NvmeCommand::IDENTIFY, 0, {IDENTIFY_CONTROLLER}},
        {NvmeCommand::SET_FEATURES, 0, {NUMBER_OF_QUEUES, count << 16 | count}},
    };
    if (step == std::size(steps))
    {
        ConnectIoQueue();
        return;
    }
    const bool identify = steps[step].opcode == NvmeCommand::IDENTIFY;
    SendAdmin(steps[step].opcode,
              steps[step].nsid,
              steps[step].dwords,
              identify ? PAGE : 0,
              ADMIN_TIMEOUT,
              [this, step, identify](Ptr<NvmeTcpRequest> request, uint16_t status) {
                  if (status || (identify && !Identified(request)))
                  {
                      Recover("initialization failed");
                      return;
                  }
                  Initialize(step + 1);
              });
}

bool
NvmeTcpController::Identified(Ptr<NvmeTcpRequest> request)
{
    using namespace nvme_identify;

    const auto& data = request->answer;
    if (data.size() < IOCCSZ + 4)
    {
        return false;
    }
    m_maxTransfer = data[MDTS] ? PAGE << data[MDTS] : 0;
    m_trafficBased = data[CTRATT] & TBKAS;
    const uint32_t capsule = 16U * (data[IOCCSZ] | data[IOCCSZ + 1] << 8);
    m_inCapsule = capsule > 64 ? capsule - 64 : 0;
    if (!m_keepAlive.IsZero())
    {
        m_keepAliveEvent =
            Simulator::Schedule(GetKeepAlivePeriod(), &NvmeTcpController::KeepAlive, this);
    }
    return true;
}

void
NvmeTcpController::ConnectIoQueue()
{
    if (m_connected == m_io.size())
    {
        Live();
        return;
    }
    NvmeTcpQueue::Settings settings;
    settings.node = m_node;
    settings.socketFactory = m_socketFactory;
    settings.target = m_target;
    settings.id = static_cast<uint16_t>(m_connected + 1);
    settings.size = m_queueSize;
    settings.inCapsuleSize = m_inCapsule;
    settings.headerDigest = m_headerDigest;
    settings.dataDigest = m_dataDigest;
    settings.disableSqFlow = m_disableSqFlow;
    settings.cntlid = m_admin->GetCntlid();
    settings.subsystem = m_subsystem;
    settings.host = m_host;
    settings.icRespTimeout = IC_RESP_TIMEOUT;
    auto queue = Create<NvmeTcpQueue>(settings);
    m_io[m_connected].queue = queue;
    queue->Connect(
        [this](bool ready) {
            if (ready)
            {
                m_connected++;
                ConnectIoQueue();
            }
            else
            {
                Recover("an I/O queue can't be connected");
            }
        },
        [this](const std::string& reason) { Recover("I/O queue: " + reason); });
}

void
NvmeTcpController::Live()
{
    m_attempts = 0;
    m_anaPending = false;
    // The Connect queue counts as a user of the tags only if it shared them with the namespace's
    // queue when it sent Connect (blk_mq_tag_busy()), which is there from the first connection on.
    if (m_hasNamespace)
    {
        for (auto& io : m_io)
        {
            io.tags->SetUsers(2);
        }
        m_shareEvent = Simulator::Schedule(MAX_TIMER + m_timerSlack, [this] {
            for (auto& io : m_io)
            {
                io.tags->SetUsers(1);
                io.tags->WakeAll();
            }
        });
    }
    m_hasNamespace = true;
    SendAsyncEventRequest();
    SetState(LIVE);
}

void
NvmeTcpController::Recover(const std::string& reason)
{
    if (m_state != LIVE && m_state != CONNECTING)
    {
        return;
    }
    NS_LOG_INFO(Simulator::Now().As(Time::S) << " error recovery: " << reason);
    SetState(RESETTING);
    Teardown();
    SetState(CONNECTING);
    ReconnectLater();
}

void
NvmeTcpController::Teardown()
{
    m_keepAliveEvent.Cancel();
    m_shareEvent.Cancel();
    m_adminTimer.event.Cancel();
    m_ioTimer.event.Cancel();
    for (auto& io : m_io)
    {
        if (io.queue)
        {
            for (const auto& request : std::exchange(io.queue, nullptr)->Stop())
            {
                request->done(request, NvmeTcpQueue::HOST_PATH_ERROR);
            }
        }
        if (io.tags)
        {
            io.tags->WakeAll();
        }
    }
    if (m_admin)
    {
        std::exchange(m_admin, nullptr)->Stop();
    }
}

void
NvmeTcpController::ReconnectLater()
{
    if (m_state != CONNECTING)
    {
        return;
    }
    if (m_reconnectDelay * static_cast<int64_t>(++m_attempts) > m_controllerLoss)
    {
        NS_LOG_INFO("no connection for too long: the controller is removed");
        Delete();
        return;
    }
    m_reconnectEvent = Simulator::Schedule(m_reconnectDelay, &NvmeTcpController::Connect, this);
}

Time
NvmeTcpController::GetKeepAlivePeriod() const
{
    return m_keepAlive / (m_trafficBased ? 4 : 2);
}

void
NvmeTcpController::KeepAlive()
{
    if (m_trafficBased && m_completionSeen)
    {
        m_completionSeen = false;
        m_keepAliveEvent =
            Simulator::Schedule(GetKeepAlivePeriod(), &NvmeTcpController::KeepAlive, this);
        return;
    }
    const Time sent = Simulator::Now();
    SendAdmin(NvmeCommand::KEEP_ALIVE,
              0,
              {},
              0,
              m_keepAlive,
              [this, sent](Ptr<NvmeTcpRequest>, uint16_t status) {
                  if (!status)
                  {
                      m_completionSeen = false;
                      const Time next = sent + GetKeepAlivePeriod() - Simulator::Now();
                      m_keepAliveEvent = Simulator::Schedule(std::max(next, Time(0)),
                                                             &NvmeTcpController::KeepAlive,
                                                             this);
                  }
              });
}

void
NvmeTcpController::SendAsyncEventRequest()
{
    SendAdmin(NvmeCommand::ASYNC_EVENT,
              0,
              {},
              0,
              Time(0),
              [this](Ptr<NvmeTcpRequest>, uint16_t status) {
                  if (!status)
                  {
                      SendAsyncEventRequest();
                      ReadAnaLog();
                  }
              });
}

void
NvmeTcpController::ReadAnaLog()
{
    SendAdmin(GET_LOG_PAGE,
              0xffffffff,
              {ANA_LOG_PAGE | (ANA_LOG_SIZE / 4 - 1) << 16},
              ANA_LOG_SIZE,
              ADMIN_TIMEOUT,
              [this](Ptr<NvmeTcpRequest> request, uint16_t status) {
                  if (!status && request->answer.size() == ANA_LOG_SIZE)
                  {
                      m_ana = static_cast<NvmeAnaState>(request->answer[ANA_STATE_BYTE] & 0xf);
                      m_anaPending = false;
                      if (m_changed)
                      {
                          m_changed();
                      }
                  }
              });
}

bool
NvmeTcpController::Submit(Ptr<NvmeBio> bio, std::function<void()> resumed)
{
    NS_ASSERT_MSG(!m_io.empty(), "the controller wasn't started");
    if (TrySubmit(bio, nullptr))
    {
        return true;
    }
    Sleep(bio, std::move(resumed));
    return false;
}

void
NvmeTcpController::Sleep(Ptr<NvmeBio> bio, std::function<void()> resumed)
{
    m_io[bio->cpu % m_io.size()].tags->Wait([this, bio, resumed = std::move(resumed)] {
        auto thread = [this, bio, resumed] { TrySubmit(bio, resumed); };
        bio->wake ? bio->wake(thread) : thread();
    });
}

bool
NvmeTcpController::TrySubmit(Ptr<NvmeBio> bio, std::function<void()> resumed)
{
    auto& io = m_io[bio->cpu % m_io.size()];
    if (m_state == LIVE)
    {
        const int32_t tag = io.tags->Get();
        if (tag < 0)
        {
            if (resumed)
            {
                Sleep(bio, std::move(resumed));
                if (bio->sleep)
                {
                    bio->sleep();
                }
            }
            return false;
        }
        auto request = Create<NvmeTcpRequest>();
        auto& command = request->command;
        command.opcode = bio->write ? NvmeCommand::WRITE : NvmeCommand::READ;
        command.nsid = 1;
        command.dataLength = bio->length;
        const uint64_t block = bio->offset / BLOCK_SIZE;
        command.dwords[0] = static_cast<uint32_t>(block);
        command.dwords[1] = static_cast<uint32_t>(block >> 32);
        command.dwords[2] = (bio->length + BLOCK_SIZE - 1) / BLOCK_SIZE - 1;
        request->write = bio->write;
        request->tag = tag;
        request->deadline = Simulator::Now() + m_ioTimeout;
        request->done = [this, bio, &io, tag](Ptr<NvmeTcpRequest>, uint16_t status) {
            Completed(bio, io, tag, status);
        };
        m_active++;
        io.queue->Submit(request);
        m_inFlightTrace(static_cast<uint16_t>(1 + (&io - m_io.data())), io.queue->GetInFlight());
        Arm(m_ioTimer, request->deadline, false);
    }
    else if (m_retry)
    {
        m_retry(bio);
    }
    else
    {
        bio->done(false);
    }
    if (resumed)
    {
        resumed();
    }
    return true;
}

void
NvmeTcpController::Completed(Ptr<NvmeBio> bio, IoQueue& io, int32_t tag, uint16_t status)
{
    m_active--;
    m_completionSeen = true;
    const uint16_t code = status & STATUS_MASK;
    if (code >= ANA_PERSISTENT_LOSS && code <= ANA_TRANSITION && !m_anaPending)
    {
        m_anaPending = true;
        ReadAnaLog();
    }
    if (code && m_retry && ((code & STATUS_TYPE_MASK) == PATH_STATUS))
    {
        m_retry(bio);
    }
    else
    {
        bio->done(!code);
    }
    io.tags->Put(tag);
}

void
NvmeTcpController::Arm(RequestTimer& timer, Time deadline, bool admin)
{
    const Time now = Simulator::Now();
    const Time expires = std::min(deadline, now + MAX_TIMER) + m_timerSlack;
    if (timer.event.IsPending())
    {
        const Time pending = TimeStep(static_cast<int64_t>(timer.event.GetTs()));
        if (pending - expires < TIMER_TOLERANCE)
        {
            return;
        }
        timer.event.Cancel();
    }
    timer.event = Simulator::Schedule(expires - now, &NvmeTcpController::TimerExpired, this, admin);
}

void
NvmeTcpController::TimerExpired(bool admin)
{
    Time earliest = Time::Max();
    if (admin)
    {
        earliest = m_admin->GetEarliestDeadline();
    }
    else
    {
        for (const auto& io : m_io)
        {
            earliest = std::min(earliest, io.queue->GetEarliestDeadline());
        }
    }
    if (earliest <= Simulator::Now())
    {
        Recover(admin ? "an admin command has timed out" : "a read or write has timed out");
    }
    else if (earliest != Time::Max())
    {
        auto& timer = admin ? m_adminTimer : m_ioTimer;
        timer.event = Simulator::Schedule(earliest - Simulator::Now(),
                                          &NvmeTcpController::TimerExpired,
                                          this,
                                          admin);
    }
}

void
NvmeTcpController::SetPathCallbacks(std::function<void(Ptr<NvmeBio>)> retry,
                                    std::function<void()> changed)
{
    m_retry = std::move(retry);
    m_changed = std::move(changed);
}

NvmeTcpController::State
NvmeTcpController::GetState() const
{
    return m_state;
}

NvmeAnaState
NvmeTcpController::GetAnaState() const
{
    return m_anaPending ? NvmeAnaState::CHANGE : m_ana;
}

uint32_t
NvmeTcpController::GetActive() const
{
    return m_active;
}

uint32_t
NvmeTcpController::GetNumaNode() const
{
    return m_numaNode;
}

uint32_t
NvmeTcpController::GetMaxTransfer() const
{
    return m_maxTransfer;
}

std::vector<Ptr<Socket>>
NvmeTcpController::GetSockets() const
{
    std::vector<Ptr<Socket>> sockets;
    if (m_admin)
    {
        sockets.push_back(m_admin->GetSocket());
    }
    for (const auto& io : m_io)
    {
        if (io.queue)
        {
            sockets.push_back(io.queue->GetSocket());
        }
    }
    return sockets;
}

} // namespace ns3
