/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef NETWORK_ORDER_H
#define NETWORK_ORDER_H

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Append an integer in network byte order.
 * @param to where
 * @param value the integer
 */
template <std::unsigned_integral T>
void
AppendNetworkOrder(std::vector<uint8_t>& to, T value)
{
    for (int shift = 8 * (sizeof(T) - 1); shift >= 0; shift -= 8)
    {
        to.push_back(static_cast<uint8_t>(value >> shift));
    }
}

/**
 * @ingroup nvme-mptcp
 * Read an integer in network byte order.
 * @param from its first byte
 * @return the integer
 */
template <std::unsigned_integral T>
T
ReadNetworkOrder(const uint8_t* from)
{
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); i++)
    {
        value = static_cast<T>((value << 8) | from[i]);
    }
    return value;
}

} // namespace ns3

#endif // NETWORK_ORDER_H
