/* command.h
 * NVMe commands: which PDUs belong together
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_COMMAND_H
#define NM_COMMAND_H

#include "connection.h"

/* Set the fields of `pdu` that its header tells, and find or begin its command. `data`: its
 * `captured` bytes; `frame`, `time`: where and when it was complete. */
void nm_command_pdu(nm_table_t *table, nm_pdu_t *pdu, const uint8_t *data, uint32_t frame,
		    int64_t time);

/* The number of commands without a response that should have had one. */
uint32_t nm_commands_outstanding(const nm_connection_t *connection);

#endif
