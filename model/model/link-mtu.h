/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef LINK_MTU_H
#define LINK_MTU_H

#include "ns3/net-device.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * The largest IP packet on the wire, which TCP's segment size follows from. A device's GetMtu() is
 * that of super-packets.
 * @param device any device
 * @return bytes; of a bonding device the least of its slaves
 */
uint16_t GetLinkMtu(Ptr<NetDevice> device);

} // namespace ns3

#endif // LINK_MTU_H
