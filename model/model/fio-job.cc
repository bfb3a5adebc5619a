/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "fio-job.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/enum.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(FioJob);

TypeId
FioJob::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::FioJob")
            .SetParent<Object>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<FioJob>()
            .AddAttribute("Direction",
                          "Reads, writes or both (rw).",
                          EnumValue(READ),
                          MakeEnumAccessor<Direction>(&FioJob::m_direction),
                          MakeEnumChecker(READ, "read", WRITE, "write", MIXED, "rw"))
            .AddAttribute("Random",
                          "Random offsets, or one after the other.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&FioJob::m_random),
                          MakeBooleanChecker())
            .AddAttribute("ReadPercent",
                          "Percent of reads where there are both (rwmixread).",
                          UintegerValue(50),
                          MakeUintegerAccessor(&FioJob::m_readPercent),
                          MakeUintegerChecker<uint32_t>(0, 100))
            .AddAttribute("BlockSize",
                          "Bytes of an I/O (bs).",
                          UintegerValue(4096),
                          MakeUintegerAccessor(&FioJob::m_blockSize),
                          MakeUintegerChecker<uint32_t>(512, 1 << 30))
            .AddAttribute("IoDepth",
                          "I/Os under way (iodepth).",
                          UintegerValue(1),
                          MakeUintegerAccessor(&FioJob::m_ioDepth),
                          MakeUintegerChecker<uint32_t>(1))
            .AddAttribute("Runtime",
                          "How long to issue I/Os (runtime).",
                          TimeValue(Seconds(10)),
                          MakeTimeAccessor(&FioJob::m_runtime),
                          MakeTimeChecker(Time(0)))
            .AddAttribute("Rate",
                          "Bytes/s that are issued (rate), of reads and writes together;"
                          " 0: as many as go.",
                          DoubleValue(0),
                          MakeDoubleAccessor(&FioJob::m_rate),
                          MakeDoubleChecker<double>(0))
            .AddAttribute("Size",
                          "Bytes of the device.",
                          UintegerValue(uint64_t{1} << 38),
                          MakeUintegerAccessor(&FioJob::m_size),
                          MakeUintegerChecker<uint64_t>(512))
            .AddAttribute("SubmitTime",
                          "CPU time that each I/O takes before it is submitted.",
                          TimeValue(Time(0)),
                          MakeTimeAccessor(&FioJob::m_submitTime),
                          MakeTimeChecker(Time(0)))
            .AddTraceSource("Completed",
                            "I/Os that were reaped",
                            MakeTraceSourceAccessor(&FioJob::m_completedTrace),
                            "ns3::FioJob::CompletedCallback");
    return tid;
}

FioJob::FioJob()
    : m_variable(CreateObject<UniformRandomVariable>())
{
}

void
FioJob::Setup(Ptr<NvmeMultipath> disk, uint32_t cpu, Ptr<NvmeCpu> shared)
{
    m_disk = disk;
    m_cpu = cpu;
    m_shared = shared ? shared : Create<NvmeCpu>();
}

void
FioJob::SetBlockSizes(const std::vector<std::pair<uint32_t, uint32_t>>& split)
{
    m_split = split;
}

void
FioJob::Start()
{
    m_start = Simulator::Now();
    Wake();
}

void
FioJob::Wake()
{
    if (!m_wakePending)
    {
        m_wakePending = true;
        m_shared->Request([self = Ptr<FioJob>(this)] {
            self->m_wakePending = false;
            self->Run();
        });
    }
}

Time
FioJob::GetDue(bool write) const
{
    const double share = m_direction != MIXED ? 1.0
                         : write              ? (100 - m_readPercent) / 100.0
                                              : m_readPercent / 100.0;
    return share > 0
               ? m_start + Seconds(static_cast<double>(m_issuedBytes[write]) / (m_rate * share))
               : Time::Max();
}

bool
FioJob::ChooseWrite()
{
    return m_direction == MIXED ? m_variable->GetInteger(0, 99) >= m_readPercent
                                : m_direction == WRITE;
}

void
FioJob::Run()
{
    m_sleep = AWAKE;
    while (m_sleep == AWAKE)
    {
        if (Simulator::Now() - m_start >= m_runtime && !m_quiescing && !m_computed)
        {
            m_sleep = DRAIN;
            break;
        }
        if (!m_nextChosen)
        {
            m_nextWrite = ChooseWrite();
            m_nextChosen = true;
        }
        if (m_rate > 0 && !m_computed && !m_quiescing && GetDue(m_nextWrite) > Simulator::Now())
        {
            const bool other = !m_nextWrite;
            if (m_direction == MIXED && GetDue(other) < GetDue(m_nextWrite))
            {
                m_nextWrite = other;
            }
            // 0 if the other direction is late
            m_wait = Max(GetDue(m_nextWrite) - Simulator::Now(), Time(0));
            m_quiescing = m_wait.IsStrictlyPositive();
        }
        if (m_quiescing && m_depth > 0)
        {
            m_sleep = Reap() ? AWAKE : COMPLETION;
            continue;
        }
        if (m_quiescing)
        {
            // as long as was left before it waited for what was under way
            m_quiescing = false;
            m_sleep = RATE;
            const Time end = std::max(Simulator::Now(), m_start + m_runtime);
            Simulator::Schedule(std::min(m_wait, end - Simulator::Now()), &FioJob::Wake, this);
            continue;
        }
        if (m_depth == m_ioDepth)
        {
            m_sleep = Reap() ? AWAKE : COMPLETION;
        }
        else if (!m_submitTime.IsZero() && !m_computed)
        {
            m_computed = true;
            m_sleep = COMPUTING;
            Simulator::Schedule(m_submitTime, &FioJob::Run, this);
        }
        else
        {
            m_computed = false;
            m_sleep = Issue() ? AWAKE : TAG;
        }
    }
    if (m_sleep == DRAIN && m_completed.size() == m_depth)
    {
        // fio gets all of them from one call, and looks at the clock once
        while (Reap())
        {
        }
        m_sleep = ENDED;
        m_end = Simulator::Now();
    }
    if (m_sleep != COMPUTING)
    {
        m_shared->Release();
    }
}

bool
FioJob::Issue()
{
    auto io = Create<Io>();
    io->write = m_nextWrite;
    m_nextChosen = false;
    io->length = m_blockSize;
    if (!m_split.empty())
    {
        uint32_t pick = m_variable->GetInteger(0, 99);
        for (const auto& [size, percent] : m_split)
        {
            io->length = size;
            if (pick < percent)
            {
                break;
            }
            pick -= percent;
        }
    }
    auto bio = Create<NvmeBio>();
    bio->write = io->write;
    bio->length = io->length;
    bio->cpu = m_cpu;
    const uint64_t blocks = std::max<uint64_t>(1, m_size / io->length);
    bio->offset = m_random ? io->length * static_cast<uint64_t>(
                                              m_variable->GetValue(0, static_cast<double>(blocks)))
                           : m_offset;
    m_offset = (m_offset + io->length) % (blocks * io->length);
    bio->done = [this, io](bool ok) {
        io->ok = ok;
        Completed(io);
    };
    m_depth++;
    m_issuedBytes[io->write] += io->length;
    m_issuing = io;
    bio->wake = [this](std::function<void()> thread) { m_shared->Request(std::move(thread)); };
    bio->sleep = [this] { m_shared->Release(); };
    const bool issued = m_disk->Submit(bio, [this] {
        Issued();
        Run();
    });
    if (issued)
    {
        Issued();
    }
    return issued;
}

void
FioJob::Issued()
{
    m_issuing->issued = Simulator::Now();
    m_issuing = nullptr;
}

void
FioJob::Completed(Ptr<Io> io)
{
    m_completed.push_back(io);
    if (m_sleep == COMPLETION || (m_sleep == DRAIN && m_completed.size() == m_depth))
    {
        Wake();
    }
}

bool
FioJob::Reap()
{
    if (m_completed.empty())
    {
        return false;
    }
    Account(m_completed.front());
    m_completed.pop_front();
    m_depth--;
    return true;
}

void
FioJob::Account(Ptr<Io> io)
{
    const Time latency = Simulator::Now() - io->issued;
    m_latency[io->write].Add(latency);
    m_errors += !io->ok;
    m_bytes[io->write] += io->length;
    m_completedTrace(latency, io->length, io->write);
}

bool
FioJob::IsDone() const
{
    return m_sleep == ENDED;
}

Time
FioJob::GetRuntime() const
{
    return m_end - m_start;
}

const FioLatency&
FioJob::GetLatency(bool write) const
{
    return m_latency[write];
}

uint64_t
FioJob::GetBytes(bool write) const
{
    return m_bytes[write];
}

uint64_t
FioJob::GetErrors() const
{
    return m_errors;
}

int64_t
FioJob::AssignStreams(int64_t stream)
{
    m_variable->SetStream(stream);
    return 1;
}

} // namespace ns3
