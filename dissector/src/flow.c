/* flow.c
 * One direction of a connection: places in its stream, and the PDUs that come out of it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "flow.h"

#include "command.h"

/* Most bytes kept of a direction while they wait for earlier ones: a window's worth and more. */
#define QUEUE_LIMIT ((uint64_t)64 << 20)

int64_t
nm_flow_offset(const nm_flow_t *flow, uint64_t dsn, bool is_64)
{
	if (is_64 && flow->base_is_64)
		return (int64_t)(dsn - flow->base);
	return flow->stream.next +
	       (int32_t)((uint32_t)dsn - (uint32_t)(flow->base + (uint64_t)flow->stream.next));
}

bool
nm_flow_near(const nm_flow_t *flow, uint64_t dsn, bool is_64, int64_t distance)
{
	int64_t offset;

	if (!flow->has_base)
		return false;
	offset = nm_flow_offset(flow, dsn, is_64);
	return offset - flow->stream.next >= -distance && offset - flow->stream.next <= distance;
}

/* --- PDUs ---------------------------------------------------------------------------------- */

static void
on_unit(void *ctx, const nm_unit_t *unit)
{
	nm_flow_t *flow = (nm_flow_t *)ctx;
	nm_connection_t *connection = flow->connection;
	nm_table_t *table = connection->table;
	const nm_tcp_t *segment = table->segment;
	nm_pdu_t *pdu = wmem_new0(table->scope, nm_pdu_t);
	const nm_origin_t *now = &table->origin;

	pdu->connection = connection;
	pdu->direction = flow->direction;
	pdu->offset = unit->offset;
	pdu->length = unit->length;
	pdu->captured = unit->captured;
	pdu->missing = unit->missing;
	pdu->tls = connection->content == NM_CONTENT_TLS;
	if (pdu->tls)
		pdu->type = unit->captured ? unit->data[0] : 0;
	else
		nm_command_pdu(table, pdu, unit->data, now->frame, now->time);
	if (unit->kept) {
		pdu->data = unit->data;
	} else if (segment && unit->data >= segment->payload &&
		   unit->data < segment->payload + segment->captured) {
		pdu->place = (uint32_t)(unit->data - segment->payload);
	} else {
		if (table->settings.keep)
			pdu->captured = MIN(pdu->captured, table->settings.keep);
		pdu->data = (const uint8_t *)wmem_memdup(table->scope, unit->data, pdu->captured);
	}
	if (unit->part_count && now->time > unit->latest)
		pdu->blocked = now->time - unit->latest;
	pdu->segment_count = (uint16_t)MIN(unit->part_count, UINT16_MAX);
	if (pdu->segment_count > 1 || (pdu->segment_count == 1 &&
				       unit->parts[0].origin.frame != now->frame)) {
		pdu->segments = wmem_alloc_array(table->scope, nm_segment_of_t, pdu->segment_count);
		for (uint16_t i = 0; i < pdu->segment_count; i++) {
			pdu->segments[i].frame = unit->parts[i].origin.frame;
			pdu->segments[i].subflow = unit->parts[i].origin.subflow;
			pdu->segments[i].bytes = unit->parts[i].bytes;
		}
	}
	if (table->frame->last_pdu)
		table->frame->last_pdu->next = pdu;
	else
		table->frame->pdus = pdu;
	table->frame->last_pdu = pdu;
}

static void
on_resynchronized(void *ctx, int64_t from, int64_t to, nm_lost_t why)
{
	nm_flow_t *flow = (nm_flow_t *)ctx;

	nm_frame_event(flow->connection->table,
		       why == NM_LOST_HEADER ? NM_EV_FRAMING : NM_EV_SYNCHRONIZED, NM_NOBODY,
		       to - from);
}

static const nm_framer_ops_t framer_ops = { on_unit, on_resynchronized };

static void
on_deliver(void *ctx, int64_t offset, const uint8_t *data, uint32_t captured, uint32_t length,
	   const nm_origin_t *origin)
{
	nm_flow_t *flow = (nm_flow_t *)ctx;
	nm_connection_t *connection = flow->connection;
	nm_table_t *table = connection->table;

	if (!origin || captured < length || !flow->from_start)
		connection->gaps = true;
	if (origin && origin->frame != table->origin.frame) {
		table->frame->released += length;
		table->frame->waited =
			MAX(table->frame->waited, table->origin.time - origin->time);
	}
	if (connection->content == NM_CONTENT_UNKNOWN) {
		bool first = origin && offset == 0 && flow->from_start;

		if (first && flow->direction == NM_TO_CONTROLLER)
			connection->content =
				nm_content_detect(data, captured, connection->known_port);
		else if (connection->known_port)
			connection->content = NM_CONTENT_NVME;
		else
			connection->content = NM_CONTENT_OTHER;
		if (connection->plain && connection->content == NM_CONTENT_TLS)
			connection->content = NM_CONTENT_OTHER;
	}
	if (connection->content == NM_CONTENT_OTHER)
		return;
	if (!flow->framing) {
		flow->framing = true;
		nm_framer_init(&flow->framer, table->scope, connection->content,
			       flow->from_start && offset == 0, table->settings.keep, &framer_ops,
			       flow);
		flow->framer.lost_at = offset;
	}
	nm_framer_input(&flow->framer, offset, data, captured, length, origin);
}

void
nm_flow_init(nm_flow_t *flow, nm_connection_t *connection, uint8_t direction)
{
	flow->connection = connection;
	flow->direction = direction;
	flow->fin = -1;
	nm_stream_init(&flow->stream, connection->table->scope, QUEUE_LIMIT, on_deliver, flow);
}

void
nm_flow_set_base(nm_flow_t *flow, uint64_t dsn, bool is_64, bool from_start)
{
	flow->has_base = true;
	flow->base = dsn;
	flow->base_is_64 = is_64;
	flow->from_start = from_start;
}

/* --- data ----------------------------------------------------------------------------------- */

/* Remember where bytes came from; tell for repeated ones whether another subflow had them. */
static void
note_copies(nm_table_t *table, nm_flow_t *flow, int64_t offset, uint32_t length,
	    const nm_added_t *added)
{
	nm_frame_t *frame = table->frame;

	if (!flow->recent)
		flow->recent = wmem_alloc0_array(table->scope, nm_recent_t, NM_RECENT);
	if (added->duplicate) {
		const nm_recent_t *copy = NULL;

		for (uint32_t i = 1; i <= MIN(flow->recent_count, NM_RECENT) && !copy; i++) {
			const nm_recent_t *recent =
				&flow->recent[(flow->recent_count - i) % NM_RECENT];

			if (offset < recent->offset + recent->length &&
			    recent->offset < offset + length)
				copy = recent;
		}
		if (copy && copy->subflow != table->origin.subflow) {
			frame->reinjected += added->duplicate;
			frame->first_copy = copy->frame;
		} else {
			frame->duplicate += added->duplicate;
		}
	}
	if (added->fresh) {
		nm_recent_t *recent = &flow->recent[flow->recent_count++ % NM_RECENT];

		recent->offset = offset;
		recent->length = length;
		recent->frame = table->origin.frame;
		recent->subflow = table->origin.subflow;
	}
}

void
nm_flow_add(nm_table_t *table, nm_flow_t *flow, int64_t offset, const uint8_t *data,
	    uint32_t captured, uint32_t length)
{
	nm_frame_t *frame = table->frame;
	nm_added_t added;

	if (!nm_stream_add(&flow->stream, offset, data, captured, length, &table->origin, &added))
		return;
	if (!frame->has_data) {
		frame->has_data = true;
		frame->offset = offset;
		frame->dsn = flow->base + (uint64_t)offset;
	}
	frame->length += length;
	if (!flow->connection->plain)
		note_copies(table, flow, offset, length, &added);
}
