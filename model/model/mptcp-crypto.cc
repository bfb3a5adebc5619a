/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "mptcp-crypto.h"

#include "network-order.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

namespace ns3
{

namespace
{

// FIPS 180-4 §4.2.2: fractional parts of the cube roots of the first 64 primes
constexpr std::array<uint32_t, 64> ROUND_CONSTANTS{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t BLOCK = 64;

using State = std::array<uint32_t, 8>;

/**
 * Work one block into the state (FIPS 180-4 §6.2.2).
 * @param state the state
 * @param block the 64 bytes
 */
void
Compress(State& state, const uint8_t* block)
{
    std::array<uint32_t, 64> w;
    for (std::size_t t = 0; t < 16; t++)
    {
        w[t] = ReadNetworkOrder<uint32_t>(block + 4 * t);
    }
    for (std::size_t t = 16; t < 64; t++)
    {
        const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
        const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < 64; t++)
    {
        const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[t] + w[t];
        const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const State add{a, b, c, d, e, f, g, h};
    std::transform(state.begin(), state.end(), add.begin(), state.begin(), std::plus<>());
}

/**
 * Both keys of a connection as an HMAC key (RFC 8684 §3.2).
 * @param first the key of the side that makes the HMAC
 * @param second the other
 * @return 16 bytes
 */
std::vector<uint8_t>
HmacKey(uint64_t first, uint64_t second)
{
    std::vector<uint8_t> key;
    AppendNetworkOrder(key, first);
    AppendNetworkOrder(key, second);
    return key;
}

/**
 * The digest of a key.
 * @param key the key
 * @return the digest of its 8 bytes
 */
Sha256Digest
KeyDigest(uint64_t key)
{
    std::vector<uint8_t> bytes;
    AppendNetworkOrder(bytes, key);
    return Sha256(bytes);
}

} // namespace

Sha256Digest
Sha256(std::span<const uint8_t> message)
{
    // FIPS 180-4 §5.3.3: fractional parts of the square roots of the first 8 primes
    State state{0x6a09e667,
                0xbb67ae85,
                0x3c6ef372,
                0xa54ff53a,
                0x510e527f,
                0x9b05688c,
                0x1f83d9ab,
                0x5be0cd19};
    const std::size_t whole = message.size() / BLOCK * BLOCK;
    for (std::size_t at = 0; at < whole; at += BLOCK)
    {
        Compress(state, message.data() + at);
    }
    std::vector<uint8_t> tail(message.begin() + whole, message.end());
    tail.push_back(0x80);
    while (tail.size() % BLOCK != BLOCK - 8)
    {
        tail.push_back(0);
    }
    AppendNetworkOrder(tail, static_cast<uint64_t>(message.size()) * 8);
    for (std::size_t at = 0; at < tail.size(); at += BLOCK)
    {
        Compress(state, tail.data() + at);
    }

    Sha256Digest digest;
    for (std::size_t i = 0; i < digest.size(); i++)
    {
        digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
    }
    return digest;
}

Sha256Digest
HmacSha256(std::span<const uint8_t> key, std::span<const uint8_t> message)
{
    std::array<uint8_t, BLOCK> padded{};
    if (key.size() > BLOCK)
    {
        const Sha256Digest digest = Sha256(key);
        std::copy(digest.begin(), digest.end(), padded.begin());
    }
    else
    {
        std::copy(key.begin(), key.end(), padded.begin());
    }
    std::vector<uint8_t> inner;
    std::vector<uint8_t> outer;
    for (const uint8_t byte : padded)
    {
        inner.push_back(byte ^ 0x36);
        outer.push_back(byte ^ 0x5c);
    }
    inner.insert(inner.end(), message.begin(), message.end());
    const Sha256Digest digest = Sha256(inner);
    outer.insert(outer.end(), digest.begin(), digest.end());
    return Sha256(outer);
}

uint32_t
MptcpToken(uint64_t key)
{
    return ReadNetworkOrder<uint32_t>(KeyDigest(key).data());
}

uint64_t
MptcpIdsn(uint64_t key)
{
    return ReadNetworkOrder<uint64_t>(KeyDigest(key).data() + 24);
}

Sha256Digest
MptcpJoinHmac(uint64_t ownKey, uint64_t peerKey, uint32_t ownNonce, uint32_t peerNonce)
{
    std::vector<uint8_t> message;
    AppendNetworkOrder(message, ownNonce);
    AppendNetworkOrder(message, peerNonce);
    return HmacSha256(HmacKey(ownKey, peerKey), message);
}

uint64_t
MptcpAddAddrHmac(uint64_t senderKey,
                 uint64_t receiverKey,
                 uint8_t addressId,
                 std::span<const uint8_t> address,
                 uint16_t port)
{
    std::vector<uint8_t> message{addressId};
    message.insert(message.end(), address.begin(), address.end());
    AppendNetworkOrder(message, port);
    return ReadNetworkOrder<uint64_t>(HmacSha256(HmacKey(senderKey, receiverKey), message).data() +
                                      24);
}

uint16_t
MptcpDssChecksum(uint64_t dsn, uint32_t ssn, uint16_t length, std::span<const uint8_t> data)
{
    // the pseudo-header's words; their order doesn't matter to the sum
    uint64_t sum = (dsn >> 48) + ((dsn >> 32) & 0xffff) + ((dsn >> 16) & 0xffff) + (dsn & 0xffff) +
                   (ssn >> 16) + (ssn & 0xffff) + length;
    for (std::size_t at = 0; at < data.size(); at++)
    {
        sum += static_cast<uint64_t>(data[at]) << (at % 2 ? 0 : 8);
    }
    while (sum >> 16)
    {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return static_cast<uint16_t>(~sum);
}

uint16_t
MptcpDssChecksum(uint64_t dsn, uint32_t ssn, uint16_t length, Ptr<const Packet> data)
{
    std::vector<uint8_t> bytes(data->GetSize());
    data->CopyData(bytes.data(), bytes.size());
    return MptcpDssChecksum(dsn, ssn, length, bytes);
}

} // namespace ns3
