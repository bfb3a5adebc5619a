/* entries.c
 * The entries of discovery log pages and registrations, cut out of the data of commands
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "entries.h"

#include <stdlib.h>
#include <string.h>

#include <wsutil/inet_addr.h>

#include "connection.h"

#define TRTYPE_TCP 3
#define ADRFAM_IPV4 1
#define ADRFAM_IPV6 2
#define ENTFMT_BASIC 1
#define ETYPE_HOST 1

/* All three structures begin with a header of this size, whose first bytes tell what follows. The
 * header of log page 71h has NUMREC where that of 70h has it. */
#define HEADER_SIZE NVME_DISCOVERY_HEADER_SIZE
#define HEADER_USED (NVME_DIM_ETYPE_OFFSET + NVME_DIM_ETYPE_SIZE)

_Static_assert(NVME_DIM_SIZE == HEADER_SIZE, "header of DIM data");
_Static_assert(NVME_DIM_NUMENT_OFFSET == NVME_DISCOVERY_HEADER_NUMREC_OFFSET, "number of entries");
/* The forms agree where the plugin reads them. */
_Static_assert(NVME_EXTENDED_ENTRY_TSAS_OFFSET == NVME_DISCOVERY_ENTRY_TSAS_OFFSET, "TSAS");
_Static_assert(NVME_EXTENDED_ENTRY_TRADDR_OFFSET == NVME_DISCOVERY_ENTRY_TRADDR_OFFSET, "TRADDR");
_Static_assert(NVME_EXTENDED_ENTRY_TRSVCID_OFFSET == NVME_DISCOVERY_ENTRY_TRSVCID_OFFSET, "TRSVCID");
_Static_assert(NVME_EXTENDED_ENTRY_TEL_OFFSET == NVME_HOST_ENTRY_TEL_OFFSET, "TEL");
_Static_assert(NVME_HOST_ENTRY_SIZE <= NM_ENTRY_LARGEST, "room");

static nm_entry_form_t
form_of(const nm_entries_t *entries)
{
	if (entries->kind == NM_HOST_LOG)
		return NM_ENTRY_HOST;
	return entries->kind == NM_DIM && entries->extended ? NM_ENTRY_EXTENDED : NM_ENTRY_BASIC;
}

static uint32_t
entry_size(const nm_entries_t *entries)
{
	switch (form_of(entries)) {
	case NM_ENTRY_HOST:
		return NVME_HOST_ENTRY_SIZE;
	case NM_ENTRY_EXTENDED:
		return NVME_EXTENDED_ENTRY_SIZE;
	default:
		return NVME_DISCOVERY_ENTRY_SIZE;
	}
}

static void
begin_entry(nm_entries_t *entries, uint64_t start, uint32_t number)
{
	entries->in_header = false;
	entries->start = start;
	entries->size = entry_size(entries);
	entries->have = 0;
	entries->number = number;
	if (entries->has_count && number >= entries->count)
		entries->start = UINT64_MAX;	/* what follows is not of the structure */
}

static void
begin_header(nm_entries_t *entries)
{
	entries->next = entries->start = 0;
	entries->size = HEADER_USED;
	entries->have = 0;
	entries->in_header = true;
}

void
nm_entries_init(nm_entries_t *entries, nm_information_t kind)
{
	memset(entries, 0, sizeof(*entries));
	entries->kind = kind;
	begin_header(entries);
}

static void
read_header(nm_entries_t *entries, const uint8_t *header)
{
	entries->has_count = true;
	entries->count = nm_le32(header + NVME_DISCOVERY_HEADER_NUMREC_OFFSET) |
			 (uint64_t)nm_le32(header + NVME_DISCOVERY_HEADER_NUMREC_OFFSET + 4) << 32;
	if (entries->kind == NM_DIM) {
		entries->extended = nm_le16(header + NVME_DIM_ENTFMT_OFFSET) != ENTFMT_BASIC;
		entries->of_host = nm_le16(header + NVME_DIM_ETYPE_OFFSET) == ETYPE_HOST;
	}
	begin_entry(entries, HEADER_SIZE, 0);
}

/* A port that is announced with variant MPTCP: connections to it by TCP are worth a note. */
static void
announce(nm_table_t *table, const uint8_t *entry)
{
	char traddr[NVME_DISCOVERY_ENTRY_TRADDR_SIZE + 1] = "";
	char trsvcid[NVME_DISCOVERY_ENTRY_TRSVCID_SIZE + 1] = "";
	uint8_t address[16] = { 0 };
	unsigned long port;

	if (entry[NVME_DISCOVERY_ENTRY_TRTYPE_OFFSET] != TRTYPE_TCP ||
	    entry[NVME_DISCOVERY_ENTRY_TSAS_OFFSET + NVME_TCP_TSAS_TCPV_OFFSET] !=
		    NVME_TCP_TCPV_MPTCP)
		return;
	memcpy(traddr, entry + NVME_DISCOVERY_ENTRY_TRADDR_OFFSET, sizeof(traddr) - 1);
	memcpy(trsvcid, entry + NVME_DISCOVERY_ENTRY_TRSVCID_OFFSET, sizeof(trsvcid) - 1);
	port = strtoul(trsvcid, NULL, 10);
	if (port == 0 || port > UINT16_MAX)
		return;
	if (entry[NVME_DISCOVERY_ENTRY_ADRFAM_OFFSET] == ADRFAM_IPV4 &&
	    ws_inet_pton4(g_strstrip(traddr), (ws_in4_addr *)address))
		nm_table_announce(table, 4, address, (uint16_t)port);
	else if (entry[NVME_DISCOVERY_ENTRY_ADRFAM_OFFSET] == ADRFAM_IPV6 &&
		 ws_inet_pton6(g_strstrip(traddr), (ws_in6_addr *)address))
		nm_table_announce(table, 6, address, (uint16_t)port);
}

/* An entry is complete: `data` is in the PDU at `place`, or else what was collected. */
static nm_entry_t *
take_entry(nm_entries_t *entries, nm_table_t *table, const uint8_t *data, uint32_t place)
{
	nm_entry_t *entry = wmem_new0(table->scope, nm_entry_t);
	uint64_t whole = entries->size;

	entry->form = form_of(entries);
	entry->registered = entries->kind == NM_DIM;
	entry->number = entries->number;
	entry->size = entries->size;
	entry->place = place;
	if (data == entries->bytes)
		entry->data = (const uint8_t *)wmem_memdup(table->scope, data, entries->size);
	if (entry->form != NM_ENTRY_HOST && !entries->of_host)
		announce(table, data);
	/* TEL below the fixed part's size is an error of the sender's: go on after that part. */
	if (entry->form != NM_ENTRY_BASIC)
		whole = MAX(whole, nm_le32(data + NVME_EXTENDED_ENTRY_TEL_OFFSET));
	begin_entry(entries, entries->start + whole, entries->number + 1);
	return entry;
}

/* Find the place again after a jump to `offset`. Return false if there is none. */
static bool
jump(nm_entries_t *entries, uint64_t offset)
{
	uint64_t number;

	if (offset >= entries->next && offset <= entries->start && entries->have == 0)
		return true;	/* over bytes that aren't used */
	if (entries->kind != NM_DISCOVERY_LOG)
		return false;
	number = offset <= HEADER_SIZE
			 ? 0
			 : (offset - HEADER_SIZE + NVME_DISCOVERY_ENTRY_SIZE - 1) /
				   NVME_DISCOVERY_ENTRY_SIZE;
	if (number > UINT32_MAX)
		return false;
	begin_entry(entries, HEADER_SIZE + number * NVME_DISCOVERY_ENTRY_SIZE, (uint32_t)number);
	return true;
}

nm_entry_t *
nm_entries_input(nm_entries_t *entries, nm_table_t *table, uint64_t offset, const uint8_t *data,
		 uint32_t length, uint32_t place)
{
	nm_entry_t *found = NULL, **last = &found;

	if (offset == 0)
		begin_header(entries);
	else if (offset != entries->next && !jump(entries, offset))
		return NULL;
	entries->next = offset;
	while (length > 0) {
		const uint8_t *part = data;
		uint32_t n;

		if (entries->next < entries->start) {
			n = (uint32_t)MIN(length, entries->start - entries->next);
		} else {
			n = MIN(length, entries->size - entries->have);
			if (entries->have > 0 || n < entries->size) {
				memcpy(entries->bytes + entries->have, data, n);
				part = entries->bytes;
			}
			entries->have += n;
			if (entries->have < entries->size) {
				/* the rest comes later */
			} else if (entries->in_header) {
				read_header(entries, part);
			} else {
				*last = take_entry(entries, table, part, place);
				last = &(*last)->next;
			}
		}
		entries->next += n;
		data += n;
		place += n;
		length -= n;
	}
	return found;
}
