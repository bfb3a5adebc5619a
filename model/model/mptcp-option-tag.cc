/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-option-tag.h"

#include "mptcp-option.h"

#include "ns3/fatal-error.h"

#include <algorithm>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(MptcpOptionTag);

TypeId
MptcpOptionTag::GetTypeId()
{
    static TypeId tid = TypeId("ns3::MptcpOptionTag")
                            .SetParent<Tag>()
                            .SetGroupName("NvmeMptcp")
                            .AddConstructor<MptcpOptionTag>();
    return tid;
}

TypeId
MptcpOptionTag::GetInstanceTypeId() const
{
    return GetTypeId();
}

void
MptcpOptionTag::Append(std::span<const uint8_t> option)
{
    if (m_size + option.size() > MAX_BYTES)
    {
        NS_FATAL_ERROR("MPTCP options of " << m_size + option.size()
                                           << " bytes don't fit a TCP header, which holds "
                                           << MAX_BYTES);
    }
    std::copy(option.begin(), option.end(), m_bytes.begin() + m_size);
    m_size += option.size();
}

std::span<const uint8_t>
MptcpOptionTag::GetBytes() const
{
    return {m_bytes.data(), m_size};
}

uint32_t
MptcpOptionTag::GetSerializedSize() const
{
    return 1 + m_size;
}

void
MptcpOptionTag::Serialize(TagBuffer buffer) const
{
    buffer.WriteU8(m_size);
    buffer.Write(m_bytes.data(), m_size);
}

void
MptcpOptionTag::Deserialize(TagBuffer buffer)
{
    m_size = buffer.ReadU8();
    buffer.Read(m_bytes.data(), m_size);
}

void
MptcpOptionTag::Print(std::ostream& os) const
{
    const char* separator = "";
    for (const MptcpOption& option : DecodeMptcpOptions(GetBytes()))
    {
        os << separator << option;
        separator = " ";
    }
}

} // namespace ns3
