/* command.c
 * NVMe commands: which PDUs belong together
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "command.h"

#include <string.h>

#include <wsutil/crc32.h>

#define OPCODE_GET_LOG_PAGE 0x02
#define OPCODE_ASYNC_EVENT 0x0c
#define OPCODE_DIM 0x21
#define OPCODE_FABRICS 0x7f
#define FCTYPE_CONNECT 0x01
#define LOG_DISCOVERY 0x70
#define LOG_HOST_DISCOVERY 0x71

/* A capsule's submission queue entry begins after the common header. */
#define SQE 8
#define CAPSULE_CMD_HEADER 72
#define CONNECT_DATA 1024
#define CONNECT_SUBNQN 256
#define CONNECT_HOSTNQN 512
#define NQN_BYTES 256

/* CRC-32C over `length` bytes as NVMe/TCP has it on the wire. */
static uint32_t
digest(const uint8_t *data, uint32_t length)
{
	return ~crc32c_calculate_no_swap(data, (int)length, ~0u);
}

static void
check_digests(nm_table_t *table, const nm_pdu_t *pdu, const uint8_t *data)
{
	uint32_t offset, length;

	if (pdu->captured < 8)
		return;
	if (pdu->flags & NM_FLAG_HDGST && (uint32_t)data[2] + NM_DIGEST_BYTES <= pdu->captured &&
	    digest(data, data[2]) != nm_le32(data + data[2]))
		nm_frame_event(table, NM_EV_HEADER_DIGEST, NM_NOBODY, pdu->offset);
	nm_pdu_data_range(data, &offset, &length);
	if (pdu->flags & NM_FLAG_DDGST && length && offset + length + NM_DIGEST_BYTES <= pdu->captured &&
	    digest(data + offset, length) != nm_le32(data + offset + length))
		nm_frame_event(table, NM_EV_DATA_DIGEST, NM_NOBODY, pdu->offset);
}

static char *
nqn(nm_table_t *table, const uint8_t *text)
{
	return wmem_strndup(table->scope, (const char *)text, NQN_BYTES);
}

/* Connect tells which queue a connection is. */
static void
read_connect(nm_table_t *table, nm_connection_t *connection, const nm_pdu_t *pdu,
	     const uint8_t *data)
{
	const uint8_t *connect;

	connection->has_qid = true;
	connection->qid = nm_le16(data + SQE + 42);
	/* Discovery entries come by the Admin Queue. */
	if (connection->plain && connection->qid != 0)
		connection->content = NM_CONTENT_OTHER;
	if (data[3] < CAPSULE_CMD_HEADER || data[3] + (uint32_t)CONNECT_DATA > pdu->captured)
		return;
	connect = data + data[3];
	connection->subnqn = nqn(table, connect + CONNECT_SUBNQN);
	connection->hostnqn = nqn(table, connect + CONNECT_HOSTNQN);
}

/* Which commands carry discovery entries. A log page may be read by several of them. */
static void
expect_entries(nm_table_t *table, nm_connection_t *connection, nm_command_t *command,
	       const uint8_t *entry)
{
	nm_information_t kind;

	if (command->opcode == OPCODE_DIM) {
		command->entries = wmem_new(table->scope, nm_entries_t);
		nm_entries_init(command->entries, NM_DIM);
		return;
	}
	if (command->opcode != OPCODE_GET_LOG_PAGE ||
	    (entry[40] != LOG_DISCOVERY && entry[40] != LOG_HOST_DISCOVERY))
		return;
	kind = entry[40] == LOG_DISCOVERY ? NM_DISCOVERY_LOG : NM_HOST_LOG;
	if (!connection->log[kind]) {
		connection->log[kind] = wmem_new(table->scope, nm_entries_t);
		nm_entries_init(connection->log[kind], kind);
	}
	command->entries = connection->log[kind];
	command->entries_at = nm_le32(entry + 48) | (uint64_t)nm_le32(entry + 52) << 32;
}

/* The data of a PDU are at `offset` of its command's. */
static void
take_entries(nm_table_t *table, nm_pdu_t *pdu, const uint8_t *data, uint32_t offset)
{
	const nm_command_t *command = pdu->command;
	bool sent_by_host = pdu->type != NM_C2H_DATA;
	uint32_t place, length;

	if (!command->entries || (command->entries->kind == NM_DIM) != sent_by_host)
		return;
	nm_pdu_data_range(data, &place, &length);
	if (length && place + length <= pdu->captured && !pdu->missing)
		pdu->entries = nm_entries_input(command->entries, table,
						command->entries_at + offset, data + place, length,
						place);
}

static void
begin(nm_table_t *table, nm_pdu_t *pdu, const uint8_t *data, uint32_t frame, int64_t time)
{
	nm_connection_t *connection = pdu->connection;
	const uint8_t *entry = data + SQE;
	nm_command_t *command, *other;

	pdu->has_cid = true;
	pdu->cid = nm_le16(entry + 2);
	command = wmem_new0(table->scope, nm_command_t);
	command->connection = connection;
	command->cid = pdu->cid;
	command->opcode = entry[0];
	command->fctype = entry[0] == OPCODE_FABRICS ? entry[4] : 0;
	command->namespace_id = entry[0] == OPCODE_FABRICS ? 0 : nm_le32(entry + 4);
	command->command_frame = frame;
	command->sent = time;
	command->first_byte = command->completed = -1;
	if (command->opcode == OPCODE_FABRICS && command->fctype == FCTYPE_CONNECT)
		read_connect(table, connection, pdu, data);
	if (!connection->has_qid || connection->qid == 0) {
		command->asynchronous = command->opcode == OPCODE_ASYNC_EVENT;
		expect_entries(table, connection, command, entry);
	}
	other = (nm_command_t *)wmem_map_lookup(connection->pending, GUINT_TO_POINTER(pdu->cid));
	if (other && !other->answered && !connection->gaps)
		nm_frame_event(table, NM_EV_DUPLICATE_CID, NM_NOBODY, pdu->cid);
	wmem_map_insert(connection->pending, GUINT_TO_POINTER(pdu->cid), command);
	pdu->command = command;
	take_entries(table, pdu, data, 0);
}

static void
complete(nm_command_t *command, uint32_t frame, int64_t time, uint16_t status)
{
	command->answered = true;
	command->status = status;
	command->response_frame = frame;
	command->completed = time;
	if (command->first_byte < 0)
		command->first_byte = time;
}

static nm_command_t *
find(nm_table_t *table, nm_pdu_t *pdu, uint16_t cid)
{
	pdu->has_cid = true;
	pdu->cid = cid;
	pdu->command = (nm_command_t *)wmem_map_lookup(pdu->connection->pending,
						       GUINT_TO_POINTER(cid));
	if (pdu->command && pdu->command->answered)
		pdu->command = NULL;
	if (!pdu->command && !pdu->connection->gaps)
		nm_frame_event(table, NM_EV_UNKNOWN_CID, NM_NOBODY, cid);
	return pdu->command;
}

static void
transfer(nm_table_t *table, nm_pdu_t *pdu, const uint8_t *data, uint32_t frame, int64_t time)
{
	nm_command_t *command = find(table, pdu, nm_le16(data + 8));

	if (!command)
		return;
	if (pdu->type == NM_R2T) {
		if (command->r2t_count++ == 0)
			command->first_r2t_frame = frame;
		if (command->first_byte < 0)
			command->first_byte = time;
		return;
	}
	if (command->first_data_frame == 0)
		command->first_data_frame = frame;
	command->last_data_frame = frame;
	command->data_bytes += nm_le32(data + 16);
	take_entries(table, pdu, data, nm_le32(data + 12));
	if (pdu->type == NM_C2H_DATA) {
		if (command->first_byte < 0)
			command->first_byte = time;
		if (pdu->flags & NM_FLAG_SUCCESS)
			complete(command, frame, time, 0);
	}
}

void
nm_command_pdu(nm_table_t *table, nm_pdu_t *pdu, const uint8_t *data, uint32_t frame, int64_t time)
{
	nm_command_t *command;

	if (pdu->captured < 2)
		return;
	pdu->type = data[0];
	pdu->flags = data[1];
	if (table->settings.verify_digests && pdu->flags & (NM_FLAG_HDGST | NM_FLAG_DDGST) &&
	    pdu->type >= NM_CAPSULE_CMD)
		check_digests(table, pdu, data);
	switch (pdu->type) {
	case NM_CAPSULE_CMD:
		if (pdu->captured >= CAPSULE_CMD_HEADER)
			begin(table, pdu, data, frame, time);
		break;
	case NM_CAPSULE_RESP:
		if (pdu->captured < 24)
			break;
		command = find(table, pdu, nm_le16(data + 8 + 12));
		if (command)
			complete(command, frame, time, nm_le16(data + 8 + 14) >> 1);
		break;
	case NM_H2C_DATA:
	case NM_C2H_DATA:
	case NM_R2T:
		if (pdu->captured >= 24)
			transfer(table, pdu, data, frame, time);
		break;
	}
}

static void
count(gpointer key, gpointer value, gpointer user)
{
	const nm_command_t *command = (const nm_command_t *)value;

	(void)key;
	if (!command->answered && !command->asynchronous)
		++*(uint32_t *)user;
}

uint32_t
nm_commands_outstanding(const nm_connection_t *connection)
{
	uint32_t n = 0;

	if (connection->inside)
		connection = connection->inside;
	wmem_map_foreach(connection->pending, count, &n);
	return n;
}
