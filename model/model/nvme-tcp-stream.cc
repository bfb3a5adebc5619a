/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "nvme-tcp-stream.h"

#include "ns3/assert.h"
#include "ns3/tcp-socket-base.h"

#include <algorithm>

namespace ns3
{

namespace
{

// Linux's message flags; what they mean to a socket is the socket's business
constexpr uint32_t MSG_END_OF_RECORD = 0x80;
constexpr uint32_t MSG_MORE_FOLLOWS = 0x8000;

std::vector<uint8_t>
DigestBytes(uint32_t digest)
{
    std::vector<uint8_t> bytes(NvmeTcpPdu::DIGEST_SIZE);
    for (uint32_t i = 0; i < bytes.size(); i++)
    {
        bytes[i] = static_cast<uint8_t>(digest >> (8 * i));
    }
    return bytes;
}

} // namespace

bool
NvmeTcpStream::Output::IsDone() const
{
    return sentBytes == bytes.size() && sentData == data && sentTail == tail.size();
}

NvmeTcpStream::NvmeTcpStream(Ptr<Socket> socket)
    : m_socket(socket),
      // ns-3's own socket aborts when it gets flags
      m_hasFlags(socket->GetInstanceTypeId() != TcpSocketBase::GetTypeId())
{
}

NvmeTcpStream::Output
NvmeTcpStream::Prepare(const NvmeTcpPdu& pdu, const std::vector<uint8_t>& content)
{
    Output output;
    output.bytes = pdu.Encode();
    output.data = pdu.GetDataLength();
    const bool digest = output.data && pdu.flags & NvmeTcpPdu::DDGST;
    if (output.data && !content.empty())
    {
        NS_ASSERT(content.size() == output.data);
        output.bytes.insert(output.bytes.end(), content.begin(), content.end());
        output.data = 0;
    }
    if (digest)
    {
        output.tail = DigestBytes(output.data ? NvmeTcpDigestOfZeros(output.data)
                                              : NvmeTcpDigest(content.data(), content.size()));
    }
    return output;
}

uint32_t
NvmeTcpStream::SendPiece(Ptr<Packet> packet, bool more)
{
    const uint32_t flags = m_hasFlags ? (more ? MSG_MORE_FOLLOWS : MSG_END_OF_RECORD) : 0;
    return std::max(0, m_socket->Send(packet, flags));
}

bool
NvmeTcpStream::Send(Output& output, bool more)
{
    auto sendBytes = [&](const std::vector<uint8_t>& bytes, uint32_t& sent, bool moreFollows) {
        while (sent < bytes.size())
        {
            const uint32_t room = m_socket->GetTxAvailable();
            const uint32_t size = std::min<uint32_t>(room, bytes.size() - sent);
            const uint32_t taken =
                size ? SendPiece(Create<Packet>(bytes.data() + sent, size), moreFollows) : 0;
            if (!taken)
            {
                return false;
            }
            sent += taken;
        }
        return true;
    };
    if (!sendBytes(output.bytes, output.sentBytes, more || output.data))
    {
        return false;
    }
    while (output.sentData < output.data)
    {
        const uint32_t left = output.data - output.sentData;
        const uint32_t page = PAGE_SIZE - output.sentData % PAGE_SIZE;
        const uint32_t piece = m_hasFlags ? std::min(left, page) : left;
        const uint32_t size = std::min(piece, m_socket->GetTxAvailable());
        const bool last = piece == left && output.tail.empty();
        const uint32_t taken = size ? SendPiece(Create<Packet>(size), more || !last) : 0;
        if (!taken)
        {
            return false;
        }
        output.sentData += taken;
    }
    return sendBytes(output.tail, output.sentTail, more);
}

uint32_t
NvmeTcpStream::Take(uint8_t* to, uint32_t size)
{
    uint32_t taken = 0;
    while (taken < size)
    {
        if (m_arrived.empty())
        {
            Ptr<Packet> packet = m_socket->Recv();
            if (!packet || !packet->GetSize())
            {
                break;
            }
            m_arrived.push_back(packet);
        }
        Ptr<Packet>& first = m_arrived.front();
        const uint32_t here = std::min(size - taken, first->GetSize());
        if (to)
        {
            first->CopyData(to + taken, here);
        }
        taken += here;
        if (here == first->GetSize())
        {
            m_arrived.pop_front();
        }
        else
        {
            first->RemoveAtStart(here);
        }
    }
    return taken;
}

void
NvmeTcpStream::CheckDigest(uint32_t expected, const uint8_t* bytes, const std::string& what)
{
    if (!std::equal(bytes, bytes + NvmeTcpPdu::DIGEST_SIZE, DigestBytes(expected).begin()))
    {
        m_error = what + " digest error";
    }
}

bool
NvmeTcpStream::ReadHeader(NvmeTcpPdu& pdu)
{
    auto readUpTo = [this](uint32_t size) {
        if (m_headerSize < size)
        {
            m_headerSize += Take(m_header.data() + m_headerSize, size - m_headerSize);
        }
        return m_headerSize == size;
    };
    if (!m_error.empty() || (m_headerSize < NvmeTcpPdu::COMMON_HEADER_SIZE &&
                             !readUpTo(NvmeTcpPdu::COMMON_HEADER_SIZE)))
    {
        return false;
    }
    const uint32_t header = NvmeTcpPdu::HeaderSize(m_header[0]);
    const bool digest = m_headerDigest;
    if (header && !readUpTo(header + (digest ? NvmeTcpPdu::DIGEST_SIZE : 0)))
    {
        return false;
    }
    m_error = NvmeTcpPdu::Decode(m_header.data(), m_headerSize, pdu);
    if (m_error.empty() && digest)
    {
        CheckDigest(NvmeTcpDigest(m_header.data(), header), m_header.data() + header, "header");
    }
    if (!m_error.empty())
    {
        return false;
    }
    m_headerSize = 0;
    m_dataSize = m_dataLeft = pdu.GetDataLength();
    m_data.assign(m_keepData ? m_dataSize : 0, 0);
    m_digestLeft = m_dataDigest && m_dataSize ? NvmeTcpPdu::DIGEST_SIZE : 0;
    return true;
}

bool
NvmeTcpStream::ReadData()
{
    if (m_dataLeft)
    {
        uint8_t* to = m_data.empty() ? nullptr : m_data.data() + (m_dataSize - m_dataLeft);
        m_dataLeft -= Take(to, m_dataLeft);
    }
    if (!m_dataLeft && m_digestLeft)
    {
        m_digestLeft -=
            Take(m_digest.data() + (NvmeTcpPdu::DIGEST_SIZE - m_digestLeft), m_digestLeft);
        if (!m_digestLeft)
        {
            CheckDigest(m_data.empty() ? NvmeTcpDigestOfZeros(m_dataSize)
                                       : NvmeTcpDigest(m_data.data(), m_dataSize),
                        m_digest.data(),
                        "data");
        }
    }
    return !m_dataLeft && !m_digestLeft && m_error.empty();
}

void
NvmeTcpStream::KeepData(bool keep)
{
    m_keepData = keep;
}

const std::vector<uint8_t>&
NvmeTcpStream::GetData() const
{
    return m_data;
}

void
NvmeTcpStream::SetDigests(bool header, bool data)
{
    m_headerDigest = header;
    m_dataDigest = data;
}

const std::string&
NvmeTcpStream::GetError() const
{
    return m_error;
}

} // namespace ns3
