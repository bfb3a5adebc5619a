/* fuzz_connection.c
 * libFuzzer's entrance: its bytes are segments of an MPTCP connection
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdlib.h>

#include "segments.h"

#define MOST_QUEUED ((uint64_t)65 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
nvme_port(uint16_t port)
{
	return port == 4420;
}

static void
must(bool condition)
{
	if (!condition)
		abort();
}

/* What holds for any input. */
static void
check(const nm_frame_t *frame, const nm_tcp_t *segment, int64_t last[2])
{
	if (!frame)
		return;
	for (int direction = 0; direction < 2; direction++)
		must(frame->subflow->connection->flow[direction].stream.queued <= MOST_QUEUED);
	for (const nm_pdu_t *pdu = frame->pdus; pdu; pdu = pdu->next) {
		volatile uint8_t sum = 0;

		must(pdu->captured <= pdu->length);
		must(pdu->data || pdu->place + pdu->captured <= segment->captured);
		for (uint32_t i = 0; i < pdu->captured; i++)
			sum ^= pdu->data ? pdu->data[i] : segment->payload[pdu->place + i];
		if (frame->subflow->connection->index == 0) {
			must(pdu->offset >= last[pdu->direction]);
			last[pdu->direction] = pdu->offset + pdu->length;
		}
	}
}

static void
announce(nm_table_t *table, const uint8_t *data, size_t size)
{
	if (size >= 4)
		nm_table_announce(table, 4, data, 4420);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const nm_settings_t settings = {
		.nvme_port = nvme_port,
		.keep = size && data[0] & 0x10 ? 152 : 0,
		.reorder_threshold = 1000,
		.silence_threshold = 1000,
		.verify_checksums = true,
		.verify_digests = true,
	};
	int64_t last[2] = { 0, 0 };
	uint32_t frame = 10, isn[4][2] = { { 0 } };
	wmem_allocator_t *scope;
	nm_table_t *table;

	if (size < 1)
		return 0;
	wmem_init();
	scope = wmem_allocator_new(WMEM_ALLOCATOR_SIMPLE);
	table = nm_table_new(scope, &settings);
	if (data[0] & 0x01) {
		handshake(table, 0, 0xfffffff0, data[0] & 0x02);
		isn[0][1] = 0xfffffff0;
	}
	if (data[0] & 0x04)
		join(table, 1, 0, 0);
	if (data[0] & 0x08)
		announce(table, data, size);
	data++;
	size--;
	/* record: path and direction, flags, seq (16 bits), ack, options, payload, cut */
	while (size >= 8) {
		nm_tcp_t segment = segment_of(frame++, data[0] & 3, data[0] >> 2 & 1);
		uint32_t options = data[6] % 41, length = data[7] & 0x7f;
		uint32_t *start = &isn[data[0] & 3][data[0] >> 2 & 1];

		if (data[7] & 0x80)
			length *= 16;
		segment.flags = data[1];
		segment.seq = *start + nm_be16(data + 2);
		if (data[0] & 0x80)
			segment.seq <<= 16;
		segment.ack = isn[data[0] & 3][1 - (data[0] >> 2 & 1)] + nm_be16(data + 4);
		data += 8;
		size -= 8;
		options = (uint32_t)MIN(options, size);
		set_options(&segment, data, options);
		data += options;
		size -= options;
		segment.length = length;
		segment.captured = (uint32_t)MIN(length, size);
		segment.payload = data;
		data += segment.captured;
		size -= segment.captured;
		check(nm_table_segment(table, &segment), &segment, last);
	}
	wmem_destroy_allocator(scope);
	wmem_cleanup();
	return 0;
}
