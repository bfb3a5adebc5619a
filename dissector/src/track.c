/* track.c
 * What is sent and acknowledged on each subflow: round trips, and subflows gone silent
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "track.h"

#include "table.h"

void
nm_track_sender(nm_sender_t *sender, const nm_tcp_t *segment)
{
	uint32_t end = segment->seq + segment->length;

	if (segment->length == 0)
		return;
	if (!sender->has_sent) {
		sender->has_sent = true;
		sender->sent_end = sender->acknowledged = segment->seq;
	}
	if ((int32_t)(end - sender->sent_end) <= 0) {
		sender->sampling = false;	/* repeated: which copy was acknowledged? */
		return;
	}
	if (sender->sent_end == sender->acknowledged)
		sender->progress = segment->time;
	if (!sender->sampling) {
		sender->sampling = true;
		sender->sample_end = end;
		sender->sample_start = segment->time;
	}
	sender->sent_end = end;
}

void
nm_track_ack(nm_frame_t *frame, nm_sender_t *sender, const nm_tcp_t *segment)
{
	if (!(segment->flags & NM_TH_ACK) || !sender->has_sent ||
	    (int32_t)(segment->ack - sender->acknowledged) <= 0 ||
	    (int32_t)(segment->ack - sender->sent_end) > 1)
		return;
	sender->acknowledged = MIN(segment->ack - sender->acknowledged,
				   sender->sent_end - sender->acknowledged) +
			       sender->acknowledged;
	sender->progress = segment->time;
	sender->silent = false;
	if (sender->sampling && (int32_t)(segment->ack - sender->sample_end) >= 0) {
		sender->sampling = false;
		frame->rtt = segment->time - sender->sample_start;
	}
}

void
nm_find_silent(nm_table_t *table, const nm_connection_t *connection)
{
	int64_t now = table->origin.time;

	for (uint32_t i = 0; i < wmem_array_get_count(connection->subflows); i++) {
		nm_subflow_t *subflow = nm_subflow_at(connection, i);

		for (int end = 0; end < 2; end++) {
			nm_sender_t *sender = &subflow->sender[end];

			if (sender->silent || !sender->has_sent || subflow->reset ||
			    sender->sent_end == sender->acknowledged ||
			    now - sender->progress < table->settings.silence_threshold)
				continue;
			sender->silent = true;
			nm_frame_event(table, NM_EV_SILENT, subflow->index, now - sender->progress);
		}
	}
}
