/* track.h
 * What is sent and acknowledged on each subflow: round trips, and subflows gone silent
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef NM_TRACK_H
#define NM_TRACK_H

#include "connection.h"

/* A segment that `sender` sends. */
void nm_track_sender(nm_sender_t *sender, const nm_tcp_t *segment);

/* A segment that acknowledges what `sender` sent; a round trip goes to `frame`. */
void nm_track_ack(nm_frame_t *frame, nm_sender_t *sender, const nm_tcp_t *segment);

/* Report subflows that leave data unacknowledged while the connection goes on, once each. */
void nm_find_silent(nm_table_t *table, const nm_connection_t *connection);

#endif
