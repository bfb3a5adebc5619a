/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_PATH_MANAGER_H
#define MPTCP_PATH_MANAGER_H

#include "mptcp-option.h"

#include "ns3/address.h"
#include "ns3/event-id.h"
#include "ns3/nstime.h"
#include "ns3/object.h"
#include "ns3/random-variable-stream.h"
#include "ns3/type-id.h"

#include <deque>
#include <map>
#include <set>
#include <vector>

namespace ns3
{

class MptcpScheduler;
class MptcpSocket;
class MptcpSubflow;
class Node;

/**
 * @ingroup nvme-mptcp
 * An announcement that the peer hasn't confirmed.
 */
struct MptcpUnconfirmed
{
    EventId again;     //!< when to announce it again
    uint32_t tries{0}; //!< how often that was due
};

/**
 * @ingroup nvme-mptcp
 * What the path manager remembers of a connection.
 */
struct MptcpPathState
{
    bool passive{false};            //!< the connection was accepted
    std::deque<uint8_t> toAnnounce; //!< IDs of endpoints that are to be announced yet
    std::set<uint8_t> announced;    //!< IDs of endpoints that were announced
    std::map<uint8_t, MptcpUnconfirmed> unconfirmed; //!< announced, and no echo came yet: by ID
    uint32_t accepted{0};   //!< subflows opened to addresses that the peer announced
    uint32_t subflows{0};   //!< subflows opened, or accepted, besides the first
    uint16_t remotePort{0}; //!< the peer's port of the first subflow
};

/**
 * @ingroup nvme-mptcp
 * A node's in-kernel path manager, as `ip mptcp` configures Linux's, with the node's settings of
 * MPTCP (net.mptcp.*) and its connections by their tokens. Aggregate it to the node; MptcpHelper
 * does.
 */
class MptcpPathManager : public Object
{
  public:
    /// Flags of an endpoint (ip-mptcp(8)).
    enum EndpointFlags : uint8_t
    {
        SIGNAL = 1,   //!< announced with ADD_ADDR
        SUBFLOW = 2,  //!< subflows are opened from it
        BACKUP = 4,   //!< its subflows are only for when no other works
        FULLMESH = 8, //!< subflows are opened from it to each address of the peer
    };

    /// An endpoint.
    struct Endpoint
    {
        Address address; //!< an Ipv4Address or Ipv6Address
        uint8_t flags;   //!< EndpointFlags
        uint16_t port;   //!< announced port, 0 for the connection's
    };

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    MptcpPathManager();
    ~MptcpPathManager() override;

    /**
     * Add an endpoint. Established connections use it at once.
     * @param address an Ipv4Address or Ipv6Address of the node
     * @param flags EndpointFlags
     * @param port announced port, 0 for the connection's
     * @return its address ID
     */
    uint8_t AddEndpoint(const Address& address, uint8_t flags, uint16_t port = 0);

    /**
     * Remove an endpoint: peers are told (REMOVE_ADDR), its subflows closed.
     * @param id address ID
     */
    void RemoveEndpoint(uint8_t id);

    /**
     * Change whether an endpoint is a backup: peers are told (MP_PRIO).
     * @param id address ID
     * @param backup whether it is one
     */
    void SetBackup(uint8_t id, bool backup);

    /**
     * Find the endpoint of an address.
     * @param address a socket's address, whatever its port
     * @return its ID, 0 if there is none
     */
    uint8_t FindEndpoint(const Address& address) const;

    /**
     * @param id address ID
     * @return whether there is such an endpoint, and it is a backup
     */
    bool IsBackup(uint8_t id) const;

    /**
     * Use given random number streams from now on.
     * @param stream the first stream
     * @return number of streams used
     */
    int64_t AssignStreams(int64_t stream);

    /// @return whether this node speaks MPTCP (net.mptcp.enabled)
    bool IsEnabled() const;

    /// @return whether DSS checksums are asked for (net.mptcp.checksum_enabled)
    bool HasChecksum() const;

    /// @return net.mptcp.stale_loss_cnt
    uint32_t GetStaleLossCount() const;

    /// @return net.mptcp.close_timeout
    Time GetCloseTimeout() const;

    /// @return class of congestion control of the subflows
    TypeId GetCongestionControl() const;

    /// @return a new scheduler (net.mptcp.scheduler)
    Ptr<MptcpScheduler> MakeScheduler() const;

    /// @return a key whose token no connection has
    uint64_t DrawKey();

    /// @return a nonce
    uint32_t DrawNonce();

    /// @return the node
    Ptr<Node> GetNode() const;

    // what connections and subflows tell

    /**
     * A connection has a token.
     * @param token the token
     * @param connection the connection
     */
    void AddConnection(uint32_t token, Ptr<MptcpSocket> connection);

    /**
     * A connection is gone.
     * @param token its token
     */
    void RemoveConnection(uint32_t token);

    /**
     * Find a connection.
     * @param token its token
     * @return the connection, null if there is none
     */
    Ptr<MptcpSocket> FindConnection(uint32_t token) const;

    /**
     * A connection's first subflow is fully established.
     * @param connection the connection
     */
    void OnEstablished(MptcpSocket& connection);

    /**
     * Another subflow of a connection can be used.
     * @param connection the connection
     */
    void OnJoined(MptcpSocket& connection);

    /**
     * A connection ends: nothing is announced any more.
     * @param state of the connection
     */
    static void StopAnnouncing(MptcpPathState& state);

    /**
     * The peer announced an address, or confirmed one.
     * @param connection the connection
     * @param subflow where it said so
     * @param option what it said
     */
    void OnAddAddr(MptcpSocket& connection, MptcpSubflow& subflow, const MptcpAddAddr& option);

    /**
     * The peer removed addresses.
     * @param connection the connection
     * @param option what it said
     */
    void OnRemoveAddr(MptcpSocket& connection, const MptcpRemoveAddr& option);

    /**
     * Say whether one more subflow may be accepted.
     * @param connection the connection
     * @return whether the limit allows it
     */
    bool MayAccept(const MptcpSocket& connection) const;

  protected:
    void NotifyNewAggregate() override;
    void DoDispose() override;

  private:
    /**
     * Open subflows from the node's endpoints, as far as the limit allows.
     * @param connection the connection
     */
    void OpenSubflows(MptcpSocket& connection);

    /**
     * Announce the next address that waits for it.
     * @param connection the connection
     */
    void Announce(MptcpSocket& connection);

    /**
     * Announce an address.
     * @param connection the connection
     * @param id of the endpoint
     */
    void SendAddAddr(MptcpSocket& connection, uint8_t id);

    /**
     * Announce an address again, since it was not confirmed.
     * @param token the connection's token
     * @param id of the endpoint
     */
    void AnnounceAgain(uint32_t token, uint8_t id);

    /**
     * Queue an endpoint for announcement, if it is to be and wasn't.
     * @param connection the connection
     * @param id address ID
     */
    void QueueAnnouncement(MptcpSocket& connection, uint8_t id);

    /**
     * Have joins accepted at an address; does nothing if there is a listener.
     * @param address an Ipv4Address or Ipv6Address
     * @param port the port
     */
    void ListenForJoins(const Address& address, uint16_t port);

    Ptr<Node> m_node;           //!< the node
    bool m_enabled;             //!< net.mptcp.enabled
    bool m_checksum;            //!< net.mptcp.checksum_enabled
    uint32_t m_subflowLimit;    //!< ip mptcp limits set subflows
    uint32_t m_addAddrAccepted; //!< ip mptcp limits set add_addr_accepted
    uint32_t m_staleLossCount;  //!< net.mptcp.stale_loss_cnt
    Time m_addAddrTimeout;      //!< net.mptcp.add_addr_timeout
    Time m_closeTimeout;        //!< net.mptcp.close_timeout
    TypeId m_scheduler;         //!< class of schedulers
    TypeId m_congestionControl; //!< class of the subflows' congestion control

    std::map<uint8_t, Endpoint> m_endpoints;            //!< endpoints by their IDs
    uint8_t m_lastId{0};                                //!< ID given last
    std::map<uint32_t, Ptr<MptcpSocket>> m_connections; //!< connections by their tokens
    std::vector<Ptr<MptcpSubflow>> m_listeners;         //!< listeners for joins
    Ptr<UniformRandomVariable> m_random;                //!< draws keys and nonces
};

} // namespace ns3

#endif // MPTCP_PATH_MANAGER_H
