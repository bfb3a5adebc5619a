/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_PCAP_HELPER_H
#define MPTCP_PCAP_HELPER_H

#include "ns3/trace-helper.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Writes what NetemNetDevice and PointToPointNetDevice send and receive to capture files, with the
 * MPTCP options, the option layout and the checksums that the packets would have on the wire
 * (GetTcpWireImage()). Times are in nanoseconds. A NetemNetDevice's packets get an Ethernet header,
 * as on a veth.
 *
 * A packet is written when it leaves the sender's queue and when it arrives, as tcpdump on a veth
 * sees it; what netem drops is not.
 */
class MptcpPcapHelper : public PcapHelperForDevice
{
  public:
    /**
     * Write each GSO packet as segments of the link's MTU, or whole, as captures of a sender with
     * segmentation offload show it (the default). For files that are opened from now on.
     * @param sliced whether to write segments
     */
    void SetSliced(bool sliced);

    /**
     * Write only the first bytes of each packet. For files that are opened from now on.
     * @param bytes most bytes of a packet, with that of the link; 262144 by default
     */
    void SetSnapLength(uint32_t bytes);

  private:
    void EnablePcapInternal(std::string prefix,
                            Ptr<NetDevice> device,
                            bool promiscuous,
                            bool explicitFilename) override;

    bool m_sliced{false};            //!< write segments of GSO packets
    uint32_t m_snapLength{1U << 18}; //!< most bytes of a packet that are written
};

} // namespace ns3

#endif // MPTCP_PCAP_HELPER_H
