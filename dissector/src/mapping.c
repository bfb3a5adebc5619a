/* mapping.c
 * Where the bytes of a subflow belong in the stream: mappings, and what follows a fallback
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "mapping.h"

#include "flow.h"
#include "table.h"

static nm_map_t *
find_map(nm_sender_t *sender, uint32_t ssn)
{
	uint32_t kept = MIN(sender->map_count, NM_MAPS);

	for (uint32_t i = 1; i <= kept; i++) {
		nm_map_t *map = &sender->maps[(sender->map_count - i) % NM_MAPS];

		if (ssn - map->ssn < map->length)
			return map;
	}
	return NULL;
}

static void
fall_back(nm_table_t *table, nm_subflow_t *subflow, int64_t how)
{
	if (subflow->connection->fallback)
		return;
	subflow->connection->fallback = true;
	nm_frame_event(table, NM_EV_FALLBACK, subflow->index, how);
}

void
nm_mapping_add(nm_table_t *table, nm_subflow_t *subflow, nm_sender_t *sender, nm_flow_t *flow,
	       const nm_options_t *options)
{
	uint64_t dsn = options->implied_map ? flow->base : options->dsn;
	uint32_t ssn = options->implied_map ? 1 : options->ssn;
	bool is_64 = options->implied_map || options->dsn_is_64;
	uint32_t length = options->map_length;
	nm_map_t *map;
	int64_t offset;

	if (options->implied_map && !flow->has_base)
		return;
	if (!flow->has_base)
		nm_flow_set_base(flow, dsn, is_64, false);
	else if (is_64 && !flow->base_is_64 && nm_flow_near(flow, dsn, false, NM_WINDOW)) {
		/* So far only the lower half was known. */
		flow->base = dsn - (uint64_t)nm_flow_offset(flow, dsn, false);
		flow->base_is_64 = true;
	}
	if (!nm_flow_near(flow, dsn, is_64, NM_WINDOW))
		return;
	offset = nm_flow_offset(flow, dsn, is_64);
	if (length == 0) {
		/* RFC 8684 §3.7: an infinite mapping */
		sender->linear = true;
		sender->linear_ssn = ssn;
		sender->linear_offset = offset;
		fall_back(table, subflow, 1);
		return;
	}
	if (options->data_fin) {
		length--;
		flow->fin = offset + length;
	}
	if (length == 0)
		return;
	map = find_map(sender, ssn);
	if (map && map->ssn == ssn && map->length == length && map->offset == offset)
		return;		/* TSO repeats it in each segment */
	map = &sender->maps[sender->map_count++ % NM_MAPS];
	map->ssn = ssn;
	map->length = length;
	map->offset = offset;
	map->has_checksum = options->has_checksum;
	if (map->has_checksum)
		nm_dss_checksum_begin(&map->checksum, flow->base + (uint64_t)offset, ssn,
				      options->map_length, options->data_fin, options->checksum);
}

void
nm_mapping_infer_isn(nm_sender_t *sender, const nm_tcp_t *segment, const nm_options_t *options)
{
	uint32_t ssn = options->implied_map ? 1 : options->ssn;
	uint32_t length = options->map_length - (uint32_t)(options->data_fin ? 1 : 0);

	if (options->map_length == 0 || segment->length == 0)
		return;
	/* A mapping begins with the segment if the segment has all of it, or if
	 * another mapping ended with the segment before. */
	if (segment->length == length ||
	    (sender->has_sent && sender->previous_ssn_end == ssn &&
	     sender->previous_end == segment->seq)) {
		sender->has_isn = true;
		sender->isn = segment->seq - ssn;
	}
	sender->previous_ssn_end = ssn + length;
	sender->previous_end = segment->seq + segment->length;
}

bool
nm_mapping_linear_offset(const nm_sender_t *sender, uint32_t seq, int64_t *offset)
{
	if (!sender->linear || !sender->has_isn)
		return false;
	*offset = sender->linear_offset + (int32_t)(seq - sender->isn - sender->linear_ssn);
	return true;
}

static bool
start_linear(nm_table_t *table, nm_subflow_t *subflow, nm_sender_t *sender, nm_flow_t *flow)
{
	nm_connection_t *connection = subflow->connection;

	if (sender->linear)
		return true;
	if (!sender->has_isn)
		return false;
	if (!connection->plain) {
		if (wmem_array_get_count(connection->subflows) > 1 && !connection->fallback)
			return false;
		fall_back(table, subflow, 0);
	}
	if (!flow->has_base)
		nm_flow_set_base(flow, 0, true, true);
	sender->linear = true;
	if (sender->map_count) {
		const nm_map_t *map = &sender->maps[(sender->map_count - 1) % NM_MAPS];

		sender->linear_ssn = map->ssn + map->length;
		sender->linear_offset = map->offset + map->length;
	} else {
		sender->linear_ssn = 1;
		sender->linear_offset = 0;
	}
	return true;
}

/* Verify the mapping's checksum, when this was its last part. RFC 8684 §3.7: where there are other
 * subflows, the receiver drops the data and resets the subflow; the last one falls back, and keeps
 * them. */
static bool
damaged(nm_table_t *table, const nm_subflow_t *subflow, nm_sender_t *sender, nm_map_t *map,
	uint32_t at, const uint8_t *data, uint32_t captured, uint32_t length)
{
	const nm_connection_t *connection = subflow->connection;
	uint32_t alive = 0;

	if (!map->has_checksum || !table->settings.verify_checksums || captured < length)
		return false;
	if (map->checksum.state == NM_CHECKSUM_PENDING &&
	    nm_dss_checksum_add(&map->checksum, at, data, length) == NM_CHECKSUM_BAD)
		nm_frame_event(table, NM_EV_CHECKSUM, subflow->index, map->length);
	if (map->checksum.state != NM_CHECKSUM_BAD)
		return false;
	for (uint32_t i = 0; i < wmem_array_get_count(connection->subflows); i++)
		alive += !nm_subflow_at(connection, i)->reset;
	sender->broken = alive > 1;
	return sender->broken;
}

void
nm_mapping_take(nm_table_t *table, nm_subflow_t *subflow, nm_sender_t *sender, nm_flow_t *flow)
{
	const nm_tcp_t *segment = table->segment;
	const uint8_t *data = segment->payload;
	uint32_t captured = segment->captured, length = segment->length;
	uint32_t ssn = segment->seq - sender->isn;
	uint32_t unmapped = 0;

	while (length > 0) {
		nm_map_t *map = find_map(sender, ssn);
		uint32_t n = length;

		if (map) {
			uint32_t at = ssn - map->ssn;

			n = MIN(n, map->length - at);
			if (!damaged(table, subflow, sender, map, at, data, MIN(captured, n), n))
				nm_flow_add(table, flow, map->offset + at, data, MIN(captured, n), n);
		} else {
			bool in_order = start_linear(table, subflow, sender, flow);

			/* up to the next mapping, if there is one in this segment */
			for (uint32_t i = 0; i < MIN(sender->map_count, NM_MAPS); i++) {
				uint32_t ahead = sender->maps[i].ssn - ssn;

				if (ahead > 0 && ahead < n)
					n = ahead;
			}
			if (in_order && (int32_t)(ssn - sender->linear_ssn) >= 0) {
				nm_flow_add(table, flow,
					    sender->linear_offset + (ssn - sender->linear_ssn), data,
					    MIN(captured, n), n);
				if (ssn + n - sender->linear_ssn > 1u << 30) {
					/* stay clear of the wrap of sequence numbers */
					sender->linear_offset += (ssn + n - sender->linear_ssn);
					sender->linear_ssn = ssn + n;
				}
			} else {
				unmapped += n;
			}
		}
		ssn += n;
		length -= n;
		data += MIN(captured, n);
		captured -= MIN(captured, n);
	}
	/* One byte that isn't mapped is a keep-alive probe. */
	if (unmapped > 1)
		nm_frame_event(table, NM_EV_UNMAPPED, subflow->index, unmapped);
}
