/* csv.c
 * CSV export: -z nvme_mptcp,commands,FILE and -z nvme_mptcp,segments,FILE
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <epan/stat_tap_ui.h>
#include <wsutil/report_message.h>

#include "compat.h"

typedef struct {
	FILE *file;
	const char *header;
	char *path;	/* NULL: standard output */
	bool begun;
} csv_t;

/* The GUI runs over the packets again, and what is there is then written anew; but at the end of
 * a file the tap is reset, too, and nothing follows. So begin with the first row. */
static FILE *
opened(void *data)
{
	csv_t *csv = (csv_t *)data;

	if (!csv->begun) {
		csv->begun = true;
		if (csv->path) {
			rewind(csv->file);
			if (ftruncate(fileno(csv->file), 0) != 0)
				report_failure("nvme_mptcp: %s: %s", csv->path, g_strerror(errno));
		}
		fprintf(csv->file, "%s\n", csv->header);
	}
	return csv->file;
}

static void
put_time(FILE *file, int64_t ns)
{
	if (ns < 0)
		fputc(',', file);
	else
		fprintf(file, ",%" PRId64 ".%09d", ns / 1000000000, (int)(ns % 1000000000));
}

static tap_packet_status
command_rows(void *data, packet_info *pinfo, epan_dissect_t *edt _U_, const void *tapped,
	     tap_flags_t flags _U_)
{
	FILE *file = opened(data);
	const nm_frame_t *frame = (const nm_frame_t *)tapped;

	for (const nm_pdu_t *pdu = frame->pdus; pdu; pdu = pdu->next) {
		const nm_command_t *command = pdu->command;

		if (!command || command->response_frame != pinfo->num ||
		    (pdu->type != NM_CAPSULE_RESP && !(pdu->flags & NM_FLAG_SUCCESS)))
			continue;
		fprintf(file, "%u,", command->connection->index);
		if (command->connection->has_qid)
			fprintf(file, "%u", command->connection->qid);
		fprintf(file, ",%u,0x%02x,%s,%u,%u,%u,%" PRIu64 ",0x%04x", command->cid,
			command->opcode, nm_opcode_name(command), command->namespace_id,
			command->command_frame, command->response_frame, command->data_bytes,
			command->status);
		put_time(file, command->sent);
		put_time(file, command->first_byte - command->sent);
		put_time(file, command->completed - command->sent);
		fputc('\n', file);
	}
	return TAP_PACKET_DONT_REDRAW;
}

static tap_packet_status
segment_rows(void *data, packet_info *pinfo, epan_dissect_t *edt _U_, const void *tapped,
	     tap_flags_t flags _U_)
{
	FILE *file = opened(data);
	const nm_frame_t *frame = (const nm_frame_t *)tapped;

	if (!frame->has_data && frame->rtt < 0)
		return TAP_PACKET_DONT_REDRAW;
	fprintf(file, "%u", pinfo->num);
	put_time(file, nm_time(&pinfo->abs_ts));
	fprintf(file, ",%u,%s,%u,", frame->subflow->connection->index,
		frame->direction == NM_TO_CONTROLLER ? "to_controller" : "to_host",
		frame->subflow->index);
	if (frame->has_data)
		fprintf(file, "%" PRIu64 ",%" PRId64, frame->dsn, frame->offset);
	else
		fputc(',', file);
	fprintf(file, ",%u,%u,%u,%u", frame->length, frame->duplicate, frame->reinjected,
		frame->released);
	put_time(file, frame->released ? frame->waited : -1);
	put_time(file, frame->rtt);
	fputc('\n', file);
	return TAP_PACKET_DONT_REDRAW;
}

static void
reset(void *data)
{
	((csv_t *)data)->begun = false;
}

static void
finish(void *data)
{
	csv_t *csv = (csv_t *)data;

	if (fflush(opened(csv)) != 0)
		report_failure("nvme_mptcp: %s: %s", csv->path ? csv->path : "standard output",
			       g_strerror(errno));
}

static void
start(const char *argument, const char *name, const char *header, tap_packet_cb row)
{
	csv_t *csv = g_new0(csv_t, 1);
	const char *path = argument + strlen(name);
	GString *error;

	csv->header = header;
	csv->file = stdout;
	if (path[0] == ',' && path[1]) {
		csv->path = g_strdup(path + 1);
		csv->file = fopen(csv->path, "w");
		if (!csv->file) {
			report_failure("nvme_mptcp: %s: %s", csv->path, g_strerror(errno));
			exit(2);
		}
	}
	error = register_tap_listener(NM_TAP, csv, NULL, TL_REQUIRES_NOTHING, reset, row, finish,
				      NULL);
	if (error) {
		report_failure("nvme_mptcp: %s", error->str);
		exit(2);
	}
}

#define COMMANDS "nvme_mptcp,commands"
#define SEGMENTS "nvme_mptcp,segments"

static nm_tap_start_t
start_commands(const char *argument, void *user _U_)
{
	start(argument, COMMANDS,
	      "connection,queue,cid,opcode,command,namespace,command_frame,response_frame,"
	      "data_bytes,status,sent_s,first_byte_s,completion_s",
	      command_rows);
	NM_TAP_STARTED;
}

static nm_tap_start_t
start_segments(const char *argument, void *user _U_)
{
	start(argument, SEGMENTS,
	      "frame,time_s,connection,direction,subflow,dsn,offset,bytes,repeated_bytes,"
	      "reinjected_bytes,released_bytes,reorder_delay_s,round_trip_s",
	      segment_rows);
	NM_TAP_STARTED;
}

void
nm_register_csv(void)
{
	static tap_param parameters[] = { { PARAM_FILTER, "file", "File", NULL, TRUE } };
	static stat_tap_ui commands = { REGISTER_STAT_GROUP_GENERIC, NULL, COMMANDS,
					start_commands, 0, parameters };
	static stat_tap_ui segments = { REGISTER_STAT_GROUP_GENERIC, NULL, SEGMENTS,
					start_segments, 0, parameters };

	register_stat_tap_ui(&commands, NULL);
	register_stat_tap_ui(&segments, NULL);
}
