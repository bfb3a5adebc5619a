/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_SOCKET_FACTORY_H
#define MPTCP_SOCKET_FACTORY_H

#include "ns3/socket-factory.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Makes MptcpSocket for `Socket::CreateSocket(node, TypeId of this class)`. Aggregate it to the
 * node; MptcpHelper does.
 */
class MptcpSocketFactory : public SocketFactory
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    Ptr<Socket> CreateSocket() override;
};

} // namespace ns3

#endif // MPTCP_SOCKET_FACTORY_H
