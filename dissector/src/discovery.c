/* discovery.c
 * Discovery entries, with the TCP variant in their TSAS (spec/registry.toml)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "packet-nvme-mptcp.h"

#include <epan/tvbuff.h>

#include "compat.h"

#define TRTYPE_TCP 3

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

static const value_string forms[] = {
	{ NM_ENTRY_BASIC, "Discovery Log Page Entry" },
	{ NM_ENTRY_EXTENDED, "Extended Discovery Information Entry" },
	{ NM_ENTRY_HOST, "Host Extended Discovery Log Page Entry" },
	{ 0, NULL }
};

static int hf_entry, hf_form, hf_registered, hf_trtype, hf_subtype, hf_portid, hf_trsvcid;
static int hf_traddr, hf_subnqn, hf_nqn, hf_hostnqn;
static int hf_sectype, hf_tcpv, hf_mpattr, hf_adda, hf_dcsr, hf_mpreq, hf_reserved, hf_maxsf;
static int hf_sfgid;
static gint ett_entry = -1, ett_mpattr = -1;

void
nm_register_discovery(int proto)
{
#define FIELD(hf, name, filter, type, display, strings, mask)                                      \
	{ &hf, { name, "nvme_mptcp.discovery." filter, type, display, strings, mask, NULL, HFILL } }
	static hf_register_info hf[] = {
		FIELD(hf_entry, "Discovery entry", "entry", FT_UINT32, BASE_DEC, NULL, 0),
		FIELD(hf_form, "Structure", "structure", FT_UINT8, BASE_DEC, VALS(forms), 0),
		FIELD(hf_registered, "Part of Discovery Information Management data", "dim",
		      FT_BOOLEAN, BASE_NONE, NULL, 0),
		FIELD(hf_trtype, "Transport Type", "trtype", FT_UINT8, BASE_DEC, VALS(trtypes), 0),
		FIELD(hf_subtype, "Subsystem Type", "subtype", FT_UINT8, BASE_DEC, VALS(subtypes),
		      0),
		FIELD(hf_portid, "Port ID", "portid", FT_UINT16, BASE_DEC, NULL, 0),
		FIELD(hf_trsvcid, "Transport Service Identifier", "trsvcid", FT_STRING, BASE_NONE,
		      NULL, 0),
		FIELD(hf_traddr, "Transport Address", "traddr", FT_STRING, BASE_NONE, NULL, 0),
		FIELD(hf_subnqn, "Subsystem NQN", "subnqn", FT_STRING, BASE_NONE, NULL, 0),
		FIELD(hf_nqn, "NVMe Qualified Name", "nqn", FT_STRING, BASE_NONE, NULL, 0),
		FIELD(hf_hostnqn, "Host NQN", "hostnqn", FT_STRING, BASE_NONE, NULL, 0),
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
	if (tvb_get_uint8(data, tsas + NVME_TCP_TSAS_TCPV_OFFSET) != NVME_TCP_TCPV_MPTCP)
		return;
	proto_tree_add_bitmask(tree, data, tsas + NVME_TCP_TSAS_MPATTR_OFFSET, hf_mpattr,
			       ett_mpattr, bits, ENC_NA);
	proto_tree_add_item(tree, hf_maxsf, data, tsas + NVME_TCP_TSAS_MAXSF_OFFSET, 1, ENC_NA);
	proto_tree_add_item(tree, hf_sfgid, data, tsas + NVME_TCP_TSAS_SFGID_OFFSET,
			    NVME_TCP_TSAS_SFGID_SIZE, ENC_LITTLE_ENDIAN);
}

typedef struct {
	int *hf;
	int offset, size;
	unsigned encoding;
} field_t;

#define MEMBER(hf, form, name, encoding)                                                           \
	{ &hf, NVME_##form##_ENTRY_##name##_OFFSET, NVME_##form##_ENTRY_##name##_SIZE, encoding }

/* The fields before TSAS that matter, by form. */
static const field_t members[][7] = {
	[NM_ENTRY_BASIC] = {
		MEMBER(hf_trtype, DISCOVERY, TRTYPE, ENC_NA),
		MEMBER(hf_subtype, DISCOVERY, SUBTYPE, ENC_NA),
		MEMBER(hf_portid, DISCOVERY, PORTID, ENC_LITTLE_ENDIAN),
		MEMBER(hf_trsvcid, DISCOVERY, TRSVCID, ENC_ASCII),
		MEMBER(hf_subnqn, DISCOVERY, SUBNQN, ENC_UTF_8),
		MEMBER(hf_traddr, DISCOVERY, TRADDR, ENC_ASCII),
	},
	[NM_ENTRY_EXTENDED] = {
		MEMBER(hf_trtype, EXTENDED, TRTYPE, ENC_NA),
		MEMBER(hf_subtype, EXTENDED, SUBTYPE, ENC_NA),
		MEMBER(hf_portid, EXTENDED, PORTID, ENC_LITTLE_ENDIAN),
		MEMBER(hf_trsvcid, EXTENDED, TRSVCID, ENC_ASCII),
		MEMBER(hf_nqn, EXTENDED, NQN, ENC_UTF_8),
		MEMBER(hf_traddr, EXTENDED, TRADDR, ENC_ASCII),
	},
	[NM_ENTRY_HOST] = {
		MEMBER(hf_trtype, HOST, TRTYPE, ENC_NA),
		MEMBER(hf_hostnqn, HOST, HOSTNQN, ENC_UTF_8),
		MEMBER(hf_traddr, HOST, TRADDR, ENC_ASCII),
	},
};

static const int tsas_of[] = {
	[NM_ENTRY_BASIC] = NVME_DISCOVERY_ENTRY_TSAS_OFFSET,
	[NM_ENTRY_EXTENDED] = NVME_EXTENDED_ENTRY_TSAS_OFFSET,
	[NM_ENTRY_HOST] = NVME_HOST_ENTRY_TSAS_OFFSET,
};

void
nm_show_entry(proto_tree *parent, tvbuff_t *data, const nm_entry_t *entry)
{
	proto_item *item = proto_tree_add_uint_format(
		parent, hf_entry, data, 0, (int)entry->size, entry->number, "%s: %u",
		val_to_str_const(entry->form, forms, ""), entry->number);
	proto_tree *tree = proto_item_add_subtree(item, ett_entry);

	proto_item_set_generated(
		proto_tree_add_uint(tree, hf_form, data, 0, 0, entry->form));
	proto_item_set_generated(
		proto_tree_add_boolean(tree, hf_registered, data, 0, 0, entry->registered));
	for (const field_t *member = members[entry->form]; member->hf; member++)
		proto_tree_add_item(tree, *member->hf, data, member->offset, member->size,
				    member->encoding);
	if (tvb_get_uint8(data, NVME_DISCOVERY_ENTRY_TRTYPE_OFFSET) == TRTYPE_TCP)
		show_tsas(tree, data, tsas_of[entry->form]);
}
