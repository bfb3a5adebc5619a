/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-mapping.h"

#include "mptcp-sequence.h"

#include <algorithm>
#include <utility>

namespace ns3
{

bool
MptcpMapping::Contains(uint32_t number) const
{
    return number - ssn < length;
}

uint32_t
MptcpMapping::GetEnd() const
{
    return ssn + length;
}

bool
MptcpMappingList::Insert(const MptcpMapping& mapping)
{
    // nearly always the new one is the last, or the last again
    auto place = m_mappings.end();
    while (place != m_mappings.begin() &&
           MptcpSubflowBefore(mapping.ssn, std::prev(place)->GetEnd()))
    {
        --place;
    }
    if (place == m_mappings.end() || !MptcpSubflowBefore(place->ssn, mapping.GetEnd()))
    {
        m_mappings.insert(place, mapping);
        return true;
    }
    return place->ssn == mapping.ssn && place->dsn == mapping.dsn &&
           place->length == mapping.length && place->checksum == mapping.checksum;
}

void
MptcpMappingList::Append(uint32_t ssn,
                         uint64_t dsn,
                         Ptr<const Packet> data,
                         uint32_t most,
                         bool checksum)
{
    const uint32_t size = data->GetSize();
    for (uint32_t offset = 0; offset < size;)
    {
        bool grows = !m_mappings.empty() && !m_mappings.back().frozen &&
                     m_mappings.back().length < most &&
                     m_mappings.back().dsn + m_mappings.back().length == dsn + offset;
        if (!grows)
        {
            MptcpMapping mapping;
            mapping.dsn = dsn + offset;
            mapping.ssn = ssn + offset;
            m_mappings.push_back(mapping);
        }
        MptcpMapping& last = m_mappings.back();
        uint32_t taken = std::min(size - offset, most - last.length);
        if (checksum)
        {
            if (!last.data)
            {
                last.data = Create<Packet>();
            }
            last.data->AddAtEnd(data->CreateFragment(offset, taken));
        }
        last.length += taken;
        offset += taken;
    }
}

void
MptcpMappingList::Close()
{
    if (!m_mappings.empty())
    {
        m_mappings.back().frozen = true;
    }
}

MptcpMapping*
MptcpMappingList::Find(uint32_t ssn)
{
    return const_cast<MptcpMapping*>(std::as_const(*this).Find(ssn));
}

const MptcpMapping*
MptcpMappingList::Find(uint32_t ssn) const
{
    auto behind = std::partition_point(
        m_mappings.begin(),
        m_mappings.end(),
        [ssn](const MptcpMapping& mapping) { return !MptcpSubflowBefore(ssn, mapping.GetEnd()); });
    return behind != m_mappings.end() && behind->Contains(ssn) ? &*behind : nullptr;
}

void
MptcpMappingList::DiscardBefore(uint32_t ssn)
{
    while (!m_mappings.empty() && !MptcpSubflowBefore(ssn, m_mappings.front().GetEnd()))
    {
        m_mappings.pop_front();
    }
}

std::size_t
MptcpMappingList::GetSize() const
{
    return m_mappings.size();
}

} // namespace ns3
