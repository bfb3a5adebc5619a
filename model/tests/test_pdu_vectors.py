# SPDX-License-Identifier: GPL-2.0-or-later
"""The golden vectors of PDUs are those that the Scapy layers make today."""

from nvmptcp_model import pdu_vectors


def test_the_header_is_fresh() -> None:
    assert pdu_vectors.HEADER.read_text() == pdu_vectors.text(), (
        "renew it: python -m nvmptcp_model.pdu_vectors")
