/* connection.h
 * MPTCP connections: which subflows belong together, and the PDUs that they carry
 *
 * Works on the bytes of TCP segments alone, so that it is tested and fuzzed without a dissector.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_CONNECTION_H
#define NM_CONNECTION_H

#include "dss_checksum.h"
#include "entries.h"
#include "framing.h"
#include "options.h"

#define NM_TO_CONTROLLER 0	/* directions of a connection */
#define NM_TO_HOST 1

#define NM_NOBODY 0xffff	/* no subflow */

typedef struct nm_connection nm_connection_t;
typedef struct nm_subflow nm_subflow_t;
typedef struct nm_command nm_command_t;

/* What an analyst looks for; `value` of nm_event_t in parentheses. */
typedef enum {
	NM_EV_FALLBACK_HANDSHAKE,	/* the peer answered MP_CAPABLE without */
	NM_EV_FALLBACK,			/* later; (0 by missing options, 1 by an infinite mapping) */
	NM_EV_CHECKSUM,			/* DSS checksum wrong (length of the mapping) */
	NM_EV_MP_FAIL,
	NM_EV_FASTCLOSE,
	NM_EV_TCPRST,			/* (reason) */
	NM_EV_FRAMING,			/* no PDU where one should begin (bytes skipped) */
	NM_EV_NOT_CAPTURED,		/* acknowledged, but not in the capture (bytes) */
	NM_EV_SYNCHRONIZED,		/* PDUs found in the middle of a stream (bytes skipped) */
	NM_EV_UNMAPPED,			/* data without a mapping (bytes) */
	NM_EV_HEADER_DIGEST,		/* (offset of the PDU) */
	NM_EV_DATA_DIGEST,		/* (offset of the PDU) */
	NM_EV_DUPLICATE_CID,		/* (CID) */
	NM_EV_UNKNOWN_CID,		/* response or data without command (CID) */
	NM_EV_NO_RESPONSE,		/* connection closed (commands outstanding) */
	NM_EV_REORDERED,		/* data waited longer than the threshold (ns) */
	NM_EV_SILENT,			/* subflow with data outstanding is silent (ns) */
	NM_EV_JOIN_REFUSED,		/* reset */
	NM_EV_JOIN_UNANSWERED,		/* SYN repeated (SYNs so far) */
	NM_EV_TCP_USED			/* MPTCP was announced for this port, TCP is used */
} nm_event_kind_t;

typedef struct nm_event {
	struct nm_event *next;
	nm_event_kind_t kind;
	uint16_t subflow;
	int64_t value;
} nm_event_t;

/* Part of a PDU that a frame carried. */
typedef struct {
	uint32_t frame, bytes;
	uint16_t subflow;
} nm_segment_of_t;

/* A PDU (or TLS record), shown in the frame that completed it. */
typedef struct nm_pdu {
	struct nm_pdu *next;		/* completed by the same frame */
	nm_connection_t *connection;
	nm_command_t *command;		/* that it belongs to, or NULL */
	int64_t offset;			/* in the direction's stream; 0 is the first data byte */
	uint32_t length, captured, missing;
	const uint8_t *data;		/* of the scope, or NULL: in the frame at `place` */
	uint32_t place;			/* offset in the TCP payload */
	int64_t blocked;		/* ns that it was complete, but waited for earlier bytes */
	nm_segment_of_t *segments;
	uint16_t segment_count;
	uint8_t direction;
	uint8_t type, flags;
	bool tls;			/* a TLS record */
	bool has_cid;
	uint16_t cid;
	nm_entry_t *entries;		/* discovery entries that its data complete */
} nm_pdu_t;

/* What was found out about a frame. */
typedef struct {
	nm_subflow_t *subflow;
	uint8_t direction;
	/* as far as was known then; later passes show the same */
	bool plain;			/* TCP */
	bool other;			/* not NVMe/TCP */
	bool has_data;
	uint32_t length;		/* bytes of data that are mapped */
	int64_t offset;			/* of the first one */
	uint64_t dsn;			/* of the first one */
	uint32_t duplicate;		/* bytes that had come before on this subflow … */
	uint32_t reinjected;		/* … or on another one */
	uint32_t first_copy;		/* frame of the latter, or 0 */
	uint32_t released;		/* bytes of other frames that had waited for this one */
	int64_t waited;			/* longest of them, ns */
	int64_t rtt;			/* subflow's round trip measured by this ACK, ns, or -1 */
	nm_pdu_t *pdus, *last_pdu;
	nm_event_t *events, *last_event;
} nm_frame_t;

struct nm_command {
	nm_connection_t *connection;
	uint16_t cid;
	uint8_t opcode, fctype;
	bool asynchronous;		/* completes when something happens, not as soon as possible */
	bool answered;
	uint16_t status;
	uint32_t command_frame, response_frame;	/* 0: not (yet) seen */
	uint32_t first_data_frame, last_data_frame;
	uint32_t r2t_count, first_r2t_frame;
	uint64_t data_bytes;
	int64_t sent, first_byte, completed;	/* ns; -1: not (yet) */
	uint32_t namespace_id;
	nm_entries_t *entries;		/* where its data go, or NULL … */
	uint64_t entries_at;		/* … and at which offset */
};

#define NM_MAPS 16
#define NM_RECENT 1024

typedef struct {
	uint32_t ssn;
	uint32_t length;	/* bytes of data */
	int64_t offset;
	nm_dss_checksum_t checksum;
	bool has_checksum;
} nm_map_t;

/* What one end sends on a subflow. */
typedef struct {
	bool has_isn;
	uint32_t isn;
	nm_map_t maps[NM_MAPS];
	uint32_t map_count;		/* all so far; the last NM_MAPS are kept */
	bool linear;			/* fallen back: from here on, bytes follow one another */
	uint32_t linear_ssn;
	int64_t linear_offset;
	uint32_t previous_ssn_end, previous_end;	/* of the last mapping, segment */
	bool has_sent;
	uint32_t sent_end, acknowledged;
	int64_t progress;		/* when something was acknowledged, or sent after nothing was open */
	bool silent;
	bool sampling;			/* a round trip is being measured */
	uint32_t sample_end;
	int64_t sample_start;
	bool fin;
	bool broken;			/* after a wrong checksum the receiver drops all that comes */
} nm_sender_t;

struct nm_subflow {
	nm_connection_t *connection;	/* NULL: not known yet */
	uint16_t index;
	uint8_t host;			/* which end (0, 1 of the key) is the NVMe host */
	bool joined;			/* by MP_JOIN */
	bool answered, refused, reset;
	uint32_t syns;
	uint32_t first_frame;
	uint8_t address_id;
	bool claimed;			/* TCP's payload goes to the plugin */
	bool has_tcp_stream;
	uint32_t tcp_stream;
	uint8_t family;			/* 4 or 6 */
	uint8_t address[2][16];
	uint16_t port[2];
	nm_sender_t sender[2];		/* by end */
};

typedef struct {
	int64_t offset;
	uint32_t length, frame;
	uint16_t subflow;
} nm_recent_t;

/* One direction. */
typedef struct {
	nm_connection_t *connection;
	uint8_t direction;
	bool has_key, has_base, base_is_64, from_start;
	uint64_t key;
	uint64_t base;			/* DSN of offset 0 */
	nm_stream_t stream;
	bool framing;
	nm_framer_t framer;
	nm_recent_t *recent;
	uint32_t recent_count;
	int64_t fin;			/* offset of DATA_FIN, or -1 */
} nm_flow_t;

struct nm_connection {
	struct nm_table *table;
	nm_connection_t *next;		/* an older one */
	uint32_t index;
	bool plain;			/* TCP, followed for its discovery entries only */
	bool known_port;
	bool closed;
	bool fallback;
	nm_content_t content;
	wmem_array_t *subflows;		/* of nm_subflow_t * */
	nm_flow_t flow[2];		/* by direction */
	nm_connection_t *inside;	/* TLS: what the records hold */
	/* commands */
	bool gaps;			/* bytes are missing in the capture: don't judge commands */
	bool has_qid;
	uint16_t qid;
	char *subnqn, *hostnqn;
	wmem_map_t *pending;		/* CID → nm_command_t * */
	nm_entries_t *log[NM_HOST_LOG + 1];	/* pages that commands read in pieces, or NULL */
};

typedef struct {
	bool (*nvme_port)(uint16_t port);
	uint32_t keep;			/* most bytes kept of a PDU that spans frames; 0: all */
	int64_t reorder_threshold, silence_threshold;	/* ns */
	bool verify_checksums, verify_digests;
} nm_settings_t;

/* All connections of a capture. */
typedef struct nm_table {
	wmem_allocator_t *scope;
	nm_settings_t settings;
	wmem_map_t *subflows;		/* key → nm_subflow_t *, the newest */
	wmem_map_t *tokens;		/* token → nm_token_t * */
	wmem_map_t *announced;		/* address and port → itself: ports with variant MPTCP */
	nm_connection_t *connections;	/* newest first */
	uint32_t connection_count;
	/* the segment being looked at */
	const struct nm_tcp *segment;
	nm_frame_t *frame;
	nm_origin_t origin;
	nm_frame_t *spare;		/* made for a segment that told nothing */
} nm_table_t;

/* A TCP segment. Ends are ordered so that the same two always are in the same order. */
typedef struct nm_tcp {
	uint32_t frame;
	int64_t time;			/* ns */
	uint8_t family;
	uint8_t address[2][16];		/* sender, receiver */
	uint16_t port[2];
	uint32_t seq, ack;
	uint8_t flags;
	const uint8_t *options;
	uint32_t options_length;
	const uint8_t *payload;
	uint32_t captured, length;
} nm_tcp_t;

#define NM_TH_FIN 0x01
#define NM_TH_SYN 0x02
#define NM_TH_RST 0x04
#define NM_TH_ACK 0x10

nm_table_t *nm_table_new(wmem_allocator_t *scope, const nm_settings_t *settings);

/* Take in the next segment of the capture. Return what it tells, of the table's scope, or NULL
 * if it isn't part of an MPTCP connection that could be one of NVMe/TCP. */
nm_frame_t *nm_table_segment(nm_table_t *table, const nm_tcp_t *segment);

/* Bytes that TLS has decrypted, in order, in the frame that nm_table_segment returned. */
void nm_connection_decrypted(nm_connection_t *connection, nm_frame_t *frame, uint32_t number,
			     int64_t time, uint8_t direction, const uint8_t *data, uint32_t length);

/* A discovery entry announces variant MPTCP for this address (of 4 or 16 bytes) and port. */
void nm_table_announce(nm_table_t *table, uint8_t family, const uint8_t *address, uint16_t port);

void nm_frame_event(nm_table_t *table, nm_event_kind_t kind, uint16_t subflow, int64_t value);

static inline bool
nm_connection_is_nvme(const nm_connection_t *connection)
{
	return connection && !connection->plain && connection->content != NM_CONTENT_OTHER;
}

#endif
