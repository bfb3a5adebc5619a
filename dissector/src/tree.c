/* tree.c
 * Fields of the details: connection, subflow, data, PDUs and their commands
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

static int hf_connection, hf_direction, hf_subflow, hf_subflows, hf_joined, hf_tcp_stream, hf_qid;
static int hf_hostnqn, hf_subnqn, hf_dsn, hf_offset, hf_length, hf_duplicate, hf_reinjected;
static int hf_first_copy, hf_released, hf_reorder_delay, hf_rtt;
static int hf_pdu, hf_pdu_type, hf_pdu_offset, hf_pdu_length, hf_pdu_missing, hf_pdu_segment;
static int hf_pdu_subflow, hf_pdu_segment_subflow, hf_pdu_segment_bytes, hf_pdu_segments;
static int hf_pdu_blocked, hf_cid, hf_opcode, hf_fctype, hf_nsid, hf_command_in, hf_response_in;
static int hf_first_data_in, hf_last_data_in, hf_r2t_in, hf_status, hf_time_first_byte;
static int hf_time_completion, hf_data_bytes;

static gint ett_pdu = -1, ett_segment = -1;

static const value_string direction_names[] = {
	{ NM_TO_CONTROLLER, "to the controller" },
	{ NM_TO_HOST, "to the host" },
	{ 0, NULL }
};

static const value_string pdu_types[] = {
	{ NM_ICREQ, "ICReq" },
	{ NM_ICRESP, "ICResp" },
	{ NM_H2C_TERM_REQ, "H2CTermReq" },
	{ NM_C2H_TERM_REQ, "C2HTermReq" },
	{ NM_CAPSULE_CMD, "CapsuleCmd" },
	{ NM_CAPSULE_RESP, "CapsuleResp" },
	{ NM_H2C_DATA, "H2CData" },
	{ NM_C2H_DATA, "C2HData" },
	{ NM_R2T, "R2T" },
	{ 0, NULL }
};

static void
add_time(proto_tree *tree, int field, tvbuff_t *tvb, int64_t ns)
{
	nstime_t time = { (time_t)(ns / 1000000000), (int)(ns % 1000000000) };

	proto_item_set_generated(proto_tree_add_time(tree, field, tvb, 0, 0, &time));
}

static void
add_uint(proto_tree *tree, int field, tvbuff_t *tvb, uint32_t value)
{
	proto_item_set_generated(proto_tree_add_uint(tree, field, tvb, 0, 0, value));
}

static void
add_frame(proto_tree *tree, int field, tvbuff_t *tvb, const packet_info *pinfo, uint32_t frame)
{
	if (frame && frame != pinfo->num)
		add_uint(tree, field, tvb, frame);
}

static void
show_command(const nm_pdu_t *pdu, tvbuff_t *tvb, const packet_info *pinfo, proto_tree *tree)
{
	const nm_command_t *command = pdu->command;

	if (pdu->has_cid)
		add_uint(tree, hf_cid, tvb, pdu->cid);
	if (!command)
		return;
	proto_item_set_generated(proto_tree_add_uint_format_value(
		tree, hf_opcode, tvb, 0, 0, command->opcode, "%s (0x%02x)",
		nm_opcode_name(command), command->opcode));
	if (command->opcode == 0x7f)
		add_uint(tree, hf_fctype, tvb, command->fctype);
	else
		add_uint(tree, hf_nsid, tvb, command->namespace_id);
	add_frame(tree, hf_command_in, tvb, pinfo, command->command_frame);
	add_frame(tree, hf_r2t_in, tvb, pinfo, command->first_r2t_frame);
	add_frame(tree, hf_first_data_in, tvb, pinfo, command->first_data_frame);
	add_frame(tree, hf_last_data_in, tvb, pinfo, command->last_data_frame);
	add_frame(tree, hf_response_in, tvb, pinfo, command->response_frame);
	if (command->response_frame != pinfo->num ||
	    (pdu->type != NM_CAPSULE_RESP && !(pdu->flags & NM_FLAG_SUCCESS)))
		return;
	add_uint(tree, hf_status, tvb, command->status);
	proto_item_set_generated(
		proto_tree_add_uint64(tree, hf_data_bytes, tvb, 0, 0, command->data_bytes));
	if (!command->asynchronous) {
		add_time(tree, hf_time_first_byte, tvb, command->first_byte - command->sent);
		add_time(tree, hf_time_completion, tvb, command->completed - command->sent);
	}
}

static void
show_segments(const nm_pdu_t *pdu, const nm_frame_t *frame, tvbuff_t *tvb,
	      const packet_info *pinfo, proto_tree *tree)
{
	nm_segment_of_t whole = { pinfo->num, pdu->length, frame->subflow->index };
	const nm_segment_of_t *segments = pdu->segments ? pdu->segments : &whole;
	uint32_t n = pdu->segments ? pdu->segment_count : 1;

	add_uint(tree, hf_pdu_segments, tvb, n);
	for (uint32_t i = 0; i < n; i++) {
		bool seen = false;

		for (uint32_t k = 0; k < i && !seen; k++)
			seen = segments[k].subflow == segments[i].subflow;
		if (!seen)
			add_uint(tree, hf_pdu_subflow, tvb, segments[i].subflow);
	}
	for (uint32_t i = 0; pdu->segments && i < n; i++) {
		proto_item *item =
			proto_tree_add_uint(tree, hf_pdu_segment, tvb, 0, 0, segments[i].frame);
		proto_tree *subtree = proto_item_add_subtree(item, ett_segment);

		proto_item_set_generated(item);
		proto_item_append_text(item, " (subflow %u, %u bytes)", segments[i].subflow,
				       segments[i].bytes);
		add_uint(subtree, hf_pdu_segment_subflow, tvb, segments[i].subflow);
		add_uint(subtree, hf_pdu_segment_bytes, tvb, segments[i].bytes);
	}
}

void
nm_show_pdu(const nm_pdu_t *pdu, const nm_frame_t *frame, tvbuff_t *tvb, const packet_info *pinfo,
	    proto_tree *parent)
{
	const char *name = pdu->tls ? "TLS record"
				    : val_to_str_const(pdu->type, pdu_types, "unknown PDU");
	proto_item *item = proto_tree_add_item(parent, hf_pdu, tvb, 0, 0, ENC_NA);
	proto_tree *tree = proto_item_add_subtree(item, ett_pdu);

	proto_item_set_generated(item);
	proto_item_append_text(item, " %s, %u bytes", name, pdu->length);
	if (pdu->command)
		proto_item_append_text(item, ", %s, CID 0x%04x", nm_opcode_name(pdu->command),
				       pdu->cid);
	if (!pdu->tls)
		add_uint(tree, hf_pdu_type, tvb, pdu->type);
	proto_item_set_generated(
		proto_tree_add_int64(tree, hf_pdu_offset, tvb, 0, 0, pdu->offset));
	add_uint(tree, hf_pdu_length, tvb, pdu->length);
	if (pdu->missing)
		add_uint(tree, hf_pdu_missing, tvb, pdu->missing);
	if (pdu->blocked)
		add_time(tree, hf_pdu_blocked, tvb, pdu->blocked);
	show_segments(pdu, frame, tvb, pinfo, tree);
	show_command(pdu, tvb, pinfo, tree);
}

void
nm_show_subflow(const nm_frame_t *frame, tvbuff_t *tvb, proto_tree *tree)
{
	const nm_subflow_t *subflow = frame->subflow;
	const nm_connection_t *connection = subflow->connection;

	add_uint(tree, hf_connection, tvb, connection->index);
	add_uint(tree, hf_subflow, tvb, subflow->index);
	proto_item_set_generated(
		proto_tree_add_boolean(tree, hf_joined, tvb, 0, 0, subflow->joined));
	add_uint(tree, hf_direction, tvb, frame->direction);
	for (uint32_t i = 0; i < wmem_array_get_count(connection->subflows); i++) {
		const nm_subflow_t *other =
			*(nm_subflow_t **)wmem_array_index(connection->subflows, i);

		if (other->has_tcp_stream)
			add_uint(tree, hf_tcp_stream, tvb, other->tcp_stream);
	}
	add_uint(tree, hf_subflows, tvb, wmem_array_get_count(connection->subflows));
	if (connection->inside)
		connection = connection->inside;
	if (connection->has_qid)
		add_uint(tree, hf_qid, tvb, connection->qid);
	if (connection->subnqn) {
		proto_item_set_generated(proto_tree_add_string(tree, hf_hostnqn, tvb, 0, 0,
							       connection->hostnqn));
		proto_item_set_generated(proto_tree_add_string(tree, hf_subnqn, tvb, 0, 0,
							       connection->subnqn));
	}
}

void
nm_show_data(const nm_frame_t *frame, tvbuff_t *tvb, const packet_info *pinfo, proto_tree *tree)
{
	if (frame->has_data) {
		proto_item_set_generated(
			proto_tree_add_uint64(tree, hf_dsn, tvb, 0, 0, frame->dsn));
		proto_item_set_generated(
			proto_tree_add_int64(tree, hf_offset, tvb, 0, 0, frame->offset));
		add_uint(tree, hf_length, tvb, frame->length);
	}
	if (frame->duplicate)
		add_uint(tree, hf_duplicate, tvb, frame->duplicate);
	if (frame->reinjected) {
		add_uint(tree, hf_reinjected, tvb, frame->reinjected);
		add_frame(tree, hf_first_copy, tvb, pinfo, frame->first_copy);
	}
	if (frame->released) {
		add_uint(tree, hf_released, tvb, frame->released);
		add_time(tree, hf_reorder_delay, tvb, frame->waited);
	}
	if (frame->rtt >= 0)
		add_time(tree, hf_rtt, tvb, frame->rtt);
}

#define FIELD(hf, name, filter, type, display, strings, help)                                      \
	{ &hf, { name, "nvme_mptcp." filter, type, display, strings, 0, help, HFILL } }

void
nm_register_fields(int proto)
{
	static hf_register_info hf[] = {
		FIELD(hf_connection, "Connection", "connection", FT_UINT32, BASE_DEC, NULL,
		      "Number of the MPTCP connection in the capture"),
		FIELD(hf_direction, "Direction", "direction", FT_UINT8, BASE_DEC,
		      VALS(direction_names), "Direction of this segment"),
		FIELD(hf_subflow, "Subflow", "subflow", FT_UINT16, BASE_DEC, NULL,
		      "Number of this segment's subflow in the connection; 0 is the first"),
		FIELD(hf_subflows, "Subflows", "subflows", FT_UINT32, BASE_DEC, NULL,
		      "Subflows that the connection has had so far"),
		FIELD(hf_joined, "Joined", "joined", FT_BOOLEAN, BASE_NONE, NULL,
		      "The subflow was opened with MP_JOIN"),
		FIELD(hf_tcp_stream, "TCP stream", "tcp_stream", FT_UINT32, BASE_DEC, NULL,
		      "tcp.stream of each subflow"),
		FIELD(hf_qid, "Queue", "qid", FT_UINT16, BASE_DEC, NULL,
		      "Queue ID, from the Connect command"),
		FIELD(hf_hostnqn, "Host NQN", "hostnqn", FT_STRING, BASE_NONE, NULL, NULL),
		FIELD(hf_subnqn, "Subsystem NQN", "subnqn", FT_STRING, BASE_NONE, NULL, NULL),
		FIELD(hf_dsn, "Data sequence number", "dsn", FT_UINT64, BASE_DEC, NULL,
		      "Data sequence number of the first data byte, 64 bits"),
		FIELD(hf_offset, "Offset", "offset", FT_INT64, BASE_DEC, NULL,
		      "Place of the first data byte in the direction's stream"),
		FIELD(hf_length, "Length", "length", FT_UINT32, BASE_DEC, NULL,
		      "Bytes of mapped data in this segment"),
		FIELD(hf_duplicate, "Repeated bytes", "retransmitted", FT_UINT32, BASE_DEC, NULL,
		      "Bytes that had come before, by this subflow"),
		FIELD(hf_reinjected, "Reinjected bytes", "reinjected", FT_UINT32, BASE_DEC, NULL,
		      "Bytes that had come before, by another subflow"),
		FIELD(hf_first_copy, "First copy in", "first_copy", FT_FRAMENUM, BASE_NONE, NULL,
		      "Frame that carried reinjected bytes first"),
		FIELD(hf_released, "Released bytes", "released", FT_UINT32, BASE_DEC, NULL,
		      "Bytes of earlier frames that had waited for this segment"),
		FIELD(hf_reorder_delay, "Reorder delay", "reorder_delay", FT_RELATIVE_TIME,
		      BASE_NONE, NULL, "Longest time that any of them had waited"),
		FIELD(hf_rtt, "Round trip", "rtt", FT_RELATIVE_TIME, BASE_NONE, NULL,
		      "From the data that this segment acknowledges on the subflow"),
		FIELD(hf_pdu, "PDU", "pdu", FT_NONE, BASE_NONE, NULL,
		      "A PDU that this frame completes"),
		FIELD(hf_pdu_type, "PDU type", "pdu.type", FT_UINT8, BASE_DEC, VALS(pdu_types),
		      NULL),
		FIELD(hf_pdu_offset, "Offset", "pdu.offset", FT_INT64, BASE_DEC, NULL,
		      "Place of the PDU in the direction's stream"),
		FIELD(hf_pdu_length, "Length", "pdu.length", FT_UINT32, BASE_DEC, NULL,
		      "Length of the PDU in bytes"),
		FIELD(hf_pdu_missing, "Missing bytes", "pdu.missing", FT_UINT32, BASE_DEC, NULL,
		      "Bytes of the PDU that aren't in the capture"),
		FIELD(hf_pdu_segments, "Segments", "pdu.segments", FT_UINT32, BASE_DEC, NULL,
		      "Frames that carried the PDU"),
		FIELD(hf_pdu_subflow, "Subflow", "pdu.subflow", FT_UINT16, BASE_DEC, NULL,
		      "A subflow that carried part of the PDU"),
		FIELD(hf_pdu_segment, "Segment", "pdu.segment", FT_FRAMENUM, BASE_NONE, NULL,
		      "A frame that carried part of the PDU"),
		FIELD(hf_pdu_segment_subflow, "Subflow", "pdu.segment.subflow", FT_UINT16, BASE_DEC,
		      NULL, NULL),
		FIELD(hf_pdu_segment_bytes, "Bytes", "pdu.segment.bytes", FT_UINT32, BASE_DEC, NULL,
		      NULL),
		FIELD(hf_pdu_blocked, "Head-of-line blocking", "pdu.blocked", FT_RELATIVE_TIME,
		      BASE_NONE, NULL, "Time that the whole PDU waited for bytes before it"),
		FIELD(hf_cid, "Command identifier", "cid", FT_UINT16, BASE_HEX, NULL, NULL),
		FIELD(hf_opcode, "Opcode", "opcode", FT_UINT8, BASE_HEX, NULL,
		      "Opcode of the command that the PDU belongs to"),
		FIELD(hf_fctype, "Fabrics command type", "fctype", FT_UINT8, BASE_HEX, NULL, NULL),
		FIELD(hf_nsid, "Namespace identifier", "nsid", FT_UINT32, BASE_DEC, NULL, NULL),
		FIELD(hf_command_in, "Command in", "command_in", FT_FRAMENUM, BASE_NONE,
		      FRAMENUM_TYPE(FT_FRAMENUM_REQUEST), NULL),
		FIELD(hf_response_in, "Response in", "response_in", FT_FRAMENUM, BASE_NONE,
		      FRAMENUM_TYPE(FT_FRAMENUM_RESPONSE), NULL),
		FIELD(hf_first_data_in, "First data in", "first_data_in", FT_FRAMENUM, BASE_NONE,
		      NULL, NULL),
		FIELD(hf_last_data_in, "Last data in", "last_data_in", FT_FRAMENUM, BASE_NONE, NULL,
		      NULL),
		FIELD(hf_r2t_in, "First R2T in", "r2t_in", FT_FRAMENUM, BASE_NONE, NULL, NULL),
		FIELD(hf_status, "Status", "status", FT_UINT16, BASE_HEX, NULL,
		      "Status field of the completion queue entry, without phase"),
		FIELD(hf_data_bytes, "Data bytes", "data_bytes", FT_UINT64, BASE_DEC, NULL,
		      "Bytes that the command's data PDUs carried"),
		FIELD(hf_time_first_byte, "Time to first byte", "time.first_byte", FT_RELATIVE_TIME,
		      BASE_NONE, NULL, "From the command to the first PDU of the controller"),
		FIELD(hf_time_completion, "Time to completion", "time.completion", FT_RELATIVE_TIME,
		      BASE_NONE, NULL, "From the command to its completion"),
	};
	static gint *ett[] = { &ett_pdu, &ett_segment };

	proto_register_field_array(proto, hf, array_length(hf));
	proto_register_subtree_array(ett, array_length(ett));
}
