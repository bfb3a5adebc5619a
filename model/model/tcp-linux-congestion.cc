/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-linux-congestion.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(TcpLinuxCongestion);

TypeId
TcpLinuxCongestion::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::TcpLinuxCongestion").SetParent<TcpCongestionOps>().SetGroupName("NvmeMptcp");
    return tid;
}

void
TcpLinuxCongestion::SetSocketView(const SocketView&)
{
}

void
TcpLinuxCongestion::Resume(Time)
{
}

bool
TcpLinuxCongestion::Undo()
{
    return false;
}

bool
TcpLinuxCongestion::IsProbingRtt() const
{
    return false;
}

uint32_t
TcpLinuxCongestion::GetSndBufWindows() const
{
    return SNDBUF_WINDOWS;
}

} // namespace ns3
