/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-trace-helper.h"

#include "ns3/abort.h"
#include "ns3/inet-socket-address.h"
#include "ns3/inet6-socket-address.h"
#include "ns3/mptcp-socket.h"
#include "ns3/mptcp-subflow.h"
#include "ns3/node-list.h"
#include "ns3/object-vector.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-linux-socket.h"

#include <sstream>

namespace ns3
{

namespace
{

/**
 * Print an address and a port.
 * @param os the stream
 * @param address the address
 */
void
PrintAddress(std::ostream& os, const Address& address)
{
    if (InetSocketAddress::IsMatchingType(address))
    {
        const auto ipv4 = InetSocketAddress::ConvertFrom(address);
        os << ipv4.GetIpv4() << ':' << ipv4.GetPort();
    }
    else
    {
        const auto ipv6 = Inet6SocketAddress::ConvertFrom(address);
        os << '[' << ipv6.GetIpv6() << "]:" << ipv6.GetPort();
    }
}

/**
 * Name a socket's flow.
 * @param socket the socket
 * @return "address:port > address:port"; empty if it has no peer
 */
std::string
GetFlow(const TcpLinuxSocket& socket)
{
    Address local;
    Address remote;
    if (socket.GetSockName(local) != 0 || socket.GetPeerName(remote) != 0)
    {
        return {};
    }
    std::ostringstream name;
    PrintAddress(name, local);
    name << " > ";
    PrintAddress(name, remote);
    return name.str();
}

} // namespace

MptcpTraceHelper::MptcpTraceHelper(const std::string& directory, Time interval)
    : m_interval(interval)
{
    Open(m_window, directory + "/cwnd.csv");
    Open(m_acknowledged, directory + "/subflow_bytes.csv");
    Open(m_outOfOrder, directory + "/reorder_queue.csv");
}

MptcpTraceHelper::~MptcpTraceHelper()
{
    m_next.Cancel();
}

void
MptcpTraceHelper::Open(Series& series, const std::string& path)
{
    series.file.open(path);
    series.file.precision(9);
    series.file << "seconds,flow,value\n";
    NS_ABORT_MSG_UNLESS(series.file, "cannot write " << path);
}

void
MptcpTraceHelper::Start()
{
    m_next.Cancel();
    Sample();
}

void
MptcpTraceHelper::Series::Write(const std::string& flow, uint64_t value)
{
    const auto [entry, fresh] = last.try_emplace(flow, value);
    if (fresh || entry->second != value)
    {
        entry->second = value;
        file << Simulator::Now().GetSeconds() << ',' << flow << ',' << value << '\n';
    }
}

void
MptcpTraceHelper::Sample()
{
    for (uint32_t node = 0; node < NodeList::GetNNodes(); node++)
    {
        const auto tcp = NodeList::GetNode(node)->GetObject<TcpL4Protocol>();
        if (!tcp)
        {
            continue;
        }
        ObjectVectorValue sockets;
        tcp->GetAttribute("SocketList", sockets);
        for (auto entry = sockets.Begin(); entry != sockets.End(); entry++)
        {
            if (const auto socket = DynamicCast<TcpLinuxSocket>(entry->second))
            {
                Sample(*socket);
            }
        }
    }
    m_next = Simulator::Schedule(m_interval, [this] { Sample(); });
}

void
MptcpTraceHelper::Sample(const TcpLinuxSocket& socket)
{
    const std::string flow = GetFlow(socket);
    if (flow.empty())
    {
        return;
    }
    m_window.Write(flow, uint64_t{socket.GetCwndPackets()} * socket.GetCurrentMss());
    m_acknowledged.Write(flow, socket.GetBytesAcked());
    const auto* subflow = dynamic_cast<const MptcpSubflow*>(&socket);
    const auto* connection = subflow ? subflow->GetConnection() : nullptr;
    if (connection && !connection->GetSubflows().empty() &&
        PeekPointer(connection->GetSubflows().front()) == subflow)
    {
        m_outOfOrder.Write(flow, connection->GetOutOfOrderBytes());
    }
}

} // namespace ns3
