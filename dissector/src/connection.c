/* connection.c
 * MPTCP connections: which subflows belong together, and the PDUs that they carry
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "connection.h"

#include <string.h>

#include "command.h"
#include "track.h"

/* Most bytes kept of a direction while they wait for earlier ones: a window's worth and more. */
#define QUEUE_LIMIT ((uint64_t)64 << 20)

/* A subflow whose handshake wasn't captured belongs to a connection whose data sequence numbers
 * are this near (they begin at random 64-bit numbers: RFC 8684 §3.1). */
#define GROUP_DISTANCE ((int64_t)64 << 20)

typedef struct {
	uint8_t family;
	uint8_t address[2][16];
	uint16_t port[2];
} subflow_key_t;

typedef struct {
	nm_connection_t *connection;
	uint8_t direction;	/* whose sender chose the key */
} token_t;

typedef struct {
	uint8_t family;
	uint8_t address[16];
	uint16_t port;
} port_key_t;

/* --- events ------------------------------------------------------------------------------- */

void
nm_frame_event(nm_table_t *table, nm_event_kind_t kind, uint16_t subflow, int64_t value)
{
	const nm_subflow_t *on = table->frame->subflow;
	nm_event_t *event;

	/* Other dissectors judge TCP. */
	if (on && on->connection && on->connection->plain && kind != NM_EV_TCP_USED &&
	    kind != NM_EV_FALLBACK_HANDSHAKE)
		return;
	event = wmem_new0(table->scope, nm_event_t);
	event->kind = kind;
	event->subflow = subflow == NM_NOBODY ? table->origin.subflow : subflow;
	event->value = value;
	if (table->frame->last_event)
		table->frame->last_event->next = event;
	else
		table->frame->events = event;
	table->frame->last_event = event;
}

/* --- the table ---------------------------------------------------------------------------- */

#define KEY_FUNCTIONS(type)                                                                        \
	static guint type##_hash(gconstpointer key)                                                \
	{                                                                                          \
		return wmem_strong_hash((const guint8 *)key, sizeof(type));                        \
	}                                                                                          \
	static gboolean type##_equal(gconstpointer a, gconstpointer b)                             \
	{                                                                                          \
		return memcmp(a, b, sizeof(type)) == 0;                                            \
	}

KEY_FUNCTIONS(subflow_key_t)
KEY_FUNCTIONS(port_key_t)

nm_table_t *
nm_table_new(wmem_allocator_t *scope, const nm_settings_t *settings)
{
	nm_table_t *table = wmem_new0(scope, nm_table_t);

	table->scope = scope;
	table->settings = *settings;
	table->subflows = wmem_map_new(scope, subflow_key_t_hash, subflow_key_t_equal);
	table->tokens = wmem_map_new(scope, g_direct_hash, g_direct_equal);
	table->announced = wmem_map_new(scope, port_key_t_hash, port_key_t_equal);
	return table;
}

static void
make_port_key(port_key_t *key, uint8_t family, const uint8_t *address, uint16_t port)
{
	memset(key, 0, sizeof(*key));
	key->family = family;
	memcpy(key->address, address, family == 4 ? 4 : 16);
	key->port = port;
}

void
nm_table_announce(nm_table_t *table, uint8_t family, const uint8_t *address, uint16_t port)
{
	port_key_t *key = wmem_new(table->scope, port_key_t);

	make_port_key(key, family, address, port);
	wmem_map_insert(table->announced, key, key);
}

static bool
announced(nm_table_t *table, const nm_tcp_t *segment)
{
	port_key_t key;

	make_port_key(&key, segment->family, segment->address[1], segment->port[1]);
	return wmem_map_contains(table->announced, &key);
}

/* Fill in the key; return which end the sender is. */
static uint8_t
make_key(subflow_key_t *key, const nm_tcp_t *segment)
{
	int order = memcmp(segment->address[0], segment->address[1], 16);
	uint8_t end;

	if (order == 0)
		order = (int)segment->port[0] - (int)segment->port[1];
	end = order > 0;
	memset(key, 0, sizeof(*key));
	key->family = segment->family;
	memcpy(key->address[end], segment->address[0], 16);
	memcpy(key->address[1 - end], segment->address[1], 16);
	key->port[end] = segment->port[0];
	key->port[1 - end] = segment->port[1];
	return end;
}

static void on_deliver(void *ctx, int64_t offset, const uint8_t *data, uint32_t captured,
		       uint32_t length, const nm_origin_t *origin);

static nm_connection_t *
connection_alloc(nm_table_t *table)
{
	nm_connection_t *connection = wmem_new0(table->scope, nm_connection_t);

	connection->table = table;
	connection->subflows = wmem_array_new(table->scope, sizeof(nm_subflow_t *));
	connection->pending = wmem_map_new(table->scope, g_direct_hash, g_direct_equal);
	for (uint8_t i = 0; i < 2; i++) {
		nm_flow_t *flow = &connection->flow[i];

		flow->connection = connection;
		flow->direction = i;
		flow->fin = -1;
		nm_stream_init(&flow->stream, table->scope, QUEUE_LIMIT, on_deliver, flow);
	}
	return connection;
}

static nm_connection_t *
connection_new(nm_table_t *table)
{
	nm_connection_t *connection = connection_alloc(table);

	connection->index = table->connection_count++;
	connection->next = table->connections;
	table->connections = connection;
	return connection;
}

static nm_subflow_t *
subflow_new(nm_table_t *table, const subflow_key_t *key)
{
	nm_subflow_t *subflow = wmem_new0(table->scope, nm_subflow_t);

	subflow->family = key->family;
	memcpy(subflow->address, key->address, sizeof(subflow->address));
	memcpy(subflow->port, key->port, sizeof(subflow->port));
	subflow->first_frame = table->segment->frame;
	wmem_map_insert(table->subflows, wmem_memdup(table->scope, key, sizeof(*key)), subflow);
	return subflow;
}

static bool
attach(nm_subflow_t *subflow, nm_connection_t *connection)
{
	uint32_t count = wmem_array_get_count(connection->subflows);

	/* address IDs have 8 bits, and joins may fail and be tried again */
	if (count >= 4096)
		return false;
	subflow->connection = connection;
	subflow->index = (uint16_t)count;
	wmem_array_append_one(connection->subflows, subflow);
	return true;
}

/* --- keys and tokens ----------------------------------------------------------------------- */

/* RFC 8684 §3.1, §3.2: token and initial data sequence number of a key */
static void
hash_key(uint64_t key, uint32_t *token, uint64_t *idsn)
{
	GChecksum *sha = g_checksum_new(G_CHECKSUM_SHA256);
	uint8_t bytes[8], digest[32];
	gsize length = sizeof(digest);

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(key >> (56 - 8 * i));
	g_checksum_update(sha, bytes, sizeof(bytes));
	g_checksum_get_digest(sha, digest, &length);
	g_checksum_free(sha);
	*token = nm_be32(digest);
	*idsn = nm_be64(digest + 24);
}

static void
set_base(nm_flow_t *flow, uint64_t dsn, bool is_64, bool from_start)
{
	flow->has_base = true;
	flow->base = dsn;
	flow->base_is_64 = is_64;
	flow->from_start = from_start;
}

static void
set_key(nm_connection_t *connection, uint8_t direction, uint64_t key)
{
	nm_flow_t *flow = &connection->flow[direction];
	token_t *owner;
	uint32_t token;
	uint64_t idsn;

	if (flow->has_key)
		return;
	flow->has_key = true;
	flow->key = key;
	hash_key(key, &token, &idsn);
	owner = wmem_new(connection->table->scope, token_t);
	owner->connection = connection;
	owner->direction = direction;
	wmem_map_insert(connection->table->tokens, GUINT_TO_POINTER(token), owner);
	if (!flow->has_base)
		set_base(flow, idsn + 1, true, true);
}

/* --- places in the stream ------------------------------------------------------------------ */

/* The offset that a data sequence number of 32 or 64 bits stands for. */
static int64_t
offset_of(const nm_flow_t *flow, uint64_t dsn, bool is_64)
{
	if (is_64 && flow->base_is_64)
		return (int64_t)(dsn - flow->base);
	return flow->stream.next +
	       (int32_t)((uint32_t)dsn - (uint32_t)(flow->base + (uint64_t)flow->stream.next));
}

static bool
near(const nm_flow_t *flow, uint64_t dsn, bool is_64, int64_t distance)
{
	int64_t offset;

	if (!flow->has_base)
		return false;
	offset = offset_of(flow, dsn, is_64);
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
	pdu->log_offset = -1;
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

/* --- subflow data -------------------------------------------------------------------------- */

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

static void
add_data(nm_table_t *table, nm_flow_t *flow, int64_t offset, const uint8_t *data,
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

/* A mapping of the subflow's bytes (RFC 8684 §3.3.1). */
static void
add_map(nm_table_t *table, nm_subflow_t *subflow, nm_sender_t *sender, nm_flow_t *flow,
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
		set_base(flow, dsn, is_64, false);
	else if (is_64 && !flow->base_is_64 && near(flow, dsn, false, NM_WINDOW)) {
		/* So far only the lower half was known. */
		flow->base = dsn - (uint64_t)offset_of(flow, dsn, false);
		flow->base_is_64 = true;
	}
	if (!near(flow, dsn, is_64, NM_WINDOW))
		return;
	offset = offset_of(flow, dsn, is_64);
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

/* Where the subflow's sequence numbers begin, if its handshake wasn't captured. */
static void
infer_isn(nm_sender_t *sender, const nm_tcp_t *segment, const nm_options_t *options)
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

/* How far an ACK or segment without a mapping of its own reaches, after fallback. */
static bool
linear_offset(const nm_sender_t *sender, uint32_t seq, int64_t *offset)
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
		set_base(flow, 0, true, true);
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

static void
take_payload(nm_table_t *table, nm_subflow_t *subflow, nm_sender_t *sender, nm_flow_t *flow)
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
				add_data(table, flow, map->offset + at, data, MIN(captured, n), n);
		} else {
			bool in_order = start_linear(table, subflow, sender, flow);

			/* up to the next mapping, if there is one in this segment */
			for (uint32_t i = 0; i < MIN(sender->map_count, NM_MAPS); i++) {
				uint32_t ahead = sender->maps[i].ssn - ssn;

				if (ahead > 0 && ahead < n)
					n = ahead;
			}
			if (in_order && (int32_t)(ssn - sender->linear_ssn) >= 0) {
				add_data(table, flow,
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

/* --- handshakes ---------------------------------------------------------------------------- */

static void
know_isn(nm_sender_t *sender, uint32_t isn)
{
	sender->has_isn = true;
	sender->isn = isn;
}

static nm_subflow_t *
first_syn(nm_table_t *table, const subflow_key_t *key, uint8_t end, const nm_options_t *options)
{
	const nm_tcp_t *segment = table->segment;
	nm_subflow_t *subflow;
	nm_connection_t *connection;
	token_t *owner;
	bool known = table->settings.nvme_port(segment->port[1]) || announced(table, segment);

	if (!options->capable && !options->join_syn && !known) {
		wmem_map_remove(table->subflows, key);
		return NULL;
	}
	subflow = subflow_new(table, key);
	subflow->host = end;
	subflow->syns = 1;
	know_isn(&subflow->sender[end], segment->seq);
	if (options->join_syn) {
		subflow->joined = true;
		subflow->address_id = options->address_id;
		owner = (token_t *)wmem_map_lookup(table->tokens, GUINT_TO_POINTER(options->token));
		if (owner) {
			/* The token is the receiver's, so the sender is at the other end. */
			subflow->host = owner->direction == NM_TO_HOST ? end : 1 - end;
			attach(subflow, owner->connection);
		}
		return subflow;
	}
	connection = connection_new(table);
	connection->known_port = known;
	connection->plain = !options->capable;
	attach(subflow, connection);
	if (connection->plain && announced(table, segment))
		nm_frame_event(table, NM_EV_TCP_USED, 0, 0);
	return subflow;
}

static void
repeated_syn(nm_table_t *table, nm_subflow_t *subflow)
{
	subflow->syns++;
	if (subflow->joined && !subflow->answered)
		nm_frame_event(table, NM_EV_JOIN_UNANSWERED, subflow->index, subflow->syns);
}

static void
syn_ack(nm_table_t *table, nm_subflow_t *subflow, uint8_t end, const nm_options_t *options)
{
	nm_connection_t *connection = subflow->connection;

	know_isn(&subflow->sender[end], table->segment->seq);
	if (subflow->answered)
		return;
	subflow->answered = true;
	if (subflow->joined) {
		if (!options->join_synack && !subflow->refused) {
			subflow->refused = true;
			nm_frame_event(table, NM_EV_JOIN_REFUSED, subflow->index, 0);
		}
		return;
	}
	if (!connection || connection->plain)
		return;
	if (!options->capable) {
		connection->plain = true;
		nm_frame_event(table, NM_EV_FALLBACK_HANDSHAKE, subflow->index, 0);
	}
}

/* A subflow without its handshake: is there a connection with such numbers? */
static nm_connection_t *
group(nm_table_t *table, const nm_subflow_t *subflow, uint8_t end, const nm_options_t *options)
{
	uint8_t direction = end == subflow->host ? NM_TO_CONTROLLER : NM_TO_HOST;

	for (nm_connection_t *c = table->connections; c; c = c->next) {
		bool data, ack;

		if (c->plain || c->closed || (c->content == NM_CONTENT_OTHER && !c->known_port))
			continue;
		data = options->has_map && near(&c->flow[direction], options->dsn,
						options->dsn_is_64, GROUP_DISTANCE);
		ack = options->has_ack && near(&c->flow[1 - direction], options->ack,
					       options->ack_is_64, GROUP_DISTANCE);
		if (options->has_map && options->dsn_is_64 ? data : data && ack)
			return c;
		if (!options->has_map && options->ack_is_64 && ack)
			return c;
	}
	return NULL;
}

static bool
find_connection(nm_table_t *table, nm_subflow_t *subflow, uint8_t end, const nm_options_t *options)
{
	nm_connection_t *connection = group(table, subflow, end, options);

	if (!connection) {
		/* ACKs alone don't begin a connection: the next mapping will. */
		if (!options->has_map && !options->has_sender_key)
			return false;
		connection = connection_new(table);
		connection->known_port = table->settings.nvme_port(subflow->port[0]) ||
					 table->settings.nvme_port(subflow->port[1]);
	}
	return attach(subflow, connection);
}

/* A subflow whose SYN wasn't captured. */
static nm_subflow_t *
midway(nm_table_t *table, const subflow_key_t *key, uint8_t end)
{
	const nm_tcp_t *segment = table->segment;
	nm_subflow_t *subflow = subflow_new(table, key);
	bool to_port = table->settings.nvme_port(segment->port[1]);
	bool from_port = table->settings.nvme_port(segment->port[0]);

	/* The host is the end that doesn't have the NVMe port, or else the one
	 * with the higher number. */
	if (to_port != from_port)
		subflow->host = to_port ? end : 1 - end;
	else
		subflow->host = segment->port[0] > segment->port[1] ? end : 1 - end;
	subflow->answered = true;
	return subflow;
}

static void
read_keys(nm_subflow_t *subflow, uint8_t end, const nm_options_t *options)
{
	const nm_tcp_t *segment = subflow->connection->table->segment;
	uint8_t direction = end == subflow->host ? NM_TO_CONTROLLER : NM_TO_HOST;

	if (options->has_sender_key)
		set_key(subflow->connection, direction, options->sender_key);
	if (!options->has_receiver_key)
		return;
	set_key(subflow->connection, 1 - direction, options->receiver_key);
	/* This segment is the first one after the SYNs. */
	if (!subflow->sender[end].has_isn)
		know_isn(&subflow->sender[end], segment->seq - 1);
	if (!subflow->sender[1 - end].has_isn && segment->flags & NM_TH_ACK &&
	    segment->length == 0)
		know_isn(&subflow->sender[1 - end], segment->ack - 1);
}

/* --- the life of subflows ------------------------------------------------------------------ */

static void
close_connection(nm_table_t *table, nm_connection_t *connection)
{
	uint32_t outstanding;

	if (connection->closed)
		return;
	connection->closed = true;
	outstanding = nm_commands_outstanding(connection);
	if (outstanding && !connection->gaps)
		nm_frame_event(table, NM_EV_NO_RESPONSE, NM_NOBODY, outstanding);
}

static void
end_of_life(nm_table_t *table, nm_subflow_t *subflow, uint8_t end, const nm_options_t *options)
{
	nm_connection_t *connection = subflow->connection;
	uint8_t flags = table->segment->flags;
	bool all = true;

	if (options->reset)
		nm_frame_event(table, NM_EV_TCPRST, subflow->index, options->reset_reason);
	if (flags & NM_TH_RST) {
		if (subflow->joined && !subflow->answered && !subflow->refused) {
			subflow->refused = true;
			nm_frame_event(table, NM_EV_JOIN_REFUSED, subflow->index, 0);
		}
		subflow->reset = true;
	}
	if (flags & NM_TH_FIN)
		subflow->sender[end].fin = true;
	if (!connection)
		return;
	if (options->fail)
		nm_frame_event(table, NM_EV_MP_FAIL, subflow->index, 0);
	if (options->fastclose)
		nm_frame_event(table, NM_EV_FASTCLOSE, subflow->index, 0);
	for (uint32_t i = 0; i < wmem_array_get_count(connection->subflows); i++) {
		const nm_subflow_t *other = nm_subflow_at(connection, i);

		all = all && (other->reset || other->sender[0].fin || other->sender[1].fin);
	}
	if (options->fastclose || options->data_fin || all)
		close_connection(table, connection);
}

static void
data_ack(nm_table_t *table, nm_subflow_t *subflow, uint8_t end, const nm_options_t *options)
{
	const nm_tcp_t *segment = table->segment;
	const nm_sender_t *sender = &subflow->sender[1 - end];
	uint8_t direction = end == subflow->host ? NM_TO_HOST : NM_TO_CONTROLLER;
	nm_flow_t *flow = &subflow->connection->flow[direction];
	uint64_t lost;
	int64_t offset;

	if (options->has_ack && flow->has_base &&
	    near(flow, options->ack, options->ack_is_64, NM_WINDOW))
		offset = offset_of(flow, options->ack, options->ack_is_64);
	else if (!(segment->flags & NM_TH_ACK) ||
		 !linear_offset(sender, segment->ack, &offset))
		return;
	if (flow->fin >= 0)
		offset = MIN(offset, flow->fin);
	if (offset <= flow->stream.next)
		return;
	lost = nm_stream_acknowledged(&flow->stream, offset);
	/* A single byte may be a DATA_FIN that wasn't captured. */
	if (lost > 1)
		nm_frame_event(table, NM_EV_NOT_CAPTURED, NM_NOBODY, (int64_t)lost);
}

/* --- the entrance -------------------------------------------------------------------------- */

static nm_frame_t *
frame_new(nm_table_t *table, nm_subflow_t *subflow)
{
	nm_frame_t *frame = table->spare;

	if (frame)
		memset(frame, 0, sizeof(*frame));
	else
		frame = wmem_new0(table->scope, nm_frame_t);
	table->spare = NULL;
	frame->subflow = subflow;
	frame->rtt = -1;
	return frame;
}

static void
established(nm_table_t *table, nm_subflow_t *subflow, uint8_t end, const nm_options_t *options)
{
	nm_connection_t *connection = subflow->connection;
	nm_flow_t *flow = &connection->flow[end == subflow->host ? NM_TO_CONTROLLER : NM_TO_HOST];
	nm_sender_t *sender = &subflow->sender[end];
	const nm_tcp_t *segment = table->segment;

	table->frame->direction = flow->direction;
	read_keys(subflow, end, options);
	if (options->has_map || (options->implied_map && flow->has_base)) {
		add_map(table, subflow, sender, flow, options);
		if (!sender->has_isn)
			infer_isn(sender, segment, options);
	}
	nm_track_ack(table->frame, &subflow->sender[1 - end], segment);
	if (!(segment->flags & (NM_TH_SYN | NM_TH_RST)) && segment->length > 0) {
		if (sender->has_isn && !sender->broken)
			take_payload(table, subflow, sender, flow);
		nm_track_sender(sender, segment);
	}
	data_ack(table, subflow, end, options);
	if (table->frame->waited > table->settings.reorder_threshold)
		nm_frame_event(table, NM_EV_REORDERED, subflow->index, table->frame->waited);
	if (!connection->plain && !connection->closed)
		nm_find_silent(table, connection);
}

/* Of TCP, only the discovery log and what concerns MPTCP are. */
static bool
of_interest(const nm_frame_t *frame)
{
	const nm_pdu_t *pdu = frame->pdus;

	while (pdu && pdu->log_offset < 0)
		pdu = pdu->next;
	return pdu || frame->events;
}

nm_frame_t *
nm_table_segment(nm_table_t *table, const nm_tcp_t *segment)
{
	nm_options_t options;
	subflow_key_t key;
	nm_subflow_t *subflow;
	nm_frame_t *frame;
	uint8_t end;

	nm_options_read(&options, segment->options, segment->options_length);
	end = make_key(&key, segment);
	subflow = (nm_subflow_t *)wmem_map_lookup(table->subflows, &key);
	if (!subflow && !options.any && (segment->flags & (NM_TH_SYN | NM_TH_ACK)) != NM_TH_SYN)
		return NULL;
	if (subflow && subflow->connection &&
	    subflow->connection->content == NM_CONTENT_OTHER && !(segment->flags & NM_TH_SYN))
		return NULL;
	table->segment = segment;
	table->origin.frame = segment->frame;
	table->origin.time = segment->time;
	frame = table->frame = frame_new(table, subflow);

	if ((segment->flags & (NM_TH_SYN | NM_TH_ACK)) == NM_TH_SYN) {
		if (subflow && subflow->sender[end].has_isn &&
		    subflow->sender[end].isn == segment->seq)
			repeated_syn(table, subflow);
		else
			subflow = first_syn(table, &key, end, &options);
	} else if (!subflow) {
		subflow = midway(table, &key, end);
	}
	if (!subflow) {
		table->spare = frame;
		return NULL;
	}
	frame->subflow = subflow;
	table->origin.subflow = subflow->index;
	if ((segment->flags & (NM_TH_SYN | NM_TH_ACK)) == (NM_TH_SYN | NM_TH_ACK))
		syn_ack(table, subflow, end, &options);
	if (!subflow->connection && !(segment->flags & NM_TH_SYN))
		find_connection(table, subflow, end, &options);
	table->origin.subflow = subflow->index;
	if (subflow->connection)
		established(table, subflow, end, &options);
	end_of_life(table, subflow, end, &options);
	table->segment = NULL;

	if (!subflow->connection || (subflow->connection->plain && !of_interest(frame))) {
		table->spare = frame;
		return NULL;
	}
	frame->plain = subflow->connection->plain;
	frame->other = subflow->connection->content == NM_CONTENT_OTHER && !frame->events;
	return frame;
}

void
nm_connection_decrypted(nm_connection_t *connection, nm_frame_t *frame, uint32_t number,
			int64_t time, uint8_t direction, const uint8_t *data, uint32_t length)
{
	nm_table_t *table = connection->table;
	nm_flow_t *flow;
	nm_added_t added;

	if (!connection->inside) {
		connection->inside = connection_alloc(table);
		connection->inside->index = connection->index;
		connection->inside->subflows = connection->subflows;
		connection->inside->content = NM_CONTENT_NVME;
		for (int i = 0; i < 2; i++)
			set_base(&connection->inside->flow[i], 0, true, true);
	}
	table->frame = frame;
	table->origin.frame = number;
	table->origin.time = time;
	table->origin.subflow = frame->subflow->index;
	flow = &connection->inside->flow[direction];
	nm_stream_add(&flow->stream, flow->stream.next, data, length, length, &table->origin,
		      &added);
}
