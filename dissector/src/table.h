/* table.h
 * All connections of a capture: how subflows and announced ports are found
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_TABLE_H
#define NM_TABLE_H

#include "connection.h"

/* The two ends of a subflow, in an order that doesn't depend on who sends. */
typedef struct {
	uint32_t family;
	uint8_t address[2][16];
	uint16_t port[2];
} nm_subflow_key_t;

/* Fill in the key; return which end the sender is. */
uint8_t nm_subflow_key(nm_subflow_key_t *key, const nm_tcp_t *segment);

/* Whether variant MPTCP was announced for the address and port that the segment goes to. */
bool nm_table_announced(nm_table_t *table, const nm_tcp_t *segment);

/* A connection, in the table's list or (what TLS protects) apart from it. */
nm_connection_t *nm_connection_new(nm_table_t *table);
nm_connection_t *nm_connection_alloc(nm_table_t *table);

/* A subflow that begins with the present segment. It replaces an older one with this key. */
nm_subflow_t *nm_subflow_new(nm_table_t *table, const nm_subflow_key_t *key);

/* Make it the next subflow of the connection. Return false if that has too many. */
bool nm_subflow_attach(nm_subflow_t *subflow, nm_connection_t *connection);

nm_subflow_t *nm_subflow_at(const nm_connection_t *connection, uint32_t index);

#endif
