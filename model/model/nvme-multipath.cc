/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-multipath.h"

#include "ns3/boolean.h"
#include "ns3/enum.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("NvmeMultipath");
NS_OBJECT_ENSURE_REGISTERED(NvmeMultipath);

namespace
{

constexpr uint32_t WEIGHTS = 64;           // sum of all paths' weights
constexpr uint32_t SMALLEST_BUCKET = 4096; // bytes: transfers up to it are in the first bucket
constexpr uint32_t BUCKET_STEP = 4;        // each further bucket reaches so much further
const Time LONGEST_SAMPLE = Seconds(1);    // longer latencies don't count
constexpr uint32_t SCAN_LENGTH = 4096;     // bytes: the page that a partition table is read from
const Time SCAN_DELAY = MicroSeconds(900); // until the namespace is identified, and its disk there

} // namespace

TypeId
NvmeMultipath::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::NvmeMultipath")
            .SetParent<Object>()
            .SetGroupName("NvmeMptcp")
            .AddConstructor<NvmeMultipath>()
            .AddAttribute("IoPolicy",
                          "How to choose a path (iopolicy).",
                          EnumValue(NUMA),
                          MakeEnumAccessor<Policy>(&NvmeMultipath::m_policy),
                          MakeEnumChecker(NUMA,
                                          "numa",
                                          ROUND_ROBIN,
                                          "round-robin",
                                          QUEUE_DEPTH,
                                          "queue-depth",
                                          ADAPTIVE,
                                          "adaptive"))
            .AddAttribute("AdaptiveScope",
                          "Whose latency the weights of the policy adaptive follow from.",
                          EnumValue(PER_CPU),
                          MakeEnumAccessor<Scope>(&NvmeMultipath::m_scope),
                          MakeEnumChecker(PER_CPU, "cpu", PER_NODE, "node"))
            .AddAttribute("AdaptiveBuckets",
                          "I/O size buckets of the policy adaptive, each with weights of its own;"
                          " 1: none. The first one reaches to 4 KiB, each further one four times as"
                          " far.",
                          UintegerValue(1),
                          MakeUintegerAccessor(&NvmeMultipath::m_buckets),
                          MakeUintegerChecker<uint32_t>(1, 16))
            .AddAttribute("AdaptiveWeightInterval",
                          "Time between two updates of a weight (adaptive_weight_timeout).",
                          TimeValue(Seconds(15)),
                          MakeTimeAccessor(&NvmeMultipath::m_weightInterval),
                          MakeTimeChecker(Time(1)))
            .AddAttribute("AdaptiveEwmaShift",
                          "The new average of latency counts 1/2^shift (adaptive_ewma_shift).",
                          UintegerValue(3),
                          MakeUintegerAccessor(&NvmeMultipath::m_ewmaShift),
                          MakeUintegerChecker<uint32_t>(0, 16))
            .AddAttribute("CpusPerNode",
                          "CPUs of a NUMA node; 0: all of them are on node 0.",
                          UintegerValue(0),
                          MakeUintegerAccessor(&NvmeMultipath::m_cpusPerNode),
                          MakeUintegerChecker<uint32_t>())
            .AddAttribute("PartitionScan",
                          "Whether the first page is read when there is a path, as Linux looks"
                          " for partitions. Without it a queue's first round-trip times are those"
                          " of a delayed ACK.",
                          BooleanValue(true),
                          MakeBooleanAccessor(&NvmeMultipath::m_partitionScan),
                          MakeBooleanChecker())
            .AddTraceSource("Selected",
                            "Paths that were chosen",
                            MakeTraceSourceAccessor(&NvmeMultipath::m_selected),
                            "ns3::NvmeMultipath::SelectedCallback");
    return tid;
}

NvmeMultipath::NvmeMultipath() = default;

void
NvmeMultipath::DoDispose()
{
    for (auto& path : m_paths)
    {
        path.controller->SetPathCallbacks(nullptr, nullptr);
    }
    m_paths.clear();
    m_requeue.clear();
    Object::DoDispose();
}

void
NvmeMultipath::AddPath(Ptr<NvmeTcpController> controller)
{
    const auto number = static_cast<uint32_t>(m_paths.size());
    m_paths.push_back({controller, {}});
    controller->SetPathCallbacks([this, number](Ptr<NvmeBio> bio) { FailOver(number, bio); },
                                 [this, number] {
                                     if (!IsUsable(number))
                                     {
                                         std::erase_if(m_current, [number](const auto& entry) {
                                             return entry.second == number;
                                         });
                                         m_paths[number].statistics.clear();
                                     }
                                     else
                                     {
                                         ScanPartitions();
                                     }
                                     ScheduleRequeue();
                                 });
}

void
NvmeMultipath::ScanPartitions()
{
    if (!m_partitionScan || std::exchange(m_scanned, true))
    {
        return;
    }
    auto bio = Create<NvmeBio>();
    bio->length = SCAN_LENGTH;
    bio->done = [](bool) {}; // a disk without partitions, whatever it holds
    Simulator::Schedule(SCAN_DELAY, [self = Ptr<NvmeMultipath>(this), bio] {
        self->m_requeue.push_back(bio);
        self->ScheduleRequeue();
    });
}

bool
NvmeMultipath::IsUsable(uint32_t path) const
{
    const auto& controller = m_paths[path].controller;
    const auto ana = controller->GetAnaState();
    return controller->GetState() == NvmeTcpController::LIVE &&
           (ana == NvmeAnaState::OPTIMIZED || ana == NvmeAnaState::NON_OPTIMIZED);
}

bool
NvmeMultipath::IsOptimized(uint32_t path) const
{
    return IsUsable(path) && m_paths[path].controller->GetAnaState() == NvmeAnaState::OPTIMIZED;
}

int32_t
NvmeMultipath::Select(const NvmeBio& bio)
{
    const uint32_t node = m_cpusPerNode ? bio.cpu / m_cpusPerNode : 0;
    switch (m_policy)
    {
    case ROUND_ROBIN:
        return SelectRoundRobin(node);
    case QUEUE_DEPTH:
        return SelectQueueDepth();
    case ADAPTIVE:
        return SelectAdaptive(GetKind(bio));
    default:
        return SelectNuma(node);
    }
}

int32_t
NvmeMultipath::FindNearest(uint32_t node)
{
    int32_t found = -1;
    auto rank = [&](int32_t path) {
        const bool near = m_paths[path].controller->GetNumaNode() == node || m_policy != NUMA;
        return std::pair(IsOptimized(path), near);
    };
    for (int32_t path = 0; path < static_cast<int32_t>(m_paths.size()); path++)
    {
        if (IsUsable(path) && (found < 0 || rank(path) > rank(found)))
        {
            found = path;
        }
    }
    if (found >= 0)
    {
        m_current[node] = found;
    }
    return found;
}

int32_t
NvmeMultipath::SelectNuma(uint32_t node)
{
    auto current = m_current.find(node);
    return current != m_current.end() && IsOptimized(current->second)
               ? static_cast<int32_t>(current->second)
               : FindNearest(node);
}

int32_t
NvmeMultipath::SelectRoundRobin(uint32_t node)
{
    auto current = m_current.find(node);
    if (current == m_current.end())
    {
        return FindNearest(node);
    }
    const uint32_t old = current->second;
    int32_t found = -1;
    for (uint32_t step = 1; step < m_paths.size(); step++)
    {
        const auto path = static_cast<uint32_t>((old + step) % m_paths.size());
        if (IsOptimized(path))
        {
            return static_cast<int32_t>(current->second = path);
        }
        if (IsUsable(path))
        {
            found = static_cast<int32_t>(path); // the last one, as Linux
        }
    }
    if (IsOptimized(old) || (found < 0 && IsUsable(old)))
    {
        return static_cast<int32_t>(old);
    }
    if (found >= 0)
    {
        current->second = found;
    }
    return found;
}

int32_t
NvmeMultipath::SelectQueueDepth()
{
    int32_t found = -1;
    auto rank = [&](uint32_t path) {
        return std::pair(!IsOptimized(path), m_paths[path].controller->GetActive());
    };
    for (uint32_t path = 0; path < m_paths.size(); path++)
    {
        if (IsUsable(path) && (found < 0 || rank(path) < rank(found)))
        {
            found = static_cast<int32_t>(path);
        }
    }
    return found;
}

NvmeMultipath::Kind
NvmeMultipath::GetKind(const NvmeBio& bio) const
{
    uint32_t bucket = 0;
    for (uint64_t size = SMALLEST_BUCKET; bucket < m_buckets - 1 && bio.length > size; bucket++)
    {
        size *= BUCKET_STEP;
    }
    uint32_t who = bio.cpu;
    if (m_scope == PER_NODE)
    {
        who = m_cpusPerNode ? bio.cpu / m_cpusPerNode : 0;
    }
    return {who, bio.write, bucket};
}

int32_t
NvmeMultipath::SelectAdaptive(const Kind& kind)
{
    const bool optimized = [this] {
        for (uint32_t path = 0; path < m_paths.size(); path++)
        {
            if (IsOptimized(path))
            {
                return true;
            }
        }
        return false;
    }();
    const auto count = static_cast<uint32_t>(m_paths.size());
    uint32_t& current = m_currentAdaptive[kind];
    // the path whose turn it is, then the others, then the first one with new credits
    for (uint32_t step = 0; step <= count; step++)
    {
        const uint32_t path = (current + step) % count;
        if (!(optimized ? IsOptimized(path) : IsUsable(path)))
        {
            continue;
        }
        auto& statistics = m_paths[path].statistics[kind];
        if (step && !statistics.credits)
        {
            statistics.credits = std::max(statistics.weight, 1U);
        }
        if (statistics.credits)
        {
            statistics.credits--;
            current = path;
            return static_cast<int32_t>(path);
        }
    }
    return -1;
}

void
NvmeMultipath::AddSample(uint32_t path, const Kind& kind, Time latency)
{
    if (latency > LONGEST_SAMPLE || latency.IsZero() || m_paths.size() == 1)
    {
        return;
    }
    auto& own = m_paths[path].statistics[kind];
    const Time now = Simulator::Now();
    own.batch += latency;
    own.count++;
    // the first weights come with the first samples
    if (own.weight && now - own.updated < m_weightInterval)
    {
        return;
    }
    const Time average = own.batch / static_cast<int64_t>(own.count);
    const int64_t parts = int64_t{1} << m_ewmaShift;
    own.smoothed = own.smoothed.IsZero() ? average : (own.smoothed * (parts - 1) + average) / parts;
    own.updated = now;
    own.batch = Time(0);
    own.count = 0;
    double total = 0;
    for (auto& other : m_paths)
    {
        const Time smoothed = other.statistics[kind].smoothed;
        total += smoothed.IsZero() ? 0 : 1 / smoothed.GetSeconds();
    }
    for (auto& other : m_paths)
    {
        auto& statistics = other.statistics[kind];
        if (!statistics.smoothed.IsZero())
        {
            const double share = 1 / statistics.smoothed.GetSeconds() / total;
            statistics.weight = std::max(1U, static_cast<uint32_t>(share * WEIGHTS));
        }
    }
}

uint32_t
NvmeMultipath::GetWeight(uint32_t path, bool write, uint32_t cpu, uint32_t length) const
{
    NvmeBio bio;
    bio.write = write;
    bio.cpu = cpu;
    bio.length = length;
    const auto& statistics = m_paths.at(path).statistics;
    auto found = statistics.find(GetKind(bio));
    return found == statistics.end() ? 0 : found->second.weight;
}

bool
NvmeMultipath::SubmitWhole(Ptr<NvmeBio> bio, std::function<void()> resumed)
{
    const int32_t path = Select(*bio);
    if (path < 0)
    {
        const bool hope = std::any_of(m_paths.begin(), m_paths.end(), [](const Path& other) {
            return other.controller->GetState() != NvmeTcpController::DELETED;
        });
        if (hope)
        {
            m_requeue.push_back(bio);
        }
        else
        {
            bio->done(false);
        }
        return true;
    }
    m_selected(path, bio);
    if (m_policy == ADAPTIVE)
    {
        auto sent = Create<NvmeBio>(*bio);
        sent->done = [this, path, bio, start = Simulator::Now()](bool ok) {
            if (ok && static_cast<uint32_t>(path) < m_paths.size())
            {
                AddSample(path, GetKind(*bio), Simulator::Now() - start);
            }
            bio->done(ok);
        };
        return m_paths[path].controller->Submit(sent, std::move(resumed));
    }
    return m_paths[path].controller->Submit(bio, std::move(resumed));
}

bool
NvmeMultipath::Submit(Ptr<NvmeBio> bio, std::function<void()> resumed)
{
    uint32_t limit = 0;
    for (const auto& path : m_paths)
    {
        const uint32_t max = path.controller->GetMaxTransfer();
        limit = limit && max ? std::min(limit, max) : std::max(limit, max);
    }
    if (!limit || bio->length <= limit)
    {
        return SubmitWhole(bio, std::move(resumed));
    }

    // pieces, of which each may have to wait for a tag
    struct Split
    {
        uint32_t next{0};
        uint32_t left{0};
        bool ok{true};
        std::function<bool(bool)> go;
    };

    auto split = std::make_shared<Split>();
    split->left = (bio->length + limit - 1) / limit;
    split->go = [this, split, bio, limit, resumed](bool slept) {
        while (split->next < bio->length)
        {
            auto piece = Create<NvmeBio>(*bio);
            piece->offset = bio->offset + split->next;
            piece->length = std::min(limit, bio->length - split->next);
            split->next += piece->length;
            piece->done = [split, bio](bool ok) {
                split->ok = split->ok && ok;
                if (--split->left == 0)
                {
                    bio->done(split->ok);
                }
            };
            if (!SubmitWhole(piece, [split] { split->go(true); }))
            {
                return false;
            }
        }
        auto last = std::exchange(split->go, nullptr); // ends the cycle of references
        if (slept)
        {
            resumed();
        }
        return true;
    };
    return std::function(split->go)(false);
}

void
NvmeMultipath::FailOver(uint32_t path, Ptr<NvmeBio> bio)
{
    NS_LOG_INFO(Simulator::Now().As(Time::S) << " fail-over from path " << path);
    std::erase_if(m_current, [path](const auto& entry) { return entry.second == path; });
    m_requeue.push_back(bio);
    ScheduleRequeue();
}

void
NvmeMultipath::ScheduleRequeue()
{
    if (!m_requeuePending && !m_requeueBlocked && !m_requeue.empty())
    {
        m_requeuePending = true;
        Simulator::ScheduleNow([self = Ptr<NvmeMultipath>(this)] {
            self->m_requeuePending = false;
            self->Requeue();
        });
    }
}

void
NvmeMultipath::Requeue()
{
    std::deque<Ptr<NvmeBio>> waiting;
    waiting.swap(m_requeue); // what finds no path comes back to the list
    while (!waiting.empty())
    {
        Ptr<NvmeBio> bio = waiting.front();
        waiting.pop_front();
        auto resumed = [self = Ptr<NvmeMultipath>(this)] {
            self->m_requeueBlocked = false;
            self->ScheduleRequeue();
        };
        if (!SubmitWhole(bio, resumed))
        {
            m_requeueBlocked = true;
            m_requeue.insert(m_requeue.begin(), waiting.begin(), waiting.end());
            return;
        }
    }
}

std::vector<Ptr<NvmeTcpController>>
NvmeMultipath::GetPaths() const
{
    std::vector<Ptr<NvmeTcpController>> controllers;
    for (const auto& path : m_paths)
    {
        controllers.push_back(path.controller);
    }
    return controllers;
}

uint32_t
NvmeMultipath::GetRequeued() const
{
    return static_cast<uint32_t>(m_requeue.size());
}

} // namespace ns3
