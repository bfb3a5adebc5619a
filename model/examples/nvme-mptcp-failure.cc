/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// A link goes down for two seconds. Prints how long no I/O is completed: over native multipath
// until the keep alive timer has expired, over MPTCP until the others take over.

#include "four-links.h"

#include "ns3/command-line.h"
#include "ns3/double.h"
#include "ns3/nvme-tcp-helper.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <iostream>

using namespace ns3;

int
main(int argc, char* argv[])
{
    bool mptcp = true;
    std::string trace;
    double keepAlive = 1;
    CommandLine cmd(__FILE__);
    cmd.AddValue("mptcp", "one association over MPTCP, or native multipath over TCP", mptcp);
    cmd.AddValue("keepAlive", "keep alive timeout in s", keepAlive);
    cmd.AddValue("trace", "directory for time series, as CSV", trace);
    cmd.Parse(argc, argv);

    FourLinks network;
    network.Trace(trace);
    NvmeTcpHelper nvme(mptcp ? "ns3::MptcpSocketFactory" : "ns3::TcpLinuxSocketFactory");
    nvme.SetAttribute("IoPolicy", StringValue("round-robin"));
    nvme.SetAttribute("KeepAliveTimeout", TimeValue(Seconds(keepAlive)));
    nvme.SetAttribute("BlockSize", UintegerValue(131072));
    nvme.SetAttribute("IoDepth", UintegerValue(16));
    nvme.SetAttribute("Rate", DoubleValue(20e6));
    nvme.SetAttribute("Runtime", TimeValue(Seconds(8)));
    network.ports.resize(mptcp ? 1 : network.ports.size());
    auto target = nvme.InstallTarget(network.nodes.Get(1), network.ports);
    nvme.AddSubsystem(target, "nqn.2026-11.org.example:failure");
    auto disk =
        nvme.Connect(network.nodes.Get(0), network.ports, "nqn.2026-11.org.example:failure");
    auto job = nvme.InstallJobs(disk, 1, Seconds(1))[0];
    Time last = Seconds(1);
    Time gap;
    job->TraceConnectWithoutContext("Completed",
                                    Callback<void, Time, uint32_t, bool>([&](Time, uint32_t, bool) {
                                        gap = std::max(gap, Simulator::Now() - last);
                                        last = Simulator::Now();
                                    }));
    const auto link = network.links[1].second;
    Simulator::Schedule(Seconds(3), [link] { link->SetUp(false); });
    Simulator::Schedule(Seconds(5), [link] { link->SetUp(true); });
    Simulator::Stop(Seconds(20));
    Simulator::Run();

    std::cout << "no I/O was completed for " << gap.GetMilliSeconds() << " ms at most, "
              << job->GetErrors() << " failed\n";
    Simulator::Destroy();
    return 0;
}
