/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef GSO_TAG_H
#define GSO_TAG_H

#include "ns3/tag.h"

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * Says how a TCP packet looks on the wire, where the packet itself doesn't: it may be larger than
 * the link's MTU (a GSO packet, "super-packet"), or have options that ns-3's TcpHeader can't hold.
 * Devices that know the tag count wire bytes and segments by it, as Linux's qdiscs do.
 *
 * A packet without the tag is one segment of its own size.
 */
class GsoTag : public Tag
{
  public:
    GsoTag() = default;

    /**
     * @param payload TCP payload of the packet, in bytes
     * @param segmentPayload most TCP payload of one segment, in bytes
     * @param segmentHeader headers of one segment in bytes: IP and TCP with its options
     */
    GsoTag(uint16_t payload, uint16_t segmentPayload, uint16_t segmentHeader);

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();
    TypeId GetInstanceTypeId() const override;

    /**
     * @return TCP payload of the packet, in bytes
     */
    uint16_t GetPayload() const;

    /**
     * @return most TCP payload of one segment, in bytes
     */
    uint16_t GetSegmentPayload() const;

    /**
     * @return IP and TCP headers of one segment, in bytes
     */
    uint16_t GetSegmentHeader() const;

    /**
     * @return number of segments that the packet becomes on the wire, 1 or more
     */
    uint32_t GetSegments() const;

    /**
     * @return bytes of the packet's segments together, without the link layer's
     */
    uint32_t GetIpBytes() const;

    uint32_t GetSerializedSize() const override;
    void Serialize(TagBuffer i) const override;
    void Deserialize(TagBuffer i) override;
    void Print(std::ostream& os) const override;

  private:
    uint16_t m_payload{0};        //!< TCP payload of the packet, in bytes
    uint16_t m_segmentPayload{0}; //!< most TCP payload of one segment, in bytes
    uint16_t m_segmentHeader{0};  //!< IP and TCP headers of one segment, in bytes
};

} // namespace ns3

#endif // GSO_TAG_H
