/* segments.h
 * TCP segments with MPTCP options, made for the tests and the fuzzer
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_SEGMENTS_H
#define NM_SEGMENTS_H

#include <string.h>

#include "../src/connection.h"

#define HOST_KEY 0x1122334455667788ull
#define CONTROLLER_KEY 0x99aabbccddeeff00ull

static inline void
put_be(uint8_t *to, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static inline void
put_le32(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> (8 * i));
}

/* A segment of subflow `path`, from the host or from the controller. */
static inline nm_tcp_t
segment_of(uint32_t frame, uint8_t path, uint8_t direction)
{
	nm_tcp_t segment = { .frame = frame, .time = (int64_t)frame * 1000, .family = 4 };
	int host = direction == NM_TO_CONTROLLER ? 0 : 1;

	segment.address[host][0] = segment.address[1 - host][0] = 10;
	segment.address[host][2] = segment.address[1 - host][2] = path;
	segment.address[host][3] = 1;
	segment.address[1 - host][3] = 2;
	segment.port[host] = (uint16_t)(40000 + path);
	segment.port[1 - host] = 4420;
	segment.flags = NM_TH_ACK;
	return segment;
}

static inline void
set_options(nm_tcp_t *segment, const uint8_t *options, uint32_t length)
{
	segment->options = options;
	segment->options_length = length;
}

/* The handshake of the first subflow: three segments from frame 1 on. */
static inline void
handshake(nm_table_t *table, uint32_t host_isn, uint32_t controller_isn, bool checksums)
{
	uint8_t option[24] = { 30, 4, 0x01, (uint8_t)(0x01 | (checksums ? 0x80 : 0)) };
	nm_tcp_t segment = segment_of(1, 0, NM_TO_CONTROLLER);

	segment.flags = NM_TH_SYN;
	segment.seq = host_isn;
	set_options(&segment, option, 4);
	nm_table_segment(table, &segment);

	segment = segment_of(2, 0, NM_TO_HOST);
	segment.flags = NM_TH_SYN | NM_TH_ACK;
	segment.seq = controller_isn;
	segment.ack = host_isn + 1;
	option[1] = 12;
	put_be(option + 4, CONTROLLER_KEY, 8);
	set_options(&segment, option, 12);
	nm_table_segment(table, &segment);

	segment = segment_of(3, 0, NM_TO_CONTROLLER);
	segment.seq = host_isn + 1;
	segment.ack = controller_isn + 1;
	option[1] = 20;
	put_be(option + 4, HOST_KEY, 8);
	put_be(option + 12, CONTROLLER_KEY, 8);
	set_options(&segment, option, 20);
	nm_table_segment(table, &segment);
}

/* Token and base of the data sequence numbers of a key, computed apart from the plugin. */
static inline void
key_numbers(uint64_t key, uint32_t *token, uint64_t *base)
{
	uint8_t bytes[8], digest[32];
	gsize length = sizeof(digest);
	GChecksum *sha = g_checksum_new(G_CHECKSUM_SHA256);

	put_be(bytes, key, 8);
	g_checksum_update(sha, bytes, 8);
	g_checksum_get_digest(sha, digest, &length);
	g_checksum_free(sha);
	*token = nm_be32(digest);
	*base = nm_be64(digest + 24) + 1;
}

/* The SYNs of a joining subflow. */
static inline void
join(nm_table_t *table, uint8_t path, uint32_t host_isn, uint32_t controller_isn)
{
	uint8_t option[16] = { 30, 12, 0x10, path };
	nm_tcp_t segment = segment_of(4, path, NM_TO_CONTROLLER);
	uint32_t token;
	uint64_t base;

	key_numbers(CONTROLLER_KEY, &token, &base);
	put_be(option + 4, token, 4);
	segment.flags = NM_TH_SYN;
	segment.seq = host_isn;
	set_options(&segment, option, 12);
	nm_table_segment(table, &segment);

	segment = segment_of(5, path, NM_TO_HOST);
	segment.flags = NM_TH_SYN | NM_TH_ACK;
	segment.seq = controller_isn;
	segment.ack = host_isn + 1;
	option[1] = 16;
	set_options(&segment, option, 16);
	nm_table_segment(table, &segment);
}

/* DSS with a mapping; `options` has room for 28 bytes. Return its length. */
static inline uint32_t
dss(uint8_t *options, uint64_t dsn, uint32_t ssn, uint16_t length, bool dsn_64, int checksum)
{
	uint32_t n = 4;

	options[0] = 30;
	options[2] = 0x20;
	options[3] = (uint8_t)(0x04 | (dsn_64 ? 0x08 : 0));
	put_be(options + n, dsn, dsn_64 ? 8 : 4);
	n += dsn_64 ? 8 : 4;
	put_be(options + n, ssn, 4);
	put_be(options + n + 4, length, 2);
	n += 6;
	if (checksum >= 0) {
		put_be(options + n, (uint64_t)checksum, 2);
		n += 2;
	}
	options[1] = (uint8_t)n;
	return n;
}

/* DSS with a DATA_ACK of 64 bits only. */
static inline uint32_t
dss_ack(uint8_t *options, uint64_t ack)
{
	options[0] = 30;
	options[1] = 12;
	options[2] = 0x20;
	options[3] = 0x03;
	put_be(options + 4, ack, 8);
	return 12;
}

#endif
