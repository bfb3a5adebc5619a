/* pdu.h
 * NVMe/TCP PDU headers and TLS record headers: what frames a byte stream
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_PDU_H
#define NM_PDU_H

#include <stdbool.h>
#include <stdint.h>

/* NVMe/TCP Transport Specification 1.0, 3.6: PDU types */
enum {
	NM_ICREQ = 0x00,
	NM_ICRESP = 0x01,
	NM_H2C_TERM_REQ = 0x02,
	NM_C2H_TERM_REQ = 0x03,
	NM_CAPSULE_CMD = 0x04,
	NM_CAPSULE_RESP = 0x05,
	NM_H2C_DATA = 0x06,
	NM_C2H_DATA = 0x07,
	NM_R2T = 0x09
};

#define NM_FLAG_HDGST 0x01
#define NM_FLAG_DDGST 0x02
#define NM_FLAG_LAST 0x04
#define NM_FLAG_SUCCESS 0x08

#define NM_DIGEST_BYTES 4
#define NM_PDU_LARGEST ((uint32_t)1 << 26)

/* What the stream consists of. */
typedef enum {
	NM_CONTENT_UNKNOWN,
	NM_CONTENT_NVME,	/* PDUs */
	NM_CONTENT_TLS,		/* TLS records with PDUs in them */
	NM_CONTENT_OTHER	/* nothing of ours */
} nm_content_t;

/* Bytes of a header that frame a unit, and that certify one (the most that nm_unit_certain reads). */
#define NM_HEADER_BYTES(content) ((content) == NM_CONTENT_TLS ? 5u : 8u)
#define NM_CERTAIN_BYTES 24u

static inline uint16_t
nm_le16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t
nm_le32(const uint8_t *p)
{
	return nm_le16(p) | (uint32_t)nm_le16(p + 2) << 16;
}

static inline uint16_t
nm_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t
nm_be32(const uint8_t *p)
{
	return (uint32_t)nm_be16(p) << 16 | nm_be16(p + 2);
}

static inline uint64_t
nm_be64(const uint8_t *p)
{
	return (uint64_t)nm_be32(p) << 32 | nm_be32(p + 4);
}

/* What the first bytes of a connection tell about its content. `known_port`: the port is one
 * of NVMe/TCP. */
nm_content_t nm_content_detect(const uint8_t *data, uint32_t length, bool known_port);

/* Length of the unit whose header (NM_HEADER_BYTES) is at `header`; 0 if there can't be one. */
uint32_t nm_unit_length(nm_content_t content, const uint8_t *header);

typedef enum { NM_NO, NM_MAYBE, NM_YES } nm_verdict_t;

/* Whether a unit begins here, judged without knowing what came before: all fields with one
 * possible value have it and all lengths agree. NM_MAYBE: needs more bytes. */
nm_verdict_t nm_unit_certain(nm_content_t content, const uint8_t *data, uint32_t length);

/* Bytes between the header (with its digest) and the data, or 0 if the PDU has no data:
 * offset and length of the data of a whole PDU. */
void nm_pdu_data_range(const uint8_t *header, uint32_t *offset, uint32_t *length);

#endif
