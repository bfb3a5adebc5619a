/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-send-queue.h"

#include "mptcp-sequence.h"

#include "ns3/assert.h"

#include <algorithm>

namespace ns3
{

MptcpSendQueue::MptcpSendQueue()
    : m_pending(m_chunks.end())
{
}

void
MptcpSendQueue::Reset(uint64_t dsn)
{
    m_end = dsn;
    for (auto& chunk : m_chunks)
    {
        NS_ASSERT_MSG(chunk.sent == 0, "sequence numbers change after data was sent");
        chunk.dsn = m_end;
        m_end += chunk.data->GetSize();
    }
}

void
MptcpSendQueue::Add(Ptr<const Packet> data, bool endOfRecord)
{
    const uint32_t size = data->GetSize();
    for (uint32_t offset = 0; offset < size; offset += CHUNK_BYTES)
    {
        uint32_t bytes = std::min(size - offset, CHUNK_BYTES);
        Ptr<Packet> piece = bytes == size ? data->Copy() : data->CreateFragment(offset, bytes);
        m_chunks.push_back({m_end, piece, endOfRecord && offset + bytes == size});
        m_end += bytes;
        m_bytes += bytes;
        if (m_pending == m_chunks.end())
        {
            m_pending = std::prev(m_chunks.end());
        }
    }
}

void
MptcpSendQueue::Acknowledge(uint64_t dsn)
{
    while (!m_chunks.empty())
    {
        Chunk& head = m_chunks.front();
        uint32_t size = head.data->GetSize();
        if (MptcpBefore(dsn, head.dsn + size))
        {
            if (MptcpBefore(head.dsn, dsn))
            {
                auto acked = static_cast<uint32_t>(dsn - head.dsn);
                head.data = head.data->CreateFragment(acked, size - acked);
                head.dsn = dsn;
                head.sent -= std::min(head.sent, acked);
                m_bytes -= acked;
            }
            return;
        }
        // after Restart() data may be acknowledged that was to be sent again
        if (m_pending == m_chunks.begin())
        {
            ++m_pending;
        }
        m_bytes -= size;
        m_chunks.pop_front();
    }
}

MptcpSendQueue::Chunk*
MptcpSendQueue::GetPending()
{
    return m_pending == m_chunks.end() ? nullptr : &*m_pending;
}

void
MptcpSendQueue::MarkSent(uint32_t bytes)
{
    m_pending->sent += bytes;
    NS_ASSERT(m_pending->sent <= m_pending->data->GetSize());
    if (m_pending->sent == m_pending->data->GetSize())
    {
        ++m_pending;
    }
}

const MptcpSendQueue::Chunk*
MptcpSendQueue::GetSentFrom(uint64_t dsn) const
{
    for (const auto& chunk : m_chunks)
    {
        if (MptcpBefore(dsn, chunk.dsn + chunk.data->GetSize()))
        {
            return MptcpBefore(dsn, chunk.dsn + chunk.sent) ? &chunk : nullptr;
        }
    }
    return nullptr;
}

void
MptcpSendQueue::Restart()
{
    for (auto& chunk : m_chunks)
    {
        chunk.sent = 0;
    }
    m_pending = m_chunks.begin();
}

uint64_t
MptcpSendQueue::GetEnd() const
{
    return m_end;
}

uint32_t
MptcpSendQueue::GetBytes() const
{
    return m_bytes;
}

bool
MptcpSendQueue::IsEmpty() const
{
    return m_chunks.empty();
}

} // namespace ns3
