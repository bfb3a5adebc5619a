/* options.h
 * The MPTCP options of a TCP segment (RFC 8684 §3, protocol version 1)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_OPTIONS_H
#define NM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Option subtypes (RFC 8684 §8.2) */
enum {
	NM_MP_CAPABLE = 0,
	NM_MP_JOIN = 1,
	NM_DSS = 2,
	NM_MP_FAIL = 6,
	NM_MP_FASTCLOSE = 7,
	NM_MP_TCPRST = 8
};

typedef struct {
	bool any;	/* there is an option 30 */
	/* MP_CAPABLE, keys of sender and receiver */
	bool capable, has_sender_key, has_receiver_key;
	uint64_t sender_key, receiver_key;
	/* MP_JOIN */
	bool join_syn, join_synack, join_ack;
	uint32_t token;
	uint8_t address_id;
	/* DSS, or the mapping that MP_CAPABLE implies */
	bool has_ack, ack_is_64;
	uint64_t ack;
	bool has_map, dsn_is_64, data_fin, implied_map;
	uint64_t dsn;
	uint32_t ssn;
	uint16_t map_length;
	bool has_checksum;
	uint16_t checksum;
	bool fail, fastclose, reset;
	uint8_t reset_reason;
} nm_options_t;

/* Read the `length` bytes of options at `data`. Malformed options count as absent. */
void nm_options_read(nm_options_t *options, const uint8_t *data, uint32_t length);

#endif
