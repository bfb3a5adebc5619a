/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "ns3/gso-tag.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv6-header.h"
#include "ns3/mptcp-option-tag.h"
#include "ns3/mptcp-option.h"
#include "ns3/packet.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-option-sack-permitted.h"
#include "ns3/tcp-option-sack.h"
#include "ns3/tcp-option-ts.h"
#include "ns3/tcp-option-winscale.h"
#include "ns3/tcp-wire-image.h"
#include "ns3/test.h"

using namespace ns3;

namespace
{

/// Bytes of a packet or of a part of it
using Bytes = std::vector<uint8_t>;

/**
 * Make a timestamps option.
 * @param value TSval
 * @param echo TSecr
 * @return the option
 */
Ptr<TcpOption>
MakeTimestamps(uint32_t value, uint32_t echo)
{
    auto option = Create<TcpOptionTS>();
    option->SetTimestamp(value);
    option->SetEcho(echo);
    return option;
}

/**
 * Make a SACK option.
 * @param blocks its blocks
 * @return the option
 */
Ptr<TcpOption>
MakeSack(std::initializer_list<TcpOptionSack::SackBlock> blocks)
{
    auto option = Create<TcpOptionSack>();
    for (const auto& block : blocks)
    {
        option->AddSackBlock(block);
    }
    return option;
}

/**
 * Make a packet.
 * @param tcp the TCP header
 * @param payload bytes of payload, which are zero
 * @param mptcp MPTCP options, beginning with their kind
 * @param v6 IPv6, not IPv4
 * @return the packet
 */
Ptr<Packet>
MakePacket(const TcpHeader& tcp, uint32_t payload, const Bytes& mptcp, bool v6 = false)
{
    auto packet = Create<Packet>(payload);
    packet->AddHeader(tcp);
    if (v6)
    {
        Ipv6Header ip;
        ip.SetSource("fd00:1::1");
        ip.SetDestination("fd00:1::2");
        ip.SetNextHeader(6);
        ip.SetPayloadLength(packet->GetSize());
        packet->AddHeader(ip);
    }
    else
    {
        Ipv4Header ip;
        ip.SetSource("10.0.1.1");
        ip.SetDestination("10.0.1.2");
        ip.SetProtocol(6);
        ip.SetIdentification(0xfffe);
        ip.SetPayloadSize(packet->GetSize());
        packet->AddHeader(ip);
    }
    if (!mptcp.empty())
    {
        MptcpOptionTag tag;
        tag.Append(mptcp);
        packet->AddPacketTag(tag);
    }
    return packet;
}

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * The bytes of options, as Linux lays them out. They were read off captures of Linux 7.3, the
 * maximum segment size left out, which ns-3 doesn't send.
 */
class TcpWireOptionsTest : public TestCase
{
  public:
    TcpWireOptionsTest()
        : TestCase("options stand as Linux lays them out")
    {
    }

  private:
    void DoRun() override
    {
        const auto permitted = Create<TcpOptionSackPermitted>();
        const auto scale = Create<TcpOptionWinScale>();
        scale->SetScale(8);
        const auto seq = [](uint32_t value) { return SequenceNumber32(value); };
        const Bytes capable{0x1e, 0x04, 0x01, 0x01};
        const Bytes first{0x1e, 0x16, 0x01, 0x01, 0x56, 0x78, 0xa1, 0xcd, 0xe8, 0x81, 0x4f,
                          0x0b, 0x1d, 0x2e, 0xe8, 0x4b, 0xa5, 0x9c, 0x4a, 0x3c, 0x00, 0x80};
        const Bytes mapping{0x1e, 0x1a, 0x20, 0x0f, 0xbf, 0x5d, 0x8f, 0xdf, 0x63,
                            0x8a, 0x0d, 0xcb, 0x4b, 0xaf, 0xfd, 0x49, 0x2e, 0x3d,
                            0x43, 0xf3, 0x00, 0x00, 0x00, 0x01, 0x00, 0x80};
        const Bytes ack{0x1e, 0x0c, 0x20, 0x03, 0x4b, 0xaf, 0xfd, 0x49, 0x2e, 0x3d, 0x45, 0x1b};
        const Bytes both{0x1e,
                         0x05,
                         0x40,
                         0x01,
                         0x02,
                         0x1e,
                         0x0c,
                         0x20,
                         0x03,
                         0x4b,
                         0xaf,
                         0xfd,
                         0x49,
                         0x2e,
                         0x3d,
                         0x45,
                         0x1b};
        const auto sack = MakeSack({{seq(0xc983fb42), seq(0xc9841310)},
                                    {seq(0xc9842000), seq(0xc9843000)},
                                    {seq(0xc9844000), seq(0xc9845000)}});

        Check("SYN",
              {scale, MakeTimestamps(0xf697e047, 0), permitted},
              capable,
              {0x04, 0x02, 0x08, 0x0a, 0xf6, 0x97, 0xe0, 0x47, 0x00, 0x00,
               0x00, 0x00, 0x01, 0x03, 0x03, 0x08, 0x1e, 0x04, 0x01, 0x01});
        Check("SYN without timestamps",
              {scale, permitted},
              capable,
              {0x01, 0x01, 0x04, 0x02, 0x01, 0x03, 0x03, 0x08, 0x1e, 0x04, 0x01, 0x01});
        Check("first data",
              {MakeTimestamps(0xf697e04f, 0xb1a655f1)},
              first,
              {0x01, 0x01, 0x08, 0x0a, 0xf6, 0x97, 0xe0, 0x4f, 0xb1, 0xa6, 0x55, 0xf1,
               0x1e, 0x16, 0x01, 0x01, 0x56, 0x78, 0xa1, 0xcd, 0xe8, 0x81, 0x4f, 0x0b,
               0x1d, 0x2e, 0xe8, 0x4b, 0xa5, 0x9c, 0x4a, 0x3c, 0x00, 0x80, 0x01, 0x01});
        const Bytes data{0x01, 0x01, 0x08, 0x0a, 0xb1, 0xa6, 0x55, 0xf5, 0xf6, 0x97,
                         0xe0, 0x4f, 0x1e, 0x1a, 0x20, 0x0f, 0xbf, 0x5d, 0x8f, 0xdf,
                         0x63, 0x8a, 0x0d, 0xcb, 0x4b, 0xaf, 0xfd, 0x49, 0x2e, 0x3d,
                         0x43, 0xf3, 0x00, 0x00, 0x00, 0x01, 0x00, 0x80, 0x01, 0x01};
        Check("data", {MakeTimestamps(0xb1a655f5, 0xf697e04f)}, mapping, data);
        Check("data, no room for SACK",
              {MakeTimestamps(0xb1a655f5, 0xf697e04f), sack},
              mapping,
              data);
        Check("acknowledgment, room for one SACK block",
              {MakeTimestamps(0xf697e06b, 0xb1a6560d), sack},
              ack,
              {0x01, 0x01, 0x08, 0x0a, 0xf6, 0x97, 0xe0, 0x6b, 0xb1, 0xa6, 0x56, 0x0d,
               0x01, 0x01, 0x05, 0x0a, 0xc9, 0x83, 0xfb, 0x42, 0xc9, 0x84, 0x13, 0x10,
               0x1e, 0x0c, 0x20, 0x03, 0x4b, 0xaf, 0xfd, 0x49, 0x2e, 0x3d, 0x45, 0x1b});
        Check("two MPTCP options", {}, both, {0x1e, 0x05, 0x40, 0x01, 0x02, 0x01, 0x01,
                                              0x01, 0x1e, 0x0c, 0x20, 0x03, 0x4b, 0xaf,
                                              0xfd, 0x49, 0x2e, 0x3d, 0x45, 0x1b});
        const auto address =
            MptcpAddAddr{.addressId = 1, .address = Ipv6Address("::1"), .port = 1}.Encode();
        Bytes padded = address;
        padded.insert(padded.end(), 2, 1);
        Check("ADD_ADDR that leaves no room for timestamps",
              {MakeTimestamps(1, 2)},
              address,
              padded);
    }

    /**
     * Compare a header's options.
     * @param name what is compared
     * @param options options of ns-3's header
     * @param mptcp MPTCP options
     * @param expected all options
     */
    void Check(const std::string& name,
               const std::vector<Ptr<TcpOption>>& options,
               const Bytes& mptcp,
               const Bytes& expected)
    {
        TcpHeader tcp;
        for (const auto& option : options)
        {
            tcp.AppendOption(option);
        }
        const auto images = GetTcpWireImage(MakePacket(tcp, 0, mptcp), false);
        NS_TEST_ASSERT_MSG_EQ(images.size(), 1, name);
        NS_TEST_EXPECT_MSG_EQ(images[0].size(), 40 + expected.size(), name);
        NS_TEST_EXPECT_MSG_EQ((Bytes(images[0].begin() + 40, images[0].end()) == expected),
                              true,
                              name);
        NS_TEST_EXPECT_MSG_EQ((images[0][32] >> 4), (20 + expected.size()) / 4, name);
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * GSO packets, as segments and whole; lengths and checksums as ns-3's own headers read them.
 */
class TcpWireSegmentsTest : public TestCase
{
  public:
    /**
     * @param v6 IPv6, not IPv4
     */
    explicit TcpWireSegmentsTest(bool v6)
        : TestCase(std::string("GSO packets become segments, ") + (v6 ? "IPv6" : "IPv4")),
          m_v6(v6)
    {
    }

  private:
    static constexpr uint16_t SEGMENT = 1420;     //!< payload of a segment
    static constexpr uint32_t FIRST = 0xfffff000; //!< sequence number, wraps soon

    void DoRun() override
    {
        const MptcpDss dss{.dataAck = 7, .dsn = 8, .ssn = 9, .length = 10};
        m_header = 60;
        Check(0, dss.Encode(), true, 1);
        Check(1, dss.Encode(), true, 1);
        Check(SEGMENT, dss.Encode(), true, 1);
        Check(SEGMENT + 1, dss.Encode(), true, 2);
        Check(45 * SEGMENT, dss.Encode(), true, 45);
        Check(45 * SEGMENT, dss.Encode(), false, 1);
        Check(65535 - 80, dss.Encode(), false, 1);
        Check(65535 - 40, dss.Encode(), false, 47); // no room for the options
        m_header = 20;
        Check(3 * SEGMENT, {}, true, 3);
    }

    /**
     * Make a packet and look at its image.
     * @param payload TCP payload
     * @param mptcp MPTCP options
     * @param sliced whether segments are asked for
     * @param count how many are expected
     */
    void Check(uint32_t payload, const Bytes& mptcp, bool sliced, std::size_t count)
    {
        TcpHeader tcp;
        tcp.SetSourcePort(40000);
        tcp.SetDestinationPort(4420);
        tcp.SetSequenceNumber(SequenceNumber32(FIRST));
        tcp.SetFlags(TcpHeader::ACK | TcpHeader::PSH | TcpHeader::FIN | TcpHeader::CWR);
        if (!mptcp.empty())
        {
            tcp.AppendOption(MakeTimestamps(1, 2));
        }
        auto packet = MakePacket(tcp, payload, mptcp, m_v6);
        packet->AddPacketTag(GsoTag(payload, SEGMENT, m_header + (m_v6 ? 40 : 20)));
        const auto images = GetTcpWireImage(packet, sliced);
        NS_TEST_ASSERT_MSG_EQ(images.size(), count, payload << " bytes");

        uint32_t at = 0;
        for (std::size_t i = 0; i < images.size(); i++)
        {
            at += CheckSegment(images[i], FIRST + at, i == 0, i + 1 == images.size(), i);
        }
        NS_TEST_EXPECT_MSG_EQ(at, payload, "payload");
    }

    /**
     * Read a segment with ns-3's headers.
     * @param bytes the IP packet
     * @param sequence its sequence number
     * @param first it is the packet's first
     * @param last it is the packet's last
     * @param index its number in the packet
     * @return its payload
     */
    uint32_t CheckSegment(const Bytes& bytes,
                          uint32_t sequence,
                          bool first,
                          bool last,
                          std::size_t index)
    {
        auto packet = Create<Packet>(bytes.data(), bytes.size());
        TcpHeader tcp;
        tcp.EnableChecksums();
        if (m_v6)
        {
            Ipv6Header ip;
            packet->RemoveHeader(ip);
            NS_TEST_EXPECT_MSG_EQ(ip.GetPayloadLength(), packet->GetSize(), "length");
            tcp.InitializeChecksum(ip.GetSource(), ip.GetDestination(), 6);
        }
        else
        {
            Ipv4Header ip;
            ip.EnableChecksum();
            packet->RemoveHeader(ip);
            NS_TEST_EXPECT_MSG_EQ(ip.IsChecksumOk(), true, "checksum of IP");
            NS_TEST_EXPECT_MSG_EQ(ip.GetPayloadSize(), packet->GetSize(), "length");
            NS_TEST_EXPECT_MSG_EQ(ip.GetIdentification(),
                                  static_cast<uint16_t>(0xfffe + index),
                                  "identification");
            tcp.InitializeChecksum(ip.GetSource(), ip.GetDestination(), 6);
        }
        packet->RemoveHeader(tcp);
        NS_TEST_EXPECT_MSG_EQ(tcp.IsChecksumOk(), true, "checksum of TCP");
        NS_TEST_EXPECT_MSG_EQ(tcp.GetSequenceNumber().GetValue(), sequence, "sequence number");
        NS_TEST_EXPECT_MSG_EQ(tcp.GetLength() * 4, m_header, "header");
        const bool ends = tcp.GetFlags() & TcpHeader::FIN && tcp.GetFlags() & TcpHeader::PSH;
        const bool end = tcp.GetFlags() & (TcpHeader::FIN | TcpHeader::PSH);
        NS_TEST_EXPECT_MSG_EQ(ends, last, "FIN and PSH stand in the last segment");
        NS_TEST_EXPECT_MSG_EQ(end, last, "FIN or PSH stand in the last segment");
        NS_TEST_EXPECT_MSG_EQ(bool(tcp.GetFlags() & TcpHeader::CWR), first, "CWR");
        return packet->GetSize();
    }

    bool m_v6;            //!< IPv6, not IPv4
    uint32_t m_header{0}; //!< bytes of the TCP header
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * GetTcpWireImage().
 */
class TcpWireImageTestSuite : public TestSuite
{
  public:
    TcpWireImageTestSuite()
        : TestSuite("nvme-mptcp-wire-image", Type::UNIT)
    {
        AddTestCase(new TcpWireOptionsTest, Duration::QUICK);
        AddTestCase(new TcpWireSegmentsTest(false), Duration::QUICK);
        AddTestCase(new TcpWireSegmentsTest(true), Duration::QUICK);
    }
};

TcpWireImageTestSuite g_tcpWireImageTestSuite; //!< registers the suite

} // namespace
