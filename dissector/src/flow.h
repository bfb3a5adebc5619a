/* flow.h
 * One direction of a connection: places in its stream, and the PDUs that come out of it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_FLOW_H
#define NM_FLOW_H

#include "connection.h"

void nm_flow_init(nm_flow_t *flow, nm_connection_t *connection, uint8_t direction);

/* Offset 0 is this DSN, of which 64 or 32 bits are known. `from_start`: it is the first one. */
void nm_flow_set_base(nm_flow_t *flow, uint64_t dsn, bool is_64, bool from_start);

/* The offset that a DSN of 32 or 64 bits stands for. */
int64_t nm_flow_offset(const nm_flow_t *flow, uint64_t dsn, bool is_64);

/* Whether that offset is at most `distance` from what is expected next. */
bool nm_flow_near(const nm_flow_t *flow, uint64_t dsn, bool is_64, int64_t distance);

/* Take in data of the present segment: `captured` of `length` bytes at `offset`. */
void nm_flow_add(nm_table_t *table, nm_flow_t *flow, int64_t offset, const uint8_t *data,
		 uint32_t captured, uint32_t length);

#endif
