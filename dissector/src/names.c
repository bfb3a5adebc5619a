/* names.c
 * Names of opcodes and queues
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

static const value_string admin_opcodes[] = {
	{ 0x00, "Delete I/O Submission Queue" },
	{ 0x01, "Create I/O Submission Queue" },
	{ 0x02, "Get Log Page" },
	{ 0x04, "Delete I/O Completion Queue" },
	{ 0x05, "Create I/O Completion Queue" },
	{ 0x06, "Identify" },
	{ 0x08, "Abort" },
	{ 0x09, "Set Features" },
	{ 0x0a, "Get Features" },
	{ 0x0c, "Asynchronous Event Request" },
	{ 0x0d, "Namespace Management" },
	{ 0x14, "Device Self-test" },
	{ 0x15, "Namespace Attachment" },
	{ 0x18, "Keep Alive" },
	{ 0x21, "Discovery Information Management" },
	{ 0x80, "Format NVM" },
	{ 0x81, "Security Send" },
	{ 0x82, "Security Receive" },
	{ 0x84, "Sanitize" },
	{ 0, NULL }
};

static const value_string io_opcodes[] = {
	{ 0x00, "Flush" },
	{ 0x01, "Write" },
	{ 0x02, "Read" },
	{ 0x04, "Write Uncorrectable" },
	{ 0x05, "Compare" },
	{ 0x08, "Write Zeroes" },
	{ 0x09, "Dataset Management" },
	{ 0x0c, "Verify" },
	{ 0x0d, "Reservation Register" },
	{ 0x0e, "Reservation Report" },
	{ 0x11, "Reservation Acquire" },
	{ 0x15, "Reservation Release" },
	{ 0x19, "Copy" },
	{ 0x79, "Zone Management Send" },
	{ 0x7a, "Zone Management Receive" },
	{ 0x7d, "Zone Append" },
	{ 0, NULL }
};

static const value_string fabrics_types[] = {
	{ 0x00, "Property Set" },
	{ 0x01, "Connect" },
	{ 0x04, "Property Get" },
	{ 0x05, "Authentication Send" },
	{ 0x06, "Authentication Receive" },
	{ 0x08, "Disconnect" },
	{ 0, NULL }
};

#define FABRICS 0x7f

const char *
nm_opcode_name(const nm_command_t *command)
{
	const nm_connection_t *connection = command->connection;

	if (command->opcode == FABRICS)
		return val_to_str_const(command->fctype, fabrics_types, "Fabrics, unknown");
	/* Without its Connect, a queue is taken for one of I/O, as Wireshark does. */
	if (connection->has_qid && connection->qid == 0)
		return val_to_str_const(command->opcode, admin_opcodes, "Admin, unknown");
	return val_to_str_const(command->opcode, io_opcodes, "I/O, unknown");
}

const char *
nm_queue_name(wmem_allocator_t *scope, const nm_connection_t *connection)
{
	if (!connection->has_qid)
		return wmem_strdup_printf(scope, "connection %u", connection->index);
	return wmem_strdup_printf(scope, "connection %u, queue %u%s", connection->index,
				  connection->qid, connection->qid ? "" : " (admin)");
}
