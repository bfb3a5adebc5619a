/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-receive-queue.h"

#include <algorithm>

namespace ns3
{

void
MptcpReceiveQueue::Reset(uint64_t dsn)
{
    *this = MptcpReceiveQueue();
    m_next = dsn;
}

uint32_t
MptcpReceiveQueue::Insert(uint64_t dsn, Ptr<const Packet> data)
{
    const uint32_t had = m_inOrderBytes + m_outOfOrderBytes;
    uint64_t end = dsn + data->GetSize();
    uint64_t begin = dsn;
    if (MptcpBefore(begin, m_next))
    {
        begin = m_next;
    }
    // the piece before may reach into this one, those behind may begin in it
    auto behind = m_outOfOrder.lower_bound(begin);
    if (behind != m_outOfOrder.begin())
    {
        auto before = std::prev(behind);
        uint64_t beforeEnd = before->first + before->second->GetSize();
        if (MptcpBefore(begin, beforeEnd))
        {
            begin = beforeEnd;
        }
    }
    while (behind != m_outOfOrder.end() && MptcpBefore(behind->first, end))
    {
        uint64_t behindEnd = behind->first + behind->second->GetSize();
        if (MptcpBefore(end, behindEnd))
        {
            end = behind->first;
            break;
        }
        m_outOfOrderBytes -= behind->second->GetSize();
        behind = m_outOfOrder.erase(behind);
    }
    if (!MptcpBefore(begin, end))
    {
        return 0;
    }

    auto bytes = static_cast<uint32_t>(end - begin);
    Ptr<Packet> piece = bytes == data->GetSize()
                            ? data->Copy()
                            : data->CreateFragment(static_cast<uint32_t>(begin - dsn), bytes);
    if (begin == m_next)
    {
        Append(piece);
        MoveInOrder();
    }
    else
    {
        m_outOfOrder.emplace(begin, piece);
        m_outOfOrderBytes += bytes;
    }
    return m_inOrderBytes + m_outOfOrderBytes - had;
}

void
MptcpReceiveQueue::Append(Ptr<Packet> data)
{
    m_inOrder.push_back(data);
    m_inOrderBytes += data->GetSize();
    m_next += data->GetSize();
}

void
MptcpReceiveQueue::MoveInOrder()
{
    while (!m_outOfOrder.empty() && m_outOfOrder.begin()->first == m_next)
    {
        Ptr<Packet> piece = m_outOfOrder.begin()->second;
        m_outOfOrder.erase(m_outOfOrder.begin());
        m_outOfOrderBytes -= piece->GetSize();
        Append(piece);
    }
}

Ptr<Packet>
MptcpReceiveQueue::Extract(uint32_t maxBytes)
{
    if (m_inOrder.empty() || maxBytes == 0)
    {
        return nullptr;
    }
    Ptr<Packet> piece = m_inOrder.front();
    if (piece->GetSize() <= maxBytes)
    {
        m_inOrder.pop_front();
    }
    else
    {
        m_inOrder.front() = piece->CreateFragment(maxBytes, piece->GetSize() - maxBytes);
        piece = piece->CreateFragment(0, maxBytes);
    }
    m_inOrderBytes -= piece->GetSize();
    return piece;
}

uint64_t
MptcpReceiveQueue::GetNext() const
{
    return m_next;
}

void
MptcpReceiveQueue::SkipFin()
{
    ++m_next;
}

uint32_t
MptcpReceiveQueue::GetInOrderBytes() const
{
    return m_inOrderBytes;
}

uint32_t
MptcpReceiveQueue::GetOutOfOrderBytes() const
{
    return m_outOfOrderBytes;
}

std::size_t
MptcpReceiveQueue::GetPieces() const
{
    return m_inOrder.size() + m_outOfOrder.size();
}

bool
MptcpReceiveQueue::IsEmpty() const
{
    return m_inOrder.empty() && m_outOfOrder.empty();
}

} // namespace ns3
