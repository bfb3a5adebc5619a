/* packet-nvme-mptcp.c
 * NVMe/TCP over Multipath TCP: PDUs put together across subflows
 *
 * TCP's dissector is wrapped where IP finds it. The wrapper sees each segment, also those whose
 * payload TCP withholds as repeated or out of order; it takes PDUs together by data
 * sequence number, and hands them to Wireshark's own dissector of NVMe/TCP.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <wireshark.h>

#include <epan/conversation.h>
#include <epan/dissectors/packet-tcp.h>
#include <epan/exceptions.h>
#include <epan/ipproto.h>
#include <epan/prefs.h>
#include <epan/proto_data.h>
#include <epan/show_exception.h>

#include "compat.h"
#include "packet-nvme-mptcp.h"

#define TCP_HEADER 20
#define DEFAULT_PORTS "4420,8009"

int proto_nvme_mptcp = -1;
static int proto_wrapper = -1;

static dissector_handle_t tcp_handle, nvme_tcp_handle, claim_handle;
static int nm_tap = -1, nm_follow_tap = -1;
static nm_table_t *table;

static range_t *pref_ports;
static guint pref_keep;
static guint pref_reorder_ms = 10;
static guint pref_silence_ms = 1000;
static nm_bool pref_checksums = TRUE;
static nm_bool pref_digests = TRUE;

static gint ett_nvme_mptcp = -1;

/* --- taking segments in -------------------------------------------------------------------- */

static bool
nvme_port(uint16_t port)
{
	return value_is_in_range(pref_ports, port);
}

static bool
copy_addresses(nm_tcp_t *segment, const packet_info *pinfo)
{
	int length = pinfo->src.type == AT_IPv4 ? 4 : 16;

	if ((pinfo->src.type != AT_IPv4 && pinfo->src.type != AT_IPv6) ||
	    pinfo->dst.type != pinfo->src.type)
		return false;
	segment->family = length == 4 ? 4 : 6;
	memcpy(segment->address[0], pinfo->src.data, length);
	memcpy(segment->address[1], pinfo->dst.data, length);
	return true;
}

/* Read the TCP header at the beginning of `tvb`; false if there isn't a whole one. */
static bool
read_segment(nm_tcp_t *segment, tvbuff_t *tvb, const packet_info *pinfo)
{
	uint32_t captured = tvb_captured_length(tvb), header;
	const uint8_t *data;

	if (captured < TCP_HEADER)
		return false;
	data = tvb_get_ptr(tvb, 0, captured);
	header = (data[12] >> 4) * 4u;
	if (header < TCP_HEADER || header > captured)
		return false;
	memset(segment, 0, sizeof(*segment));
	if (!copy_addresses(segment, pinfo))
		return false;
	segment->frame = pinfo->num;
	segment->time = nm_time(&pinfo->abs_ts);
	segment->port[0] = nm_be16(data);
	segment->port[1] = nm_be16(data + 2);
	segment->seq = nm_be32(data + 4);
	segment->ack = nm_be32(data + 8);
	segment->flags = data[13];
	segment->options = data + TCP_HEADER;
	segment->options_length = header - TCP_HEADER;
	segment->payload = data + header;
	segment->captured = captured - header;
	segment->length = tvb_reported_length(tvb) - header;
	return true;
}

/* A TCP in a TCP's frame (a tunnel) has a record of its own. */
static uint32_t
record_key(tvbuff_t *tvb)
{
	return (uint32_t)tvb_raw_offset(tvb);
}

/* Have TCP give this subflow's payload to the plugin, so that nobody dissects it in pieces. */
static void
claim(nm_subflow_t *subflow, const nm_tcp_t *segment, packet_info *pinfo)
{
	conversation_t *conversation;

	if (subflow->claimed || segment->flags & NM_TH_SYN)
		return;
	conversation = find_conversation(pinfo->num, &pinfo->src, &pinfo->dst, CONVERSATION_TCP,
					 segment->port[0], segment->port[1], 0);
	if (!conversation)
		conversation = conversation_new(pinfo->num, &pinfo->src, &pinfo->dst,
						CONVERSATION_TCP, segment->port[0],
						segment->port[1], 0);
	conversation_set_dissector(conversation, claim_handle);
	subflow->claimed = true;
}

static int
dissect_claimed(tvbuff_t *tvb, packet_info *pinfo _U_, proto_tree *tree _U_, void *data _U_)
{
	return (int)tvb_captured_length(tvb);
}

static nm_frame_t *
take_in(tvbuff_t *tvb, packet_info *pinfo)
{
	nm_frame_t *frame;
	nm_tcp_t segment;

	if (PINFO_FD_VISITED(pinfo))
		return (nm_frame_t *)p_get_proto_data(wmem_file_scope(), pinfo, proto_nvme_mptcp,
						      record_key(tvb));
	if (!read_segment(&segment, tvb, pinfo))
		return NULL;
	frame = nm_table_segment(table, &segment);
	if (!frame)
		return NULL;
	p_add_proto_data(wmem_file_scope(), pinfo, proto_nvme_mptcp, record_key(tvb), frame);
	if (nm_connection_is_nvme(frame->subflow->connection))
		claim(frame->subflow, &segment, pinfo);
	return frame;
}

/* --- PDUs to the stock dissector ------------------------------------------------------------ */

tvbuff_t *
nm_pdu_tvb(const nm_pdu_t *pdu, tvbuff_t *payload)
{
	if (!pdu->data)
		return tvb_new_subset_length_caplen(payload, (gint)pdu->place, (gint)pdu->captured,
						    (gint)pdu->length);
	return tvb_new_child_real_data(payload, pdu->data, pdu->captured, (gint)pdu->length);
}

/* The PDUs of a frame that follow one another there are dissected by one call. */
static const nm_pdu_t *
run_in_place(const nm_pdu_t *pdu, uint32_t *length)
{
	*length = pdu->length;
	while (pdu->next && !pdu->next->data && !pdu->next->tls && !pdu->missing &&
	       pdu->next->connection == pdu->connection && pdu->next->place == pdu->place + pdu->length) {
		pdu = pdu->next;
		*length += pdu->length;
	}
	return pdu;
}

/* Wireshark's NVMe/TCP dissector finds the queue by conversation: one for the whole connection. */
static void
call_nvme_tcp(const nm_connection_t *connection, tvbuff_t *tvb, packet_info *pinfo,
	      proto_tree *tree)
{
	conversation_element_t elements[3] = {
		{ CE_STRING, { .str_val = "nvme_mptcp" } },
		{ CE_UINT, { .uint_val = connection->index } },
		{ CE_CONVERSATION_TYPE, { .conversation_type_val = CONVERSATION_TCP } },
	};
	struct conversation_element *saved_elements = pinfo->conv_elements;
	const char *saved_proto = pinfo->current_proto;
	guint16 saved_desegment = pinfo->can_desegment;

	pinfo->conv_elements = elements;
	pinfo->can_desegment = 0;
	TRY {
		call_dissector_only(nvme_tcp_handle, tvb, pinfo, tree, NULL);
	}
	CATCH_BOUNDS_ERRORS {
		show_exception(tvb, pinfo, tree, EXCEPT_CODE, GET_MESSAGE);
		pinfo->current_proto = saved_proto;
	}
	FINALLY {
		pinfo->conv_elements = saved_elements;
		pinfo->can_desegment = saved_desegment;
	}
	ENDTRY;
}

static void
dissect_pdus(nm_frame_t *frame, tvbuff_t *payload, packet_info *pinfo, proto_tree *tree)
{
	proto_tree *root = proto_tree_get_root(tree);

	for (const nm_pdu_t *pdu = frame->pdus; pdu; pdu = pdu->next) {
		uint32_t length;
		tvbuff_t *tvb;

		if (pdu->tls) {
			pdu = nm_dissect_tls(pdu, frame, payload, pinfo, root);
			continue;
		}
		if (have_tap_listener(nm_follow_tap)) {
			nm_follow_t *follow = wmem_new(pinfo->pool, nm_follow_t);

			follow->pdu = pdu;
			follow->tvb = nm_pdu_tvb(pdu, payload);
			tap_queue_packet(nm_follow_tap, pinfo, follow);
		}
		if (pdu->data) {
			tvb = nm_pdu_tvb(pdu, payload);
			add_new_data_source(pinfo, tvb, "NVMe/TCP PDU across subflows");
		} else {
			const nm_pdu_t *first = pdu;

			if (!have_tap_listener(nm_follow_tap))
				pdu = run_in_place(pdu, &length);
			else
				length = pdu->length;
			tvb = tvb_new_subset_length(payload, (gint)first->place, (gint)length);
		}
		call_nvme_tcp(pdu->connection, tvb, pinfo, root);
		col_set_fence(pinfo->cinfo, COL_INFO);
	}
}

static void
show_entries(const nm_frame_t *frame, tvbuff_t *payload, packet_info *pinfo, proto_tree *tree)
{
	for (const nm_pdu_t *pdu = frame->pdus; pdu; pdu = pdu->next) {
		for (const nm_entry_t *entry = pdu->entries; entry; entry = entry->next) {
			tvbuff_t *tvb;

			if (entry->data) {
				tvb = tvb_new_child_real_data(payload, entry->data, entry->size,
							      (gint)entry->size);
				add_new_data_source(pinfo, tvb, "Discovery entry across PDUs");
			} else if (entry->place + entry->size <= pdu->captured) {
				tvb = tvb_new_subset_length(nm_pdu_tvb(pdu, payload),
							    (gint)entry->place, (gint)entry->size);
			} else {
				continue;	/* no more kept of the PDU */
			}
			nm_show_entry(tree, tvb, entry);
		}
	}
}

static void
show(nm_frame_t *frame, tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree)
{
	nm_connection_t *connection = frame->subflow->connection;
	uint32_t header = (tvb_get_uint8(tvb, 12) >> 4) * 4u;
	tvbuff_t *payload = tvb_new_subset_remaining(tvb, (gint)header);
	proto_item *item = NULL;
	proto_tree *subtree = NULL;

	if (frame->other)
		return;
	if (!frame->subflow->has_tcp_stream) {
		frame->subflow->has_tcp_stream = true;
		frame->subflow->tcp_stream = get_tcp_conversation_data(NULL, pinfo)->stream;
	}
	if (!frame->plain)
		dissect_pdus(frame, payload, pinfo, tree);
	if (tree) {
		item = proto_tree_add_item(proto_tree_get_root(tree), proto_nvme_mptcp, payload, 0,
					   frame->plain ? 0 : -1, ENC_NA);
		subtree = proto_item_add_subtree(item, ett_nvme_mptcp);
	}
	if (item && !frame->plain) {
		proto_item_append_text(item, ", connection %u, subflow %u", connection->index,
				       frame->subflow->index);
		nm_show_subflow(frame, payload, subtree);
		nm_show_data(frame, payload, pinfo, subtree);
		for (const nm_pdu_t *pdu = frame->pdus; pdu; pdu = pdu->next)
			nm_show_pdu(pdu, frame, payload, pinfo, subtree);
	}
	if (subtree)
		show_entries(frame, payload, pinfo, subtree);
	for (const nm_event_t *event = frame->events; event; event = event->next)
		nm_show_event(event, pinfo, item);
	if (!frame->plain)
		tap_queue_packet(nm_tap, pinfo, frame);
}

/* What was found must not be lost because of a malformed TCP option, nor the other way round. */
static void
show_safely(nm_frame_t *frame, tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree)
{
	const char *volatile saved_proto = pinfo->current_proto;

	pinfo->current_proto = "NVMe/MPTCP";
	TRY {
		show(frame, tvb, pinfo, tree);
	}
	CATCH_BOUNDS_ERRORS {
		show_exception(tvb, pinfo, tree, EXCEPT_CODE, GET_MESSAGE);
	}
	ENDTRY;
	pinfo->current_proto = saved_proto;
}

static int
dissect_wrapper(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
	nm_frame_t *volatile frame = NULL;
	volatile int length = 0;

	if (table && !pinfo->flags.in_error_pkt && !pinfo->fragmented)
		frame = take_in(tvb, pinfo);
	if (!frame)
		return call_dissector_only(tcp_handle, tvb, pinfo, tree, data);
	TRY {
		length = call_dissector_only(tcp_handle, tvb, pinfo, tree, data);
	}
	CATCH_ALL {
		show_safely(frame, tvb, pinfo, tree);
		RETHROW;
	}
	ENDTRY;
	if (length > 0)
		show_safely(frame, tvb, pinfo, tree);
	return length;
}

/* --- registration --------------------------------------------------------------------------- */

static void
start_file(void)
{
	const nm_settings_t settings = {
		.nvme_port = nvme_port,
		.keep = pref_keep,
		.reorder_threshold = (int64_t)pref_reorder_ms * 1000000,
		.silence_threshold = (int64_t)pref_silence_ms * 1000000,
		.verify_checksums = pref_checksums,
		.verify_digests = pref_digests,
	};

	table = nm_table_new(wmem_file_scope(), &settings);
}

static void
end_file(void)
{
	table = NULL;
}

static void
register_preferences(void)
{
	module_t *module = prefs_register_protocol(proto_nvme_mptcp, NULL);

	range_convert_str(wmem_epan_scope(), &pref_ports, DEFAULT_PORTS, 65535);
	prefs_register_range_preference(module, "ports", "TCP ports",
					"Ports whose MPTCP connections are NVMe/TCP. On others, "
					"connections that begin with ICReq are.",
					&pref_ports, 65535);
	prefs_register_uint_preference(module, "keep", "Bytes kept of a PDU",
				       "Most bytes that are put together and kept of a PDU that "
				       "spans frames: 152 keeps all headers. 0: all bytes",
				       10, &pref_keep);
	prefs_register_uint_preference(module, "reorder_threshold", "Reordering threshold (ms)",
				       "Report data that waited longer for data of another subflow",
				       10, &pref_reorder_ms);
	prefs_register_uint_preference(module, "silence_threshold", "Silence threshold (ms)",
				       "Report subflows that leave data unacknowledged for longer",
				       10, &pref_silence_ms);
	prefs_register_bool_preference(module, "verify_checksums", "Verify DSS checksums",
				       "Verify the DSS checksums that connections use",
				       &pref_checksums);
	prefs_register_bool_preference(module, "verify_digests", "Verify digests",
				       "Verify the header and data digests of PDUs",
				       &pref_digests);
}

void proto_register_nvme_mptcp(void);
void proto_reg_handoff_nvme_mptcp(void);

void
proto_register_nvme_mptcp(void)
{
	static gint *ett[] = { &ett_nvme_mptcp };

	proto_nvme_mptcp = proto_register_protocol("NVMe/TCP over Multipath TCP", "NVMe/MPTCP",
						   "nvme_mptcp");
	/* A pseudo-protocol, so that the protocols of a plain TCP frame stay as they are. */
	proto_wrapper = proto_register_protocol_in_name_only("TCP, watched for NVMe/MPTCP", "TCP (NVMe/MPTCP)", "nvme_mptcp.tcp",
							     proto_nvme_mptcp, FT_PROTOCOL);
	nm_register_fields(proto_nvme_mptcp);
	nm_register_events(proto_nvme_mptcp);
	proto_register_subtree_array(ett, array_length(ett));
	register_preferences();
	nm_register_discovery(proto_nvme_mptcp);
	nm_register_tls();
	nm_tap = register_tap(NM_TAP);
	nm_follow_tap = register_tap(NM_FOLLOW_TAP);
	nm_register_follow(proto_nvme_mptcp);
	nm_register_srt(proto_nvme_mptcp);
	nm_register_csv();
	register_init_routine(start_file);
	register_cleanup_routine(end_file);
}

void
proto_reg_handoff_nvme_mptcp(void)
{
	dissector_table_t ip_protocols = find_dissector_table("ip.proto");

	tcp_handle = find_dissector("tcp");
	nvme_tcp_handle = find_dissector("nvme-tcp");
	claim_handle = create_dissector_handle(dissect_claimed, proto_wrapper);
	nm_handoff_tls();
	nm_register_subflow_stats();
	if (tcp_handle && nvme_tcp_handle &&
	    dissector_get_uint_handle(ip_protocols, IP_PROTO_TCP) == tcp_handle)
		dissector_add_uint("ip.proto", IP_PROTO_TCP,
				   create_dissector_handle(dissect_wrapper, proto_wrapper));
}

/*
 * Editor modelines  -  https://www.wireshark.org/tools/modelines.html
 *
 * Local variables:
 * c-basic-offset: 8
 * tab-width: 8
 * indent-tabs-mode: t
 * End:
 *
 * vi: set shiftwidth=8 tabstop=8 noexpandtab:
 * :indentSize=8:tabSize=8:noTabs=false:
 */
