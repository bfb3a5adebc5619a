/* reassembly.c
 * One direction of an MPTCP connection, put in the order of its data sequence numbers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "reassembly.h"

#include <string.h>

/* Frames of a capture can't be read again later, so what waits for a hole to be filled is copied. */
typedef struct nm_chunk {
	int64_t offset;
	uint32_t length, captured;
	nm_origin_t origin;
	uint8_t data[];
} nm_chunk_t;

void
nm_stream_init(nm_stream_t *stream, wmem_allocator_t *scope, uint64_t limit, nm_deliver_cb deliver,
	       void *ctx)
{
	memset(stream, 0, sizeof(*stream));
	stream->scope = scope;
	stream->limit = limit;
	stream->deliver = deliver;
	stream->ctx = ctx;
}

static void
deliver(nm_stream_t *stream, const uint8_t *data, uint32_t captured, uint32_t length,
	const nm_origin_t *origin)
{
	int64_t offset = stream->next;

	stream->next += length;
	stream->deliver(stream->ctx, offset, data, captured, length, origin);
}

static void
deliver_hole(nm_stream_t *stream, int64_t end)
{
	while (stream->next < end)
		deliver(stream, NULL, 0, (uint32_t)MIN(end - stream->next, NM_WINDOW), NULL);
}

/* Deliver what is no longer behind a hole. */
static void
drain(nm_stream_t *stream)
{
	while (stream->head < stream->tail && stream->queue[stream->head]->offset <= stream->next) {
		nm_chunk_t *chunk = stream->queue[stream->head++];

		stream->queued -= chunk->captured;
		deliver(stream, chunk->data, chunk->captured, chunk->length, &chunk->origin);
		wmem_free(stream->scope, chunk);
	}
	if (stream->head == stream->tail)
		stream->head = stream->tail = 0;
}

/* The first place in the queue whose chunk ends after `offset`. */
static uint32_t
find(const nm_stream_t *stream, int64_t offset)
{
	uint32_t low = stream->head, high = stream->tail;

	/* Most segments come last. */
	if (low < high &&
	    stream->queue[high - 1]->offset + stream->queue[high - 1]->length <= offset)
		return high;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (stream->queue[middle]->offset + stream->queue[middle]->length <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
insert(nm_stream_t *stream, uint32_t place, nm_chunk_t *chunk)
{
	if (stream->head > 0 && place == stream->head) {
		stream->queue[--stream->head] = chunk;
		return;
	}
	if (stream->tail == stream->room) {
		uint32_t count = stream->tail - stream->head;

		if (stream->head > stream->room / 2) {
			memmove(stream->queue, stream->queue + stream->head,
				count * sizeof(*stream->queue));
			place -= stream->head;
			stream->head = 0;
			stream->tail = count;
		} else {
			stream->room = MAX(64, stream->room * 2);
			stream->queue = (nm_chunk_t **)wmem_realloc(
				stream->scope, stream->queue, stream->room * sizeof(*stream->queue));
		}
	}
	memmove(stream->queue + place + 1, stream->queue + place,
		(stream->tail - place) * sizeof(*stream->queue));
	stream->queue[place] = chunk;
	stream->tail++;
}

static void
enqueue(nm_stream_t *stream, uint32_t place, int64_t offset, const uint8_t *data, uint32_t captured,
	uint32_t length, const nm_origin_t *origin)
{
	nm_chunk_t *chunk =
		(nm_chunk_t *)wmem_alloc(stream->scope, sizeof(*chunk) + captured);

	chunk->offset = offset;
	chunk->length = length;
	chunk->captured = captured;
	chunk->origin = *origin;
	if (captured)
		memcpy(chunk->data, data, captured);
	stream->queued += captured;
	insert(stream, place, chunk);
}

bool
nm_stream_add(nm_stream_t *stream, int64_t offset, const uint8_t *data, uint32_t captured,
	      uint32_t length, const nm_origin_t *origin, nm_added_t *added)
{
	int64_t end = offset + length;

	memset(added, 0, sizeof(*added));
	if (offset < stream->next - NM_WINDOW || end > stream->next + NM_WINDOW)
		return false;
	/* The first copy of a byte counts. */
	while (offset < end) {
		int64_t start = offset, stop = end;
		uint32_t place, skip, here;

		if (start < stream->next) {
			stop = MIN(end, stream->next);
			added->duplicate += (uint32_t)(stop - start);
			offset = stop;
		} else {
			place = find(stream, start);
			if (place < stream->tail && stream->queue[place]->offset <= start) {
				stop = MIN(end, stream->queue[place]->offset +
						stream->queue[place]->length);
				added->duplicate += (uint32_t)(stop - start);
				offset = stop;
			} else {
				if (place < stream->tail)
					stop = MIN(end, stream->queue[place]->offset);
				offset = stop;
				here = (uint32_t)(stop - start);
				added->fresh += here;
				if (start == stream->next) {
					deliver(stream, data, MIN(captured, here), here, origin);
					drain(stream);
				} else {
					added->queued = true;
					enqueue(stream, place, start, data, MIN(captured, here),
						here, origin);
				}
			}
		}
		skip = (uint32_t)(stop - start);
		data += MIN(captured, skip);
		captured -= MIN(captured, skip);
	}
	while (stream->queued > stream->limit && stream->head < stream->tail) {
		deliver_hole(stream, stream->queue[stream->head]->offset);
		drain(stream);
	}
	return true;
}

uint64_t
nm_stream_acknowledged(nm_stream_t *stream, int64_t offset)
{
	uint64_t lost = 0;

	if (offset > stream->next + NM_WINDOW)
		return 0;
	while (stream->next < offset) {
		int64_t end = offset;

		if (stream->head < stream->tail)
			end = MIN(end, stream->queue[stream->head]->offset);
		lost += (uint64_t)(end - stream->next);
		deliver_hole(stream, end);
		drain(stream);
	}
	return lost;
}
