# SPDX-License-Identifier: GPL-2.0-or-later
"""The conformance suite's NVMe/TCP host in user space, as the situations use it: an association
with an Admin Queue alone, from the lab's host to its target.
"""

import socket

from nvmptcp_conformance.endpoints.host import Host
from nvmptcp_conformance.endpoints.mptcp_socket import IPPROTO_MPTCP
from nvmptcp_lab.guest.fabrics import HOST_NQN
from nvmptcp_lab.guest.netns import inside
from nvmptcp_lab.guest.nvmet import NQN

from .situation import TARGET


class UserHost(Host):
    """An association with an Admin Queue alone. Raises OSError where the connection is lost."""

    def __init__(self, kato: int) -> None:
        """Connect with a Keep Alive Timeout of `kato` milliseconds."""
        with inside("host"):
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
        connection.connect((TARGET, 4420))
        super().__init__(connection)
        self.initialize()
        self.connect(NQN, HOST_NQN, kato=kato)
        self.enable()
