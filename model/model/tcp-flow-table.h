/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_FLOW_TABLE_H
#define TCP_FLOW_TABLE_H

#include "ns3/ip-l4-protocol.h"
#include "ns3/ipv4-address.h"

#include <map>
#include <tuple>
#include <vector>

namespace ns3
{

class Node;
class TcpL4Protocol;
class TcpLinuxSocket;

/**
 * @ingroup nvme-mptcp
 * Finds the connection of a TCP packet by its addresses and ports in one step. ns-3's own
 * Ipv4EndPointDemux tries all connections of the node for each packet, which with thousands of them
 * is most of what a simulation costs. It stands before the node's TcpL4Protocol, which gets all
 * that isn't here: IPv6, handshakes, sockets of other classes.
 */
class TcpFlowTable : public IpL4Protocol
{
  public:
    /// Local address and port, and the peer's
    typedef std::tuple<Ipv4Address, uint16_t, Ipv4Address, uint16_t> Flow;

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    /**
     * Put a table before the TCP of a node that has none yet.
     * @param node the node, with an internet stack
     */
    static void Install(Ptr<Node> node);

    /**
     * Have a connection's packets handed to its socket.
     * @param flow the connection; it takes the place of an older one that has ended
     * @param socket the socket, which removes itself before it goes
     */
    void Add(const Flow& flow, TcpLinuxSocket* socket);

    /**
     * @param flow as it was added
     * @param socket as well; where another one has taken its place nothing happens
     */
    void Remove(const Flow& flow, const TcpLinuxSocket* socket);

    /**
     * @return the sockets of all connections here
     */
    std::vector<Ptr<TcpLinuxSocket>> GetSockets() const;

    /**
     * @return packets that went to a socket without a search
     */
    uint64_t GetFound() const;

    int GetProtocolNumber() const override;
    RxStatus Receive(Ptr<Packet> p,
                     const Ipv4Header& header,
                     Ptr<Ipv4Interface> incomingInterface) override;
    RxStatus Receive(Ptr<Packet> p,
                     const Ipv6Header& header,
                     Ptr<Ipv6Interface> incomingInterface) override;
    using IpL4Protocol::ReceiveIcmp; // of IPv6: it never comes here
    void ReceiveIcmp(Ipv4Address icmpSource,
                     uint8_t icmpTtl,
                     uint8_t icmpType,
                     uint8_t icmpCode,
                     uint32_t icmpInfo,
                     Ipv4Address payloadSource,
                     Ipv4Address payloadDestination,
                     const uint8_t payload[8]) override;
    void SetDownTarget(DownTargetCallback cb) override;
    void SetDownTarget6(DownTargetCallback6 cb) override;
    DownTargetCallback GetDownTarget() const override;
    DownTargetCallback6 GetDownTarget6() const override;

  protected:
    void DoDispose() override;

  private:
    Ptr<TcpL4Protocol> m_tcp;                  ///< the node's TCP
    std::map<Flow, TcpLinuxSocket*> m_sockets; ///< of connections
    uint64_t m_found{0};                       ///< packets
};

} // namespace ns3

#endif // TCP_FLOW_TABLE_H
