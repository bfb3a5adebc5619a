/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_FABRIC_HELPER_H
#define NVME_FABRIC_HELPER_H

#include "ns3/fabric-routing.h"
#include "ns3/ipv4-address.h"
#include "ns3/netem-device.h"
#include "ns3/node-container.h"

#include <functional>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Hosts, a target, and a fabric between them.
 *
 * Each has a network device for each path. Paths are numbered from 1; what a node sends to an
 * address of path i leaves by its device of path i. Nodes get an internet stack without IPv6.
 */
class NvmeFabricHelper
{
  public:
    /// Sets up a link: its end at the host, target or leaf, and its other end, nearer to the
    /// spines.
    using LinkSettings = std::function<void(Ptr<NetemNetDevice>, Ptr<NetemNetDevice>)>;
    /// The same for a link of the target or a host, with the number of its path.
    using PathSettings = std::function<void(uint32_t, Ptr<NetemNetDevice>, Ptr<NetemNetDevice>)>;

    /// Most hosts, and most paths, that the addresses have room for
    static constexpr uint32_t MAX_HOSTS = 50000;
    static constexpr uint32_t MAX_PATHS = 250; //!< see MAX_HOSTS

    /**
     * @param hosts number of hosts
     * @param paths network devices of each of them, and of the target
     */
    NvmeFabricHelper(uint32_t hosts, uint32_t paths);

    /**
     * @param settings called for each path's link of the target, with the number of the path
     */
    void SetTargetLink(PathSettings settings);

    /**
     * @param settings called for each link of a host, with the number of the path
     */
    void SetHostLink(PathSettings settings);

    /**
     * @param settings called for each link between a leaf and a spine
     */
    void SetUplink(LinkSettings settings);

    /**
     * Build a switch for each path.
     */
    void InstallSwitches();

    /**
     * Build leaves and spines. The target is at the last leaf; the hosts are at the others in turn,
     * with all of their links.
     * @param leaves number of leaves, 2 or more
     * @param spines number of spines
     */
    void InstallLeafSpine(uint32_t leaves, uint32_t spines);

    /**
     * @param host number of a host, from 0
     * @param path number of a path, from 1
     * @return the host's address on the path
     */
    static Ipv4Address GetHostAddress(uint32_t host, uint32_t path);

    /**
     * @param path number of a path, from 1
     * @return the target's address on the path
     */
    static Ipv4Address GetTargetAddress(uint32_t path);

    /// @return the hosts
    const NodeContainer& GetHosts() const;

    /// @return the target
    Ptr<Node> GetTarget() const;

    /// @return switches, or leaves and then spines
    const NodeContainer& GetSwitches() const;

    /// @return all devices, those of hosts and target first, path by path
    const std::vector<Ptr<NetemNetDevice>>& GetDevices() const;

    /**
     * Use given random number streams in all devices and hashes.
     * @param stream the first stream
     * @return number of streams used
     */
    int64_t AssignStreams(int64_t stream);

  private:
    /**
     * Make a node with an internet stack that routes by FabricRouting.
     * @param nodes where it is added
     */
    void AddNode(NodeContainer& nodes);

    /**
     * Make a link, and interfaces at its ends.
     * @param near a host, target or leaf
     * @param address of its end; that of a switch has none
     * @param far a switch, leaf or spine
     * @param settings called with both devices
     * @return numbers of both ends' interfaces
     */
    std::pair<uint32_t, uint32_t> Link(Ptr<Node> near,
                                       Ipv4Address address,
                                       Ptr<Node> far,
                                       const LinkSettings& settings);

    /**
     * Link a host's or the target's path to a switch.
     * @param node the host or target
     * @param address its address
     * @param path the path
     * @param at the switch
     * @param settings of the link
     */
    void Attach(Ptr<Node> node,
                Ipv4Address address,
                uint32_t path,
                Ptr<Node> at,
                const LinkSettings& settings);

    /**
     * @param settings of all paths; none: the links stay as they are made
     * @param path number of a path
     * @return how the link of this path is set up
     */
    static LinkSettings OfPath(const PathSettings& settings, uint32_t path);

    uint32_t m_paths;                           //!< devices of each host, and of the target
    NodeContainer m_hosts;                      //!< hosts
    NodeContainer m_target;                     //!< the target
    NodeContainer m_switches;                   //!< switches
    std::vector<Ptr<NetemNetDevice>> m_devices; //!< all devices
    std::vector<Ptr<FabricRouting>> m_routings; //!< of all nodes
    PathSettings m_targetLink;                  //!< sets up the target's links
    PathSettings m_hostLink;                    //!< sets up the hosts' links
    LinkSettings m_uplink;                      //!< sets up links between leaf and spine
};

} // namespace ns3

#endif // NVME_FABRIC_HELPER_H
