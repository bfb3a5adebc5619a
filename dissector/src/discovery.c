/* discovery.c
 * Discovery log page entries, with the TCP variant in their TSAS (spec/registry.toml)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

#include <stdlib.h>

#include <epan/tvbuff.h>
#include <wsutil/inet_addr.h>

#include "nvme_tcp_variant.h"

#define TRTYPE_TCP 3
#define ADRFAM_IPV4 1
#define ADRFAM_IPV6 2

#define VALUE(number, text) { number, text },
static const value_string sectypes[] = { NVME_TCP_SECTYPE_LIST(VALUE) { 0, NULL } };
static const value_string variants[] = { NVME_TCP_TCPV_LIST(VALUE) { 0, NULL } };

/* NVMe Base 2.0, 5.16.1.23: Discovery Log Page Entry */
static const value_string trtypes[] = {
	{ 1, "RDMA" }, { 2, "Fibre Channel" }, { TRTYPE_TCP, "TCP" }, { 254, "Loopback" }, { 0, NULL }
};

/* Wireshark knows the first two. */
static const value_string subtypes[] = {
	{ 1, "Referral to another discovery subsystem" },
	{ 2, "NVM subsystem" },
	{ 3, "The current discovery subsystem" },
	{ 0, NULL }
};

static int hf_entry, hf_trtype, hf_subtype, hf_portid, hf_trsvcid, hf_traddr, hf_subnqn;
static int hf_sectype, hf_tcpv, hf_mpattr, hf_adda, hf_dcsr, hf_mpreq, hf_reserved, hf_maxsf;
static int hf_sfgid;
static gint ett_entry = -1, ett_mpattr = -1;

void
nm_register_discovery(int proto)
{
#define FIELD(hf, name, filter, type, display, strings, mask)                                      \
	{ &hf, { name, "nvme_mptcp.discovery." filter, type, display, strings, mask, NULL, HFILL } }
	static hf_register_info hf[] = {
		FIELD(hf_entry, "Discovery Log Page Entry", "entry", FT_UINT32, BASE_DEC, NULL, 0),
		FIELD(hf_trtype, "Transport Type", "trtype", FT_UINT8, BASE_DEC, VALS(trtypes), 0),
		FIELD(hf_subtype, "Subsystem Type", "subtype", FT_UINT8, BASE_DEC, VALS(subtypes),
		      0),
		FIELD(hf_portid, "Port ID", "portid", FT_UINT16, BASE_DEC, NULL, 0),
		FIELD(hf_trsvcid, "Transport Service Identifier", "trsvcid", FT_STRING, BASE_NONE,
		      NULL, 0),
		FIELD(hf_traddr, "Transport Address", "traddr", FT_STRING, BASE_NONE, NULL, 0),
		FIELD(hf_subnqn, "Subsystem NQN", "subnqn", FT_STRING, BASE_NONE, NULL, 0),
		FIELD(hf_sectype, "Security Type (SECTYPE)", "sectype", FT_UINT8, BASE_DEC,
		      VALS(sectypes), 0),
		FIELD(hf_tcpv, "TCP Variant (TCPV)", "tcpv", FT_UINT8, BASE_DEC, VALS(variants), 0),
		FIELD(hf_mpattr, "Multipath Attributes (MPATTR)", "mpattr", FT_UINT8, BASE_HEX,
		      NULL, 0),
		FIELD(hf_adda, "ADDA: subflows to further addresses", "mpattr.adda", FT_BOOLEAN, 8,
		      NULL, NVME_TCP_MPATTR_ADDA),
		FIELD(hf_dcsr, "DCSR: DSS checksums required", "mpattr.dcsr", FT_BOOLEAN, 8, NULL,
		      NVME_TCP_MPATTR_DCSR),
		FIELD(hf_mpreq, "MPREQ: Multipath TCP required", "mpattr.mpreq", FT_BOOLEAN, 8,
		      NULL, NVME_TCP_MPATTR_MPREQ),
		FIELD(hf_reserved, "Reserved", "mpattr.reserved", FT_UINT8, BASE_HEX, NULL,
		      NVME_TCP_MPATTR_RESERVED),
		FIELD(hf_maxsf, "Maximum Subflows (MAXSF)", "maxsf", FT_UINT8, BASE_DEC, NULL, 0),
		FIELD(hf_sfgid, "Subflow Group Identifier (SFGID)", "sfgid", FT_UINT16, BASE_DEC,
		      NULL, 0),
	};
#undef FIELD
	static gint *ett[] = { &ett_entry, &ett_mpattr };

	proto_register_field_array(proto, hf, array_length(hf));
	proto_register_subtree_array(ett, array_length(ett));
}

static void
show_tsas(proto_tree *tree, tvbuff_t *data, int tsas)
{
	static int *const bits[] = { &hf_adda, &hf_dcsr, &hf_mpreq, &hf_reserved, NULL };

	proto_tree_add_item(tree, hf_sectype, data, tsas + NVME_TCP_TSAS_SECTYPE_OFFSET, 1,
			    ENC_NA);
	proto_tree_add_item(tree, hf_tcpv, data, tsas + NVME_TCP_TSAS_TCPV_OFFSET, 1, ENC_NA);
	if (tvb_get_ptr(data, tsas + NVME_TCP_TSAS_TCPV_OFFSET, 1)[0] != NVME_TCP_TCPV_MPTCP)
		return;
	proto_tree_add_bitmask(tree, data, tsas + NVME_TCP_TSAS_MPATTR_OFFSET, hf_mpattr,
			       ett_mpattr, bits, ENC_NA);
	proto_tree_add_item(tree, hf_maxsf, data, tsas + NVME_TCP_TSAS_MAXSF_OFFSET, 1, ENC_NA);
	proto_tree_add_item(tree, hf_sfgid, data, tsas + NVME_TCP_TSAS_SFGID_OFFSET,
			    NVME_TCP_TSAS_SFGID_SIZE, ENC_LITTLE_ENDIAN);
}

static void
show_entry(proto_tree *parent, tvbuff_t *data, int entry, uint32_t number)
{
	proto_item *item = proto_tree_add_uint(parent, hf_entry, data, entry,
					       NVME_DISCOVERY_ENTRY_SIZE, number);
	proto_tree *tree = proto_item_add_subtree(item, ett_entry);
	const uint8_t *bytes = tvb_get_ptr(data, entry, NVME_DISCOVERY_ENTRY_SIZE);

	proto_tree_add_item(tree, hf_trtype, data, entry + NVME_DISCOVERY_ENTRY_TRTYPE_OFFSET, 1,
			    ENC_NA);
	proto_tree_add_item(tree, hf_subtype, data, entry + NVME_DISCOVERY_ENTRY_SUBTYPE_OFFSET, 1,
			    ENC_NA);
	proto_tree_add_item(tree, hf_portid, data, entry + NVME_DISCOVERY_ENTRY_PORTID_OFFSET, 2,
			    ENC_LITTLE_ENDIAN);
	proto_tree_add_item(tree, hf_trsvcid, data, entry + NVME_DISCOVERY_ENTRY_TRSVCID_OFFSET,
			    NVME_DISCOVERY_ENTRY_TRSVCID_SIZE, ENC_ASCII);
	proto_tree_add_item(tree, hf_subnqn, data, entry + NVME_DISCOVERY_ENTRY_SUBNQN_OFFSET,
			    NVME_DISCOVERY_ENTRY_SUBNQN_SIZE, ENC_UTF_8);
	proto_tree_add_item(tree, hf_traddr, data, entry + NVME_DISCOVERY_ENTRY_TRADDR_OFFSET,
			    NVME_DISCOVERY_ENTRY_TRADDR_SIZE, ENC_ASCII);
	if (bytes[NVME_DISCOVERY_ENTRY_TRTYPE_OFFSET] == TRTYPE_TCP)
		show_tsas(tree, data, entry + NVME_DISCOVERY_ENTRY_TSAS_OFFSET);
}

/* The first whole entry at or after `log_offset` of the page: its number. */
static uint32_t
first_entry(int64_t log_offset)
{
	int64_t number;

	if (log_offset <= NVME_DISCOVERY_HEADER_SIZE)
		return 0;
	number = (log_offset - NVME_DISCOVERY_HEADER_SIZE + NVME_DISCOVERY_ENTRY_SIZE - 1) /
		 NVME_DISCOVERY_ENTRY_SIZE;
	return (uint32_t)MIN(number, UINT32_MAX);
}

static int64_t
entry_place(uint32_t number, int64_t log_offset)
{
	return NVME_DISCOVERY_HEADER_SIZE + (int64_t)number * NVME_DISCOVERY_ENTRY_SIZE -
	       log_offset;
}

void
nm_show_discovery(proto_tree *tree, tvbuff_t *data, int64_t log_offset)
{
	int64_t length = tvb_captured_length(data);

	for (uint32_t n = first_entry(log_offset);
	     entry_place(n, log_offset) + NVME_DISCOVERY_ENTRY_SIZE <= length; n++)
		show_entry(tree, data, (int)entry_place(n, log_offset), n);
}

void
nm_note_announced(nm_table_t *table, const uint8_t *data, uint32_t length, int64_t log_offset)
{
	for (uint32_t n = first_entry(log_offset);
	     entry_place(n, log_offset) + NVME_DISCOVERY_ENTRY_SIZE <= (int64_t)length; n++) {
		const uint8_t *entry = data + entry_place(n, log_offset);
		const uint8_t *tsas = entry + NVME_DISCOVERY_ENTRY_TSAS_OFFSET;
		char traddr[NVME_DISCOVERY_ENTRY_TRADDR_SIZE + 1] = "";
		char trsvcid[NVME_DISCOVERY_ENTRY_TRSVCID_SIZE + 1] = "";
		uint8_t address[16] = { 0 };
		unsigned long port;

		if (entry[NVME_DISCOVERY_ENTRY_TRTYPE_OFFSET] != TRTYPE_TCP ||
		    tsas[NVME_TCP_TSAS_TCPV_OFFSET] != NVME_TCP_TCPV_MPTCP)
			continue;
		memcpy(traddr, entry + NVME_DISCOVERY_ENTRY_TRADDR_OFFSET, sizeof(traddr) - 1);
		memcpy(trsvcid, entry + NVME_DISCOVERY_ENTRY_TRSVCID_OFFSET, sizeof(trsvcid) - 1);
		port = strtoul(trsvcid, NULL, 10);
		if (port == 0 || port > UINT16_MAX)
			continue;
		if (entry[NVME_DISCOVERY_ENTRY_ADRFAM_OFFSET] == ADRFAM_IPV4 &&
		    ws_inet_pton4(g_strstrip(traddr), (ws_in4_addr *)address))
			nm_table_announce(table, 4, address, (uint16_t)port);
		else if (entry[NVME_DISCOVERY_ENTRY_ADRFAM_OFFSET] == ADRFAM_IPV6 &&
			 ws_inet_pton6(g_strstrip(traddr), (ws_in6_addr *)address))
			nm_table_announce(table, 6, address, (uint16_t)port);
	}
}
