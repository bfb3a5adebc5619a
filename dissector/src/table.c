/* table.c
 * All connections of a capture: how subflows and announced ports are found
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "table.h"

#include <string.h>

#include "flow.h"

typedef struct {
	uint32_t family;
	uint8_t address[16];
	uint32_t port;
} port_key_t;

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

/* Each frame of TCP is looked up: wmem_strong_hash would take more time than all else. */
static inline guint
hash(const void *key, size_t length)
{
	static uint64_t seed;
	uint64_t state;

	if (!seed)	/* so that nobody can make a capture whose keys collide */
		seed = (uint64_t)g_random_int() << 32 | g_random_int() | 1;
	state = seed;
	for (const uint8_t *p = (const uint8_t *)key, *end = p + length; p < end; p += 8) {
		uint64_t word;

		memcpy(&word, p, sizeof(word));
		/* by the golden ratio, so that each bit changes the upper half */
		state = (state ^ word) * 0x9e3779b97f4a7c15u;
		state ^= state >> 32;
	}
	return (guint)state;
}

#define KEY_FUNCTIONS(type)                                                                        \
	_Static_assert(sizeof(type) % 8 == 0, "whole words, without padding");                     \
	static guint type##_hash(gconstpointer key)                                                \
	{                                                                                          \
		return hash(key, sizeof(type));                                                    \
	}                                                                                          \
	static gboolean type##_equal(gconstpointer a, gconstpointer b)                             \
	{                                                                                          \
		return memcmp(a, b, sizeof(type)) == 0;                                            \
	}

KEY_FUNCTIONS(nm_subflow_key_t)
KEY_FUNCTIONS(port_key_t)

nm_table_t *
nm_table_new(wmem_allocator_t *scope, const nm_settings_t *settings)
{
	nm_table_t *table = wmem_new0(scope, nm_table_t);

	table->scope = scope;
	table->settings = *settings;
	table->subflows = wmem_map_new(scope, nm_subflow_key_t_hash,
				       nm_subflow_key_t_equal);
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

bool
nm_table_announced(nm_table_t *table, const nm_tcp_t *segment)
{
	port_key_t key;

	make_port_key(&key, segment->family, segment->address[1], segment->port[1]);
	return wmem_map_contains(table->announced, &key);
}

uint8_t
nm_subflow_key(nm_subflow_key_t *key, const nm_tcp_t *segment)
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

nm_connection_t *
nm_connection_alloc(nm_table_t *table)
{
	nm_connection_t *connection = wmem_new0(table->scope, nm_connection_t);

	connection->table = table;
	connection->subflows = wmem_array_new(table->scope, sizeof(nm_subflow_t *));
	connection->pending = wmem_map_new(table->scope, g_direct_hash, g_direct_equal);
	for (uint8_t i = 0; i < 2; i++)
		nm_flow_init(&connection->flow[i], connection, i);
	return connection;
}

nm_connection_t *
nm_connection_new(nm_table_t *table)
{
	nm_connection_t *connection = nm_connection_alloc(table);

	connection->index = table->connection_count++;
	connection->next = table->connections;
	table->connections = connection;
	return connection;
}

nm_subflow_t *
nm_subflow_new(nm_table_t *table, const nm_subflow_key_t *key)
{
	nm_subflow_t *subflow = wmem_new0(table->scope, nm_subflow_t);

	subflow->family = (uint8_t)key->family;
	memcpy(subflow->address, key->address, sizeof(subflow->address));
	memcpy(subflow->port, key->port, sizeof(subflow->port));
	subflow->first_frame = table->segment->frame;
	wmem_map_insert(table->subflows, wmem_memdup(table->scope, key, sizeof(*key)), subflow);
	return subflow;
}

bool
nm_subflow_attach(nm_subflow_t *subflow, nm_connection_t *connection)
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

nm_subflow_t *
nm_subflow_at(const nm_connection_t *connection, uint32_t index)
{
	return *(nm_subflow_t **)wmem_array_index(connection->subflows, index);
}
