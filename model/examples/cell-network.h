/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef CELL_NETWORK_H
#define CELL_NETWORK_H

#include "cell-settings.h"

#include "ns3/address.h"
#include "ns3/netem-device.h"
#include "ns3/node-container.h"

namespace cell
{

/// Nodes and links of a cell.
class Network
{
  public:
    /**
     * Build it.
     * @param settings of the cell; must stay
     */
    explicit Network(const Settings& settings);

    /**
     * @param host number of an NVMe host
     * @return its node; without a fabric all of them are on one
     */
    ns3::Ptr<ns3::Node> GetHost(uint32_t host) const;

    /// @return the target's node
    ns3::Ptr<ns3::Node> GetTarget() const;

    /// @return addresses of the target's ports
    std::vector<ns3::Address> GetPorts() const;

    /// @return all devices of links
    const std::vector<ns3::Ptr<ns3::NetemNetDevice>>& GetDevices() const;

    /// @return host and target
    ns3::NodeContainer GetEnds() const;

    /**
     * Let something happen.
     * @param event what
     */
    void Apply(const Event& event);

  private:
    void SetSysctls() const; ///< those of the kernel, as attributes
    void BuildLinks();       ///< one a path

    /**
     * Give both ends of a link an address, the first ones of a network.
     * @param network its number, from 1
     * @param host the host's end
     * @param target the target's end
     */
    void Assign(uint32_t network, ns3::Ptr<ns3::NetDevice> host, ns3::Ptr<ns3::NetDevice> target);

    void BuildBond();      ///< one bonding device of all links, at both ends
    void BuildFabric();    ///< switches
    void InstallSockets(); ///< MPTCP and its endpoints, or TCP

    const Settings& m_settings;
    ns3::NodeContainer m_hosts;
    ns3::NodeContainer m_target;
    std::vector<ns3::Ptr<ns3::NetemNetDevice>> m_devices;
    /// Of each path: the device that sends to the target, and the one that sends to the host
    std::vector<std::pair<ns3::Ptr<ns3::NetemNetDevice>, ns3::Ptr<ns3::NetemNetDevice>>> m_paths;
    std::vector<ns3::Address> m_hostAddresses; ///< on each path; none with a fabric
    std::vector<ns3::Address> m_ports;
};

} // namespace cell

#endif // CELL_NETWORK_H
