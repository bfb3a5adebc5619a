/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef MPTCP_OPTION_TAG_H
#define MPTCP_OPTION_TAG_H

#include "ns3/tag.h"

#include <array>
#include <cstdint>
#include <span>

namespace ns3
{

/**
 * @ingroup nvme-mptcp
 * The MPTCP options of a TCP segment, as the bytes that would stand in its header.
 *
 * ns-3's TCP takes no option of a kind that it doesn't know, neither to send nor to receive. So the
 * options travel as a packet tag; devices count them through GsoTag, and MptcpPcapHelper puts them
 * where they belong.
 */
class MptcpOptionTag : public Tag
{
  public:
    /// A TCP header has room for so many bytes of options (RFC 9293 §3.1).
    static constexpr uint32_t MAX_BYTES = 40;

    /**
     * Get the type ID.
     * @return the type ID
     */
    static TypeId GetTypeId();
    TypeId GetInstanceTypeId() const override;

    /**
     * Add an option after those that are there. More than a TCP header holds is a fatal error.
     * @param option the option's bytes, beginning with its kind
     */
    void Append(std::span<const uint8_t> option);

    /**
     * Get all options, one after the other, without padding. The view is of this object.
     * @return their bytes
     */
    std::span<const uint8_t> GetBytes() const;

    uint32_t GetSerializedSize() const override;
    void Serialize(TagBuffer buffer) const override;
    void Deserialize(TagBuffer buffer) override;
    void Print(std::ostream& os) const override;

  private:
    std::array<uint8_t, MAX_BYTES> m_bytes; //!< the options, then unused room
    uint8_t m_size{0};                      //!< how many bytes they have
};

} // namespace ns3

#endif // MPTCP_OPTION_TAG_H
