/* follow.c
 * Follow Stream for a whole MPTCP connection
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

#include <epan/addr_resolv.h>
#include <epan/follow.h>
#include <epan/proto_data.h>
#include <wsutil/str_util.h>

#include "compat.h"

#if NM_WIRESHARK(4, 2)
typedef unsigned nm_uint;
typedef char nm_char;
#else
typedef guint nm_uint;
typedef gchar nm_char;
#endif

static uint32_t connections;	/* seen so far; for the GUI's stream selector */

static nm_char *
connection_filter(epan_dissect_t *edt _U_, packet_info *pinfo, nm_uint *stream,
		  nm_uint *sub_stream _U_)
{
	/* The key is where TCP begins in the frame. */
	for (uint32_t place = 0; place < 256; place++) {
		const nm_frame_t *frame = (const nm_frame_t *)p_get_proto_data(
			wmem_file_scope(), pinfo, proto_nvme_mptcp, place);

		if (frame) {
			*stream = frame->subflow->connection->index;
			return ws_strdup_printf("nvme_mptcp.connection == %u", *stream);
		}
	}
	return NULL;
}

static nm_char *
index_filter(nm_uint stream, nm_uint sub_stream _U_)
{
	return ws_strdup_printf("nvme_mptcp.connection == %u", stream);
}

static nm_char *
address_filter(address *source _U_, address *destination _U_, int source_port _U_,
	       int destination_port _U_)
{
	/* Addresses don't make up a connection here: it has several pairs of them. */
	return ws_strdup_printf("nvme_mptcp");
}

/* A packet may bring PDUs of either direction, whatever its own is, so ports and addresses of
 * the packet don't tell who sent them. */
static tap_packet_status
take_pdu(void *data, packet_info *pinfo, epan_dissect_t *edt _U_, const void *tapped,
	 tap_flags_t flags _U_)
{
	follow_info_t *info = (follow_info_t *)data;
	const nm_follow_t *follow = (const nm_follow_t *)tapped;
	guint length = tvb_captured_length(follow->tvb);
	follow_record_t *record = g_new0(follow_record_t, 1);
	bool from_host = follow->pdu->direction == NM_TO_CONTROLLER;
	const nm_subflow_t *first =
		*(nm_subflow_t **)wmem_array_index(follow->pdu->connection->subflows, 0);

	record->is_server = !from_host;
	record->packet_num = pinfo->num;
	record->abs_ts = pinfo->abs_ts;
	record->seq = (uint32_t)follow->pdu->offset;
	record->data = g_byte_array_sized_new(length);
	if (length)
		g_byte_array_append(record->data, tvb_get_ptr(follow->tvb, 0, (gint)length),
				    length);
	if (info->client_port == 0) {
		int type = first->family == 4 ? AT_IPv4 : AT_IPv6;
		int bytes = first->family == 4 ? 4 : 16;

		info->client_port = first->port[first->host];
		info->server_port = first->port[1 - first->host];
		alloc_address_wmem(NULL, &info->client_ip, type, bytes,
				   first->address[first->host]);
		alloc_address_wmem(NULL, &info->server_ip, type, bytes,
				   first->address[1 - first->host]);
	}
	info->bytes_written[record->is_server] += length;
	info->payload = g_list_prepend(info->payload, record);
	connections = MAX(connections, follow->pdu->connection->index + 1);
	return TAP_PACKET_DONT_REDRAW;
}

static nm_char *
port_name(wmem_allocator_t *scope, nm_uint port)
{
	return tcp_port_to_display(scope, port);
}

#if NM_WIRESHARK(4, 2)
static uint32_t
stream_count(void)
{
	return connections;
}
#endif

void
nm_register_follow(int proto)
{
	register_follow_stream(proto, NM_FOLLOW_TAP, connection_filter, index_filter,
			       address_filter, port_name, take_pdu
#if NM_WIRESHARK(4, 2)
			       , stream_count, NULL
#endif
	);
}
