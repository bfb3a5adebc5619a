/* subflow-stats.c
 * Statistics tree: what each subflow of each connection carried
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

#include <epan/stats_tree.h>

#include "compat.h"

static const char *const names[2] = { "to the controller", "to the host" };
static int root;

static void
init(stats_tree *tree)
{
	root = stats_tree_create_node(tree, "Bytes by connection, direction, subflow", 0,
				      STAT_DT_INT, TRUE);
}

static void
count_pdus(stats_tree *tree, const nm_frame_t *frame, const char *connection, int parent,
	   wmem_allocator_t *scope)
{
	const char *name = wmem_strdup_printf(scope, "%s: PDUs", connection);

	for (const nm_pdu_t *pdu = frame->pdus; pdu; pdu = pdu->next) {
		const char *blocked = wmem_strdup_printf(scope,
							 "%s: PDUs blocked (us)", connection);

		increase_stat_node(tree, name, parent, FALSE, 1);
		if (pdu->blocked)
			avg_stat_node_add_value_int(tree, blocked, parent, FALSE,
						    (int)(pdu->blocked / 1000));
	}
}

static tap_packet_status
take_frame(stats_tree *tree, packet_info *pinfo, epan_dissect_t *edt _U_, const void *tapped,
	   tap_flags_t flags _U_)
{
	const nm_frame_t *frame = (const nm_frame_t *)tapped;
	wmem_allocator_t *scope = pinfo->pool;
	uint32_t number = frame->subflow->connection->index;
	const char *connection, *direction, *subflow;
	int in_connection, in_direction;

	if (!frame->has_data && frame->rtt < 0 && !frame->pdus)
		return TAP_PACKET_DONT_REDRAW;
	connection = wmem_strdup_printf(scope, "connection %u", number);
	direction = wmem_strdup_printf(scope, "%s %s", connection, names[frame->direction]);
	subflow = wmem_strdup_printf(scope, "%s, subflow %u", direction, frame->subflow->index);
	increase_stat_node(tree, "Bytes by connection, direction, subflow", 0, FALSE,
			   (int)frame->length);
	in_connection = increase_stat_node(tree, connection, root, TRUE, (int)frame->length);
	count_pdus(tree, frame, connection, in_connection, scope);
	in_direction = increase_stat_node(tree, direction, in_connection, TRUE,
					  (int)frame->length);
	if (frame->has_data)
		increase_stat_node(tree, subflow, in_direction, FALSE, (int)frame->length);
	if (frame->reinjected)
		increase_stat_node(tree, wmem_strdup_printf(scope, "%s: reinjected", subflow),
				   in_direction, FALSE, (int)frame->reinjected);
	if (frame->duplicate)
		increase_stat_node(tree, wmem_strdup_printf(scope, "%s: repeated", subflow),
				   in_direction, FALSE, (int)frame->duplicate);
	if (frame->rtt >= 0)
		avg_stat_node_add_value_int(
			tree, wmem_strdup_printf(scope, "%s: round trip as seen here (us)", subflow),
			in_direction, FALSE, (int)MIN(frame->rtt / 1000, INT32_MAX));
	if (frame->released)
		avg_stat_node_add_value_int(
			tree, wmem_strdup_printf(scope, "%s: others waited for it (us)", subflow),
			in_direction, FALSE, (int)MIN(frame->waited / 1000, INT32_MAX));
	return TAP_PACKET_REDRAW;
}

void
nm_register_subflow_stats(void)
{
	stats_tree_register_plugin(NM_TAP, "nvme_mptcp_subflows", "NVMe over MPTCP/Subflows", 0,
				   take_frame, init, NULL);
}
