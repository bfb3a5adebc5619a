/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef FABRIC_ROUTING_H
#define FABRIC_ROUTING_H

#include "ns3/ipv4-route.h"
#include "ns3/ipv4-routing-protocol.h"
#include "ns3/ipv4.h"
#include "ns3/random-variable-stream.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Routing of a data centre's fabric: a table of host routes, which costs the same with thousands of
 * hosts as with one, and equal-cost multipath by flow, as switches do it: what has the same
 * addresses, protocol and ports takes the same way. Ipv4GlobalRouting has ECMP by packet, which
 * reorders.
 */
class FabricRouting : public Ipv4RoutingProtocol
{
  public:
    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    FabricRouting();
    ~FabricRouting() override;

    /**
     * Add a way to an address; several of equal cost are shared by flow.
     * @param destination the address
     * @param interface which leads there
     */
    void AddRoute(Ipv4Address destination, uint32_t interface);

    /**
     * Add a way to all other addresses; several of equal cost are shared by flow.
     * @param interface which leads there
     */
    void AddDefault(uint32_t interface);

    /**
     * Use a given random number stream for what tells this node's hash from the others'.
     * @param stream the stream
     * @return number of streams used
     */
    int64_t AssignStreams(int64_t stream);

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet> p,
                               const Ipv4Header& header,
                               Ptr<NetDevice> oif,
                               Socket::SocketErrno& sockerr) override;
    bool RouteInput(Ptr<const Packet> p,
                    const Ipv4Header& header,
                    Ptr<const NetDevice> idev,
                    const UnicastForwardCallback& ucb,
                    const MulticastForwardCallback& mcb,
                    const LocalDeliverCallback& lcb,
                    const ErrorCallback& ecb) override;
    void NotifyInterfaceUp(uint32_t interface) override;
    void NotifyInterfaceDown(uint32_t interface) override;
    void NotifyAddAddress(uint32_t interface, Ipv4InterfaceAddress address) override;
    void NotifyRemoveAddress(uint32_t interface, Ipv4InterfaceAddress address) override;
    void SetIpv4(Ptr<Ipv4> ipv4) override;
    void PrintRoutingTable(Ptr<OutputStreamWrapper> stream,
                           Time::Unit unit = Time::S) const override;

  protected:
    void DoDispose() override;

  private:
    /// Interfaces of equal cost
    using Ways = std::vector<uint32_t>;

    /**
     * @param packet what is sent, from its transport header on; may be null
     * @param header its IP header
     * @return the interface that it takes, none if there is no route
     */
    std::optional<uint32_t> Choose(Ptr<const Packet> packet, const Ipv4Header& header) const;

    /**
     * @param interface the interface
     * @return the route over it
     */
    Ptr<Ipv4Route> GetRoute(uint32_t interface);

    Ptr<Ipv4> m_ipv4;                            //!< the node's IP layer
    std::unordered_map<uint32_t, Ways> m_routes; //!< by destination
    Ways m_default;                              //!< to all others
    std::vector<Ptr<Ipv4Route>> m_made;          //!< routes, by interface
    Ptr<UniformRandomVariable> m_random;         //!< draws the salt
    mutable uint32_t m_salt{0}; //!< else all nodes would choose alike; 0: not drawn
};

} // namespace ns3

#endif // FABRIC_ROUTING_H
