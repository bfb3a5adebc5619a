/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_ADDRESS_H
#define MPTCP_ADDRESS_H

#include "ns3/inet-socket-address.h"
#include "ns3/inet6-socket-address.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * @param address an Ipv4Address or Ipv6Address
 * @param port a port
 * @return both, as sockets take them
 */
inline Address
MptcpWithPort(const Address& address, uint16_t port)
{
    if (Ipv6Address::IsMatchingType(address))
    {
        return Inet6SocketAddress(Ipv6Address::ConvertFrom(address), port);
    }
    return InetSocketAddress(Ipv4Address::ConvertFrom(address), port);
}

/**
 * @ingroup nvme-mptcp
 * @param address a socket's address
 * @return its Ipv4Address or Ipv6Address
 */
inline Address
MptcpWithoutPort(const Address& address)
{
    if (Inet6SocketAddress::IsMatchingType(address))
    {
        return Inet6SocketAddress::ConvertFrom(address).GetIpv6();
    }
    return InetSocketAddress::ConvertFrom(address).GetIpv4();
}

/**
 * @ingroup nvme-mptcp
 * @param address a socket's address
 * @return its port
 */
inline uint16_t
MptcpGetPort(const Address& address)
{
    return Inet6SocketAddress::IsMatchingType(address)
               ? Inet6SocketAddress::ConvertFrom(address).GetPort()
               : InetSocketAddress::ConvertFrom(address).GetPort();
}

} // namespace ns3

#endif // MPTCP_ADDRESS_H
