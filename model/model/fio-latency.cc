/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "fio-latency.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ns3
{

namespace
{

constexpr uint32_t BITS = 6;              // FIO_IO_U_PLAT_BITS
constexpr uint32_t IN_GROUP = 1U << BITS; // buckets of a power of two
constexpr uint32_t GROUPS = 29;           // FIO_IO_U_PLAT_GROUP_NR

uint32_t
BucketOf(uint64_t value)
{
    const uint32_t width = std::bit_width(value);
    if (width <= BITS + 1)
    {
        return static_cast<uint32_t>(value);
    }
    const uint32_t shift = width - 1 - BITS;
    const auto offset = static_cast<uint32_t>(value >> shift) & (IN_GROUP - 1);
    return std::min((shift + 1) * IN_GROUP + offset, GROUPS * IN_GROUP - 1);
}

int64_t
MiddleOf(uint32_t bucket)
{
    if (bucket < 2 * IN_GROUP)
    {
        return bucket;
    }
    const uint32_t shift = bucket / IN_GROUP - 1;
    const double base = std::ldexp(1.0, static_cast<int>(shift + BITS));
    const double inGroup = bucket % IN_GROUP + 0.5;
    return static_cast<int64_t>(base + inGroup * std::ldexp(1.0, static_cast<int>(shift)));
}

} // namespace

FioLatency::FioLatency()
    : m_buckets(GROUPS * IN_GROUP)
{
}

void
FioLatency::Add(Time latency)
{
    const int64_t ns = latency.GetNanoSeconds();
    m_buckets[BucketOf(static_cast<uint64_t>(ns))]++;
    m_count++;
    m_sum += static_cast<double>(ns);
    m_max = std::max(m_max, ns);
}

void
FioLatency::Merge(const FioLatency& other)
{
    for (std::size_t i = 0; i < m_buckets.size(); i++)
    {
        m_buckets[i] += other.m_buckets[i];
    }
    m_count += other.m_count;
    m_sum += other.m_sum;
    m_max = std::max(m_max, other.m_max);
}

uint64_t
FioLatency::GetCount() const
{
    return m_count;
}

double
FioLatency::GetMean() const
{
    return m_count ? m_sum / static_cast<double>(m_count) : 0;
}

int64_t
FioLatency::GetMax() const
{
    return m_max;
}

int64_t
FioLatency::GetPercentile(double percent) const
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m_buckets.size(); i++)
    {
        sum += m_buckets[i];
        if (m_buckets[i] &&
            static_cast<double>(sum) >= percent / 100 * static_cast<double>(m_count))
        {
            return MiddleOf(i);
        }
    }
    return 0;
}

} // namespace ns3
