/* packet-nvme-mptcp.h
 * What the parts of the plugin share
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef PACKET_NVME_MPTCP_H
#define PACKET_NVME_MPTCP_H

#include <epan/packet.h>
#include <epan/tap.h>

#include "connection.h"

#define NM_TAP "nvme_mptcp"
#define NM_FOLLOW_TAP "nvme_mptcp_follow"

/* Passed to the tap NM_FOLLOW_TAP. */
typedef struct {
	const nm_pdu_t *pdu;
	tvbuff_t *tvb;
} nm_follow_t;

extern int proto_nvme_mptcp;

static inline int64_t
nm_time(const nstime_t *time)
{
	/* Corrupt files have any time: stay where differences don't overflow. */
	return (int64_t)CLAMP(time->secs, 0, 1LL << 32) * 1000000000 +
	       CLAMP(time->nsecs, 0, 999999999);
}

const char *nm_opcode_name(const nm_command_t *command);
const char *nm_queue_name(wmem_allocator_t *scope, const nm_connection_t *connection);

/* tree.c: `tvb` is the TCP payload of the frame */
void nm_register_fields(int proto);
void nm_show_subflow(const nm_frame_t *frame, tvbuff_t *tvb, proto_tree *tree);
void nm_show_data(const nm_frame_t *frame, tvbuff_t *tvb, const packet_info *pinfo,
		  proto_tree *tree);
void nm_show_pdu(const nm_pdu_t *pdu, const nm_frame_t *frame, tvbuff_t *tvb,
		 const packet_info *pinfo, proto_tree *parent);

/* events.c */
void nm_register_events(int proto);
void nm_show_event(const nm_event_t *event, packet_info *pinfo, proto_item *item);

/* discovery.c */
void nm_register_discovery(int proto);
/* `data`: the entry's fixed part */
void nm_show_entry(proto_tree *tree, tvbuff_t *data, const nm_entry_t *entry);

/* tls.c */
void nm_register_tls(void);
void nm_handoff_tls(void);
/* Dissect the run of TLS records that begins with `first`; return the last one of it. */
const nm_pdu_t *nm_dissect_tls(const nm_pdu_t *first, nm_frame_t *frame, tvbuff_t *payload,
			       packet_info *pinfo, proto_tree *tree);

/* follow.c, srt.c, subflow-stats.c, csv.c */
void nm_register_follow(int proto);
void nm_register_srt(int proto);
void nm_register_subflow_stats(void);
void nm_register_csv(void);

/* The bytes of a PDU; `payload` is the TCP payload of the frame that completes it. */
tvbuff_t *nm_pdu_tvb(const nm_pdu_t *pdu, tvbuff_t *payload);

#endif
