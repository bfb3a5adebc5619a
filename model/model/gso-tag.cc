/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "gso-tag.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(GsoTag);

GsoTag::GsoTag(uint16_t payload, uint16_t segmentPayload, uint16_t segmentHeader)
    : m_payload(payload),
      m_segmentPayload(segmentPayload),
      m_segmentHeader(segmentHeader)
{
}

TypeId
GsoTag::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::GsoTag").SetParent<Tag>().SetGroupName("NvmeMptcp").AddConstructor<GsoTag>();
    return tid;
}

TypeId
GsoTag::GetInstanceTypeId() const
{
    return GetTypeId();
}

uint16_t
GsoTag::GetPayload() const
{
    return m_payload;
}

uint16_t
GsoTag::GetSegmentPayload() const
{
    return m_segmentPayload;
}

uint16_t
GsoTag::GetSegmentHeader() const
{
    return m_segmentHeader;
}

uint32_t
GsoTag::GetSegments() const
{
    if (m_payload <= m_segmentPayload)
    {
        return 1;
    }
    return (m_payload + m_segmentPayload - 1) / m_segmentPayload;
}

uint32_t
GsoTag::GetIpBytes() const
{
    return m_payload + GetSegments() * m_segmentHeader;
}

uint32_t
GsoTag::GetSerializedSize() const
{
    return 6;
}

void
GsoTag::Serialize(TagBuffer i) const
{
    i.WriteU16(m_payload);
    i.WriteU16(m_segmentPayload);
    i.WriteU16(m_segmentHeader);
}

void
GsoTag::Deserialize(TagBuffer i)
{
    m_payload = i.ReadU16();
    m_segmentPayload = i.ReadU16();
    m_segmentHeader = i.ReadU16();
}

void
GsoTag::Print(std::ostream& os) const
{
    os << "payload " << m_payload << " in segments of " << m_segmentPayload << ", headers "
       << m_segmentHeader;
}

} // namespace ns3
