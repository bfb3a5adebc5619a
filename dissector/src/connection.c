/* connection.c
 * MPTCP connections: which subflows belong together, and how each of them begins and ends
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "connection.h"

#include <string.h>

#include "command.h"
#include "flow.h"
#include "mapping.h"
#include "table.h"
#include "track.h"

/* A subflow whose handshake wasn't captured belongs to a connection whose data sequence numbers
 * are this near (they begin at random 64-bit numbers: RFC 8684 §3.1). */
#define GROUP_DISTANCE ((int64_t)64 << 20)

typedef struct {
	nm_connection_t *connection;
	uint8_t direction;	/* whose sender chose the key */
} token_t;

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
		nm_flow_set_base(flow, idsn + 1, true, true);
}

/* --- handshakes ---------------------------------------------------------------------------- */

static void
know_isn(nm_sender_t *sender, uint32_t isn)
{
	sender->has_isn = true;
	sender->isn = isn;
}

static nm_subflow_t *
first_syn(nm_table_t *table, const nm_subflow_key_t *key, uint8_t end, const nm_options_t *options)
{
	const nm_tcp_t *segment = table->segment;
	nm_subflow_t *subflow;
	nm_connection_t *connection;
	token_t *owner;
	bool known = table->settings.nvme_port(segment->port[1]) || nm_table_announced(table, segment);

	if (!options->capable && !options->join_syn && !known) {
		wmem_map_remove(table->subflows, key);
		return NULL;
	}
	subflow = nm_subflow_new(table, key);
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
			nm_subflow_attach(subflow, owner->connection);
		}
		return subflow;
	}
	connection = nm_connection_new(table);
	connection->known_port = known;
	connection->plain = !options->capable;
	nm_subflow_attach(subflow, connection);
	if (connection->plain && nm_table_announced(table, segment))
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
		data = options->has_map && nm_flow_near(&c->flow[direction], options->dsn,
							options->dsn_is_64, GROUP_DISTANCE);
		ack = options->has_ack && nm_flow_near(&c->flow[1 - direction], options->ack,
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
		connection = nm_connection_new(table);
		connection->known_port = table->settings.nvme_port(subflow->port[0]) ||
					 table->settings.nvme_port(subflow->port[1]);
	}
	return nm_subflow_attach(subflow, connection);
}

/* A subflow whose SYN wasn't captured. */
static nm_subflow_t *
midway(nm_table_t *table, const nm_subflow_key_t *key, uint8_t end)
{
	const nm_tcp_t *segment = table->segment;
	nm_subflow_t *subflow = nm_subflow_new(table, key);
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
	    nm_flow_near(flow, options->ack, options->ack_is_64, NM_WINDOW))
		offset = nm_flow_offset(flow, options->ack, options->ack_is_64);
	else if (!(segment->flags & NM_TH_ACK) ||
		 !nm_mapping_linear_offset(sender, segment->ack, &offset))
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
		nm_mapping_add(table, subflow, sender, flow, options);
		if (!sender->has_isn)
			nm_mapping_infer_isn(sender, segment, options);
	}
	nm_track_ack(table->frame, &subflow->sender[1 - end], segment);
	if (!(segment->flags & (NM_TH_SYN | NM_TH_RST)) && segment->length > 0) {
		if (sender->has_isn && !sender->broken)
			nm_mapping_take(table, subflow, sender, flow);
		nm_track_sender(sender, segment);
	}
	data_ack(table, subflow, end, options);
	if (table->frame->waited > table->settings.reorder_threshold)
		nm_frame_event(table, NM_EV_REORDERED, subflow->index, table->frame->waited);
	if (!connection->plain && !connection->closed)
		nm_find_silent(table, connection);
}

/* Of TCP, only discovery entries and what concerns MPTCP are. */
static bool
of_interest(const nm_frame_t *frame)
{
	const nm_pdu_t *pdu = frame->pdus;

	while (pdu && !pdu->entries)
		pdu = pdu->next;
	return pdu || frame->events;
}

nm_frame_t *
nm_table_segment(nm_table_t *table, const nm_tcp_t *segment)
{
	nm_options_t options;
	nm_subflow_key_t key;
	nm_subflow_t *subflow;
	nm_frame_t *frame;
	uint8_t end;

	nm_options_read(&options, segment->options, segment->options_length);
	end = nm_subflow_key(&key, segment);
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
		connection->inside = nm_connection_alloc(table);
		connection->inside->index = connection->index;
		connection->inside->subflows = connection->subflows;
		connection->inside->content = NM_CONTENT_NVME;
		for (int i = 0; i < 2; i++)
			nm_flow_set_base(&connection->inside->flow[i], 0, true, true);
	}
	table->frame = frame;
	table->origin.frame = number;
	table->origin.time = time;
	table->origin.subflow = frame->subflow->index;
	flow = &connection->inside->flow[direction];
	nm_stream_add(&flow->stream, flow->stream.next, data, length, length, &table->origin,
		      &added);
}
