/* framing.c
 * Cuts a byte stream with holes into PDUs (or TLS records)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "framing.h"

#include <string.h>

/* Data may look like a PDU: an old one in memory that was written to disk, say. So many units must
 * follow one another before a place counts as the beginning of one … */
#define UNITS_CERTAIN 3
/* … or this many bytes have passed without. */
#define POOL_LARGEST ((uint32_t)4 << 20)
/* Framing may be lost again in what was pooled; a stream that does so all the time isn't ours. */
#define DEEPEST 4

void
nm_framer_init(nm_framer_t *framer, wmem_allocator_t *scope, nm_content_t content,
	       bool synchronized, uint32_t keep, const nm_framer_ops_t *ops, void *ctx)
{
	memset(framer, 0, sizeof(*framer));
	framer->scope = scope;
	framer->content = content;
	framer->keep = keep ? MAX(keep, NM_CERTAIN_BYTES) : NM_PDU_LARGEST;
	framer->ops = ops;
	framer->ctx = ctx;
	framer->lost = !synchronized;
	framer->why = NM_LOST_START;
}

static void
lose(nm_framer_t *framer, int64_t offset, nm_lost_t why, bool aligned)
{
	framer->lost = true;
	framer->aligned = aligned;
	framer->lost_at = offset;
	framer->why = why;
	framer->have = framer->length = framer->stored = framer->missing = 0;
	framer->part_count = 0;
}

static void
append_part(nm_framer_t *framer, nm_part_t **parts, uint32_t *count, uint32_t *room,
	    const nm_origin_t *origin, uint32_t bytes)
{
	if (*count > 0 && (*parts)[*count - 1].origin.frame == origin->frame) {
		(*parts)[*count - 1].bytes += bytes;
		return;
	}
	if (*count == *room) {
		*room = MAX(8, *room * 2);
		*parts = (nm_part_t *)wmem_realloc(framer->scope, *parts,
						   *room * sizeof(nm_part_t));
	}
	(*parts)[*count].origin = *origin;
	(*parts)[(*count)++].bytes = bytes;
}

/* Store captured bytes that follow what is stored; nothing can be stored after a gap. */
static void
store(nm_framer_t *framer, const uint8_t *data, uint32_t captured)
{
	uint32_t whole = MIN(framer->length ? framer->length : NM_CERTAIN_BYTES, framer->keep);
	uint32_t n;

	if (framer->stored < framer->have - framer->missing || framer->missing)
		return;
	n = MIN(captured, whole - MIN(whole, framer->stored));
	if (n == 0)
		return;
	if (framer->stored + n > framer->room) {
		/* The header says how much will come; believe it as far as it has come true. */
		framer->room = MIN(MAX(framer->stored + n, 2 * framer->room), whole);
		framer->buffer =
			(uint8_t *)wmem_realloc(framer->scope, framer->buffer, framer->room);
	}
	memcpy(framer->buffer + framer->stored, data, n);
	framer->stored += n;
}

static void
emit(nm_framer_t *framer)
{
	nm_unit_t unit = {
		.offset = framer->start,
		.length = framer->length,
		.captured = framer->stored,
		.missing = framer->missing,
		.data = framer->buffer,
		.kept = true,
		.parts = framer->parts,
		.part_count = framer->part_count,
	};

	for (uint32_t i = 0; i < framer->part_count; i++)
		unit.latest = MAX(unit.latest, framer->parts[i].origin.time);
	/* The buffer goes to whoever gets the unit. */
	framer->buffer = NULL;
	framer->room = framer->stored = framer->have = framer->length = framer->missing = 0;
	framer->part_count = 0;
	framer->ops->unit(framer->ctx, &unit);
}

static void
emit_in_place(nm_framer_t *framer, int64_t offset, const uint8_t *data, uint32_t captured,
	      uint32_t length, const nm_origin_t *origin)
{
	const nm_part_t part = { *origin, length };
	const nm_unit_t unit = {
		.offset = offset,
		.length = length,
		.captured = captured,
		.missing = length - captured,
		.data = data,
		.kept = false,
		.parts = &part,
		.part_count = 1,
		.latest = origin->time,
	};

	framer->ops->unit(framer->ctx, &unit);
}

/* Bytes that belong to the unit begun. Return how many of `length`. */
static uint32_t
append(nm_framer_t *framer, const uint8_t *data, uint32_t captured, uint32_t length,
       const nm_origin_t *origin)
{
	uint32_t wanted = framer->length ? framer->length : NM_HEADER_BYTES(framer->content);
	uint32_t n = MIN(length, wanted - framer->have);
	uint32_t present = MIN(captured, n);

	store(framer, data, present);
	if (origin)
		append_part(framer, &framer->parts, &framer->part_count, &framer->part_room, origin,
			    n);
	framer->have += n;
	framer->missing += n - present;
	return n;
}

/* Framed input. Return the number of bytes used; 0 if framing is lost. */
static uint32_t
framed(nm_framer_t *framer, int64_t offset, const uint8_t *data, uint32_t captured,
       uint32_t length, const nm_origin_t *origin)
{
	uint32_t header = NM_HEADER_BYTES(framer->content);
	uint32_t n;

	if (framer->have == 0 && captured >= header) {
		uint32_t whole = nm_unit_length(framer->content, data);

		if (whole == 0) {
			lose(framer, offset, NM_LOST_HEADER, false);
			return 0;
		}
		if (whole <= length) {
			emit_in_place(framer, offset, data, MIN(captured, whole), whole, origin);
			return whole;
		}
		framer->start = offset;
		framer->length = whole;
	} else if (framer->have == 0) {
		framer->start = offset;
	}
	n = append(framer, data, captured, length, origin);
	if (framer->length == 0) {
		if (framer->missing) {
			/* the header has a hole */
			lose(framer, framer->start, NM_LOST_BYTES, framer->stored == 0);
			return n;
		}
		if (framer->have == header) {
			framer->length = nm_unit_length(framer->content, framer->buffer);
			if (framer->length == 0) {
				lose(framer, framer->start, NM_LOST_HEADER, false);
				return n;
			}
		}
	}
	if (framer->length && framer->have == framer->length)
		emit(framer);
	return n;
}

static void
pool_add(nm_framer_t *framer, int64_t offset, const uint8_t *data, uint32_t length,
	 const nm_origin_t *origin)
{
	if (framer->pool_length == 0)
		framer->pool_start = offset;
	if (framer->pool_length + length > framer->pool_room) {
		framer->pool_room = MAX(framer->pool_length + length, 2 * framer->pool_room);
		framer->pool =
			(uint8_t *)wmem_realloc(framer->scope, framer->pool, framer->pool_room);
	}
	memcpy(framer->pool + framer->pool_length, data, length);
	framer->pool_length += length;
	append_part(framer, &framer->pieces, &framer->piece_count, &framer->piece_room, origin,
		    length);
}

static void
pool_clear(nm_framer_t *framer)
{
	framer->pool_length = framer->searched = 0;
	framer->piece_count = framer->candidate_count = 0;
}

/* Follow a candidate's units as far as the pool goes. */
static nm_verdict_t
follow(const nm_framer_t *framer, nm_candidate_t *candidate)
{
	while (candidate->next < framer->pool_length && candidate->units < UNITS_CERTAIN) {
		const uint8_t *data = framer->pool + candidate->next;
		uint32_t left = framer->pool_length - candidate->next;
		nm_verdict_t verdict = nm_unit_certain(framer->content, data, left);

		if (verdict != NM_YES)
			return verdict;
		candidate->units++;
		candidate->next += nm_unit_length(framer->content, data);
	}
	return candidate->units >= UNITS_CERTAIN ? NM_YES : NM_MAYBE;
}

/* Look through the pool for a place that is certain. */
static const nm_candidate_t *
search_pool(nm_framer_t *framer)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < framer->candidate_count; i++) {
		nm_candidate_t candidate = framer->candidates[i];
		nm_verdict_t verdict = follow(framer, &candidate);

		if (verdict == NM_NO)
			continue;
		framer->candidates[kept] = candidate;
		if (verdict == NM_YES)
			return &framer->candidates[kept];
		kept++;
	}
	framer->candidate_count = kept;
	for (; framer->searched < framer->pool_length; framer->searched++) {
		nm_candidate_t candidate = { framer->searched, framer->searched, 0 };
		nm_verdict_t verdict = follow(framer, &candidate);

		if (verdict == NM_NO)
			continue;
		/* Fewer bytes than a header has can't be judged yet. */
		if (candidate.units == 0)
			break;
		if (framer->candidate_count == NM_CANDIDATES)
			memmove(framer->candidates, framer->candidates + 1,
				--framer->candidate_count * sizeof(candidate));
		framer->candidates[framer->candidate_count++] = candidate;
		if (verdict == NM_YES || (framer->aligned && candidate.at == 0 &&
					  framer->pool_start >= framer->lost_at))
			return &framer->candidates[framer->candidate_count - 1];
	}
	return NULL;
}

/* The candidate that the most units speak for. */
static const nm_candidate_t *
best_candidate(const nm_framer_t *framer)
{
	const nm_candidate_t *best = NULL;

	for (uint32_t i = 0; i < framer->candidate_count; i++)
		if (!best || framer->candidates[i].units > best->units)
			best = &framer->candidates[i];
	return best;
}

/* Frame the pool from the candidate on. */
static void
accept(nm_framer_t *framer, const nm_candidate_t *candidate)
{
	uint32_t at = candidate->at, place = 0, count = framer->piece_count;
	int64_t start = framer->pool_start;
	uint8_t *pool = framer->pool;
	nm_part_t *pieces = framer->pieces;

	if (framer->depth >= DEEPEST) {
		pool_clear(framer);
		return;
	}
	framer->pool = NULL;
	framer->pieces = NULL;
	framer->pool_room = framer->piece_room = 0;
	pool_clear(framer);
	framer->lost = false;
	framer->ops->resynchronized(framer->ctx, framer->lost_at, start + at, framer->why);
	framer->depth++;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t end = place + pieces[i].bytes, from = MAX(place, at);

		if (from < end)
			nm_framer_input(framer, start + from, pool + from, end - from, end - from,
					&pieces[i].origin);
		place = end;
	}
	framer->depth--;
	wmem_free(framer->scope, pool);
	wmem_free(framer->scope, pieces);
}

/* Bytes while framing is lost; all of them are used. */
static void
search(nm_framer_t *framer, int64_t offset, const uint8_t *data, uint32_t captured,
       uint32_t length, const nm_origin_t *origin)
{
	const nm_candidate_t *candidate = NULL;

	if (captured) {
		pool_add(framer, offset, data, captured, origin);
		candidate = search_pool(framer);
	}
	/* No unit can be followed across a gap: what is likely must do. */
	if (!candidate && (captured < length || framer->pool_length > POOL_LARGEST))
		candidate = best_candidate(framer);
	if (candidate)
		accept(framer, candidate);
	else if (captured < length || framer->pool_length > POOL_LARGEST)
		pool_clear(framer);
	if (captured < length && !framer->lost)
		nm_framer_input(framer, offset + captured, NULL, 0, length - captured, NULL);
}

void
nm_framer_input(nm_framer_t *framer, int64_t offset, const uint8_t *data, uint32_t captured,
		uint32_t length, const nm_origin_t *origin)
{
	while (length > 0) {
		uint32_t n;

		if (framer->lost) {
			search(framer, offset, data, captured, length, origin);
			return;
		}
		n = framed(framer, offset, data, captured, length, origin);
		offset += n;
		length -= n;
		if (data)
			data += MIN(captured, n);
		captured -= MIN(captured, n);
	}
}
