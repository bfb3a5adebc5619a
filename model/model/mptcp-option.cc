/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-option.h"

#include "network-order.h"

#include "ns3/assert.h"

#include <algorithm>
#include <iomanip>
#include <string_view>

namespace ns3
{

namespace
{

// flags of MP_CAPABLE (RFC 8684 §3.1)
constexpr uint8_t CAPABLE_CHECKSUM = 0x80;
constexpr uint8_t CAPABLE_EXTENSION = 0x40;
constexpr uint8_t CAPABLE_DENY_JOIN = 0x20;
constexpr uint8_t CAPABLE_SHA256 = 0x01;

// flags of DSS (RFC 8684 §3.3)
constexpr uint8_t DSS_ACK = 0x01;
constexpr uint8_t DSS_ACK8 = 0x02;
constexpr uint8_t DSS_MAPPING = 0x04;
constexpr uint8_t DSS_DSN8 = 0x08;
constexpr uint8_t DSS_FIN = 0x10;

constexpr uint8_t BACKUP = 0x01;          // MP_JOIN, MP_PRIO
constexpr uint8_t ECHO = 0x01;            // ADD_ADDR
constexpr uint8_t RESET_TRANSIENT = 0x01; // MP_TCPRST

/// Writes an option; the length is filled in at the end.
class Writer
{
  public:
    /**
     * Begin an option.
     * @param subtype its subtype
     * @param low the four bits that follow the subtype
     */
    Writer(MptcpSubtype subtype, uint8_t low)
        : m_bytes{MPTCP_OPTION_KIND,
                  0,
                  static_cast<uint8_t>((static_cast<int>(subtype) << 4) | low)}
    {
    }

    /**
     * Append an integer in network byte order.
     * @param value the integer
     * @return this
     */
    template <std::unsigned_integral T>
    Writer& Put(T value)
    {
        AppendNetworkOrder(m_bytes, value);
        return *this;
    }

    /**
     * Append an integer, if there is one.
     * @param value the integer
     * @return this
     */
    template <std::unsigned_integral T>
    Writer& Put(const std::optional<T>& value)
    {
        return value ? Put(*value) : *this;
    }

    /**
     * Append a number of 8 bytes, or its last 4.
     * @param value the number
     * @param whole whether all 8 are wanted
     * @return this
     */
    Writer& PutNumber(uint64_t value, bool whole)
    {
        return whole ? Put(value) : Put(static_cast<uint32_t>(value));
    }

    /**
     * Append bytes.
     * @param bytes the bytes
     * @return this
     */
    Writer& Put(std::span<const uint8_t> bytes)
    {
        m_bytes.insert(m_bytes.end(), bytes.begin(), bytes.end());
        return *this;
    }

    /// @return the option
    std::vector<uint8_t> Take()
    {
        m_bytes[1] = static_cast<uint8_t>(m_bytes.size());
        return std::move(m_bytes);
    }

  private:
    std::vector<uint8_t> m_bytes; //!< the option so far
};

/// Reads an option whose length was checked.
class Reader
{
  public:
    /**
     * Begin behind the byte of the subtype.
     * @param option the option
     */
    explicit Reader(std::span<const uint8_t> option)
        : m_rest(option.subspan(3))
    {
    }

    /**
     * Take an integer in network byte order.
     * @return the integer
     */
    template <std::unsigned_integral T>
    T Take()
    {
        const T value = ReadNetworkOrder<T>(m_rest.first(sizeof(T)).data());
        m_rest = m_rest.subspan(sizeof(T));
        return value;
    }

    /**
     * Take a number of 8 or 4 bytes.
     * @param whole whether it has 8
     * @return the number
     */
    uint64_t TakeNumber(bool whole)
    {
        return whole ? Take<uint64_t>() : Take<uint32_t>();
    }

    /**
     * Take bytes.
     * @tparam N how many
     * @return the bytes
     */
    template <std::size_t N>
    std::array<uint8_t, N> TakeBytes()
    {
        std::array<uint8_t, N> bytes;
        std::copy_n(m_rest.begin(), N, bytes.begin());
        m_rest = m_rest.subspan(N);
        return bytes;
    }

    /// @return what is left
    std::span<const uint8_t> Rest() const
    {
        return m_rest;
    }

  private:
    std::span<const uint8_t> m_rest; //!< what was not read yet
};

std::optional<MptcpOption>
DecodeCapable(std::span<const uint8_t> bytes)
{
    constexpr std::array<std::size_t, 5> LENGTHS{4, 12, 20, 22, 24};
    if (std::find(LENGTHS.begin(), LENGTHS.end(), bytes.size()) == LENGTHS.end())
    {
        return {};
    }
    Reader reader(bytes);
    MptcpCapable option;
    option.version = bytes[2] & 0x0f;
    const auto flags = reader.Take<uint8_t>();
    if ((flags & CAPABLE_EXTENSION) || !(flags & CAPABLE_SHA256))
    {
        return {}; // an extension or an algorithm that nobody knows: as if it were not there
    }
    option.checksumRequired = flags & CAPABLE_CHECKSUM;
    option.denyJoinToSource = flags & CAPABLE_DENY_JOIN;
    if (bytes.size() >= 12)
    {
        option.senderKey = reader.Take<uint64_t>();
    }
    if (bytes.size() >= 20)
    {
        option.receiverKey = reader.Take<uint64_t>();
    }
    if (bytes.size() >= 22)
    {
        option.length = reader.Take<uint16_t>();
    }
    if (bytes.size() >= 24)
    {
        option.checksum = reader.Take<uint16_t>();
    }
    return option;
}

std::optional<MptcpOption>
DecodeJoin(std::span<const uint8_t> bytes)
{
    Reader reader(bytes);
    const bool backup = bytes[2] & BACKUP;
    switch (bytes.size())
    {
    case 12: {
        MptcpJoinSyn option;
        option.backup = backup;
        option.addressId = reader.Take<uint8_t>();
        option.token = reader.Take<uint32_t>();
        option.nonce = reader.Take<uint32_t>();
        return option;
    }
    case 16: {
        MptcpJoinSynAck option;
        option.backup = backup;
        option.addressId = reader.Take<uint8_t>();
        option.hmac = reader.TakeBytes<8>();
        option.nonce = reader.Take<uint32_t>();
        return option;
    }
    case 24: {
        reader.Take<uint8_t>(); // reserved
        return MptcpJoinAck{reader.TakeBytes<20>()};
    }
    default:
        return {};
    }
}

std::optional<MptcpOption>
DecodeDss(std::span<const uint8_t> bytes)
{
    if (bytes.size() < 4)
    {
        return {};
    }
    Reader reader(bytes);
    const auto flags = reader.Take<uint8_t>();
    std::size_t length = 4;
    if (flags & DSS_ACK)
    {
        length += flags & DSS_ACK8 ? 8 : 4;
    }
    if (flags & DSS_MAPPING)
    {
        length += flags & DSS_DSN8 ? 14 : 10;
    }
    const bool checksum = (flags & DSS_MAPPING) && bytes.size() == length + 2;
    if (bytes.size() != length && !checksum)
    {
        return {};
    }
    MptcpDss option;
    option.ack8 = flags & DSS_ACK8;
    option.dsn8 = flags & DSS_DSN8;
    option.dataFin = flags & DSS_FIN;
    if (flags & DSS_ACK)
    {
        option.dataAck = reader.TakeNumber(option.ack8);
    }
    if (flags & DSS_MAPPING)
    {
        option.dsn = reader.TakeNumber(option.dsn8);
        option.ssn = reader.Take<uint32_t>();
        option.length = reader.Take<uint16_t>();
    }
    if (checksum)
    {
        option.checksum = reader.Take<uint16_t>();
    }
    return option;
}

std::optional<MptcpOption>
DecodeAddAddr(std::span<const uint8_t> bytes)
{
    MptcpAddAddr option;
    option.echo = bytes[2] & ECHO;
    const std::size_t hmac = option.echo ? 0 : 8;
    const bool ipv6 = bytes.size() >= 20 + hmac;
    const std::size_t fixed = 4 + (ipv6 ? 16 : 4) + hmac;
    if (bytes.size() != fixed && bytes.size() != fixed + 2)
    {
        return {};
    }
    Reader reader(bytes);
    option.addressId = reader.Take<uint8_t>();
    if (ipv6)
    {
        option.address = Ipv6Address(reader.TakeBytes<16>().data());
    }
    else
    {
        option.address = Ipv4Address(reader.Take<uint32_t>());
    }
    if (bytes.size() == fixed + 2)
    {
        option.port = reader.Take<uint16_t>();
    }
    if (!option.echo)
    {
        option.hmac = reader.Take<uint64_t>();
    }
    return option;
}

/// Prints an option in one line: its name, then `name=value` for each member.
class Printer
{
  public:
    /**
     * Print to a stream.
     * @param os the stream
     */
    explicit Printer(std::ostream& os)
        : m_os(os)
    {
    }

    /// @param option the option
    void operator()(const MptcpCapable& option)
    {
        m_os << "MP_CAPABLE version=" << +option.version;
        Flag("checksum-required", option.checksumRequired);
        Flag("deny-join", option.denyJoinToSource);
        Hex("sender-key", option.senderKey);
        Hex("receiver-key", option.receiverKey);
        Number("length", option.length);
        Hex("checksum", option.checksum);
    }

    /// @param option the option
    void operator()(const MptcpJoinSyn& option)
    {
        m_os << "MP_JOIN id=" << +option.addressId;
        Flag("backup", option.backup);
        Hex("token", option.token);
        Hex("nonce", option.nonce);
    }

    /// @param option the option
    void operator()(const MptcpJoinSynAck& option)
    {
        m_os << "MP_JOIN id=" << +option.addressId;
        Flag("backup", option.backup);
        Bits("hmac", option.hmac);
        Hex("nonce", option.nonce);
    }

    /// @param option the option
    void operator()(const MptcpJoinAck& option)
    {
        m_os << "MP_JOIN";
        Bits("hmac", option.hmac);
    }

    /// @param option the option
    void operator()(const MptcpDss& option)
    {
        m_os << "DSS";
        Number("ack", option.dataAck);
        Number("dsn", option.dsn);
        if (option.dsn)
        {
            Number("ssn", option.ssn);
            Number("length", option.length);
        }
        Hex("checksum", option.checksum);
        Flag("fin", option.dataFin);
    }

    /// @param option the option
    void operator()(const MptcpAddAddr& option)
    {
        m_os << "ADD_ADDR id=" << +option.addressId << " address=";
        std::visit([this](const auto& address) { m_os << address; }, option.address);
        Number("port", option.port);
        Flag("echo", option.echo);
        if (!option.echo)
        {
            Hex("hmac", option.hmac);
        }
    }

    /// @param option the option
    void operator()(const MptcpRemoveAddr& option)
    {
        m_os << "REMOVE_ADDR";
        for (const uint8_t id : option.addressIds)
        {
            Number("id", id);
        }
    }

    /// @param option the option
    void operator()(const MptcpPrio& option)
    {
        m_os << "MP_PRIO";
        Flag("backup", option.backup);
    }

    /// @param option the option
    void operator()(const MptcpFail& option)
    {
        m_os << "MP_FAIL";
        Number("dsn", option.dsn);
    }

    /// @param option the option
    void operator()(const MptcpFastclose& option)
    {
        m_os << "MP_FASTCLOSE";
        Hex("receiver-key", option.receiverKey);
    }

    /// @param option the option
    void operator()(const MptcpReset& option)
    {
        m_os << "MP_TCPRST reason=" << +option.reason;
        Flag("transient", option.transient);
    }

  private:
    /**
     * Print a number in decimal, if there is one.
     * @param name its name
     * @param value the number
     */
    void Number(std::string_view name, std::optional<uint64_t> value)
    {
        if (value)
        {
            m_os << ' ' << name << '=' << *value;
        }
    }

    /**
     * Print a number in hexadecimal, if there is one.
     * @param name its name
     * @param value the number
     */
    void Hex(std::string_view name, std::optional<uint64_t> value)
    {
        if (value)
        {
            m_os << ' ' << name << "=0x" << std::hex << *value << std::dec;
        }
    }

    /**
     * Print a string of bits in hexadecimal.
     * @param name its name
     * @param bytes its bytes
     */
    void Bits(std::string_view name, std::span<const uint8_t> bytes)
    {
        const char fill = m_os.fill('0');
        m_os << ' ' << name << "=0x" << std::hex;
        for (const uint8_t byte : bytes)
        {
            m_os << std::setw(2) << +byte;
        }
        m_os << std::dec << std::setfill(fill);
    }

    /**
     * Print the name of a flag.
     * @param name its name
     * @param set whether the flag is set; else nothing is printed
     */
    void Flag(std::string_view name, bool set)
    {
        if (set)
        {
            m_os << ' ' << name;
        }
    }

    std::ostream& m_os; //!< the stream
};

} // namespace

std::vector<uint8_t>
MptcpCapable::Encode() const
{
    NS_ASSERT_MSG(senderKey || !receiverKey, "MP_CAPABLE has no receiver's key without a sender's");
    NS_ASSERT_MSG(receiverKey || !length, "MP_CAPABLE has no length without both keys");
    NS_ASSERT_MSG(length || !checksum, "MP_CAPABLE has no checksum without a length");
    const uint8_t flags = (checksumRequired ? CAPABLE_CHECKSUM : 0) |
                          (denyJoinToSource ? CAPABLE_DENY_JOIN : 0) | CAPABLE_SHA256;
    return Writer(MptcpSubtype::MP_CAPABLE, version)
        .Put(flags)
        .Put(senderKey)
        .Put(receiverKey)
        .Put(length)
        .Put(checksum)
        .Take();
}

std::vector<uint8_t>
MptcpJoinSyn::Encode() const
{
    return Writer(MptcpSubtype::MP_JOIN, backup ? BACKUP : 0)
        .Put(addressId)
        .Put(token)
        .Put(nonce)
        .Take();
}

std::vector<uint8_t>
MptcpJoinSynAck::Encode() const
{
    return Writer(MptcpSubtype::MP_JOIN, backup ? BACKUP : 0)
        .Put(addressId)
        .Put(hmac)
        .Put(nonce)
        .Take();
}

std::vector<uint8_t>
MptcpJoinAck::Encode() const
{
    return Writer(MptcpSubtype::MP_JOIN, 0).Put(uint8_t{0}).Put(hmac).Take();
}

std::vector<uint8_t>
MptcpDss::Encode() const
{
    NS_ASSERT_MSG(dsn || !checksum, "DSS has no checksum without a mapping");
    const uint8_t flags = (dataAck ? DSS_ACK | (ack8 ? DSS_ACK8 : 0) : 0) |
                          (dsn ? DSS_MAPPING | (dsn8 ? DSS_DSN8 : 0) : 0) | (dataFin ? DSS_FIN : 0);
    Writer writer(MptcpSubtype::DSS, 0);
    writer.Put(flags);
    if (dataAck)
    {
        writer.PutNumber(*dataAck, ack8);
    }
    if (dsn)
    {
        writer.PutNumber(*dsn, dsn8).Put(ssn).Put(length).Put(checksum);
    }
    return writer.Take();
}

std::vector<uint8_t>
MptcpAddAddr::Encode() const
{
    Writer writer(MptcpSubtype::ADD_ADDR, echo ? ECHO : 0);
    writer.Put(addressId);
    if (const auto* ipv4 = std::get_if<Ipv4Address>(&address))
    {
        writer.Put(ipv4->Get());
    }
    else
    {
        std::array<uint8_t, 16> bytes;
        std::get<Ipv6Address>(address).GetBytes(bytes.data());
        writer.Put(bytes);
    }
    writer.Put(port);
    if (!echo)
    {
        writer.Put(hmac);
    }
    return writer.Take();
}

std::vector<uint8_t>
MptcpRemoveAddr::Encode() const
{
    NS_ASSERT_MSG(!addressIds.empty(), "REMOVE_ADDR names at least one address");
    return Writer(MptcpSubtype::REMOVE_ADDR, 0).Put(addressIds).Take();
}

std::vector<uint8_t>
MptcpPrio::Encode() const
{
    return Writer(MptcpSubtype::MP_PRIO, backup ? BACKUP : 0).Take();
}

std::vector<uint8_t>
MptcpFail::Encode() const
{
    return Writer(MptcpSubtype::MP_FAIL, 0).Put(uint8_t{0}).Put(dsn).Take();
}

std::vector<uint8_t>
MptcpFastclose::Encode() const
{
    return Writer(MptcpSubtype::MP_FASTCLOSE, 0).Put(uint8_t{0}).Put(receiverKey).Take();
}

std::vector<uint8_t>
MptcpReset::Encode() const
{
    return Writer(MptcpSubtype::MP_TCPRST, transient ? RESET_TRANSIENT : 0).Put(reason).Take();
}

std::optional<MptcpOption>
DecodeMptcpOption(std::span<const uint8_t> bytes)
{
    if (bytes.size() < 3 || bytes[0] != MPTCP_OPTION_KIND || bytes[1] != bytes.size())
    {
        return {};
    }
    Reader reader(bytes);
    switch (static_cast<MptcpSubtype>(bytes[2] >> 4))
    {
    case MptcpSubtype::MP_CAPABLE:
        return DecodeCapable(bytes);
    case MptcpSubtype::MP_JOIN:
        return DecodeJoin(bytes);
    case MptcpSubtype::DSS:
        return DecodeDss(bytes);
    case MptcpSubtype::ADD_ADDR:
        return DecodeAddAddr(bytes);
    case MptcpSubtype::REMOVE_ADDR:
        if (!reader.Rest().empty())
        {
            return MptcpRemoveAddr{{reader.Rest().begin(), reader.Rest().end()}};
        }
        break;
    case MptcpSubtype::MP_PRIO:
        if (bytes.size() == 3)
        {
            return MptcpPrio{static_cast<bool>(bytes[2] & BACKUP)};
        }
        break;
    case MptcpSubtype::MP_FAIL:
        if (bytes.size() == 12)
        {
            reader.Take<uint8_t>(); // reserved
            return MptcpFail{reader.Take<uint64_t>()};
        }
        break;
    case MptcpSubtype::MP_FASTCLOSE:
        if (bytes.size() == 12)
        {
            reader.Take<uint8_t>(); // reserved
            return MptcpFastclose{reader.Take<uint64_t>()};
        }
        break;
    case MptcpSubtype::MP_TCPRST:
        if (bytes.size() == 4)
        {
            return MptcpReset{static_cast<bool>(bytes[2] & RESET_TRANSIENT),
                              reader.Take<uint8_t>()};
        }
        break;
    }
    return {};
}

std::vector<MptcpOption>
DecodeMptcpOptions(std::span<const uint8_t> bytes)
{
    constexpr uint8_t END = 0; // RFC 9293 §3.1, as the next one
    constexpr uint8_t NOP = 1;
    std::vector<MptcpOption> options;
    while (!bytes.empty() && bytes[0] != END)
    {
        if (bytes[0] == NOP)
        {
            bytes = bytes.subspan(1);
            continue;
        }
        if (bytes.size() < 2 || bytes[1] < 2 || bytes[1] > bytes.size())
        {
            break;
        }
        if (const auto option = DecodeMptcpOption(bytes.first(bytes[1])))
        {
            options.push_back(*option);
        }
        bytes = bytes.subspan(bytes[1]);
    }
    return options;
}

std::ostream&
operator<<(std::ostream& os, const MptcpOption& option)
{
    std::visit(Printer(os), option);
    return os;
}

} // namespace ns3
