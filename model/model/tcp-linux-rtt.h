/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef TCP_LINUX_RTT_H
#define TCP_LINUX_RTT_H

#include "ns3/nstime.h"

#include <deque>
#include <utility>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Linux's estimate of the round-trip time and of its variation (RFC 6298 with Linux's slower decay
 * of the variation), in whole microseconds, and the least round-trip time of the last minutes.
 */
class TcpLinuxRtt
{
  public:
    /**
     * Set limits.
     * @param rtoMin least retransmission time-out beyond the smoothed round-trip time
     * @param window how long a least round-trip time counts
     */
    void Configure(Time rtoMin, Time window);

    /**
     * Add a sample to the smoothed time.
     * @param sample round-trip time
     * @param una first sequence number not acknowledged
     * @param next next sequence number to be sent
     */
    void AddSample(Time sample, uint64_t una, uint64_t next);

    /**
     * Add a sample to the least time.
     * @param sample round-trip time
     */
    void AddMinSample(Time sample);

    /**
     * @return whether there was a sample
     */
    bool HasSample() const;

    /**
     * @return smoothed round-trip time, 0 without samples
     */
    Time GetSmoothed() const;

    /**
     * @return smoothed round-trip time in eighths of a microsecond, 0 without samples
     */
    uint32_t GetSmoothedEighths() const;

    /**
     * @return least round-trip time, Time::Max() without samples
     */
    Time GetMin() const;

    /**
     * @return retransmission time-out without back-off, in whole ms as Linux's ticks; 1 s without
     * samples
     */
    Time GetRto() const;

    /**
     * @return the least variation that the time-out counts
     */
    Time GetRtoMin() const;

  private:
    uint32_t m_rtoMin{200000};                //!< least variation in us
    Time m_window{Seconds(300)};              //!< how long a least time counts
    uint32_t m_smoothed{0};                   //!< smoothed time in us / 8
    uint32_t m_deviation{0};                  //!< mean deviation in us / 4
    uint32_t m_deviationMax{0};               //!< its maximum in this round trip
    uint32_t m_variation{0};                  //!< smoothed maximum
    uint64_t m_roundEnd{0};                   //!< sequence number that ends the round trip
    std::deque<std::pair<Time, Time>> m_mins; //!< candidates for the least: when, time; increasing
};

} // namespace ns3

#endif // TCP_LINUX_RTT_H
