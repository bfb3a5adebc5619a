/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Simulates one measurement: a cell as JSON in, its figures as JSON out. nvmptcp-model writes the
// former and reads the latter.

#include "cell-run.h"

#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>

namespace
{

const char* const USAGE = R"(usage: nvme-mptcp-cell [FILE]

Simulates one measurement of NVMe/TCP over TCP or MPTCP. Reads a cell as JSON from FILE or standard
input, and prints the figures as JSON. Progress goes to standard error. Exit codes: 0 measured,
1 failed, 2 the input is wrong.

All keys but "paths" may be left out. Paths have "to_target" and "to_host", both with rate_bps,
delay_us, jitter_us, loss (0 to 1), limit (packets) and ecn_threshold, and may have "backup":

{"paths": [{"to_target": {"rate_bps": 1e9}, "to_host": {"rate_bps": 1e9, "delay_us": 100}}],
 "family": "ipv4", "mtu": 1500,
 "mptcp": {"subflows": 8, "add_addr_accepted": 8, "host_endpoints": "none",
           "target_endpoints": "signal", "scheduler": "default", "checksum": false},
 "sysctl": {"net.ipv4.tcp_rmem": "4096 131072 6291456"},
 "association": {"transport": "tcp", "ports": 1, "controllers_per_path": 1, "iopolicy": "numa",
                 "hosts": 1, "tcp_hosts": 0, "connect_options": "keep_alive_tmo=1"},
 "devices": {"bonding": "none", "gso": true},
 "fio": {"rw": "randread", "rwmixread": 50, "bs": 4096, "bssplit": [[4096, 60], [131072, 40]],
         "iodepth": 1, "numjobs": 1, "runtime": 10, "rate_bytes_s": 1e8, "timeline_ms": 10},
 "events": [{"at": 2, "path": 0, "link": "down"}],
 "seed": 1,
 "attributes": {"ns3::NvmeTcpTarget::InCapsuleDataSize": "8192"},
 "device": {"read_us": 80, "write_us": 20, "distribution": "exponential", "parallelism": 64},
 "fabric": {"kind": "leaf-spine", "leaves": 4, "spines": 2, "uplink": {"rate_bps": 1e10},
            "host_links": [{"to_target": {"rate_bps": 1e9}, "to_host": {"rate_bps": 1e9}}],
            "start_within_us": 1e5},
 "output": {"pcap": "PREFIX", "trace": "DIRECTORY"}}
)";

int
Fail(int code, const std::string& what)
{
    std::cerr << "nvme-mptcp-cell: " << what << "\n";
    return code;
}

} // namespace

int
main(int argc, char* argv[])
{
    std::set_terminate([] { std::_Exit(1); }); // ns-3's fatal errors, which have been printed
    const std::string argument = argc > 1 ? argv[1] : "-";
    if (argument == "--help" || argument == "-h")
    {
        std::cout << USAGE;
        return 0;
    }
    if (argc > 2 || (argument.starts_with("-") && argument != "-"))
    {
        return Fail(2, argument + ": give one file, or none; --help tells more");
    }
    std::ostringstream text;
    if (argument == "-")
    {
        text << std::cin.rdbuf();
    }
    else
    {
        std::ifstream file(argument);
        if (!file || !(text << file.rdbuf()))
        {
            return Fail(2, argument + ": can't be read");
        }
    }
    try
    {
        const auto settings = cell::Read(text.str());
        ns3::RngSeedManager::SetRun(settings.seed);
        cell::Run run(settings);
        std::cout << run.Measure().dump(1) << std::endl;
    }
    catch (const cell::BadInput& error)
    {
        return Fail(2, error.what());
    }
    catch (const std::exception& error)
    {
        return Fail(1, error.what());
    }
    ns3::Simulator::Destroy();
    return 0;
}
