/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_HELPER_H
#define MPTCP_HELPER_H

#include "ns3/ipv4-address.h"
#include "ns3/mptcp-path-manager.h"
#include "ns3/node-container.h"
#include "ns3/object-factory.h"

#include <string>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Brings MPTCP to nodes that have an internet stack: a path manager and a socket factory.
 */
class MptcpHelper
{
  public:
    MptcpHelper();

    /**
     * Set an attribute of the path managers that Install() will make.
     * @param name its name
     * @param value its value
     */
    void Set(const std::string& name, const AttributeValue& value);

    /**
     * Bring MPTCP to nodes.
     * @param nodes the nodes
     */
    void Install(const NodeContainer& nodes) const;

    /**
     * Add an endpoint, as `ip mptcp endpoint add` does.
     * @param node the node; MPTCP must be installed
     * @param address an Ipv4Address or Ipv6Address
     * @param flags MptcpPathManager::EndpointFlags
     * @return its address ID
     */
    static uint8_t AddEndpoint(Ptr<Node> node, const Address& address, uint8_t flags);

    /**
     * Use given random number streams on nodes.
     * @param nodes the nodes
     * @param stream the first stream
     * @return number of streams used
     */
    static int64_t AssignStreams(const NodeContainer& nodes, int64_t stream);

  private:
    ObjectFactory m_factory; //!< makes path managers
};

} // namespace ns3

#endif // MPTCP_HELPER_H
