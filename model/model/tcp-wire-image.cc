/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-wire-image.h"

#include "gso-tag.h"
#include "mptcp-option-tag.h"
#include "network-order.h"

#include "ns3/fatal-error.h"
#include "ns3/tcp-l4-protocol.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>

namespace ns3
{

namespace
{

using Bytes = std::vector<uint8_t>;
using View = std::span<const uint8_t>;

// RFC 9293 §3.1
constexpr std::size_t TCP_HEADER = 20;
constexpr std::size_t TCP_SEQUENCE = 4;
constexpr std::size_t TCP_DATA_OFFSET = 12;
constexpr std::size_t TCP_FLAGS = 13;
constexpr std::size_t TCP_CHECKSUM = 16;
constexpr uint8_t TCP_FIN_PSH = 0x09;
constexpr uint8_t TCP_CWR = 0x80;

// RFC 791 §3.1
constexpr std::size_t IPV4_LENGTH = 2;
constexpr std::size_t IPV4_IDENTIFICATION = 4;
constexpr std::size_t IPV4_FRAGMENT = 6;
constexpr std::size_t IPV4_PROTOCOL = 9;
constexpr std::size_t IPV4_CHECKSUM = 10;
constexpr std::size_t IPV4_SOURCE = 12;

// RFC 8200 §3
constexpr std::size_t IPV6_HEADER = 40;
constexpr std::size_t IPV6_LENGTH = 4;
constexpr std::size_t IPV6_NEXT_HEADER = 6;
constexpr std::size_t IPV6_SOURCE = 8;

/// Kinds of TCP options (RFC 9293 §3.1, RFC 7323, RFC 2018)
enum OptionKind : uint8_t
{
    END = 0,
    NOP = 1,
    MSS = 2,
    WINDOW_SCALE = 3,
    SACK_PERMITTED = 4,
    SACK = 5,
    TIMESTAMPS = 8,
};

/**
 * Write a 16-bit integer in network byte order.
 * @param bytes where
 * @param at its first byte
 * @param value the integer
 */
void
Put16(Bytes& bytes, std::size_t at, uint32_t value)
{
    bytes[at] = static_cast<uint8_t>(value >> 8);
    bytes[at + 1] = static_cast<uint8_t>(value);
}

/**
 * Sum 16-bit words for an Internet checksum (RFC 1071).
 * @param bytes the bytes; an odd one at the end is a word's first
 * @param sum what to add to
 * @return the sum, not folded
 */
uint64_t
Sum(View bytes, uint64_t sum)
{
    for (std::size_t i = 0; i < bytes.size(); i++)
    {
        sum += static_cast<uint64_t>(bytes[i]) << (i % 2 ? 0 : 8);
    }
    return sum;
}

/**
 * Make a checksum of a sum (RFC 1071).
 * @param sum the sum
 * @return its complement, folded
 */
uint16_t
Fold(uint64_t sum)
{
    while (sum >> 16)
    {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return static_cast<uint16_t>(~sum);
}

/// An IP header
struct Ip
{
    bool v6{false};      //!< IPv6
    std::size_t size{0}; //!< bytes of the header
    bool tcp{false};     //!< a whole TCP segment follows

    /**
     * Fill in length and checksum.
     * @param bytes the whole packet
     */
    void Finish(Bytes& bytes) const;

    /**
     * Sum the pseudo-header of TCP.
     * @param bytes the whole packet
     * @return the sum
     */
    uint64_t PseudoHeader(const Bytes& bytes) const;
};

/**
 * Read an IP header.
 * @param bytes the whole packet
 * @return the header; size 0 if there is none
 */
Ip
ReadIp(const Bytes& bytes)
{
    const uint8_t version = bytes.empty() ? 0 : bytes[0] >> 4;
    if (version == 4 && bytes.size() >= 20)
    {
        const bool fragment = ReadNetworkOrder<uint16_t>(&bytes[IPV4_FRAGMENT]) & 0x3fff;
        return {false,
                4U * (bytes[0] & 0x0f),
                bytes[IPV4_PROTOCOL] == TcpL4Protocol::PROT_NUMBER && !fragment};
    }
    if (version == 6 && bytes.size() >= IPV6_HEADER)
    {
        return {true, IPV6_HEADER, bytes[IPV6_NEXT_HEADER] == TcpL4Protocol::PROT_NUMBER};
    }
    return {};
}

void
Ip::Finish(Bytes& bytes) const
{
    if (v6)
    {
        Put16(bytes, IPV6_LENGTH, bytes.size() - size);
        return;
    }
    Put16(bytes, IPV4_LENGTH, bytes.size());
    Put16(bytes, IPV4_CHECKSUM, 0);
    Put16(bytes, IPV4_CHECKSUM, Fold(Sum(View(bytes).first(size), 0)));
}

uint64_t
Ip::PseudoHeader(const Bytes& bytes) const
{
    const View addresses =
        v6 ? View(bytes).subspan(IPV6_SOURCE, 32) : View(bytes).subspan(IPV4_SOURCE, 8);
    return Sum(addresses, TcpL4Protocol::PROT_NUMBER + (bytes.size() - size));
}

/**
 * Take a TCP header's options apart.
 * @param options the bytes between the fixed header and the data
 * @return whole options by their kind, without padding
 */
std::map<uint8_t, Bytes>
ReadOptions(View options)
{
    std::map<uint8_t, Bytes> found;
    while (!options.empty() && options[0] != END)
    {
        if (options[0] == NOP)
        {
            options = options.subspan(1);
            continue;
        }
        if (options.size() < 2 || options[1] < 2 || options[1] > options.size())
        {
            break;
        }
        const View option = options.first(options[1]);
        found[option[0]] = Bytes(option.begin(), option.end());
        options = options.subspan(option.size());
    }
    return found;
}

/**
 * Append an option, with padding before it up to a multiple of 4 bytes.
 * @param to where
 * @param option the option
 */
void
AppendPadded(Bytes& to, const Bytes& option)
{
    to.insert(to.end(), (4 - option.size() % 4) % 4, NOP);
    to.insert(to.end(), option.begin(), option.end());
}

/**
 * Lay out options that are not MPTCP's nor SACK blocks.
 * @param options the options by kind
 * @param timestamps whether to keep the timestamps
 * @return their bytes
 */
Bytes
LayOut(const std::map<uint8_t, Bytes>& options, bool timestamps)
{
    Bytes bytes;
    const auto append = [&options, &bytes](uint8_t kind) {
        if (const auto found = options.find(kind); found != options.end())
        {
            AppendPadded(bytes, found->second);
        }
    };
    append(MSS);
    if (timestamps && options.count(TIMESTAMPS) && options.count(SACK_PERMITTED))
    {
        // SACK-permitted stands where the timestamps' padding would
        const Bytes& permitted = options.at(SACK_PERMITTED);
        const Bytes& stamps = options.at(TIMESTAMPS);
        bytes.insert(bytes.end(), permitted.begin(), permitted.end());
        bytes.insert(bytes.end(), stamps.begin(), stamps.end());
    }
    else
    {
        append(SACK_PERMITTED);
        if (timestamps)
        {
            append(TIMESTAMPS);
        }
    }
    append(WINDOW_SCALE);
    return bytes;
}

/**
 * Lay out a header's options as Linux does.
 * @param found options by their kind
 * @param mptcp MPTCP options, one after the other
 * @return a multiple of 4 bytes, at most 40
 */
Bytes
MakeOptions(const std::map<uint8_t, Bytes>& found, View mptcp)
{
    constexpr std::size_t ROOM = MptcpOptionTag::MAX_BYTES;
    constexpr std::size_t SACK_HEAD = 4; // with its padding
    constexpr std::size_t SACK_BLOCK = 8;

    Bytes multipath;
    while (!mptcp.empty())
    {
        const View option = mptcp.first(mptcp[1]);
        multipath.insert(multipath.end(), option.begin(), option.end());
        multipath.insert(multipath.end(), (4 - option.size() % 4) % 4, NOP);
        mptcp = mptcp.subspan(option.size());
    }
    Bytes options = LayOut(found, true);
    if (options.size() + multipath.size() > ROOM)
    {
        options = LayOut(found, false);
    }
    if (options.size() + multipath.size() > ROOM)
    {
        NS_FATAL_ERROR("TCP options of " << options.size() + multipath.size() << " bytes, room for "
                                         << ROOM);
    }
    if (const auto sack = found.find(SACK); sack != found.end())
    {
        const std::size_t room = ROOM - options.size() - multipath.size();
        const std::size_t blocks = std::min((sack->second.size() - 2) / SACK_BLOCK,
                                            room < SACK_HEAD ? 0 : (room - SACK_HEAD) / SACK_BLOCK);
        if (blocks > 0)
        {
            Bytes cut = sack->second;
            cut.resize(2 + blocks * SACK_BLOCK);
            cut[1] = cut.size();
            AppendPadded(options, cut);
        }
    }
    options.insert(options.end(), multipath.begin(), multipath.end());
    return options;
}

} // namespace

std::vector<std::vector<uint8_t>>
GetTcpWireImage(Ptr<const Packet> packet, bool sliced)
{
    Bytes whole(packet->GetSize());
    packet->CopyData(whole.data(), whole.size());
    const Ip ip = ReadIp(whole);
    const std::size_t fixed = ip.size + TCP_HEADER;
    if (!ip.tcp || whole.size() < fixed)
    {
        if (ip.size > 0)
        {
            ip.Finish(whole);
        }
        return {whole};
    }
    const std::size_t data = ip.size + 4U * (whole[ip.size + TCP_DATA_OFFSET] >> 4);
    MptcpOptionTag tag;
    packet->PeekPacketTag(tag);
    const Bytes options =
        MakeOptions(ReadOptions(View(whole).subspan(fixed, data - fixed)), tag.GetBytes());

    Bytes head(whole.begin(), whole.begin() + fixed);
    head.insert(head.end(), options.begin(), options.end());
    head[ip.size + TCP_DATA_OFFSET] = ((TCP_HEADER + options.size()) / 4) << 4;
    const View payload = View(whole).subspan(data);
    const std::size_t ipLength = head.size() + payload.size() - (ip.v6 ? IPV6_HEADER : 0);
    std::size_t slice = std::max<std::size_t>(payload.size(), 1);
    GsoTag gso;
    if (packet->PeekPacketTag(gso) && gso.GetSegmentPayload() > 0 &&
        (sliced || ipLength > std::numeric_limits<uint16_t>::max()))
    {
        slice = gso.GetSegmentPayload();
    }

    const auto sequence = ReadNetworkOrder<uint32_t>(&head[ip.size + TCP_SEQUENCE]);
    const auto identification = ReadNetworkOrder<uint16_t>(&head[IPV4_IDENTIFICATION]);
    std::vector<Bytes> segments;
    std::size_t at = 0;
    do
    {
        const View part = payload.subspan(at, std::min(slice, payload.size() - at));
        const bool last = at + part.size() == payload.size();
        Bytes segment = head;
        segment.insert(segment.end(), part.begin(), part.end());
        Put16(segment, ip.size + TCP_SEQUENCE, static_cast<uint32_t>(sequence + at) >> 16);
        Put16(segment, ip.size + TCP_SEQUENCE + 2, sequence + at);
        segment[ip.size + TCP_FLAGS] &= (last ? 0xff : ~TCP_FIN_PSH) & (at == 0 ? 0xff : ~TCP_CWR);
        if (!ip.v6)
        {
            Put16(segment, IPV4_IDENTIFICATION, identification + segments.size());
        }
        ip.Finish(segment);
        Put16(segment, ip.size + TCP_CHECKSUM, 0);
        const uint64_t sum = Sum(View(segment).subspan(ip.size), ip.PseudoHeader(segment));
        Put16(segment, ip.size + TCP_CHECKSUM, Fold(sum));
        segments.push_back(std::move(segment));
        at += part.size();
    } while (at < payload.size());
    return segments;
}

} // namespace ns3
