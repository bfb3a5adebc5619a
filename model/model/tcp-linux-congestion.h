/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_CONGESTION_H
#define TCP_LINUX_CONGESTION_H

#include "ns3/tcp-congestion-ops.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * A congestion control that uses what Linux tells its own (struct tcp_congestion_ops and the
 * struct tcp_sock that they read) beyond what ns-3's TcpCongestionOps has. TcpLinuxSocket works
 * with any TcpCongestionOps; to one of these it says more.
 */
class TcpLinuxCongestion : public TcpCongestionOps
{
  public:
    /// Windows that the send buffer has room for: what recovery sends anew goes beside the window.
    static constexpr uint32_t SNDBUF_WINDOWS = 2;

    /// The state of a socket that TcpSocketState doesn't have.
    struct SocketView
    {
        Time paced;      //!< before then pacing sends nothing (tcp_wstamp_ns)
        bool appLimited; //!< the application limits what is sent
        bool ackDelayed; //!< the ACK may have been delayed by the receiver
    };

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();

    /**
     * Called before CwndEvent, CongControl and Undo.
     * @param view the socket's state
     */
    virtual void SetSocketView(const SocketView& view);

    /**
     * The connection sends again after a pause (lsndtime at CA_EVENT_TX_START).
     * @param pause how long nothing was sent, with nothing in flight
     */
    virtual void Resume(Time pause);

    /**
     * A reduction of the window was wrong (undo_cwnd).
     * @return whether the congestion control sets the window by itself; else the socket restores
     *         the one from before
     */
    virtual bool Undo();

    /**
     * @return whether the window is small on purpose, so that what is delivered says nothing of the
     *         bandwidth
     */
    virtual bool IsProbingRtt() const;

    /// @return windows that the send buffer has room for (sndbuf_expand)
    virtual uint32_t GetSndBufWindows() const;
};

} // namespace ns3

#endif // TCP_LINUX_CONGESTION_H
