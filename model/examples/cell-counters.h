/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef CELL_COUNTERS_H
#define CELL_COUNTERS_H

#include "cell-network.h"

#include "ns3/mptcp-socket.h"
#include "ns3/tcp-linux-socket.h"

#include <map>
#include <nlohmann/json.hpp>

namespace cell
{

/// What the lab reads from ss(8), tc(8) and nstat(8).
class Counters
{
  public:
    /**
     * @param network whose packets to count; must stay
     */
    explicit Counters(const Network& network);

    /**
     * Count from now on.
     */
    void Start();

    /// @return by name: packets (segments), bytes and drops of netem, TCP's and MPTCP's counters
    nlohmann::json Get();

    /// @return bytes of each connection, or subflow, that the hosts have at the end
    nlohmann::json GetSubflows() const;

  private:
    /// Counters of a socket
    struct Values
    {
        uint64_t sent{0};          ///< bytes, those sent again counted again
        uint64_t received{0};      ///< bytes
        uint64_t retransmitted{0}; ///< segments
        uint64_t timeouts{0};      ///< retransmission time-outs
    };

    static Values Read(ns3::Ptr<ns3::TcpLinuxSocket> socket); ///< @param socket its values
    void Collect(); ///< find the sockets that are there, and look again later

    const Network& m_network;
    bool m_counting{false};
    uint64_t m_packets{0};
    uint64_t m_bytes{0};
    uint64_t m_drops{0};
    std::map<ns3::Ptr<ns3::TcpLinuxSocket>, Values> m_sockets;    ///< with the values at the start
    std::map<ns3::Ptr<ns3::MptcpSocket>, uint64_t> m_connections; ///< the same, of reinjections
};

} // namespace cell

#endif // CELL_COUNTERS_H
