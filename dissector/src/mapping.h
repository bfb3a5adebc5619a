/* mapping.h
 * Where the bytes of a subflow belong in the stream: mappings, and what follows a fallback
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_MAPPING_H
#define NM_MAPPING_H

#include "connection.h"

/* Note the mapping of the present segment's options (RFC 8684 §3.3.1). */
void nm_mapping_add(nm_table_t *table, nm_subflow_t *subflow, nm_sender_t *sender, nm_flow_t *flow,
		    const nm_options_t *options);

/* Where the subflow's sequence numbers begin, if its handshake wasn't captured. */
void nm_mapping_infer_isn(nm_sender_t *sender, const nm_tcp_t *segment,
			  const nm_options_t *options);

/* After a fallback: the offset of the byte with this TCP sequence number. Return false before. */
bool nm_mapping_linear_offset(const nm_sender_t *sender, uint32_t seq, int64_t *offset);

/* Put the present segment's payload where it belongs. */
void nm_mapping_take(nm_table_t *table, nm_subflow_t *subflow, nm_sender_t *sender,
		     nm_flow_t *flow);

#endif
