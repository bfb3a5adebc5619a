/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-linux-receive-queue.h"

#include <algorithm>

namespace ns3
{

namespace
{

constexpr std::size_t MAX_SACK_BLOCKS = 4;
// with timestamps three blocks fit; as an ACK may be lost, two are relied on
constexpr std::size_t EXPECTED_SACK_BLOCKS = 2;

} // namespace

TcpLinuxReceiveQueue::TcpLinuxReceiveQueue(uint32_t overhead)
    : m_overhead(overhead)
{
}

void
TcpLinuxReceiveQueue::Start(uint64_t seq)
{
    m_next = m_copied = seq;
}

TcpLinuxReceiveQueue::Verdict
TcpLinuxReceiveQueue::Insert(uint64_t seq, Ptr<Packet> data)
{
    uint64_t end = seq + data->GetSize();
    m_dsack.reset();
    m_sackUrgent = false;
    if (end <= m_next)
    {
        m_dsack = Range(seq, end);
        return OLD;
    }
    if (seq > m_next)
    {
        InsertOutOfOrder(seq, data);
        return OUT_OF_ORDER;
    }
    if (seq < m_next)
    {
        m_dsack = Range(seq, m_next);
        data = data->CreateFragment(m_next - seq, end - m_next);
    }
    m_ready.push_back(data);
    m_memory += m_overhead + data->GetSize();
    m_next = end;
    CloseGap();
    return IN_ORDER;
}

void
TcpLinuxReceiveQueue::CloseGap()
{
    while (!m_waiting.empty() && m_waiting.begin()->first <= m_next)
    {
        auto [seq, data] = *m_waiting.begin();
        m_waiting.erase(m_waiting.begin());
        uint64_t end = seq + data->GetSize();
        if (end > m_next)
        {
            if (seq < m_next)
            {
                m_memory -= m_next - seq;
                data = data->CreateFragment(m_next - seq, end - m_next);
            }
            m_ready.push_back(data);
            m_next = end;
        }
        else
        {
            m_memory -= m_overhead + data->GetSize();
        }
    }
    std::erase_if(m_sackBlocks, [this](const Range& block) { return block.first <= m_next; });
}

void
TcpLinuxReceiveQueue::InsertOutOfOrder(uint64_t seq, Ptr<Packet> data)
{
    uint64_t start = seq;
    uint64_t end = seq + data->GetSize();
    auto it = m_waiting.upper_bound(seq);
    if (it != m_waiting.begin())
    {
        --it;
    }
    uint64_t at = seq;
    for (; at < end; ++it)
    {
        if (it != m_waiting.end() && it->first + it->second->GetSize() <= at)
        {
            continue;
        }
        uint64_t until = it == m_waiting.end() ? end : std::min(end, it->first);
        if (until > at)
        {
            m_waiting.emplace_hint(it, at, data->CreateFragment(at - start, until - at));
            m_memory += m_overhead + (until - at);
        }
        if (it == m_waiting.end())
        {
            break;
        }
        uint64_t known = it->first + it->second->GetSize();
        if (std::min(known, end) > std::max(at, it->first))
        {
            uint64_t from = m_dsack ? m_dsack->first : std::max(at, it->first);
            m_dsack = Range(from, std::min(known, end));
        }
        at = std::max(at, known);
    }
    AddSackBlock(Range(start, end));
}

void
TcpLinuxReceiveQueue::AddSackBlock(Range range)
{
    auto touches = [&range](const Range& block) {
        return block.first <= range.second && range.first <= block.second;
    };
    auto place = std::find_if(m_sackBlocks.begin(), m_sackBlocks.end(), touches);
    m_sackUrgent = std::size_t(place - m_sackBlocks.begin()) >= EXPECTED_SACK_BLOCKS;
    for (auto it = place; it != m_sackBlocks.end();
         it = std::find_if(it, m_sackBlocks.end(), touches))
    {
        range = Range(std::min(range.first, it->first), std::max(range.second, it->second));
        it = m_sackBlocks.erase(it);
    }
    m_sackBlocks.insert(m_sackBlocks.begin(), range);
    if (m_sackBlocks.size() > MAX_SACK_BLOCKS)
    {
        m_sackBlocks.pop_back();
    }
}

void
TcpLinuxReceiveQueue::SetFin(uint64_t seq)
{
    m_fin = seq;
}

bool
TcpLinuxReceiveQueue::IsFinished() const
{
    return m_fin && m_next >= *m_fin;
}

Ptr<Packet>
TcpLinuxReceiveQueue::Read(uint32_t size)
{
    if (m_ready.empty() || size == 0)
    {
        return nullptr;
    }
    auto packet = m_ready.front();
    uint32_t whole = packet->GetSize();
    if (whole <= size)
    {
        m_ready.pop_front();
        m_memory -= m_overhead + whole;
        m_copied += whole;
        return packet;
    }
    m_ready.front() = packet->CreateFragment(size, whole - size);
    m_memory -= size;
    m_copied += size;
    return packet->CreateFragment(0, size);
}

uint64_t
TcpLinuxReceiveQueue::GetNext() const
{
    return m_next;
}

uint64_t
TcpLinuxReceiveQueue::GetCopied() const
{
    return m_copied;
}

uint32_t
TcpLinuxReceiveQueue::GetAvailable() const
{
    return m_next - m_copied;
}

uint64_t
TcpLinuxReceiveQueue::GetMemory() const
{
    return m_memory;
}

bool
TcpLinuxReceiveQueue::HasGap() const
{
    return !m_waiting.empty();
}

uint64_t
TcpLinuxReceiveQueue::GetHighest() const
{
    return m_waiting.empty() ? m_next
                             : m_waiting.rbegin()->first + m_waiting.rbegin()->second->GetSize();
}

const std::vector<TcpLinuxReceiveQueue::Range>&
TcpLinuxReceiveQueue::GetSackBlocks() const
{
    return m_sackBlocks;
}

std::optional<TcpLinuxReceiveQueue::Range>
TcpLinuxReceiveQueue::TakeDsack()
{
    auto dsack = m_dsack;
    m_dsack.reset();
    return dsack;
}

void
TcpLinuxReceiveQueue::SetDsack(Range range)
{
    m_dsack = range;
}

bool
TcpLinuxReceiveQueue::IsSackUrgent() const
{
    return m_sackUrgent;
}

} // namespace ns3
