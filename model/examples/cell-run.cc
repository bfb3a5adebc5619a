/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "cell-run.h"

#include "ns3/double.h"
#include "ns3/pointer.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <sys/resource.h>

using namespace ns3;

namespace cell
{

namespace
{

constexpr double MIB = 1 << 20;
constexpr uint32_t PROGRESS_STEPS = 10;

// In the lab, fio starts about a second after the first connection was made.
const Time CONNECT_TIME = Seconds(1);
const Time CONNECT_LIMIT = Seconds(120);
// A controller is given up after 600 s: whatever hasn't ended by then never will.
const Time DRAIN_LIMIT = Seconds(700);

std::string
Subsystem(uint32_t host)
{
    return "nqn.2026-11.org.example:nvmptcp" + (host ? "-" + std::to_string(host + 1) : "");
}

const char*
SocketFactory(bool mptcp)
{
    return mptcp ? "ns3::MptcpSocketFactory" : "ns3::TcpLinuxSocketFactory";
}

Ptr<RandomVariableStream>
ServiceTime(const Device& device, double mean)
{
    if (mean == 0)
    {
        return nullptr;
    }
    const double seconds = mean / 1e6;
    if (device.distribution == "exponential")
    {
        return CreateObjectWithAttributes<ExponentialRandomVariable>("Mean", DoubleValue(seconds));
    }
    if (device.distribution == "lognormal")
    {
        const double mu = std::log(seconds) - device.sigma * device.sigma / 2;
        return CreateObjectWithAttributes<LogNormalRandomVariable>("Mu",
                                                                   DoubleValue(mu),
                                                                   "Sigma",
                                                                   DoubleValue(device.sigma));
    }
    return CreateObjectWithAttributes<ConstantRandomVariable>("Constant", DoubleValue(seconds));
}

double
Rounded(double value, int digits)
{
    const double unit = std::pow(10, digits);
    return std::round(value * unit) / unit;
}

} // namespace

Run::Run(const Settings& settings)
    : m_settings(settings),
      m_network(settings),
      m_output(settings, m_network),
      m_counters(m_network),
      m_helper(SocketFactory(settings.association.mptcp))
{
    for (const auto& [name, value] : settings.association.connectOptions)
    {
        m_helper.SetAttribute(name, StringValue(value));
    }
    m_helper.SetAttribute("IoPolicy", StringValue(settings.association.ioPolicy));
    const auto& fio = settings.fio;
    const bool write = fio.rw == "write" || fio.rw == "randwrite";
    const bool mixed = fio.rw == "rw" || fio.rw == "randrw";
    const double jobs = fio.jobs * static_cast<double>(settings.association.hosts);
    m_helper.SetAttribute("Direction", StringValue(mixed ? "rw" : write ? "write" : "read"));
    m_helper.SetAttribute("Random", StringValue(fio.rw.starts_with("rand") ? "true" : "false"));
    m_helper.SetAttribute("ReadPercent", UintegerValue(fio.readPercent));
    m_helper.SetAttribute("BlockSize", UintegerValue(fio.blockSize));
    m_helper.SetAttribute("IoDepth", UintegerValue(fio.ioDepth));
    m_helper.SetAttribute("Runtime", TimeValue(Seconds(fio.runtime)));
    m_helper.SetAttribute("Rate", DoubleValue(fio.rate / jobs));
    BuildTarget();
    ConnectHosts();
}

void
Run::BuildTarget()
{
    if (const auto& device = m_settings.device)
    {
        if (auto time = ServiceTime(*device, device->read))
        {
            m_helper.SetAttribute("ReadTime", PointerValue(time));
        }
        if (auto time = ServiceTime(*device, device->write))
        {
            m_helper.SetAttribute("WriteTime", PointerValue(time));
        }
        m_helper.SetAttribute("Channels", UintegerValue(device->parallelism));
    }
    m_target = m_helper.InstallTarget(m_network.GetTarget(), m_network.GetPorts());
    for (uint32_t host = 0; host < m_settings.association.hosts; host++)
    {
        m_helper.AddSubsystem(m_target, Subsystem(host));
    }
}

void
Run::ConnectHosts()
{
    const auto& association = m_settings.association;
    for (uint32_t host = 0; host < association.hosts; host++)
    {
        const bool plain = host >= association.hosts - association.tcpHosts;
        m_helper.SetSocketFactory(SocketFactory(association.mptcp && !plain));
        m_disks.push_back(m_helper.Connect(m_network.GetHost(host),
                                           m_network.GetPorts(),
                                           Subsystem(host),
                                           association.controllersPerPath));
    }
}

bool
Run::AllLive() const
{
    for (const auto& disk : m_disks)
    {
        for (const auto& controller : disk->GetPaths())
        {
            if (controller->GetState() != NvmeTcpController::LIVE)
            {
                return false;
            }
        }
    }
    return true;
}

void
Run::StartWhenLive()
{
    if (AllLive())
    {
        StartFio();
    }
    else if (Simulator::Now() > CONNECT_LIMIT)
    {
        m_failure = "not all controllers could be connected";
        Simulator::Stop();
    }
    else
    {
        Simulator::Schedule(MilliSeconds(10), &Run::StartWhenLive, this);
    }
}

void
Run::StartFio()
{
    m_start = Simulator::Now();
    m_counters.Start();
    std::map<Ptr<Node>, Ptr<NvmeCpu>> cpus; // the lab's machines have one each
    Ptr<UniformRandomVariable> late;
    if (m_settings.fabric && m_settings.fabric->startWithin > 0)
    {
        late = CreateObjectWithAttributes<UniformRandomVariable>(
            "Max",
            DoubleValue(m_settings.fabric->startWithin));
    }
    for (uint32_t host = 0; host < m_disks.size(); host++)
    {
        auto& cpu = cpus[m_network.GetHost(host)];
        cpu = cpu ? cpu : Create<NvmeCpu>();
        const Time start = m_start + MicroSeconds(1) * (late ? late->GetValue() : 0);
        m_jobs.push_back(m_helper.InstallJobs(m_disks[host], m_settings.fio.jobs, start, cpu));
        for (const auto& job : m_jobs.back())
        {
            job->SetBlockSizes(m_settings.fio.split);
            if (m_settings.fio.timeline)
            {
                job->TraceConnectWithoutContext(
                    "Completed",
                    Callback<void, Time, uint32_t, bool>(
                        [this](Time latency, uint32_t bytes, bool) {
                            m_completions.push_back({(Simulator::Now() - m_start).GetMilliSeconds(),
                                                     latency.GetSeconds() * 1e3,
                                                     bytes});
                        }));
            }
        }
    }
    for (const auto& event : m_settings.events)
    {
        Simulator::Schedule(Seconds(event.at), [this, &event] { m_network.Apply(event); });
    }
    Simulator::Schedule(Seconds(m_settings.fio.runtime), &Run::StopWhenDone, this);
    Report();
}

void
Run::Report()
{
    const Time gone = Simulator::Now() - m_start;
    std::cerr << "nvme-mptcp-cell: " << gone.GetSeconds() << " of " << m_settings.fio.runtime
              << " s\n";
    if (gone < Seconds(m_settings.fio.runtime))
    {
        Simulator::Schedule(Seconds(m_settings.fio.runtime / PROGRESS_STEPS), &Run::Report, this);
    }
}

void
Run::StopWhenDone()
{
    bool done = true;
    for (const auto& jobs : m_jobs)
    {
        done = done &&
               std::all_of(jobs.begin(), jobs.end(), [](const auto& job) { return job->IsDone(); });
    }
    if (done)
    {
        Simulator::Stop();
    }
    else if (Simulator::Now() - m_start > Seconds(m_settings.fio.runtime) + DRAIN_LIMIT)
    {
        m_failure = "fio doesn't end: I/Os are neither completed nor given up";
        Simulator::Stop();
    }
    else
    {
        Simulator::Schedule(MilliSeconds(1), &Run::StopWhenDone, this);
    }
}

nlohmann::json
Run::Measure()
{
    const auto begin = std::chrono::steady_clock::now();
    Simulator::Schedule(CONNECT_TIME, &Run::StartWhenLive, this);
    Simulator::Run();
    if (m_failure.empty() && m_jobs.empty())
    {
        m_failure = "the simulation ended before fio started";
    }
    if (!m_failure.empty())
    {
        throw Failure(m_failure);
    }
    auto result = Figures();
    result["subflows"][m_settings.fio.rw] = m_counters.GetSubflows();
    result["counters"][m_settings.fio.rw] = m_counters.Get();
    if (m_settings.fio.timeline)
    {
        result["timelines"][m_settings.fio.rw] = Timeline();
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    result["simulator"] = {{"events", Simulator::GetEventCount()},
                           {"wall_seconds", wall.count()},
                           {"peak_memory_kib", usage.ru_maxrss}};
    return result;
}

nlohmann::json
Run::Figures() const
{
    nlohmann::json figures;
    auto& hosts = figures["host_mib_s"][m_settings.fio.rw];
    hosts = nlohmann::json::array();
    for (const auto& jobs : m_jobs)
    {
        uint64_t bytes = 0;
        for (const auto& job : jobs)
        {
            if (job->GetErrors())
            {
                throw Failure("fio: an I/O failed: no path to the target is left");
            }
            bytes += job->GetBytes(false) + job->GetBytes(true);
        }
        hosts.push_back(Rounded(static_cast<double>(bytes) / MIB / m_settings.fio.runtime, 2));
    }
    for (const bool write : {false, true})
    {
        FioLatency latency;
        uint64_t bytes = 0;
        Time runtime;
        for (const auto& jobs : m_jobs)
        {
            for (const auto& job : jobs)
            {
                latency.Merge(job->GetLatency(write));
                bytes += job->GetBytes(write);
                runtime = std::max(runtime, job->GetRuntime());
            }
        }
        const std::string name = write ? "write" : "read";
        figures[name + "_mib_s"] = nullptr;
        figures[name + "_iops"] = nullptr;
        figures[name + "_latency_ms"] = nullptr;
        if (!latency.GetCount())
        {
            continue;
        }
        const double seconds = std::ceil(runtime.GetSeconds() * 1e3) / 1e3; // fio counts ms
        figures[name + "_mib_s"] = static_cast<double>(bytes) / MIB / seconds;
        figures[name + "_iops"] = static_cast<double>(latency.GetCount()) / seconds;
        auto& ms = figures[name + "_latency_ms"];
        ms["mean"] = latency.GetMean() / 1e6;
        ms["max"] = static_cast<double>(latency.GetMax()) / 1e6;
        for (const auto& [key, percent] : {std::pair("p50", 50.0), {"p99", 99.0}, {"p99.9", 99.9}})
        {
            ms[key] = static_cast<double>(latency.GetPercentile(percent)) / 1e6;
        }
    }
    return figures;
}

nlohmann::json
Run::Timeline() const
{
    const uint32_t bin = m_settings.fio.timeline;
    const auto end = static_cast<int64_t>(std::round(m_settings.fio.runtime * 1000));
    const auto bins = static_cast<std::size_t>((end + bin - 1) / bin);
    std::vector<uint64_t> completions(bins);
    std::vector<double> bytes(bins);
    std::vector<double> sum(bins);
    std::vector<double> longest(bins);
    int64_t before = -1; // fio's first completion ends no gap
    int64_t gap = 0;
    int64_t gapAt = 0;
    auto completedAt = [&](int64_t at) {
        if (before >= 0 && at - before > gap)
        {
            gap = at - before;
            gapAt = before;
        }
        before = at;
    };
    for (const auto& completion : m_completions)
    {
        if (completion.at <= end)
        {
            completedAt(completion.at);
        }
        const auto where = static_cast<std::size_t>(completion.at / bin);
        if (where < bins) // what was drained isn't part of it
        {
            completions[where]++;
            bytes[where] += completion.bytes;
            sum[where] += completion.latency;
            longest[where] = std::max(longest[where], completion.latency);
        }
    }
    completedAt(end);
    nlohmann::json timeline = {{"bin_ms", bin},
                               {"completions", completions},
                               {"gap_ms", gap},
                               {"gap_at", static_cast<double>(gapAt) / 1e3}};
    for (std::size_t i = 0; i < bins; i++)
    {
        const double mean = completions[i] ? sum[i] / static_cast<double>(completions[i]) : 0;
        timeline["mib_s"].push_back(Rounded(bytes[i] / MIB / bin * 1000, 2));
        timeline["mean_ms"].push_back(Rounded(mean, 3));
        timeline["max_ms"].push_back(Rounded(longest[i], 3));
    }
    return timeline;
}

} // namespace cell
