/* srt.c
 * Service response time, by opcode and by queue
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

#include <epan/srt_table.h>

#include "compat.h"

/* Rows: admin opcodes, I/O opcodes, Fabrics command types */
#define ROWS_OF_KIND 256
#define QUEUES 1024

enum { BY_OPCODE, FIRST_BYTE, BY_QUEUE, TABLES };

static int
opcode_row(const nm_command_t *command)
{
	if (command->opcode == 0x7f)
		return 2 * ROWS_OF_KIND + command->fctype;
	if (command->connection->has_qid && command->connection->qid == 0)
		return command->opcode;
	return ROWS_OF_KIND + command->opcode;
}

static void
add(srt_stat_table *rows, int row, const char *name, int64_t from, int64_t to, packet_info *pinfo)
{
	/* srt_table works with the time of the request, counted back from the packet's. */
	int64_t now = nm_time(&pinfo->abs_ts), start = now - (to - from);
	nstime_t request = { (time_t)(start / 1000000000), (int)(start % 1000000000) };

	if (rows->procedures[row].procedure == NULL)
		init_srt_table_row(rows, row, name);
	add_srt_table_data(rows, row, &request, pinfo);
}

static tap_packet_status
take_frame(void *data, packet_info *pinfo, epan_dissect_t *edt _U_, const void *tapped,
	   tap_flags_t flags _U_)
{
	srt_data_t *srt = (srt_data_t *)data;
	const nm_frame_t *frame = (const nm_frame_t *)tapped;
	tap_packet_status status = TAP_PACKET_DONT_REDRAW;

	for (const nm_pdu_t *pdu = frame->pdus; pdu; pdu = pdu->next) {
		const nm_command_t *command = pdu->command;
		const char *queue;
		int row;

		if (!command || command->asynchronous || command->response_frame != pinfo->num ||
		    (pdu->type != NM_CAPSULE_RESP && !(pdu->flags & NM_FLAG_SUCCESS)))
			continue;
		row = opcode_row(command);
		queue = nm_queue_name(pinfo->pool, command->connection);
		add(g_array_index(srt->srt_array, srt_stat_table *, BY_OPCODE), row,
		    nm_opcode_name(command), command->sent, command->completed, pinfo);
		add(g_array_index(srt->srt_array, srt_stat_table *, FIRST_BYTE), row,
		    nm_opcode_name(command), command->sent, command->first_byte, pinfo);
		if (command->connection->index < QUEUES)
			add(g_array_index(srt->srt_array, srt_stat_table *, BY_QUEUE),
			    (int)command->connection->index, queue, command->sent,
			    command->completed, pinfo);
		status = TAP_PACKET_REDRAW;
	}
	return status;
}

static void
init_tables(struct register_srt *srt _U_, GArray *tables)
{
	init_srt_table("NVMe over MPTCP: time to completion, by opcode", "Completion", tables,
		       3 * ROWS_OF_KIND, "To completion", NULL, NULL);
	init_srt_table("NVMe over MPTCP: time to first byte, by opcode", "First byte", tables,
		       3 * ROWS_OF_KIND, "To first byte", NULL, NULL);
	init_srt_table("NVMe over MPTCP: time to completion, by queue", "Queue", tables, QUEUES,
		       "Queue", "nvme_mptcp.connection", NULL);
}

void
nm_register_srt(int proto)
{
	register_srt_table(proto, NM_TAP, TABLES, take_frame, init_tables, NULL);
}
