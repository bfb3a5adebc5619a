/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef FIO_LATENCY_H
#define FIO_LATENCY_H

#include "ns3/nstime.h"

#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Latencies in fio's buckets, so that percentiles are rounded as fio's are: 64 buckets for each
 * power of two, a percentile being the middle of its bucket (fio's stat.c).
 */
class FioLatency
{
  public:
    FioLatency();

    /**
     * @param latency to count
     */
    void Add(Time latency);

    /**
     * @param other whose latencies to count as well
     */
    void Merge(const FioLatency& other);

    /**
     * @return how many were counted
     */
    uint64_t GetCount() const;

    /**
     * @return mean in ns, 0 without any
     */
    double GetMean() const;

    /**
     * @return largest in ns
     */
    int64_t GetMax() const;

    /**
     * @param percent of the latencies that are no larger, but for the rounding
     * @return ns
     */
    int64_t GetPercentile(double percent) const;

  private:
    std::vector<uint64_t> m_buckets; ///< counts
    uint64_t m_count{0};             ///< all
    double m_sum{0};                 ///< ns
    int64_t m_max{0};                ///< ns
};

} // namespace ns3

#endif // FIO_LATENCY_H
