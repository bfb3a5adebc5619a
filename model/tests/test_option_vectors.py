# SPDX-License-Identifier: GPL-2.0-or-later
"""The golden vectors that the model's C++ tests compile."""

from nvmptcp_model import option_vectors


def test_vectors_are_those_of_the_scapy_layers() -> None:
    assert option_vectors.HEADER.read_text() == option_vectors.text(), (
        "renew it: python -m nvmptcp_model.option_vectors")
