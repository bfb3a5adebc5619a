/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Generated from spec/registry.toml by `nvmptcp-spec generate`: don't edit. */
#ifndef NVME_TCP_VARIANT_H
#define NVME_TCP_VARIANT_H

#include <stddef.h>
#include <stdint.h>

/* Transport Specific Address Subtype (TSAS), transport type TCP, in bytes. */
#define NVME_TCP_TSAS_SIZE 256
#define NVME_TCP_TSAS_SECTYPE_OFFSET 0
#define NVME_TCP_TSAS_SECTYPE_SIZE 1
#define NVME_TCP_TSAS_TCPV_OFFSET 1
#define NVME_TCP_TSAS_TCPV_SIZE 1
#define NVME_TCP_TSAS_MPATTR_OFFSET 2
#define NVME_TCP_TSAS_MPATTR_SIZE 1
#define NVME_TCP_TSAS_MAXSF_OFFSET 3
#define NVME_TCP_TSAS_MAXSF_SIZE 1
#define NVME_TCP_TSAS_SFGID_OFFSET 4
#define NVME_TCP_TSAS_SFGID_SIZE 2

/* Discovery log page: header, in bytes. */
#define NVME_DISCOVERY_HEADER_SIZE 1024
#define NVME_DISCOVERY_HEADER_GENCTR_OFFSET 0
#define NVME_DISCOVERY_HEADER_GENCTR_SIZE 8
#define NVME_DISCOVERY_HEADER_NUMREC_OFFSET 8
#define NVME_DISCOVERY_HEADER_NUMREC_SIZE 8
#define NVME_DISCOVERY_HEADER_RECFMT_OFFSET 16
#define NVME_DISCOVERY_HEADER_RECFMT_SIZE 2

/* Discovery Log Page Entry, in bytes. */
#define NVME_DISCOVERY_ENTRY_SIZE 1024
#define NVME_DISCOVERY_ENTRY_TRTYPE_OFFSET 0
#define NVME_DISCOVERY_ENTRY_TRTYPE_SIZE 1
#define NVME_DISCOVERY_ENTRY_ADRFAM_OFFSET 1
#define NVME_DISCOVERY_ENTRY_ADRFAM_SIZE 1
#define NVME_DISCOVERY_ENTRY_SUBTYPE_OFFSET 2
#define NVME_DISCOVERY_ENTRY_SUBTYPE_SIZE 1
#define NVME_DISCOVERY_ENTRY_TREQ_OFFSET 3
#define NVME_DISCOVERY_ENTRY_TREQ_SIZE 1
#define NVME_DISCOVERY_ENTRY_PORTID_OFFSET 4
#define NVME_DISCOVERY_ENTRY_PORTID_SIZE 2
#define NVME_DISCOVERY_ENTRY_CNTLID_OFFSET 6
#define NVME_DISCOVERY_ENTRY_CNTLID_SIZE 2
#define NVME_DISCOVERY_ENTRY_ASQSZ_OFFSET 8
#define NVME_DISCOVERY_ENTRY_ASQSZ_SIZE 2
#define NVME_DISCOVERY_ENTRY_EFLAGS_OFFSET 10
#define NVME_DISCOVERY_ENTRY_EFLAGS_SIZE 2
#define NVME_DISCOVERY_ENTRY_TRSVCID_OFFSET 32
#define NVME_DISCOVERY_ENTRY_TRSVCID_SIZE 32
#define NVME_DISCOVERY_ENTRY_SUBNQN_OFFSET 256
#define NVME_DISCOVERY_ENTRY_SUBNQN_SIZE 256
#define NVME_DISCOVERY_ENTRY_TRADDR_OFFSET 512
#define NVME_DISCOVERY_ENTRY_TRADDR_SIZE 256
#define NVME_DISCOVERY_ENTRY_TSAS_OFFSET 768
#define NVME_DISCOVERY_ENTRY_TSAS_SIZE 256

/* Extended Discovery Information Entry: fixed part, in bytes. */
#define NVME_EXTENDED_ENTRY_SIZE 1032
#define NVME_EXTENDED_ENTRY_TRTYPE_OFFSET 0
#define NVME_EXTENDED_ENTRY_TRTYPE_SIZE 1
#define NVME_EXTENDED_ENTRY_ADRFAM_OFFSET 1
#define NVME_EXTENDED_ENTRY_ADRFAM_SIZE 1
#define NVME_EXTENDED_ENTRY_SUBTYPE_OFFSET 2
#define NVME_EXTENDED_ENTRY_SUBTYPE_SIZE 1
#define NVME_EXTENDED_ENTRY_TREQ_OFFSET 3
#define NVME_EXTENDED_ENTRY_TREQ_SIZE 1
#define NVME_EXTENDED_ENTRY_PORTID_OFFSET 4
#define NVME_EXTENDED_ENTRY_PORTID_SIZE 2
#define NVME_EXTENDED_ENTRY_CNTLID_OFFSET 6
#define NVME_EXTENDED_ENTRY_CNTLID_SIZE 2
#define NVME_EXTENDED_ENTRY_ASQSZ_OFFSET 8
#define NVME_EXTENDED_ENTRY_ASQSZ_SIZE 2
#define NVME_EXTENDED_ENTRY_TRSVCID_OFFSET 32
#define NVME_EXTENDED_ENTRY_TRSVCID_SIZE 32
#define NVME_EXTENDED_ENTRY_NQN_OFFSET 256
#define NVME_EXTENDED_ENTRY_NQN_SIZE 256
#define NVME_EXTENDED_ENTRY_TRADDR_OFFSET 512
#define NVME_EXTENDED_ENTRY_TRADDR_SIZE 256
#define NVME_EXTENDED_ENTRY_TSAS_OFFSET 768
#define NVME_EXTENDED_ENTRY_TSAS_SIZE 256
#define NVME_EXTENDED_ENTRY_TEL_OFFSET 1024
#define NVME_EXTENDED_ENTRY_TEL_SIZE 4
#define NVME_EXTENDED_ENTRY_NUMEXAT_OFFSET 1028
#define NVME_EXTENDED_ENTRY_NUMEXAT_SIZE 2

/* Host Extended Discovery Log Page Entry: fixed part, in bytes. */
#define NVME_HOST_ENTRY_SIZE 1032
#define NVME_HOST_ENTRY_TRTYPE_OFFSET 0
#define NVME_HOST_ENTRY_TRTYPE_SIZE 1
#define NVME_HOST_ENTRY_ADRFAM_OFFSET 1
#define NVME_HOST_ENTRY_ADRFAM_SIZE 1
#define NVME_HOST_ENTRY_EFLAGS_OFFSET 10
#define NVME_HOST_ENTRY_EFLAGS_SIZE 2
#define NVME_HOST_ENTRY_HOSTNQN_OFFSET 256
#define NVME_HOST_ENTRY_HOSTNQN_SIZE 256
#define NVME_HOST_ENTRY_TRADDR_OFFSET 512
#define NVME_HOST_ENTRY_TRADDR_SIZE 256
#define NVME_HOST_ENTRY_TSAS_OFFSET 768
#define NVME_HOST_ENTRY_TSAS_SIZE 256
#define NVME_HOST_ENTRY_TEL_OFFSET 1024
#define NVME_HOST_ENTRY_TEL_SIZE 4
#define NVME_HOST_ENTRY_NUMEXAT_OFFSET 1028
#define NVME_HOST_ENTRY_NUMEXAT_SIZE 2

/* Data of the Discovery Information Management command: header, in bytes. */
#define NVME_DIM_SIZE 1024
#define NVME_DIM_TDL_OFFSET 0
#define NVME_DIM_TDL_SIZE 4
#define NVME_DIM_NUMENT_OFFSET 8
#define NVME_DIM_NUMENT_SIZE 8
#define NVME_DIM_ENTFMT_OFFSET 16
#define NVME_DIM_ENTFMT_SIZE 2
#define NVME_DIM_ETYPE_OFFSET 18
#define NVME_DIM_ETYPE_SIZE 2
#define NVME_DIM_PORTLCL_OFFSET 20
#define NVME_DIM_PORTLCL_SIZE 1
#define NVME_DIM_EKTYPE_OFFSET 22
#define NVME_DIM_EKTYPE_SIZE 2
#define NVME_DIM_EID_OFFSET 24
#define NVME_DIM_EID_SIZE 256
#define NVME_DIM_ENAME_OFFSET 280
#define NVME_DIM_ENAME_SIZE 256
#define NVME_DIM_EVER_OFFSET 536
#define NVME_DIM_EVER_SIZE 64

/* Values of SECTYPE. */
/* No TLS. */
#define NVME_TCP_SECTYPE_NONE 0
/* TLS 1.2. Obsolete. */
#define NVME_TCP_SECTYPE_TLS12 1
/* TLS 1.3. */
#define NVME_TCP_SECTYPE_TLS13 2
/* X(number, text) for each: Values of SECTYPE. */
#define NVME_TCP_SECTYPE_LIST(X) \
	X(NVME_TCP_SECTYPE_NONE, "NONE") \
	X(NVME_TCP_SECTYPE_TLS12, "TLS12") \
	X(NVME_TCP_SECTYPE_TLS13, "TLS13")

/* Values of TCPV. */
/* TCP (RFC 9293). What an entry of an earlier revision says. */
#define NVME_TCP_TCPV_TCP 0
/* Multipath TCP, protocol version 1 (RFC 8684). */
#define NVME_TCP_TCPV_MPTCP 1
/* X(number, text) for each: Values of TCPV. */
#define NVME_TCP_TCPV_LIST(X) \
	X(NVME_TCP_TCPV_TCP, "TCP") \
	X(NVME_TCP_TCPV_MPTCP, "MPTCP")

/* Bits of MPATTR. */
/*
 * Additional Addresses. Subflows to further addresses are accepted; the controller announces
 * those addresses with ADD_ADDR.
 */
#define NVME_TCP_MPATTR_ADDA 0x1
/* DSS Checksums Required. The controller negotiates DSS checksums in each MPTCP connection. */
#define NVME_TCP_MPATTR_DCSR 0x2
/* Multipath TCP Required. A connection that has fallen back to TCP before any data is refused. */
#define NVME_TCP_MPATTR_MPREQ 0x4
#define NVME_TCP_MPATTR_RESERVED 0xf8
/* X(number, text) for each: Bits of MPATTR. */
#define NVME_TCP_MPATTR_LIST(X) \
	X(NVME_TCP_MPATTR_ADDA, "Additional Addresses") \
	X(NVME_TCP_MPATTR_DCSR, "DSS Checksums Required") \
	X(NVME_TCP_MPATTR_MPREQ, "Multipath TCP Required")

/* TSAS as it is on the wire; numbers of several bytes are little-endian. */
struct nvme_tcp_tsas {
	/* Security Type */
	uint8_t sectype;
	/* TCP Variant */
	uint8_t tcpv;
	/* Multipath Attributes; valid if TCPV is 1 */
	uint8_t mpattr;
	/* Maximum Subflows; valid if TCPV is 1 */
	uint8_t maxsf;
	/* Subflow Group Identifier; valid if TCPV is 1 */
	uint8_t sfgid[2];
	uint8_t reserved6[250];
};

#ifndef __cplusplus
_Static_assert(offsetof(struct nvme_tcp_tsas, sectype) == 0, "sectype");
_Static_assert(offsetof(struct nvme_tcp_tsas, tcpv) == 1, "tcpv");
_Static_assert(offsetof(struct nvme_tcp_tsas, mpattr) == 2, "mpattr");
_Static_assert(offsetof(struct nvme_tcp_tsas, maxsf) == 3, "maxsf");
_Static_assert(offsetof(struct nvme_tcp_tsas, sfgid) == 4, "sfgid");
_Static_assert(offsetof(struct nvme_tcp_tsas, reserved6) == 6, "reserved6");
_Static_assert(sizeof(struct nvme_tcp_tsas) == 256, "size");
#endif

#endif
