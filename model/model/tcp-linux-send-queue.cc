/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "tcp-linux-send-queue.h"

#include "ns3/assert.h"

#include <algorithm>

namespace ns3
{

TcpLinuxSendQueue::TcpLinuxSendQueue(uint32_t overhead)
    : m_overhead(overhead)
{
}

void
TcpLinuxSendQueue::Start(uint64_t seq)
{
    NS_ASSERT(m_sent.empty());
    uint64_t shift = seq - m_una;
    m_una = m_next = seq;
    m_writeSeq += shift;
    for (auto& skb : m_unsent) // written before the connection was established
    {
        skb.seq += shift;
        skb.end += shift;
    }
    for (auto& piece : m_data)
    {
        piece.first += shift;
    }
}

uint32_t
TcpLinuxSendQueue::CountSegments(uint32_t size, uint32_t mss)
{
    return size <= mss ? 1 : (size + mss - 1) / mss;
}

void
TcpLinuxSendQueue::Append(Ptr<Packet> data, uint32_t goal, bool eor)
{
    uint32_t left = data->GetSize();
    if (left == 0)
    {
        return;
    }
    m_data.emplace_back(m_writeSeq, data);
    while (left > 0)
    {
        uint32_t room = GetTailRoom(goal);
        if (room == 0)
        {
            TcpLinuxSkb skb;
            skb.seq = skb.end = m_writeSeq;
            m_unsent.push_back(skb);
            m_memory += m_overhead;
            room = goal;
        }
        uint32_t size = std::min(room, left);
        m_unsent.back().end += size;
        m_unsent.back().push = false;
        m_writeSeq += size;
        m_memory += size;
        left -= size;
    }
    m_unsent.back().eor = eor;
}

void
TcpLinuxSendQueue::AppendFin()
{
    if (m_unsent.empty())
    {
        TcpLinuxSkb skb;
        skb.seq = skb.end = m_writeSeq;
        m_unsent.push_back(skb);
        m_memory += m_overhead;
    }
    m_unsent.back().fin = true;
    ++m_unsent.back().end;
    ++m_writeSeq;
}

void
TcpLinuxSendQueue::MarkPush()
{
    if (!m_unsent.empty())
    {
        m_unsent.back().push = true;
    }
}

uint32_t
TcpLinuxSendQueue::GetTailRoom(uint32_t goal) const
{
    if (m_unsent.empty() || m_unsent.back().eor || m_unsent.back().fin)
    {
        return 0;
    }
    uint32_t size = m_unsent.back().GetSize();
    return size < goal ? goal - size : 0;
}

TcpLinuxSkb*
TcpLinuxSendQueue::GetHead()
{
    return m_unsent.empty() ? nullptr : &m_unsent.front();
}

bool
TcpLinuxSendQueue::IsTail(const TcpLinuxSkb& skb) const
{
    return &skb == &m_unsent.back();
}

void
TcpLinuxSendQueue::GrowHead(uint32_t size)
{
    while (m_unsent.size() > 1)
    {
        auto& head = m_unsent[0];
        auto& next = m_unsent[1];
        if (head.eor || head.GetSize() >= size)
        {
            return;
        }
        uint32_t moved = std::min(size - head.GetSize(), next.GetSize());
        head.end += moved;
        next.seq += moved;
        if (next.GetSize() > 0)
        {
            return;
        }
        head.end = next.end;
        head.fin = next.fin;
        head.push = next.push;
        head.eor = next.eor;
        m_unsent.erase(m_unsent.begin() + 1);
        m_memory -= m_overhead;
    }
}

void
TcpLinuxSendQueue::SplitHead(uint32_t size)
{
    TcpLinuxSkb rest = m_unsent.front();
    auto& head = m_unsent.front();
    NS_ASSERT(size > 0 && size < head.GetSize());
    rest.seq = head.end = head.seq + size;
    head.fin = head.push = head.eor = false;
    m_unsent.insert(m_unsent.begin() + 1, rest);
    m_memory += m_overhead;
}

TcpLinuxSkb&
TcpLinuxSendQueue::Sent(uint32_t mss)
{
    auto skb = m_unsent.front();
    m_unsent.pop_front();
    skb.segments = CountSegments(skb.GetSize(), mss);
    m_packetsOut += skb.segments;
    m_next = skb.end;
    return m_sent.emplace_hint(m_sent.end(), skb.seq, skb)->second;
}

void
TcpLinuxSendQueue::Unsend()
{
    auto it = std::prev(m_sent.end());
    Untime(it->second);
    m_packetsOut -= it->second.segments;
    m_next = it->second.seq;
    m_unsent.push_front(it->second);
    m_sent.erase(it);
}

void
TcpLinuxSendQueue::SplitSent(RtxQueue::iterator it, uint32_t size, uint32_t mss)
{
    auto& skb = it->second;
    NS_ASSERT(size > 0 && size < skb.GetSize());
    TcpLinuxSkb rest = skb;
    rest.seq = skb.end = skb.seq + size;
    skb.fin = skb.push = skb.eor = false;
    uint32_t before = skb.segments;
    skb.segments = CountSegments(size, mss);
    rest.segments = CountSegments(rest.GetSize(), mss);
    int32_t more = int32_t(skb.segments + rest.segments) - int32_t(before);
    m_packetsOut += more;
    m_sackedOut += skb.sacked ? more : 0;
    m_lostOut += skb.lost ? more : 0;
    m_resentOut += skb.resent ? more : 0;
    m_memory += m_overhead;
    auto placed = m_sent.emplace_hint(std::next(it), rest.seq, rest);
    if (skb.timed)
    {
        placed->second.byTime = m_byTime.insert(std::next(skb.byTime), &placed->second);
    }
}

void
TcpLinuxSendQueue::Stamp(TcpLinuxSkb& skb, Time now)
{
    Untime(skb);
    skb.sent = now;
    skb.timed = true;
    skb.byTime = m_byTime.insert(m_byTime.end(), &skb);
}

void
TcpLinuxSendQueue::Untime(TcpLinuxSkb& skb)
{
    if (skb.timed)
    {
        m_byTime.erase(skb.byTime);
        skb.timed = false;
    }
}

void
TcpLinuxSendQueue::NoteDelivered(const TcpLinuxSkb& skb, uint64_t highSeq, AckResult& result)
{
    if (!result.anyDelivered || skb.delivered > result.newest.delivered ||
        (skb.delivered == result.newest.delivered && skb.sent > result.newest.sent))
    {
        result.newest = skb;
        result.anyDelivered = true;
    }
    if (!skb.everResent)
    {
        if (result.firstSent.IsNegative())
        {
            result.firstSent = skb.sent;
        }
        result.lastSent = skb.sent;
        result.originalAcked = result.originalAcked || skb.end <= highSeq;
    }
}

void
TcpLinuxSendQueue::Acknowledge(uint64_t una,
                               uint32_t mss,
                               uint64_t highSeq,
                               const Delivered& delivered,
                               AckResult& result)
{
    while (!m_sent.empty() && m_sent.begin()->first < una)
    {
        auto it = m_sent.begin();
        if (it->second.end > una)
        {
            if (it->second.GetSize() <= una - it->second.seq)
            {
                break; // all but its FIN
            }
            SplitSent(it, una - it->second.seq, mss);
        }
        auto& skb = it->second;
        if (skb.everResent)
        {
            m_resentOut -= skb.resent ? skb.segments : 0;
            result.resentAcked = true;
        }
        else if (!skb.sacked)
        {
            result.reordered = std::min(result.reordered, skb.seq);
        }
        if (skb.sacked)
        {
            m_sackedOut -= skb.segments;
        }
        else
        {
            result.delivered += skb.segments;
            NoteDelivered(skb, highSeq, result);
            delivered(skb);
        }
        m_lostOut -= skb.lost ? skb.segments : 0;
        m_packetsOut -= skb.segments;
        result.acked += skb.segments;
        m_memory -= m_overhead + skb.GetSize();
        Untime(skb);
        m_sent.erase(it);
    }
    m_una = una;
    while (!m_sackRanges.empty() && m_sackRanges.begin()->second <= una)
    {
        m_sackRanges.erase(m_sackRanges.begin());
    }
    TrimData();
}

void
TcpLinuxSendQueue::SackOne(TcpLinuxSkb& skb,
                           uint64_t highSeq,
                           const Delivered& delivered,
                           AckResult& result)
{
    if (skb.sacked)
    {
        return;
    }
    delivered(skb);
    if (!skb.everResent && skb.seq < GetHighestSack())
    {
        result.reordered = std::min(result.reordered, skb.seq);
    }
    result.delivered += skb.segments;
    NoteDelivered(skb, highSeq, result);
    if (skb.resent && skb.lost)
    {
        skb.resent = false;
        m_resentOut -= skb.segments;
    }
    if (skb.lost)
    {
        skb.lost = false;
        m_lostOut -= skb.segments;
    }
    skb.sacked = true;
    m_sackedOut += skb.segments;
    Untime(skb);
}

void
TcpLinuxSendQueue::Sack(uint64_t start,
                        uint64_t end,
                        uint32_t mss,
                        uint64_t highSeq,
                        const Delivered& delivered,
                        AckResult& result)
{
    uint64_t at = start;
    while (at < end)
    {
        auto known = m_sackRanges.upper_bound(at);
        if (known != m_sackRanges.begin() && std::prev(known)->second > at)
        {
            at = std::prev(known)->second; // marked by an earlier ACK
            continue;
        }
        uint64_t until = known == m_sackRanges.end() ? end : std::min(end, known->first);
        auto it = m_sent.upper_bound(at);
        if (it != m_sent.begin())
        {
            --it;
        }
        for (; it != m_sent.end() && it->first < until; ++it)
        {
            auto& skb = it->second;
            if (skb.end <= at)
            {
                continue;
            }
            if (skb.seq < at) // cut at a segment's border, as Linux does
            {
                uint32_t size = (at - skb.seq + mss - 1) / mss * mss;
                if (size < skb.GetSize())
                {
                    SplitSent(it, size, mss);
                }
                continue;
            }
            if (skb.end > until)
            {
                uint32_t size = (until - skb.seq) / mss * mss;
                if (size == 0 || size >= skb.GetSize())
                {
                    continue;
                }
                SplitSent(it, size, mss);
            }
            SackOne(skb, highSeq, delivered, result);
        }
        at = until;
    }

    // join the range with those it touches
    auto it = m_sackRanges.upper_bound(start);
    if (it != m_sackRanges.begin() && std::prev(it)->second >= start)
    {
        --it;
        start = it->first;
    }
    while (it != m_sackRanges.end() && it->first <= end)
    {
        end = std::max(end, it->second);
        it = m_sackRanges.erase(it);
    }
    m_sackRanges.emplace(start, end);
}

uint32_t
TcpLinuxSendQueue::Dsack(uint64_t start, uint64_t end, uint64_t from)
{
    uint32_t resent = 0;
    for (auto it = m_sent.lower_bound(start); it != m_sent.end() && it->second.end <= end; ++it)
    {
        auto& skb = it->second;
        if (skb.everResent && skb.end > from)
        {
            resent += skb.segments;
        }
        if (skb.resent)
        {
            skb.resent = false;
            m_resentOut -= skb.segments;
        }
    }
    return resent;
}

void
TcpLinuxSendQueue::MarkLost(TcpLinuxSkb& skb)
{
    if (skb.sacked)
    {
        return;
    }
    if (!skb.lost)
    {
        skb.lost = true;
        m_lostOut += skb.segments;
        m_lost += skb.segments;
    }
    else if (skb.resent) // the retransmission is lost, too
    {
        skb.resent = false;
        m_resentOut -= skb.segments;
        m_lost += skb.segments;
    }
    Untime(skb);
}

void
TcpLinuxSendQueue::MarkResent(TcpLinuxSkb& skb)
{
    skb.resent = skb.everResent = true;
    m_resentOut += skb.segments;
}

void
TcpLinuxSendQueue::UnmarkLost()
{
    for (auto& [seq, skb] : m_sent)
    {
        skb.lost = false;
    }
    m_lostOut = 0;
}

void
TcpLinuxSendQueue::ForgetSacks()
{
    for (auto& [seq, skb] : m_sent)
    {
        skb.sacked = false;
    }
    m_sackedOut = 0;
    m_sackRanges.clear();
}

void
TcpLinuxSendQueue::TrimData()
{
    // a packet of which only the FIN is missing keeps its data: it may be sent again
    const uint64_t needed = m_sent.empty() ? m_una : std::min(m_una, m_sent.begin()->first);
    while (!m_data.empty() && m_data.front().first + m_data.front().second->GetSize() <= needed)
    {
        m_data.pop_front();
    }
}

Ptr<Packet>
TcpLinuxSendQueue::CopyData(uint64_t seq, uint32_t size) const
{
    auto it =
        std::upper_bound(m_data.begin(), m_data.end(), seq, [](uint64_t at, const auto& piece) {
            return at < piece.first;
        });
    NS_ASSERT(it != m_data.begin());
    --it;
    uint32_t skip = seq - it->first;
    if (it->second->GetSize() - skip >= size)
    {
        return it->second->CreateFragment(skip, size);
    }
    // one copy of each byte; joining packets would copy what was joined before again
    static std::vector<uint8_t> bytes;
    bytes.resize(std::max<std::size_t>(bytes.size(), 65536 + size));
    uint32_t filled = 0;
    for (; filled < size; ++it, skip = 0)
    {
        NS_ASSERT(it != m_data.end());
        uint32_t part = std::min(it->second->GetSize() - skip, size - filled);
        if (skip == 0)
        {
            it->second->CopyData(bytes.data() + filled, part);
        }
        else
        {
            it->second->CreateFragment(skip, part)->CopyData(bytes.data() + filled, part);
        }
        filled += part;
    }
    return Create<Packet>(bytes.data(), size);
}

TcpLinuxSendQueue::RtxQueue&
TcpLinuxSendQueue::GetSent()
{
    return m_sent;
}

std::list<TcpLinuxSkb*>&
TcpLinuxSendQueue::GetByTime()
{
    return m_byTime;
}

uint64_t
TcpLinuxSendQueue::GetUna() const
{
    return m_una;
}

uint64_t
TcpLinuxSendQueue::GetNext() const
{
    return m_next;
}

uint64_t
TcpLinuxSendQueue::GetWriteSeq() const
{
    return m_writeSeq;
}

uint64_t
TcpLinuxSendQueue::GetHighestSack() const
{
    return m_sackedOut == 0 || m_sackRanges.empty() ? m_una : m_sackRanges.rbegin()->second;
}

uint32_t
TcpLinuxSendQueue::GetPacketsOut() const
{
    return m_packetsOut;
}

uint32_t
TcpLinuxSendQueue::GetSackedOut() const
{
    return m_sackedOut;
}

uint32_t
TcpLinuxSendQueue::GetLostOut() const
{
    return m_lostOut;
}

uint32_t
TcpLinuxSendQueue::GetResentOut() const
{
    return m_resentOut;
}

uint32_t
TcpLinuxSendQueue::GetInFlight() const
{
    return m_packetsOut - m_sackedOut - m_lostOut + m_resentOut;
}

uint64_t
TcpLinuxSendQueue::GetLost() const
{
    return m_lost;
}

uint64_t
TcpLinuxSendQueue::GetMemory() const
{
    return m_memory;
}

} // namespace ns3
