/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// A first example: one NVMe/TCP association over four links. With MPTCP its I/O queue, one
// connection, uses all of them; with --mptcp=false only the first.

#include "four-links.h"

#include "ns3/command-line.h"
#include "ns3/nvme-tcp-helper.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <iostream>

using namespace ns3;

int
main(int argc, char* argv[])
{
    bool mptcp = true;
    std::string trace;
    uint32_t depth = 32;
    CommandLine cmd(__FILE__);
    cmd.AddValue("mptcp", "MPTCP, or plain TCP", mptcp);
    cmd.AddValue("depth", "I/Os under way", depth);
    cmd.AddValue("trace", "directory for time series, as CSV", trace);
    cmd.Parse(argc, argv);

    FourLinks network;
    network.Trace(trace);
    NvmeTcpHelper nvme(mptcp ? "ns3::MptcpSocketFactory" : "ns3::TcpLinuxSocketFactory");
    nvme.SetAttribute("BlockSize", UintegerValue(131072));
    nvme.SetAttribute("IoDepth", UintegerValue(depth));
    nvme.SetAttribute("Runtime", TimeValue(Seconds(1)));
    const std::vector<Address> port = {network.ports[0]};
    auto target = nvme.InstallTarget(network.nodes.Get(1), port);
    nvme.AddSubsystem(target, "nqn.2026-11.org.example:first");
    auto disk = nvme.Connect(network.nodes.Get(0), port, "nqn.2026-11.org.example:first");
    auto job = nvme.InstallJobs(disk, 1, Seconds(1))[0];
    Simulator::Stop(Seconds(3));
    Simulator::Run();

    const auto& latency = job->GetLatency(false);
    std::cout << job->GetBytes(false) / job->GetRuntime().GetSeconds() / (1 << 20)
              << " MiB/s, median latency " << latency.GetPercentile(50) / 1e6 << " ms, p99 "
              << latency.GetPercentile(99) / 1e6 << " ms\n";
    Simulator::Destroy();
    return 0;
}
