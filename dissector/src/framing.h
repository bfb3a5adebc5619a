/* framing.h
 * Cuts a byte stream with holes into PDUs (or TLS records)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_FRAMING_H
#define NM_FRAMING_H

#include "pdu.h"
#include "reassembly.h"

/* A frame that carried bytes of a PDU. */
typedef struct {
	nm_origin_t origin;
	uint32_t bytes;
} nm_part_t;

/* A whole unit. What is not in the capture counts in `missing`; the first `captured` bytes at
 * `data` are there. If `kept`, `data` belongs to the scope and stays; else it is in the
 * buffer that the framer was given. */
typedef struct {
	int64_t offset;
	uint32_t length, captured, missing;
	const uint8_t *data;
	bool kept;
	const nm_part_t *parts;	/* valid during the callback */
	uint32_t part_count;
	int64_t latest;		/* when the last of its bytes was captured */
} nm_unit_t;

typedef enum { NM_LOST_BYTES, NM_LOST_HEADER, NM_LOST_START } nm_lost_t;

typedef struct {
	void (*unit)(void *ctx, const nm_unit_t *unit);
	/* Framing was lost at `from`, because of `why`, and found again at `to`. */
	void (*resynchronized)(void *ctx, int64_t from, int64_t to, nm_lost_t why);
} nm_framer_ops_t;

/* A place in the pool where a unit may begin: as many units follow one another from there. */
typedef struct {
	uint32_t at, next, units;
} nm_candidate_t;

#define NM_CANDIDATES 32

typedef struct {
	wmem_allocator_t *scope;
	nm_content_t content;
	uint32_t keep;		/* most bytes of a unit to put together; 0: all */
	const nm_framer_ops_t *ops;
	void *ctx;
	/* the unit that isn't complete */
	uint8_t *buffer;
	uint32_t room, stored;
	uint32_t have, length, missing;	/* length 0: header incomplete */
	int64_t start;
	nm_part_t *parts;
	uint32_t part_count, part_room;
	/* framing lost: what came since then, until it is certain where a unit begins */
	bool lost, aligned;	/* aligned: lost at the end of a unit */
	nm_lost_t why;
	int64_t lost_at, pool_start;
	uint8_t *pool;
	uint32_t pool_length, pool_room, searched;
	nm_part_t *pieces;	/* where the pool's bytes come from */
	uint32_t piece_count, piece_room;
	nm_candidate_t candidates[NM_CANDIDATES];
	uint32_t candidate_count;
	uint32_t depth;
} nm_framer_t;

/* `synchronized`: the first byte begins a unit. */
void nm_framer_init(nm_framer_t *framer, wmem_allocator_t *scope, nm_content_t content,
		    bool synchronized, uint32_t keep, const nm_framer_ops_t *ops, void *ctx);

/* The next bytes of the stream, as nm_deliver_cb has them. */
void nm_framer_input(nm_framer_t *framer, int64_t offset, const uint8_t *data, uint32_t captured,
		     uint32_t length, const nm_origin_t *origin);

#endif
