/* dss_checksum.c
 * The checksum of a DSS mapping whose data come in several segments (RFC 8684 §3.3.1)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "dss_checksum.h"

#include <string.h>

static uint32_t
fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)sum;
}

/* Sum of 16-bit numbers as the machine has them: eight bytes a step (RFC 1071 §2). */
static uint32_t
native_sum(const uint8_t *data, uint32_t length)
{
	uint64_t sum = 0;

	for (; length >= 8; data += 8, length -= 8) {
		uint64_t word;

		memcpy(&word, data, sizeof(word));
		sum += (word & 0xffffffff) + (word >> 32);
	}
	for (; length >= 2; data += 2, length -= 2) {
		uint16_t word;

		memcpy(&word, data, sizeof(word));
		sum += word;
	}
	if (length) {
		uint16_t word = 0;

		memcpy(&word, data, 1);
		sum += word;
	}
	return fold(sum);
}

void
nm_dss_checksum_begin(nm_dss_checksum_t *checksum, uint64_t dsn, uint32_t ssn,
		      uint16_t map_length, bool data_fin, uint16_t expected)
{
	uint8_t pseudo[16];

	memset(checksum, 0, sizeof(*checksum));
	for (int i = 0; i < 8; i++)
		pseudo[i] = (uint8_t)(dsn >> (56 - 8 * i));
	for (int i = 0; i < 4; i++)
		pseudo[8 + i] = (uint8_t)(ssn >> (24 - 8 * i));
	pseudo[12] = (uint8_t)(map_length >> 8);
	pseudo[13] = (uint8_t)map_length;
	pseudo[14] = (uint8_t)(expected >> 8);
	pseudo[15] = (uint8_t)expected;
	checksum->sum = native_sum(pseudo, sizeof(pseudo));
	checksum->length = (uint16_t)(map_length - (data_fin && map_length ? 1 : 0));
	checksum->expected = expected;
	checksum->state = checksum->length ? NM_CHECKSUM_PENDING : NM_CHECKSUM_UNKNOWN;
}

/* Take [start, end) into the ordered ranges. */
static bool
cover(nm_dss_checksum_t *checksum, uint16_t start, uint16_t end)
{
	uint8_t i = 0;

	while (i < checksum->ranges && checksum->end[i] < start)
		i++;
	if (i < checksum->ranges && checksum->end[i] == start) {
		checksum->end[i] = end;
		if (i + 1 < checksum->ranges && checksum->start[i + 1] == end) {
			checksum->end[i] = checksum->end[i + 1];
			checksum->ranges--;
			for (uint8_t k = i + 1; k < checksum->ranges; k++) {
				checksum->start[k] = checksum->start[k + 1];
				checksum->end[k] = checksum->end[k + 1];
			}
		}
		return true;
	}
	if (i < checksum->ranges && checksum->start[i] == end) {
		checksum->start[i] = start;
		return true;
	}
	if (checksum->ranges == NM_CHECKSUM_GAPS)
		return false;
	for (uint8_t k = checksum->ranges; k > i; k--) {
		checksum->start[k] = checksum->start[k - 1];
		checksum->end[k] = checksum->end[k - 1];
	}
	checksum->start[i] = start;
	checksum->end[i] = end;
	checksum->ranges++;
	return true;
}

nm_checksum_t
nm_dss_checksum_add(nm_dss_checksum_t *checksum, uint32_t offset, const uint8_t *data,
		    uint32_t length)
{
	uint32_t end = offset + length, sum;

	if (checksum->state != NM_CHECKSUM_PENDING || length == 0)
		return checksum->state;
	if (end > checksum->length) {
		checksum->state = NM_CHECKSUM_UNKNOWN;
		return checksum->state;
	}
	for (uint8_t i = 0; i < checksum->ranges; i++) {
		if (offset >= checksum->start[i] && end <= checksum->end[i])
			return checksum->state;
		if (offset < checksum->end[i] && end > checksum->start[i]) {
			checksum->state = NM_CHECKSUM_UNKNOWN;
			return checksum->state;
		}
	}
	sum = native_sum(data, length);
	if (offset & 1)
		sum = (sum & 0xff) << 8 | sum >> 8;
	checksum->sum = fold((uint64_t)checksum->sum + sum);
	if (!cover(checksum, (uint16_t)offset, (uint16_t)end)) {
		checksum->state = NM_CHECKSUM_UNKNOWN;
	} else if (checksum->ranges == 1 && checksum->start[0] == 0 &&
		   checksum->end[0] == checksum->length) {
		checksum->state = checksum->sum == 0xffff ? NM_CHECKSUM_GOOD : NM_CHECKSUM_BAD;
	}
	return checksum->state;
}
