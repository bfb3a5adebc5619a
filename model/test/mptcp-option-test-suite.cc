/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-option-vectors.h"

#include "ns3/mptcp-crypto.h"
#include "ns3/mptcp-option-tag.h"
#include "ns3/mptcp-option.h"
#include "ns3/packet.h"
#include "ns3/test.h"

#include <sstream>

using namespace ns3;

namespace
{

/**
 * Print bytes, for messages.
 * @param bytes the bytes
 * @return two digits each
 */
std::string
Hex(std::span<const uint8_t> bytes)
{
    constexpr char DIGITS[] = "0123456789abcdef";
    std::string text;
    for (const uint8_t byte : bytes)
    {
        text += {DIGITS[byte >> 4], DIGITS[byte & 15]};
    }
    return text;
}

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * Options against golden vectors of another implementation.
 */
class MptcpOptionVectorTest : public TestCase
{
  public:
    MptcpOptionVectorTest()
        : TestCase("options have the bytes that the Scapy layers give them")
    {
    }

  private:
    void DoRun() override
    {
        for (const auto& [option, bytes] : vectors::OPTIONS)
        {
            const auto encoded =
                std::visit([](const auto& value) { return value.Encode(); }, option);
            NS_TEST_EXPECT_MSG_EQ(Hex(encoded), Hex(bytes), option << " encodes differently");
            const auto decoded = DecodeMptcpOption(bytes);
            NS_TEST_ASSERT_MSG_EQ(decoded.has_value(), true, Hex(bytes) << " is not decoded");
            NS_TEST_EXPECT_MSG_EQ((*decoded == option), true, Hex(bytes) << " is " << *decoded);
        }
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * Options that are broken, or of a form that RFC 8684 doesn't have.
 */
class MptcpOptionMalformedTest : public TestCase
{
  public:
    MptcpOptionMalformedTest()
        : TestCase("malformed options are passed over")
    {
    }

  private:
    void DoRun() override
    {
        for (const auto& [option, bytes] : vectors::OPTIONS)
        {
            for (std::size_t size = 0; size < bytes.size(); size++)
            {
                // cut, with the length of the whole option, then with the length of what is left
                std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + size);
                NS_TEST_EXPECT_MSG_EQ(DecodeMptcpOption(cut).has_value(), false, "cut short");
                NS_TEST_EXPECT_MSG_EQ(DecodeMptcpOptions(cut).size(), 0, "cut short");
                if (size >= 2)
                {
                    cut[1] = size;
                    const auto decoded = DecodeMptcpOption(cut);
                    NS_TEST_EXPECT_MSG_EQ((decoded && *decoded == option),
                                          false,
                                          option << " cut to " << size << " bytes");
                }
            }
        }
        const auto decodes = [](std::vector<uint8_t> bytes) {
            return DecodeMptcpOption(bytes).has_value();
        };
        NS_TEST_EXPECT_MSG_EQ(decodes({30, 4, 0x01, 0x01}), true, "MP_CAPABLE");
        NS_TEST_EXPECT_MSG_EQ(decodes({30, 4, 0x01, 0x41}), false, "flag B");
        NS_TEST_EXPECT_MSG_EQ(decodes({30, 4, 0x01, 0x00}), false, "no flag H");
        NS_TEST_EXPECT_MSG_EQ(decodes({30, 3, 0x90}), false, "unknown subtype");
        NS_TEST_EXPECT_MSG_EQ(decodes({29, 3, 0x50}), false, "another kind");
        NS_TEST_EXPECT_MSG_EQ(decodes({30, 3, 0x40}), false, "REMOVE_ADDR of nothing");
        NS_TEST_EXPECT_MSG_EQ(decodes({30, 5, 0x20, 0x00, 0x00}),
                              false,
                              "DSS with a byte too much");
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * A header's options, and the tag that carries them.
 */
class MptcpOptionTagTest : public TestCase
{
  public:
    MptcpOptionTagTest()
        : TestCase("a packet carries its options through copies and fragments")
    {
    }

  private:
    void DoRun() override
    {
        const MptcpDss dss{.dataAck = 7, .dsn = 8, .ssn = 9, .length = 10};
        const MptcpPrio prio{true};
        MptcpOptionTag tag;
        tag.Append(dss.Encode());
        tag.Append(prio.Encode());

        auto packet = Create<Packet>(1000);
        packet->AddPacketTag(tag);
        MptcpOptionTag found;
        NS_TEST_ASSERT_MSG_EQ(packet->Copy()->PeekPacketTag(found), true, "no tag");
        NS_TEST_EXPECT_MSG_EQ(Hex(found.GetBytes()), Hex(tag.GetBytes()), "other bytes");

        const auto options = DecodeMptcpOptions(found.GetBytes());
        NS_TEST_ASSERT_MSG_EQ(options.size(), 2, "wrong number of options");
        NS_TEST_EXPECT_MSG_EQ((options[0] == MptcpOption(dss)), true, "not the DSS");
        NS_TEST_ASSERT_MSG_NE(FindMptcpOption<MptcpPrio>(options), nullptr, "no MP_PRIO");
        NS_TEST_EXPECT_MSG_EQ((FindMptcpOption<MptcpFail>(options) == nullptr), true, "an MP_FAIL");

        std::ostringstream text;
        found.Print(text);
        NS_TEST_EXPECT_MSG_EQ(text.str(),
                              "DSS ack=7 dsn=8 ssn=9 length=10 MP_PRIO backup",
                              "printed differently");

        // as a whole header: MSS, padding, MP_PRIO, an end that hides what follows it
        const std::vector<uint8_t> header{2, 4, 5, 180, 1, 30, 3, 0x51, 0, 30, 3, 0x51};
        NS_TEST_EXPECT_MSG_EQ(DecodeMptcpOptions(header).size(), 1, "not one option");
        const std::vector<uint8_t> broken{30, 3, 0x51, 5, 1, 30, 3, 0x51};
        NS_TEST_EXPECT_MSG_EQ(DecodeMptcpOptions(broken).size(), 1, "went on behind a bad length");
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * Digests, tokens, HMACs and checksums against golden vectors of another implementation.
 */
class MptcpCryptoTest : public TestCase
{
  public:
    MptcpCryptoTest()
        : TestCase("digests, tokens, HMACs and checksums are those of Python's libraries")
    {
    }

  private:
    void DoRun() override
    {
        for (const auto& [key, message, digest] : vectors::DIGESTS)
        {
            const auto got = key.empty() ? Sha256(message) : HmacSha256(key, message);
            NS_TEST_EXPECT_MSG_EQ(Hex(got), Hex(digest), message.size() << " bytes");
        }
        for (const auto& keys : vectors::KEYS)
        {
            NS_TEST_EXPECT_MSG_EQ(MptcpToken(keys.ownKey), keys.token, "token");
            NS_TEST_EXPECT_MSG_EQ(MptcpIdsn(keys.ownKey), keys.idsn, "IDSN");
            const auto join =
                MptcpJoinHmac(keys.ownKey, keys.peerKey, keys.ownNonce, keys.peerNonce);
            NS_TEST_EXPECT_MSG_EQ(Hex(join), Hex(keys.joinHmac), "HMAC of MP_JOIN");
            const auto add = MptcpAddAddrHmac(keys.ownKey,
                                              keys.peerKey,
                                              keys.addressId,
                                              keys.address,
                                              keys.port);
            NS_TEST_EXPECT_MSG_EQ(add, keys.addAddrHmac, "HMAC of ADD_ADDR");
        }
        for (const auto& [dsn, ssn, length, data, checksum] : vectors::CHECKSUMS)
        {
            NS_TEST_EXPECT_MSG_EQ(MptcpDssChecksum(dsn, ssn, length, data), checksum, "checksum");
            const auto packet = Create<Packet>(data.data(), data.size());
            NS_TEST_EXPECT_MSG_EQ(MptcpDssChecksum(dsn, ssn, length, packet),
                                  checksum,
                                  "checksum of a packet");
        }
    }
};

/**
 * @ingroup nvme-mptcp
 * @ingroup tests
 * MPTCP options.
 */
class MptcpOptionTestSuite : public TestSuite
{
  public:
    MptcpOptionTestSuite()
        : TestSuite("mptcp-option", Type::UNIT)
    {
        AddTestCase(new MptcpOptionVectorTest, Duration::QUICK);
        AddTestCase(new MptcpOptionMalformedTest, Duration::QUICK);
        AddTestCase(new MptcpOptionTagTest, Duration::QUICK);
        AddTestCase(new MptcpCryptoTest, Duration::QUICK);
    }
};

MptcpOptionTestSuite g_mptcpOptionTestSuite; //!< registers the suite

} // namespace
