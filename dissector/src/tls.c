/* tls.c
 * TLS over the connection's byte stream: records of all subflows go to one TLS session
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

#include <epan/conversation.h>
#include <epan/dissectors/packet-tls.h>
#include <epan/dissectors/packet-tls-utils.h>
#include <epan/exceptions.h>
#include <epan/show_exception.h>

static dissector_handle_t tls_handle, plaintext_handle;

/* What the TLS dissector is working on. */
static nm_frame_t *current;
static nm_connection_t *current_connection;
static uint8_t current_direction;

/* Decrypted bytes: on the first pass they make the PDUs that later passes find. */
static int
dissect_plaintext(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree _U_, void *data _U_)
{
	uint32_t length = tvb_captured_length(tvb);

	if (current && !PINFO_FD_VISITED(pinfo) && length)
		nm_connection_decrypted(current_connection, current, pinfo->num,
					nm_time(&pinfo->abs_ts), current_direction,
					tvb_get_ptr(tvb, 0, (gint)length), length);
	return (int)length;
}

/* No port of TCP is as large. */
#define FIRST_PORT 0x10000

/* TLS finds its session by addresses and ports, and tells the two sides apart by them: give each
 * connection the addresses of its first subflow, and ports that only it has. */
static void
set_ends(const nm_connection_t *connection, uint8_t direction, packet_info *pinfo)
{
	const nm_subflow_t *first = *(nm_subflow_t **)wmem_array_index(connection->subflows, 0);
	uint8_t from = direction == NM_TO_CONTROLLER ? first->host : 1 - first->host;
	int type = first->family == 4 ? AT_IPv4 : AT_IPv6;
	int bytes = first->family == 4 ? 4 : 16;

	set_address(&pinfo->src, type, bytes, first->address[from]);
	set_address(&pinfo->dst, type, bytes, first->address[1 - from]);
	pinfo->srcport = FIRST_PORT + 2 * connection->index + (direction == NM_TO_HOST);
	pinfo->destport = FIRST_PORT + 2 * connection->index + (direction != NM_TO_HOST);
}

static void
call_tls(nm_connection_t *connection, uint8_t direction, tvbuff_t *tvb, packet_info *pinfo,
	 proto_tree *tree)
{
	struct conversation_element *saved_elements = pinfo->conv_elements;
	const address source = pinfo->src, destination = pinfo->dst;
	const guint32 source_port = pinfo->srcport, destination_port = pinfo->destport;
	const guint16 saved_desegment = pinfo->can_desegment;
	const char *saved_proto = pinfo->current_proto;

	pinfo->conv_elements = NULL;
	pinfo->can_desegment = 0;
	set_ends(connection, direction, pinfo);
	TRY {
		tls_set_appdata_dissector(tls_handle, pinfo, plaintext_handle);
		call_dissector_only(tls_handle, tvb, pinfo, tree, NULL);
	}
	CATCH_BOUNDS_ERRORS {
		show_exception(tvb, pinfo, tree, EXCEPT_CODE, GET_MESSAGE);
		pinfo->current_proto = saved_proto;
	}
	FINALLY {
		pinfo->conv_elements = saved_elements;
		pinfo->can_desegment = saved_desegment;
		pinfo->src = source;
		pinfo->dst = destination;
		pinfo->srcport = source_port;
		pinfo->destport = destination_port;
	}
	ENDTRY;
}

const nm_pdu_t *
nm_dissect_tls(const nm_pdu_t *first, nm_frame_t *frame, tvbuff_t *payload, packet_info *pinfo,
	       proto_tree *tree)
{
	const nm_pdu_t *last = first;
	uint32_t length = first->captured, at = 0;
	uint8_t *records;
	tvbuff_t *tvb;

	while (last->next && last->next->tls && last->next->direction == first->direction) {
		last = last->next;
		length += last->captured;
	}
	/* The TLS dissector knows a record again by its place in a data source,
	 * so all records of the frame go into one. */
	records = (uint8_t *)wmem_alloc(pinfo->pool, MAX(length, 1));
	for (const nm_pdu_t *pdu = first; pdu != last->next; pdu = pdu->next) {
		tvb_memcpy(nm_pdu_tvb(pdu, payload), records + at, 0, pdu->captured);
		at += pdu->captured;
	}
	tvb = tvb_new_child_real_data(payload, records, length, (gint)length);
	add_new_data_source(pinfo, tvb, "TLS records across subflows");
	current = frame;
	current_connection = first->connection;
	current_direction = first->direction;
	call_tls(first->connection, first->direction, tvb, pinfo, tree);
	current = NULL;
	return last;
}

void
nm_register_tls(void)
{
	plaintext_handle = register_dissector("nvme_mptcp.plaintext", dissect_plaintext,
					      proto_nvme_mptcp);
}

void
nm_handoff_tls(void)
{
	tls_handle = find_dissector("tls");
}
