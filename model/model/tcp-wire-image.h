/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_WIRE_IMAGE_H
#define TCP_WIRE_IMAGE_H

#include "ns3/packet.h"
#include "ns3/ptr.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * The bytes that an IP packet would have on the wire.
 *
 * A TCP segment gets the options of its MptcpOptionTag, and checksums. Its options are laid out as
 * Linux does. If they need more than the 40 bytes that a header has, MPTCP's go first: SACK blocks
 * that don't fit are left out, then the timestamps (Linux does so with a long ADD_ADDR). Options
 * that don't fit even so are a fatal error.
 *
 * @param packet an IPv4 or IPv6 packet
 * @param sliced whether to make segments of a GSO packet (GsoTag). Else it is one IP packet, as
 *        captures of a veth or of a sender with TSO show it; but one that is longer than an IP
 *        header can say with its MPTCP options is made segments of all the same.
 * @return the packets' bytes; a packet that isn't TCP is only given its IP header's checksum
 */
std::vector<std::vector<uint8_t>> GetTcpWireImage(Ptr<const Packet> packet, bool sliced);

} // namespace ns3

#endif // TCP_WIRE_IMAGE_H
