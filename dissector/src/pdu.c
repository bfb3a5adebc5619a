/* pdu.c
 * NVMe/TCP PDU headers and TLS record headers: what frames a byte stream
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pdu.h"

#include <string.h>

#define TLS_HANDSHAKE 22
#define TLS_LARGEST_RECORD (16384 + 2048)

/* HLEN by type (NVMe/TCP Transport Specification 1.0, 3.6.2); 0: no such type. */
static const uint8_t header_length[] = {
	[NM_ICREQ] = 128,     [NM_ICRESP] = 128,      [NM_H2C_TERM_REQ] = 24, [NM_C2H_TERM_REQ] = 24,
	[NM_CAPSULE_CMD] = 72, [NM_CAPSULE_RESP] = 24, [NM_H2C_DATA] = 24,     [NM_C2H_DATA] = 24,
	[NM_R2T] = 24,
};

static const uint8_t allowed_flags[] = {
	[NM_CAPSULE_CMD] = NM_FLAG_HDGST | NM_FLAG_DDGST,
	[NM_CAPSULE_RESP] = NM_FLAG_HDGST,
	[NM_H2C_DATA] = NM_FLAG_HDGST | NM_FLAG_DDGST | NM_FLAG_LAST,
	[NM_C2H_DATA] = NM_FLAG_HDGST | NM_FLAG_DDGST | NM_FLAG_LAST | NM_FLAG_SUCCESS,
	[NM_R2T] = NM_FLAG_HDGST,
};

static bool
known_type(uint8_t type)
{
	return type < sizeof(header_length) && header_length[type] != 0;
}

nm_content_t
nm_content_detect(const uint8_t *data, uint32_t length, bool known_port)
{
	static const uint8_t icreq[8] = { NM_ICREQ, 0, 128, 0, 128, 0, 0, 0 };

	if (known_port && length >= 3 && data[0] == TLS_HANDSHAKE && data[1] == 3 && data[2] <= 4)
		return NM_CONTENT_TLS;
	if (known_port)
		return NM_CONTENT_NVME;
	if (length >= sizeof(icreq) && memcmp(data, icreq, sizeof(icreq)) == 0)
		return NM_CONTENT_NVME;
	return NM_CONTENT_OTHER;
}

uint32_t
nm_unit_length(nm_content_t content, const uint8_t *header)
{
	uint32_t length;

	if (content == NM_CONTENT_TLS) {
		length = nm_be16(header + 3);
		if (header[0] < 20 || header[0] > 24 || header[1] != 3 || length == 0 ||
		    length > TLS_LARGEST_RECORD)
			return 0;
		return length + 5;
	}
	length = nm_le32(header + 4);
	if (!known_type(header[0]) || length < 8 || length > NM_PDU_LARGEST)
		return 0;
	return length;
}

void
nm_pdu_data_range(const uint8_t *header, uint32_t *offset, uint32_t *length)
{
	uint32_t whole = nm_le32(header + 4);
	uint32_t digest = header[1] & NM_FLAG_DDGST ? NM_DIGEST_BYTES : 0;

	*offset = header[3];
	*length = 0;
	if ((header[0] == NM_CAPSULE_CMD || header[0] == NM_H2C_DATA || header[0] == NM_C2H_DATA) &&
	    *offset >= header[2] && whole > *offset + digest)
		*length = whole - *offset - digest;
}

nm_verdict_t
nm_unit_certain(nm_content_t content, const uint8_t *data, uint32_t length)
{
	uint32_t whole, digest, data_offset, data_length;
	uint8_t type;

	if (length == 0)
		return NM_MAYBE;
	if (content == NM_CONTENT_TLS) {
		/* Five bytes prove little, and keys are lost with a hole anyway. */
		return NM_NO;
	}
	type = data[0];
	if (!known_type(type))
		return NM_NO;
	if (length >= 3 && (data[2] != header_length[type] || (data[1] & ~allowed_flags[type])))
		return NM_NO;
	if (length < 8)
		return NM_MAYBE;
	whole = nm_le32(data + 4);
	digest = data[1] & NM_FLAG_HDGST ? NM_DIGEST_BYTES : 0;
	switch (type) {
	case NM_ICREQ:
	case NM_ICRESP:
	case NM_CAPSULE_RESP:
	case NM_R2T:
		return data[3] == 0 && whole == header_length[type] + digest ? NM_YES : NM_NO;
	case NM_H2C_TERM_REQ:
	case NM_C2H_TERM_REQ:
		return data[3] == 0 && whole >= 24 && whole <= 152 ? NM_YES : NM_NO;
	case NM_CAPSULE_CMD:
		if (whole == 72 + digest)
			return data[3] == 0 || data[3] == 72 + digest ? NM_YES : NM_NO;
		nm_pdu_data_range(data, &data_offset, &data_length);
		if (data[3] < 72 + digest || data_length == 0 || data_length > 1 << 20)
			return NM_NO;
		return data[3] % 4 == 0 ? NM_YES : NM_NO;
	default:
		nm_pdu_data_range(data, &data_offset, &data_length);
		if (data[3] < 24 + digest || data[3] % 4 || data_length == 0 ||
		    whole > NM_PDU_LARGEST)
			return NM_NO;
		if (length < 20)
			return NM_MAYBE;
		return nm_le32(data + 16) == data_length ? NM_YES : NM_NO;
	}
}
