/* options.c
 * The MPTCP options of a TCP segment (RFC 8684 §3, protocol version 1)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "options.h"

#include <string.h>

#include "pdu.h"

#define TCP_OPTION_END 0
#define TCP_OPTION_NOP 1
#define TCP_OPTION_MPTCP 30

/* Flags of DSS (RFC 8684 §3.3) */
#define DSS_ACK 0x01
#define DSS_ACK_64 0x02
#define DSS_MAP 0x04
#define DSS_DSN_64 0x08
#define DSS_FIN 0x10

/* RFC 8684 §3.1 */
static void
read_capable(nm_options_t *options, const uint8_t *option, uint8_t length)
{
	if ((option[2] & 0x0f) != 1)
		return;		/* another version of MPTCP */
	options->capable = true;
	if (length >= 12) {
		options->has_sender_key = true;
		options->sender_key = nm_be64(option + 4);
	}
	if (length >= 20) {
		options->has_receiver_key = true;
		options->receiver_key = nm_be64(option + 12);
	}
	if (length >= 22) {
		options->implied_map = true;
		options->map_length = nm_be16(option + 20);
	}
	if (length >= 24) {
		options->has_checksum = true;
		options->checksum = nm_be16(option + 22);
	}
}

/* RFC 8684 §3.2 */
static void
read_join(nm_options_t *options, const uint8_t *option, uint8_t length)
{
	options->address_id = option[3];
	options->join_syn = length == 12;
	options->join_synack = length == 16;
	options->join_ack = length == 24;
	if (options->join_syn)
		options->token = nm_be32(option + 4);
}

/* RFC 8684 §3.3 */
static void
read_dss(nm_options_t *options, const uint8_t *option, uint8_t length)
{
	const uint8_t flags = option[3];
	const uint8_t *p = option + 4;
	uint32_t ack_bytes = flags & DSS_ACK ? (flags & DSS_ACK_64 ? 8 : 4) : 0;
	uint32_t dsn_bytes = flags & DSS_MAP ? (flags & DSS_DSN_64 ? 8 : 4) : 0;

	if (length < 4 + ack_bytes + (dsn_bytes ? dsn_bytes + 6 : 0))
		return;
	if (ack_bytes) {
		options->has_ack = true;
		options->ack_is_64 = ack_bytes == 8;
		options->ack = ack_bytes == 8 ? nm_be64(p) : nm_be32(p);
		p += ack_bytes;
	}
	if (!dsn_bytes)
		return;
	options->has_map = true;
	options->implied_map = false;
	options->data_fin = flags & DSS_FIN;
	options->dsn_is_64 = dsn_bytes == 8;
	options->dsn = dsn_bytes == 8 ? nm_be64(p) : nm_be32(p);
	p += dsn_bytes;
	options->ssn = nm_be32(p);
	options->map_length = nm_be16(p + 4);
	p += 6;
	if (option + length >= p + 2) {
		options->has_checksum = true;
		options->checksum = nm_be16(p);
	}
}

static void
read_mptcp(nm_options_t *options, const uint8_t *option, uint8_t length)
{
	options->any = true;
	if (length < 4)
		return;
	switch (option[2] >> 4) {
	case NM_MP_CAPABLE:
		read_capable(options, option, length);
		break;
	case NM_MP_JOIN:
		read_join(options, option, length);
		break;
	case NM_DSS:
		read_dss(options, option, length);
		break;
	case NM_MP_FAIL:
		options->fail = true;
		break;
	case NM_MP_FASTCLOSE:
		options->fastclose = true;
		break;
	case NM_MP_TCPRST:
		options->reset = true;
		options->reset_reason = option[3];
		break;
	}
}

void
nm_options_read(nm_options_t *options, const uint8_t *data, uint32_t length)
{
	memset(options, 0, sizeof(*options));
	while (length > 0 && data[0] != TCP_OPTION_END) {
		uint8_t size = 1;

		if (data[0] != TCP_OPTION_NOP) {
			if (length < 2 || data[1] < 2 || data[1] > length)
				return;
			size = data[1];
			if (data[0] == TCP_OPTION_MPTCP)
				read_mptcp(options, data, size);
		}
		data += size;
		length -= size;
	}
}
