/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NVME_TCP_HELPER_H
#define NVME_TCP_HELPER_H

#include "ns3/address.h"
#include "ns3/fio-job.h"
#include "ns3/nvme-multipath.h"
#include "ns3/nvme-tcp-target.h"
#include "ns3/object-factory.h"

#include <string>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Installs targets, connects hosts to them, and runs fio jobs there.
 */
class NvmeTcpHelper
{
  public:
    static constexpr uint16_t PORT = 4420; ///< of NVMe/TCP

    /**
     * @param socketFactory of hosts and targets, such as ns3::MptcpSocketFactory
     */
    explicit NvmeTcpHelper(const std::string& socketFactory);

    /**
     * Use another socket factory from now on.
     * @param socketFactory its name
     */
    void SetSocketFactory(const std::string& socketFactory);

    /**
     * Set an attribute of what is made from now on.
     * @param name of an attribute of NvmeTcpController, NvmeMultipath, NvmeTcpTarget, NvmeDevice or
     *        FioJob
     * @param value its value
     */
    void SetAttribute(const std::string& name, const AttributeValue& value);

    /**
     * Make a target with a port on each address.
     * @param node where
     * @param addresses of its ports, each an Ipv4Address or Ipv6Address
     * @return the target; it has no subsystem yet
     */
    Ptr<NvmeTcpTarget> InstallTarget(Ptr<Node> node, const std::vector<Address>& addresses);

    /**
     * Give a target a subsystem with a namespace.
     * @param target the target
     * @param name NQN
     * @return what the namespace lies on
     */
    Ptr<NvmeDevice> AddSubsystem(Ptr<NvmeTcpTarget> target, const std::string& name);

    /**
     * Connect a host, when the simulation starts.
     * @param host the host
     * @param addresses of the target's ports, each an Ipv4Address or Ipv6Address
     * @param subsystem NQN
     * @param perAddress controllers for each of them
     * @return the block device
     */
    Ptr<NvmeMultipath> Connect(Ptr<Node> host,
                               const std::vector<Address>& addresses,
                               const std::string& subsystem,
                               uint32_t perAddress = 1);

    /**
     * Make fio jobs that start at a given time.
     * @param disk the block device
     * @param count how many, on CPUs 0, 1, …
     * @param start when
     * @param shared the CPU that all of them share; none: each has one of its own
     * @return the jobs
     */
    std::vector<Ptr<FioJob>> InstallJobs(Ptr<NvmeMultipath> disk,
                                         uint32_t count,
                                         Time start,
                                         Ptr<NvmeCpu> shared = nullptr);

  private:
    /**
     * Make an object, with its attributes.
     * @tparam T its class
     * @return the object
     */
    template <typename T>
    Ptr<T> Make() const;

    TypeId m_socketFactory; ///< of hosts and targets
    std::vector<std::pair<std::string, Ptr<const AttributeValue>>>
        m_attributes;    ///< of what is made
    uint32_t m_hosts{0}; ///< connected so far
};

} // namespace ns3

#endif // NVME_TCP_HELPER_H
