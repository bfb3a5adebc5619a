/* dss_checksum.h
 * The checksum of a DSS mapping whose data come in several segments (RFC 8684 §3.3.1)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_DSS_CHECKSUM_H
#define NM_DSS_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>

#define NM_CHECKSUM_GAPS 8

typedef enum { NM_CHECKSUM_PENDING, NM_CHECKSUM_GOOD, NM_CHECKSUM_BAD, NM_CHECKSUM_UNKNOWN } nm_checksum_t;

/* Ranges of the mapping that are summed already: starts and ends, ordered, apart. */
typedef struct {
	uint32_t sum;
	uint16_t expected;
	uint16_t length;	/* bytes of data in the mapping */
	nm_checksum_t state;
	uint8_t ranges;
	uint16_t start[NM_CHECKSUM_GAPS], end[NM_CHECKSUM_GAPS];
} nm_dss_checksum_t;

/* `map_length` as in the option; `data_fin`: it counts the DATA_FIN, which isn't data. */
void nm_dss_checksum_begin(nm_dss_checksum_t *checksum, uint64_t dsn, uint32_t ssn,
			   uint16_t map_length, bool data_fin, uint16_t expected);

/* Add the bytes at `offset` of the mapping; a repeated range is ignored. Return the state;
 * NM_CHECKSUM_UNKNOWN when the ranges overlap in part or are too many. */
nm_checksum_t nm_dss_checksum_add(nm_dss_checksum_t *checksum, uint32_t offset,
				  const uint8_t *data, uint32_t length);

#endif
