/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_SOCKET_FACTORY_H
#define TCP_LINUX_SOCKET_FACTORY_H

#include "ns3/object-factory.h"
#include "ns3/socket-factory.h"

namespace ns3
{

class Node;
class NodeContainer;
class TcpSocketBase;

/**
 * @ingroup nvme-mptcp
 * Makes TcpLinuxSocket (or a subclass) for `Socket::CreateSocket(node, TypeId of this class)`,
 * beside ns-3's own TcpSocketFactory. TcpL4Protocol::CreateSocket can't: it names the class.
 */
class TcpLinuxSocketFactory : public SocketFactory
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    /**
     * Aggregate a factory, and a TcpFlowTable, to each node that has none yet. The internet stack
     * must be installed.
     * @param nodes the nodes
     */
    static void Install(const NodeContainer& nodes);

    /**
     * Make a socket of a given class, with its congestion control, known to the node's
     * TcpL4Protocol once it binds.
     * @param node the node, with an internet stack
     * @param socketType TcpSocketBase or a subclass
     * @param congestionType TcpCongestionOps or a subclass
     * @return the socket
     */
    static Ptr<TcpSocketBase> Create(Ptr<Node> node, TypeId socketType, TypeId congestionType);

    Ptr<Socket> CreateSocket() override;

  private:
    TypeId m_socketType;     //!< class of the sockets
    TypeId m_congestionType; //!< class of their congestion control
};

} // namespace ns3

#endif // TCP_LINUX_SOCKET_FACTORY_H
