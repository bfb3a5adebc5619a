/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// One of four links is slower. Prints what native multipath makes of it under each policy, and
// MPTCP with a single association.

#include "four-links.h"

#include "ns3/command-line.h"
#include "ns3/nvme-tcp-helper.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <iostream>

using namespace ns3;

namespace
{

/**
 * Run a job of reads.
 * @param policy of native multipath over TCP; empty: one association over MPTCP
 * @param rate of the slow link
 * @param trace directory for time series, in one of this policy's; empty: none
 */
void
Run(const std::string& policy, const std::string& rate, const std::string& trace)
{
    FourLinks network;
    network.Trace(trace.empty() ? "" : trace + "/" + (policy.empty() ? "mptcp" : policy));
    network.links[3].first->SetAttribute("Rate", StringValue(rate));
    network.links[3].second->SetAttribute("Rate", StringValue(rate));
    const bool mptcp = policy.empty();
    NvmeTcpHelper nvme(mptcp ? "ns3::MptcpSocketFactory" : "ns3::TcpLinuxSocketFactory");
    nvme.SetAttribute("IoPolicy", StringValue(mptcp ? "numa" : policy));
    nvme.SetAttribute("AdaptiveWeightInterval", TimeValue(MilliSeconds(100)));
    nvme.SetAttribute("BlockSize", UintegerValue(65536));
    nvme.SetAttribute("IoDepth", UintegerValue(64));
    nvme.SetAttribute("Runtime", TimeValue(Seconds(1)));
    // Where these take no time all I/Os come at once, and MPTCP gives the slow link too many.
    nvme.SetAttribute("SubmitTime", TimeValue(MicroSeconds(1)));
    nvme.SetAttribute("CommandTime", TimeValue(MicroSeconds(1)));
    network.ports.resize(mptcp ? 1 : network.ports.size());
    auto target = nvme.InstallTarget(network.nodes.Get(1), network.ports);
    nvme.AddSubsystem(target, "nqn.2026-11.org.example:policies");
    auto disk =
        nvme.Connect(network.nodes.Get(0), network.ports, "nqn.2026-11.org.example:policies");
    auto job = nvme.InstallJobs(disk, 1, Seconds(1))[0];
    Simulator::Stop(Seconds(5));
    Simulator::Run();
    std::cout << (mptcp ? "MPTCP" : policy) << ": "
              << job->GetBytes(false) / job->GetRuntime().GetSeconds() / (1 << 20) << " MiB/s, p99 "
              << job->GetLatency(false).GetPercentile(99) / 1e6 << " ms\n";
    Simulator::Destroy();
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string rate = "100Mbps";
    std::string trace;
    CommandLine cmd(__FILE__);
    cmd.AddValue("rate", "of the slow link", rate);
    cmd.AddValue("trace", "directory for time series, as CSV", trace);
    cmd.Parse(argc, argv);
    for (const char* policy : {"numa", "round-robin", "queue-depth", "adaptive", ""})
    {
        Run(policy, rate, trace);
    }
    return 0;
}
