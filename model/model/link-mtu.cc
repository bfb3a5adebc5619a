/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "link-mtu.h"

#include "bonding-net-device.h"
#include "netem-device.h"

#include <algorithm>

namespace ns3
{

uint16_t
GetLinkMtu(Ptr<NetDevice> device)
{
    if (auto netem = DynamicCast<NetemNetDevice>(device))
    {
        return netem->GetLinkMtu();
    }
    uint16_t mtu = device->GetMtu();
    if (auto bonding = DynamicCast<BondingNetDevice>(device))
    {
        for (const auto& slave : bonding->GetSlaves())
        {
            mtu = std::min(mtu, GetLinkMtu(slave));
        }
    }
    return mtu;
}

} // namespace ns3
