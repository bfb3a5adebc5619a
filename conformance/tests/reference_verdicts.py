# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of a target find at the ports of the reference kernel, and why it isn't "pass".

A test is named with its parameters, or without them for all of them. What isn't named has to pass.
"""

CONCEPTUAL = {
    "Linux takes a mapping only with its first data: it resets the subflow (RFC 8684, section"
    " 3.3.1, would let mappings come earlier or later)": {"mapping_apart_from_its_data"},
    "Linux takes data without a mapping, on the only subflow there ever was, for a fallback (RFC"
    " 8684, section 3.7, would have it reset the subflow)": {"options_get_lost_after_data"},
    "nvmet closes its sockets without lingering: MP_FASTCLOSE comes before the DATA_ACK": {
        "orderly_close"},
    "nvmet takes a wrong data digest for a fatal transport error": {"data_digest_error"},
}

_EVERYWHERE = {
    "nvmet sends no C2HTermReq": {"termination_request_has_time_to_arrive"},
    "nvmet has no TLS on MPTCP sockets, and reports none": {"tls_where_it_is_reported"},
    "nvmet's log has one entry with the SFGID of the port, and none with TCPV 0h": {
        "members_of_a_group_are_alike", "each_member_of_a_group_accepts_joins", "dependent_fields",
        "group_accepts_joins"},
    "nvmet's log has the port's own entry only: no address is known that joins must not lead to": {
        "join_elsewhere_is_refused[address]"},
}
_NO_DCSR = {"MPATTR has DCSR cleared": {"dcsr_sets_the_flag", "dcsr_whatever_the_host_says"}}
_NO_MPREQ = {"MPATTR has MPREQ cleared": {
    "tcp_is_refused", "decision_is_taken_once", "early_refusal", "fallen_back_is_refused",
    "fallback_after_data_is_not_refused"}}
_ADDA = {"MPATTR has ADDA set": {"no_announcements_without_adda"}}

NOT_APPLICABLE = {
    "adda": _EVERYWHERE | _NO_DCSR | _NO_MPREQ | _ADDA,
    "strict": _EVERYWHERE | _ADDA | {"MPATTR has MPREQ set": {
        "tcp_is_accepted", "other_connections_stay", "options_get_lost", "other_mp_capable",
        "log_is_the_same_over_either_variant", "pdu_format_version", "icresp_is_the_same",
        "unknown_pdu_format_version[TCP]"}},
    "no adda": _EVERYWHERE | {
        "MPATTR has ADDA cleared": {
            "announced_addresses_accept_joins", "joins_lead_to_the_same_controller",
            "each_announced_address_accepts_a_join", "announced_address_is_for_joins_only",
            "unknown_token[at an announced address]"},
        "MAXSF is 0": {"maxsf_is_granted"},
        "without announcements no other address of the host is known": {
            "controller_does_not_join[address]"}},
}

# Tests that need no port with TCPV 1h; at a port without, the others are not applicable.
WITHOUT_TCPV = {"reserved", "entries_of_a_port_agree", "one_entry_for_a_port", "record_format",
                "dependent_fields", "log_in_pieces", "log_is_the_same_over_either_variant"}


def named(test: str, names: set[str]) -> bool:
    """Whether a test is among these, with its parameters or without."""
    return test in names or test.split("[")[0] in names


def expected(port: str, test: str) -> str:
    """The verdict that is due to a test at a port with TCPV 1h."""
    if any(named(test, names) for names in NOT_APPLICABLE[port].values()):
        return "not applicable"
    return "conceptual pass" if any(named(test, names) for names in CONCEPTUAL.values()) else "pass"
