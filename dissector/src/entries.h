/* entries.h
 * The entries of discovery log pages and registrations, cut out of the data of commands
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_ENTRIES_H
#define NM_ENTRIES_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme_tcp_variant.h"

struct nm_table;

/* What a host or controller sends (NVM Express Base: log pages 70h and 71h, and the data of
 * Discovery Information Management). */
typedef enum { NM_DISCOVERY_LOG, NM_HOST_LOG, NM_DIM } nm_information_t;

typedef enum { NM_ENTRY_BASIC, NM_ENTRY_EXTENDED, NM_ENTRY_HOST } nm_entry_form_t;

/* The largest of their fixed parts, up to the extended attributes. */
#define NM_ENTRY_LARGEST NVME_EXTENDED_ENTRY_SIZE

/* The fixed part of an entry, in the PDU that completes it. */
typedef struct nm_entry {
	struct nm_entry *next;
	nm_entry_form_t form;
	bool registered;	/* by Discovery Information Management */
	uint32_t number;	/* in its structure, from 0 */
	uint32_t size;
	const uint8_t *data;	/* of the scope, or NULL: in the PDU at `place` */
	uint32_t place;
} nm_entry_t;

/* A header with entries that follow, which PDUs and commands bring in pieces. */
typedef struct {
	nm_information_t kind;
	uint64_t next;		/* offset of the byte that is expected */
	/* the part that isn't complete: the header, or an entry */
	uint64_t start;		/* its offset */
	uint32_t size, have;
	uint8_t bytes[NM_ENTRY_LARGEST];
	bool in_header;
	/* what the header told */
	bool has_count;
	uint64_t count;
	bool extended, of_host;
	uint32_t number;
} nm_entries_t;

void nm_entries_init(nm_entries_t *entries, nm_information_t kind);

/* Bytes at an offset of the structure, which are at `place` of a PDU. Return the entries that they
 * complete, of the table's scope; announced ports are noted in the table. What is missing is made
 * up for where entries have one size, or else when the structure is read again from its
 * beginning. */
nm_entry_t *nm_entries_input(nm_entries_t *entries, struct nm_table *table, uint64_t offset,
			     const uint8_t *data, uint32_t length, uint32_t place);

#endif
