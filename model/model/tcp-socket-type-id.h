/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_SOCKET_TYPE_ID_H
#define TCP_SOCKET_TYPE_ID_H

#include "ns3/tcp-socket-base.h"

#include <type_traits>

namespace ns3
{

/**
 * Whether classes derived from TcpSocketBase have to say what their TypeId is: until ns-3.44, where
 * TcpSocketBase says its own for them. Since ns-3.45 Object knows, and they mustn't.
 */
constexpr bool TCP_SOCKETS_TELL_TYPE_ID =
    std::is_same_v<decltype(&TcpSocketBase::GetInstanceTypeId), TypeId (TcpSocketBase::*)() const>;

/**
 * @ingroup nvme-mptcp
 * What a class derived from TcpSocketBase derives from instead, so that it works with any ns-3.
 * @tparam Self the class
 * @tparam Base TcpSocketBase, or a class derived from it
 */
template <typename Self, typename Base, bool = TCP_SOCKETS_TELL_TYPE_ID>
class TcpSocketTypeId : public Base
{
  public:
    using Base::Base;
};

/// The same, for ns-3.44 and before.
template <typename Self, typename Base>
class TcpSocketTypeId<Self, Base, true> : public Base
{
  public:
    using Base::Base;

    TypeId GetInstanceTypeId() const override
    {
        return Self::GetTypeId();
    }
};

} // namespace ns3

#endif // TCP_SOCKET_TYPE_ID_H
