/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef FOUR_LINKS_H
#define FOUR_LINKS_H

#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/mptcp-helper.h"
#include "ns3/mptcp-trace-helper.h"
#include "ns3/netem-device.h"
#include "ns3/nstime.h"
#include "ns3/string.h"
#include "ns3/tcp-linux-socket-factory.h"
#include "ns3/uinteger.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// A host, a target, and four gigabit links between them; both ends speak TCP and MPTCP.
struct FourLinks
{
    FourLinks()
    {
        nodes.Create(2);
        ns3::InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        internet.Install(nodes);
        ns3::TcpLinuxSocketFactory::Install(nodes);
        ns3::MptcpHelper mptcp;
        mptcp.Set("Subflows", ns3::UintegerValue(8));
        mptcp.Set("AddAddrAccepted", ns3::UintegerValue(8));
        mptcp.Install(nodes);
        ns3::Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
        for (int path = 1; path <= 4; path++)
        {
            auto [host, target] = ns3::NetemNetDevice::Connect(nodes.Get(0), nodes.Get(1));
            for (const auto& device : {host, target})
            {
                device->SetAttribute("Rate", ns3::StringValue("1Gbps"));
            }
            ns3::NetDeviceContainer ends{ns3::NetDeviceContainer(host)};
            ends.Add(target);
            ports.push_back(addresses.Assign(ends).GetAddress(1));
            addresses.NewNetwork();
            links.emplace_back(host, target);
            ns3::MptcpHelper::AddEndpoint(nodes.Get(1),
                                          ports.back(),
                                          ns3::MptcpPathManager::SIGNAL);
        }
    }

    /**
     * Write time series of all connections, as CSV, until this is gone.
     * @param directory for the files; empty: none
     */
    void Trace(const std::string& directory)
    {
        if (!directory.empty())
        {
            std::filesystem::create_directories(directory);
            traces = std::make_unique<ns3::MptcpTraceHelper>(directory, ns3::MilliSeconds(10));
            traces->Start();
        }
    }

    ns3::NodeContainer nodes;        ///< host, target
    std::vector<ns3::Address> ports; ///< the target's addresses
    /// the host's and the target's end of each link
    std::vector<std::pair<ns3::Ptr<ns3::NetemNetDevice>, ns3::Ptr<ns3::NetemNetDevice>>> links;
    std::unique_ptr<ns3::MptcpTraceHelper> traces; ///< what Trace() started
};

#endif // FOUR_LINKS_H
