# SPDX-License-Identifier: GPL-2.0-or-later
"""Values, bits and byte ranges of the TCP variant and the structures around it.

Generated from spec/registry.toml by `nvmptcp-spec generate`: don't edit.
A byte range is (first byte, number of bytes); numbers are little-endian.
"""

from enum import IntEnum, IntFlag


class Sectype(IntEnum):
    """Values of SECTYPE."""

    # No TLS.
    NONE = 0
    # TLS 1.2. Obsolete.
    TLS12 = 1
    # TLS 1.3.
    TLS13 = 2


class Tcpv(IntEnum):
    """Values of TCPV."""

    # TCP (RFC 9293). What an entry of an earlier revision says.
    TCP = 0
    # Multipath TCP, protocol version 1 (RFC 8684).
    MPTCP = 1


class Mpattr(IntFlag):
    """Bits of MPATTR."""

    # Additional Addresses. Subflows to further addresses are accepted; the controller announces
    # those addresses with ADD_ADDR.
    ADDA = 0x1
    # DSS Checksums Required. The controller negotiates DSS checksums in each MPTCP connection.
    DCSR = 0x2
    # Multipath TCP Required. A connection that has fallen back to TCP before any data is refused.
    MPREQ = 0x4


# The words of Linux (configfs, connect options): Values of SECTYPE.
SECTYPE_KEYWORDS: dict[str, Sectype] = {
    "none": Sectype.NONE,
    "tls1.3": Sectype.TLS13,
}


# The words of Linux (configfs, connect options): Values of TCPV.
TCPV_KEYWORDS: dict[str, Tcpv] = {
    "tcp": Tcpv.TCP,
    "mptcp": Tcpv.MPTCP,
}


# The words of Linux (configfs, connect options): Bits of MPATTR.
MPATTR_KEYWORDS: dict[str, Mpattr] = {
    "adda": Mpattr.ADDA,
    "dcsr": Mpattr.DCSR,
    "mpreq": Mpattr.MPREQ,
}

# Transport Specific Address Subtype (TSAS), transport type TCP, in bytes.
TSAS_SIZE = 256
TSAS: dict[str, tuple[int, int]] = {
    "SECTYPE": (0, 1),
    "TCPV": (1, 1),
    "MPATTR": (2, 1),
    "MAXSF": (3, 1),
    "SFGID": (4, 2),
}

# Discovery log page: header, in bytes.
DISCOVERY_HEADER_SIZE = 1024
DISCOVERY_HEADER: dict[str, tuple[int, int]] = {
    "GENCTR": (0, 8),
    "NUMREC": (8, 8),
    "RECFMT": (16, 2),
}

# Discovery Log Page Entry, in bytes.
DISCOVERY_ENTRY_SIZE = 1024
DISCOVERY_ENTRY: dict[str, tuple[int, int]] = {
    "TRTYPE": (0, 1),
    "ADRFAM": (1, 1),
    "SUBTYPE": (2, 1),
    "TREQ": (3, 1),
    "PORTID": (4, 2),
    "CNTLID": (6, 2),
    "ASQSZ": (8, 2),
    "EFLAGS": (10, 2),
    "TRSVCID": (32, 32),
    "SUBNQN": (256, 256),
    "TRADDR": (512, 256),
    "TSAS": (768, 256),
}

# Extended Discovery Information Entry: fixed part, in bytes.
EXTENDED_ENTRY_SIZE = 1032
EXTENDED_ENTRY: dict[str, tuple[int, int]] = {
    "TRTYPE": (0, 1),
    "ADRFAM": (1, 1),
    "SUBTYPE": (2, 1),
    "TREQ": (3, 1),
    "PORTID": (4, 2),
    "CNTLID": (6, 2),
    "ASQSZ": (8, 2),
    "TRSVCID": (32, 32),
    "NQN": (256, 256),
    "TRADDR": (512, 256),
    "TSAS": (768, 256),
    "TEL": (1024, 4),
    "NUMEXAT": (1028, 2),
}

# Host Extended Discovery Log Page Entry: fixed part, in bytes.
HOST_ENTRY_SIZE = 1032
HOST_ENTRY: dict[str, tuple[int, int]] = {
    "TRTYPE": (0, 1),
    "ADRFAM": (1, 1),
    "EFLAGS": (10, 2),
    "HOSTNQN": (256, 256),
    "TRADDR": (512, 256),
    "TSAS": (768, 256),
    "TEL": (1024, 4),
    "NUMEXAT": (1028, 2),
}

# Data of the Discovery Information Management command: header, in bytes.
DIM_SIZE = 1024
DIM: dict[str, tuple[int, int]] = {
    "TDL": (0, 4),
    "NUMENT": (8, 8),
    "ENTFMT": (16, 2),
    "ETYPE": (18, 2),
    "PORTLCL": (20, 1),
    "EKTYPE": (22, 2),
    "EID": (24, 256),
    "ENAME": (280, 256),
    "EVER": (536, 64),
}
