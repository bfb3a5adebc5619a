/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "cell-output.h"

#include "ns3/mptcp-pcap-helper.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace cell
{

namespace
{

/**
 * Look whether files can be made in a directory.
 * @param key what asks for them
 * @param directory the directory
 * @throws BadInput if they can't
 */
void
CheckDirectory(const std::string& key, const std::filesystem::path& directory)
{
    if (access(directory.c_str(), W_OK | X_OK) != 0 || !std::filesystem::is_directory(directory))
    {
        const int error = errno ? errno : ENOTDIR;
        throw BadInput(key + ": no files can be made in " + directory.string() + ": " +
                       std::strerror(error));
    }
}

} // namespace

Output::Output(const Settings& settings, const Network& network)
{
    if (!settings.pcap.empty())
    {
        const auto directory = std::filesystem::path(settings.pcap).parent_path();
        CheckDirectory("output.pcap", directory.empty() ? "." : directory);
        ns3::MptcpPcapHelper pcap;
        for (const auto& device : network.GetDevices())
        {
            pcap.EnablePcap(settings.pcap, device);
        }
    }
    if (!settings.trace.empty())
    {
        CheckDirectory("output.trace", settings.trace);
        m_trace = std::make_unique<ns3::MptcpTraceHelper>(settings.trace, ns3::MilliSeconds(10));
        m_trace->Start();
    }
}

} // namespace cell
