/* events.c
 * Expert information: what an analyst looks for
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

#include <epan/expert.h>

static expert_field ei_event[NM_EV_TCP_USED + 1];

void
nm_show_event(const nm_event_t *event, packet_info *pinfo, proto_item *item)
{
	double ms = (double)event->value / 1e6;
	expert_field *ei = &ei_event[event->kind];

	switch (event->kind) {
	case NM_EV_FALLBACK:
		expert_add_info_format(pinfo, item, ei, "Fell back to TCP %s",
				       event->value ? "with an infinite mapping"
						    : "(data without MPTCP options)");
		break;
	case NM_EV_CHECKSUM:
		expert_add_info_format(pinfo, item, ei,
				       "DSS checksum wrong for a mapping of %" PRId64 " bytes",
				       event->value);
		break;
	case NM_EV_TCPRST:
		expert_add_info_format(pinfo, item, ei,
				       "Subflow %u reset, MP_TCPRST reason %" PRId64,
				       event->subflow, event->value);
		break;
	case NM_EV_FRAMING:
		expert_add_info_format(pinfo, item, ei,
				       "No PDU where one should begin: %" PRId64 " bytes skipped",
				       event->value);
		break;
	case NM_EV_NOT_CAPTURED:
		expert_add_info_format(pinfo, item, ei,
				       "%" PRId64 " bytes acknowledged, but not in the capture",
				       event->value);
		break;
	case NM_EV_SYNCHRONIZED:
		expert_add_info_format(pinfo, item, ei,
				       "PDUs found again after %" PRId64 " bytes", event->value);
		break;
	case NM_EV_UNMAPPED:
		expert_add_info_format(pinfo, item, ei, "%" PRId64 " bytes without a DSS mapping",
				       event->value);
		break;
	case NM_EV_HEADER_DIGEST:
	case NM_EV_DATA_DIGEST:
		expert_add_info_format(pinfo, item, ei,
				       "%s digest wrong in the PDU at offset %" PRId64,
				       event->kind == NM_EV_HEADER_DIGEST ? "Header" : "Data",
				       event->value);
		break;
	case NM_EV_DUPLICATE_CID:
		expert_add_info_format(pinfo, item, ei,
				       "CID 0x%04x is used by a command without a response",
				       (unsigned)event->value);
		break;
	case NM_EV_UNKNOWN_CID:
		expert_add_info_format(pinfo, item, ei, "No command with CID 0x%04x is outstanding",
				       (unsigned)event->value);
		break;
	case NM_EV_NO_RESPONSE:
		expert_add_info_format(pinfo, item, ei,
				       "Connection closes with %" PRId64
				       " commands without a response",
				       event->value);
		break;
	case NM_EV_REORDERED:
		expert_add_info_format(pinfo, item, ei,
				       "Data of other subflows waited %.3f ms for this segment", ms);
		break;
	case NM_EV_SILENT:
		expert_add_info_format(pinfo, item, ei,
				       "Subflow %u has data outstanding and is silent for %.0f ms",
				       event->subflow, ms);
		break;
	case NM_EV_JOIN_UNANSWERED:
		expert_add_info_format(pinfo, item, ei, "JOIN not answered, SYN no. %" PRId64,
				       event->value);
		break;
	default:
		expert_add_info(pinfo, item, ei);
	}
}

#define EVENT(kind, name, group, severity, text)                                                   \
	{ &ei_event[kind], { "nvme_mptcp." name, group, severity, text, EXPFILL } }

void
nm_register_events(int proto)
{
	static ei_register_info ei[] = {
		EVENT(NM_EV_FALLBACK_HANDSHAKE, "fallback.handshake", PI_SEQUENCE, PI_NOTE,
		      "The peer doesn't use MPTCP: the connection is TCP"),
		EVENT(NM_EV_FALLBACK, "fallback", PI_SEQUENCE, PI_WARN, "Fell back to TCP"),
		EVENT(NM_EV_CHECKSUM, "checksum_bad", PI_CHECKSUM, PI_ERROR, "DSS checksum wrong"),
		EVENT(NM_EV_MP_FAIL, "mp_fail", PI_SEQUENCE, PI_WARN,
		      "MP_FAIL: the peer received a wrong DSS checksum"),
		EVENT(NM_EV_FASTCLOSE, "fastclose", PI_SEQUENCE, PI_NOTE,
		      "MP_FASTCLOSE: the connection is closed at once"),
		EVENT(NM_EV_TCPRST, "tcprst", PI_SEQUENCE, PI_WARN, "Subflow reset"),
		EVENT(NM_EV_FRAMING, "framing_error", PI_MALFORMED, PI_ERROR,
		      "No PDU where one should begin"),
		EVENT(NM_EV_NOT_CAPTURED, "not_captured", PI_SEQUENCE, PI_WARN,
		      "Bytes acknowledged, but not in the capture"),
		EVENT(NM_EV_SYNCHRONIZED, "synchronized", PI_SEQUENCE, PI_NOTE, "PDUs found again"),
		EVENT(NM_EV_UNMAPPED, "unmapped", PI_PROTOCOL, PI_WARN,
		      "Data without a DSS mapping"),
		EVENT(NM_EV_HEADER_DIGEST, "hdgst_bad", PI_CHECKSUM, PI_ERROR,
		      "Header digest wrong"),
		EVENT(NM_EV_DATA_DIGEST, "ddgst_bad", PI_CHECKSUM, PI_ERROR, "Data digest wrong"),
		EVENT(NM_EV_DUPLICATE_CID, "duplicate_cid", PI_PROTOCOL, PI_WARN,
		      "CID used twice at a time"),
		EVENT(NM_EV_UNKNOWN_CID, "unknown_cid", PI_PROTOCOL, PI_WARN,
		      "No command with this CID"),
		EVENT(NM_EV_NO_RESPONSE, "no_response", PI_SEQUENCE, PI_WARN,
		      "Connection closes with commands outstanding"),
		EVENT(NM_EV_REORDERED, "reordered", PI_SEQUENCE, PI_NOTE,
		      "Data waited longer than the threshold"),
		EVENT(NM_EV_SILENT, "silent", PI_SEQUENCE, PI_WARN,
		      "Subflow is silent with data outstanding"),
		EVENT(NM_EV_JOIN_REFUSED, "join_refused", PI_SEQUENCE, PI_WARN,
		      "JOIN refused"),
		EVENT(NM_EV_JOIN_UNANSWERED, "join_unanswered", PI_SEQUENCE, PI_WARN,
		      "JOIN not answered"),
		EVENT(NM_EV_TCP_USED, "tcp_used", PI_PROTOCOL, PI_NOTE,
		      "The discovery log announces MPTCP for this port, but TCP is used"),
	};

	expert_register_field_array(expert_register_protocol(proto), ei,
				    array_length(ei));
}
