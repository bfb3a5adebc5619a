/* reassembly.h
 * One direction of an MPTCP connection, put in the order of its data sequence numbers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_REASSEMBLY_H
#define NM_REASSEMBLY_H

#include <stdbool.h>
#include <stdint.h>

#include <wsutil/wmem/wmem.h>

/* Data further than this from what is expected are not of this connection (RFC 8684 §3.3.4 has the
 * receiver drop what its window doesn't hold; no window is that large). */
#define NM_WINDOW ((int64_t)1 << 30)

/* Where bytes come from. */
typedef struct {
	uint32_t frame;
	uint16_t subflow;	/* index in the connection */
	int64_t time;		/* nanoseconds */
} nm_origin_t;

/* Bytes in order. The first `captured` of `length` bytes are at `data`, the rest is not in the
 * capture. `origin` is NULL for a hole, which has no captured bytes. */
typedef void (*nm_deliver_cb)(void *ctx, int64_t offset, const uint8_t *data, uint32_t captured,
			      uint32_t length, const nm_origin_t *origin);

struct nm_chunk;

typedef struct {
	wmem_allocator_t *scope;
	nm_deliver_cb deliver;
	void *ctx;
	int64_t next;		/* offset of the first byte that is still to come */
	struct nm_chunk **queue;	/* by offset, without overlap: [head, tail) */
	uint32_t head, tail, room;
	uint64_t queued;	/* bytes kept in the queue */
	uint64_t limit;		/* most of them; beyond it a hole counts as lost */
} nm_stream_t;

typedef struct {
	uint32_t duplicate;	/* bytes that were there already */
	uint32_t fresh;		/* bytes that were not */
	bool queued;		/* there is a hole before them */
} nm_added_t;

void nm_stream_init(nm_stream_t *stream, wmem_allocator_t *scope, uint64_t limit,
		    nm_deliver_cb deliver, void *ctx);

/* Add `length` bytes at `offset`. Return false if they are outside NM_WINDOW. */
bool nm_stream_add(nm_stream_t *stream, int64_t offset, const uint8_t *data, uint32_t captured,
		   uint32_t length, const nm_origin_t *origin, nm_added_t *added);

/* The peer has all bytes before `offset`: what is missing among them won't come any more.
 * Return the number of bytes given up. */
uint64_t nm_stream_acknowledged(nm_stream_t *stream, int64_t offset);

#endif
