/* test_core.c
 * Tests of what works on bytes alone: streams cut, shuffled, repeated and damaged at random
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>

#include "../fuzz/segments.h"

#define PATHS 3
#define ISN(path, direction) (0xfffff000u + 77u * (path) + 1000u * (direction))

static unsigned checks;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		checks++;                                                                          \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: seed %u\n", __FILE__, __LINE__, #condition, seed); \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static bool
nvme_port(uint16_t port)
{
	return port == 4420;
}

static const nm_settings_t settings = {
	.nvme_port = nvme_port,
	.reorder_threshold = INT64_MAX,
	.silence_threshold = INT64_MAX,
	.verify_checksums = true,
	.verify_digests = true,
};

/* A random length from 1 to `most`, but no more than what is `left`. */
static uint32_t
random_length(uint32_t most, uint32_t left)
{
	uint32_t length = (uint32_t)rand() % most + 1;

	return length < left ? length : left;
}

/* A stream of PDUs from the controller. */
typedef struct {
	uint8_t *bytes;
	uint32_t length, count;
	uint32_t *start;	/* of each PDU, and the end */
} stream_t;

static stream_t
make_stream(uint32_t count)
{
	stream_t stream = { .count = count };

	stream.start = g_new0(uint32_t, count + 1);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t data = i == 0 ? 104 : (rand() % 3 ? (uint32_t)rand() % 5000 + 1 : 0);
		uint32_t at = stream.length, length = 24 + data;
		uint8_t *pdu;

		stream.bytes = (uint8_t *)g_realloc(stream.bytes, stream.length + length);
		pdu = stream.bytes + at;
		for (uint32_t k = 0; k < length; k++)
			pdu[k] = (uint8_t)rand();
		pdu[0] = i == 0 ? NM_ICRESP : data ? NM_C2H_DATA : NM_CAPSULE_RESP;
		pdu[1] = 0;
		pdu[2] = i == 0 ? 128 : 24;
		pdu[3] = pdu[0] == NM_C2H_DATA ? 24 : 0;
		put_le32(pdu + 4, length);
		put_le32(pdu + 16, data);
		stream.start[i] = at;
		stream.length += length;
	}
	stream.start[count] = stream.length;
	return stream;
}

static void
free_stream(stream_t *stream)
{
	g_free(stream->bytes);
	g_free(stream->start);
}

typedef struct {
	nm_table_t *table;
	wmem_allocator_t *scope;
	stream_t stream;
	uint64_t base;
	uint32_t frame, ssn[PATHS];
	uint32_t found, missing, bytes;	/* PDUs, of these with gaps, bytes of the others */
	uint32_t events[NM_EV_TCP_USED + 1];
	uint32_t reinjected;
	int64_t last;
	unsigned seed;
} run_t;

static void
collect(run_t *run, const nm_frame_t *frame, const uint8_t *payload)
{
	unsigned seed = run->seed;

	if (!frame)
		return;
	run->reinjected += frame->reinjected;
	for (const nm_event_t *event = frame->events; event; event = event->next)
		run->events[event->kind]++;
	for (const nm_pdu_t *pdu = frame->pdus; pdu; pdu = pdu->next) {
		const uint8_t *data = pdu->data ? pdu->data : payload + pdu->place;

		CHECK(pdu->offset > run->last);
		run->last = pdu->offset;
		run->found++;
		if (pdu->missing) {
			run->missing++;
			continue;
		}
		CHECK(pdu->captured == pdu->length);
		CHECK((uint64_t)pdu->offset + pdu->length <= run->stream.length);
		CHECK(memcmp(data, run->stream.bytes + pdu->offset, pdu->length) == 0);
		run->bytes += pdu->length;
	}
}

/* The same where offsets count from the first byte seen. */
static void
count_only(run_t *run, const nm_frame_t *frame)
{
	for (const nm_event_t *event = frame ? frame->events : NULL; event; event = event->next)
		run->events[event->kind]++;
	for (const nm_pdu_t *pdu = frame ? frame->pdus : NULL; pdu; pdu = pdu->next)
		run->found++;
}

static run_t
begin(unsigned seed, uint32_t pdus)
{
	run_t run = { .frame = 10, .last = -1, .seed = seed };
	uint32_t token;

	srand(seed);
	run.scope = wmem_allocator_new(WMEM_ALLOCATOR_SIMPLE);
	run.table = nm_table_new(run.scope, &settings);
	run.stream = make_stream(pdus);
	key_numbers(CONTROLLER_KEY, &token, &run.base);
	handshake(run.table, ISN(0, 0), ISN(0, 1), false);
	for (uint8_t path = 1; path < PATHS; path++)
		join(run.table, path, ISN(path, 0), ISN(path, 1));
	for (int path = 0; path < PATHS; path++)
		run.ssn[path] = 1;
	return run;
}

static void
end(run_t *run)
{
	free_stream(&run->stream);
	wmem_destroy_allocator(run->scope);
}

/* One mapping, in as many segments as TSO makes of it. */
static void
send_bytes(run_t *run, uint8_t path, uint32_t at, uint32_t length, bool dsn_64, uint32_t slice,
	   int checksum)
{
	uint8_t options[28];
	uint32_t n = dss(options, run->base + at, run->ssn[path], (uint16_t)length, dsn_64, checksum);

	for (uint32_t done = 0; done < length; done += slice) {
		nm_tcp_t segment = segment_of(run->frame++, path, NM_TO_HOST);

		segment.seq = ISN(path, 1) + run->ssn[path] + done;
		segment.payload = run->stream.bytes + at + done;
		segment.captured = segment.length = MIN(slice, length - done);
		set_options(&segment, options, n);
		collect(run, nm_table_segment(run->table, &segment), segment.payload);
	}
	run->ssn[path] += length;
}

static void
acknowledge(run_t *run, uint64_t upto)
{
	uint8_t options[12];
	nm_tcp_t segment = segment_of(run->frame++, 0, NM_TO_CONTROLLER);

	segment.seq = ISN(0, 0) + 1;
	segment.ack = ISN(0, 1) + run->ssn[0];
	set_options(&segment, options, dss_ack(options, run->base + upto));
	collect(run, nm_table_segment(run->table, &segment), NULL);
}

/* Mappings in any order within a window, some of them twice, by another subflow. */
static void
test_reordered(unsigned seed)
{
	run_t run = begin(seed, 300);
	uint32_t count = 0, at = 0;
	uint32_t *starts = g_new(uint32_t, run.stream.length + 1);

	while (at < run.stream.length) {
		starts[count++] = at;
		at += (uint32_t)rand() % 4000 + 1;
	}
	starts[count] = run.stream.length;
	for (uint32_t i = 0; i < count; i += 16) {
		uint32_t order[16], n = MIN(16, count - i);

		for (uint32_t k = 0; k < n; k++)
			order[k] = i + k;
		for (uint32_t k = n - 1; k > 0; k--) {
			uint32_t other = (uint32_t)rand() % (k + 1), kept = order[k];

			order[k] = order[other];
			order[other] = kept;
		}
		for (uint32_t k = 0; k < n; k++) {
			uint32_t from = starts[order[k]], to = starts[order[k] + 1];
			uint8_t path = (uint8_t)(rand() % PATHS);
			bool wide = rand() % 2;

			/* overlap what comes before, now and then */
			if (rand() % 8 == 0)
				from -= MIN(from, 50);
			send_bytes(&run, path, from, to - from, wide, rand() % 2 ? 1400 : 65000, -1);
			if (rand() % 10 == 0)
				send_bytes(&run, (uint8_t)((path + 1) % PATHS), from, to - from, wide,
					   65000, -1);
		}
	}
	CHECK(run.found == run.stream.count);
	CHECK(run.bytes == run.stream.length);
	CHECK(run.reinjected > 0);
	CHECK(run.events[NM_EV_FRAMING] == 0);
	g_free(starts);
	end(&run);
}

/* Segments missing in the capture: all PDUs that have all their bytes are found, but for the few
 * after a header was lost. */
static void
test_holes(unsigned seed)
{
	run_t run = begin(seed, 400);
	uint32_t at = 0, holes = 0;

	while (at < run.stream.length) {
		uint32_t length = random_length(3000, run.stream.length - at);
		uint8_t path = (uint8_t)(rand() % PATHS);

		if (at > 1000 && rand() % 100 == 0) {
			run.ssn[path] += length;
			holes++;
		} else {
			send_bytes(&run, path, at, length, true, 1400, -1);
		}
		at += length;
		acknowledge(&run, at);
	}
	CHECK((run.events[NM_EV_NOT_CAPTURED] > 0) == (holes > 0));
	CHECK(run.found + 8 * holes + 4 >= run.stream.count);
	CHECK(run.events[NM_EV_FRAMING] == 0);
	end(&run);
}

/* The sum of RFC 8684 §3.3.1, computed plainly. */
static uint16_t
reference_checksum(const run_t *run, uint32_t at, uint32_t ssn, uint16_t length)
{
	uint8_t pseudo[16] = { 0 };
	uint32_t sum = 0;

	put_be(pseudo, run->base + at, 8);
	put_be(pseudo + 8, ssn, 4);
	put_be(pseudo + 12, length, 2);
	for (int i = 0; i < 16; i += 2)
		sum += nm_be16(pseudo + i);
	for (uint32_t i = 0; i < length; i++)
		sum += i & 1 ? run->stream.bytes[at + i] : (uint32_t)run->stream.bytes[at + i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Damaged data of one of several subflows are dropped, and what that subflow brings later; they come
 * again by another one. */
static void
test_checksums(unsigned seed)
{
	run_t run = begin(seed, 100);
	uint32_t at = 0;
	bool broken = false;

	while (at < run.stream.length) {
		uint16_t length = (uint16_t)random_length(9000, run.stream.length - at);
		uint32_t slice = (uint32_t)rand() % 1500 + 1;
		uint8_t path = (uint8_t)(rand() % PATHS);

		if (path == 1) {
			uint16_t sum = reference_checksum(&run, at, run.ssn[1], length);
			uint8_t kept = run.stream.bytes[at + length - 1];

			if (!broken && rand() % 4 == 0) {
				broken = true;
				run.stream.bytes[at + length - 1] ^= 0x10;
				send_bytes(&run, 1, at, length, true, 65000, sum);
				run.stream.bytes[at + length - 1] = kept;
			} else {
				send_bytes(&run, 1, at, length, true, slice, sum);
			}
			path = 0;
		}
		send_bytes(&run, path, at, length, true, slice,
			   reference_checksum(&run, at, run.ssn[path], length));
		at += length;
	}
	CHECK(run.events[NM_EV_CHECKSUM] == broken);
	CHECK(run.found == run.stream.count);
	CHECK(run.bytes == run.stream.length);
	end(&run);
}

/* An infinite mapping (RFC 8684 §3.7): from there on segments have no option. */
static void
test_fallback(unsigned seed)
{
	run_t run = begin(seed, 100);
	uint32_t half = run.stream.length / 2, done = half;

	send_bytes(&run, 0, 0, MIN(half, 60000), true, 1400, -1);
	for (uint32_t at = MIN(half, 60000); at < half;) {
		uint32_t length = MIN(half - at, 60000);

		send_bytes(&run, 0, at, length, true, 1400, -1);
		at += length;
	}
	while (done < run.stream.length) {
		uint32_t length = random_length(1400, run.stream.length - done);
		nm_tcp_t segment = segment_of(run.frame++, 0, NM_TO_HOST);
		uint8_t options[28];

		segment.seq = ISN(0, 1) + run.ssn[0];
		segment.payload = run.stream.bytes + done;
		segment.captured = segment.length = length;
		if (done == half)
			set_options(&segment, options,
				    dss(options, run.base + done, run.ssn[0], 0, true, 0));
		collect(&run, nm_table_segment(run.table, &segment), segment.payload);
		run.ssn[0] += length;
		done += length;
	}
	CHECK(run.events[NM_EV_FALLBACK] == 1);
	CHECK(run.bytes == run.stream.length);
	end(&run);
}

/* Cut bytes (a snapshot length) are holes of known length. */
static void
test_cut(unsigned seed)
{
	run_t run = begin(seed, 200);

	for (uint32_t i = 0; i < run.stream.count; i++) {
		uint32_t at = run.stream.start[i], length = run.stream.start[i + 1] - at;
		uint8_t options[28];
		nm_tcp_t segment = segment_of(run.frame++, 0, NM_TO_HOST);

		segment.seq = ISN(0, 1) + run.ssn[0];
		segment.payload = run.stream.bytes + at;
		segment.length = length;
		segment.captured = MIN(length, 134);
		set_options(&segment, options,
			    dss(options, run.base + at, run.ssn[0], (uint16_t)length, true, -1));
		collect(&run, nm_table_segment(run.table, &segment), segment.payload);
		run.ssn[0] += length;
	}
	CHECK(run.found == run.stream.count);
	CHECK(run.missing > 0);
	end(&run);
}

/* A subflow that leaves data unacknowledged is reported once, and not before the threshold. */
static void
test_silent(unsigned seed)
{
	run_t run = begin(seed, 100);
	uint32_t at = 1000;

	run.table->settings.silence_threshold = 50 * 1000;
	send_bytes(&run, 1, 0, 1000, true, 1400, -1);
	for (int i = 0; i < 100; i++) {
		send_bytes(&run, 0, at, 10, true, 1400, -1);
		at += 10;
		acknowledge(&run, at);
		if (i < 20 || i > 30)
			CHECK(run.events[NM_EV_SILENT] == (i < 20 ? 0u : 1u));
	}
	end(&run);
}

/* A JOIN that is reset, and one whose SYN is repeated. */
static void
test_joins(unsigned seed)
{
	run_t run = begin(seed, 1);
	uint8_t option[12] = { 30, 12, 0x10, 9 };
	uint32_t token;
	uint64_t base;
	nm_tcp_t segment = segment_of(run.frame++, 9, NM_TO_CONTROLLER);

	key_numbers(CONTROLLER_KEY, &token, &base);
	put_be(option + 4, token, 4);
	segment.flags = NM_TH_SYN;
	segment.seq = 5;
	set_options(&segment, option, 12);
	collect(&run, nm_table_segment(run.table, &segment), NULL);
	CHECK(run.events[NM_EV_JOIN_UNANSWERED] == 0);
	collect(&run, nm_table_segment(run.table, &segment), NULL);
	CHECK(run.events[NM_EV_JOIN_UNANSWERED] == 1);
	segment = segment_of(run.frame++, 9, NM_TO_HOST);
	segment.flags = NM_TH_RST | NM_TH_ACK;
	segment.ack = 6;
	collect(&run, nm_table_segment(run.table, &segment), NULL);
	CHECK(run.events[NM_EV_JOIN_REFUSED] == 1);
	end(&run);
}

/* Without any handshake: subflows are grouped by their numbers, and framing is found. */
static void
test_midway(unsigned seed)
{
	run_t run = begin(seed, 300);
	uint32_t at = 0;

	wmem_destroy_allocator(run.scope);
	run.scope = wmem_allocator_new(WMEM_ALLOCATOR_SIMPLE);
	run.table = nm_table_new(run.scope, &settings);
	at = run.stream.start[40] + 7;
	while (at < run.stream.length) {
		uint32_t length = random_length(3000, run.stream.length - at);
		uint8_t path = (uint8_t)(rand() % PATHS);
		uint8_t options[28];
		nm_tcp_t segment = segment_of(run.frame++, path, NM_TO_HOST);

		segment.seq = ISN(path, 1) + run.ssn[path];
		segment.payload = run.stream.bytes + at;
		segment.captured = segment.length = length;
		set_options(&segment, options, dss(options, run.base + at, run.ssn[path],
						   (uint16_t)length, true, -1));
		count_only(&run, nm_table_segment(run.table, &segment));
		run.ssn[path] += length;
		at += length;
	}
	CHECK(run.table->connection_count == 1);
	CHECK(run.events[NM_EV_FRAMING] == 0);
	CHECK(run.found == run.stream.count - 41);
	end(&run);
}

/* A host discovery log whose entries have different lengths, in pieces of any length, and then
 * bytes at any offsets of each kind of structure. */
static void
test_entries(unsigned seed)
{
	run_t run = begin(seed, 1);
	uint8_t page[32768] = { 0 };
	uint32_t start[8], count = (uint32_t)rand() % 8 + 1, length = NVME_DISCOVERY_HEADER_SIZE;
	uint32_t found = 0;
	nm_entries_t entries;

	for (uint32_t i = 0; i < sizeof(page); i++)
		page[i] = (uint8_t)rand();
	put_le32(page + NVME_DISCOVERY_HEADER_NUMREC_OFFSET, count);
	put_le32(page + NVME_DISCOVERY_HEADER_NUMREC_OFFSET + 4, 0);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t total = NVME_HOST_ENTRY_SIZE + (uint32_t)rand() % 600 * 4;

		start[i] = length;
		put_le32(page + length + NVME_HOST_ENTRY_TEL_OFFSET, total);
		length += total;
	}
	nm_entries_init(&entries, NM_HOST_LOG);
	for (uint32_t at = 0; at < sizeof(page);) {
		uint32_t n = random_length(3000, (uint32_t)sizeof(page) - at);
		const nm_entry_t *entry =
			nm_entries_input(&entries, run.table, at, page + at, n, 100);

		for (; entry; entry = entry->next) {
			const uint8_t *data = entry->data ? entry->data
							  : page + at + (entry->place - 100);

			CHECK(entry->form == NM_ENTRY_HOST && entry->number == found);
			CHECK(memcmp(data, page + start[found], entry->size) == 0);
			found++;
		}
		at += n;
	}
	CHECK(found == count);
	for (int i = 0; i < 300; i++) {
		uint64_t offset = rand() % 3 ? (uint64_t)rand() % 5000
					     : (uint64_t)rand() << 33 | (uint64_t)rand();
		uint32_t n = (uint32_t)rand() % 5000;

		if (i % 30 == 0)
			nm_entries_init(&entries, (nm_information_t)(rand() % (NM_DIM + 1)));
		for (const nm_entry_t *entry = nm_entries_input(
			     &entries, run.table, rand() % 2 ? entries.next : offset, page, n, 0);
		     entry; entry = entry->next)
			CHECK(entry->size <= NM_ENTRY_LARGEST &&
			      (entry->data || entry->place + entry->size <= n));
	}
	end(&run);
}

int
main(int argc, char **argv)
{
	unsigned seeds = argc > 1 ? (unsigned)atoi(argv[1]) : 200;

	wmem_init();
	for (unsigned seed = 1; seed <= seeds; seed++) {
		test_reordered(seed);
		test_holes(seed);
		test_checksums(seed);
		test_fallback(seed);
		test_cut(seed);
		test_silent(seed);
		test_joins(seed);
		test_midway(seed);
		test_entries(seed);
	}
	wmem_cleanup();
	printf("%u seeds, %u checks\n", seeds, checks);
	return 0;
}
