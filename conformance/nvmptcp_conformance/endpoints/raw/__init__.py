# SPDX-License-Identifier: GPL-2.0-or-later
"""TCP and Multipath TCP version 1 in user space, on raw packets: for everything that a socket of
the kernel can't do. Initiator and listener, IPv4 and IPv6; needs CAP_NET_RAW.

A connection is used like a socket (`sendall`, `recv`, `settimeout`, `shutdown`, `close`, `fileno`
for select and asyncio's `sock_…` methods, …), so that `endpoints.host.Host` runs on it::

    with raw.connect("192.0.2.1", 4420, timeout=5) as connection:
        assert connection.mptcp
        host = Host(connection)
        host.initialize()
        second = connection.join(local="198.51.100.7")      # a further subflow
        connection.send_mapping(b"...", subflow=second, checksum=0x1234)
        connection.expect("MP_FAIL", lambda s: s.find(mptcp.MPFail), within=1)
        connection.fastclose()

    class NoHmac(raw.Behaviour):                            # a listener with a fault
        def join_hmac_fits(self, expected, received):
            return True

    with raw.listen("192.0.2.2", 4420, behaviour=NoHmac(), joins_at=["198.51.100.2"]) as listener:
        connection, address = listener.accept()

What is done without being told (handshakes, ACKs, DATA_ACKs, retransmission, reassembly, fallback)
follows RFC 8684; `Behaviour` says what may be decided otherwise, and sees each segment on its way
out and in. What is done when told may be as wrong as one likes: `Subflow.send`,
`Connection.send_mapping`, `Connection.join`, `Connection.announce` and the others that send.

A thread of each `Stack` does the work; it, and the sockets it makes, belong to the network
namespace of the thread that made the stack. Sequence numbers: a *position* counts from the ISN or
IDSN, which is position 0, so the first byte is at position 1 and `ssn` is a position; `dsn` is what
is on the wire.
"""

from .behaviour import Behaviour
from .connection import Announcement, Connection
from .expect import Unexpected
from .packets import RawUnavailable, Segment
from .stack import Listener, Stack, connect, listen
from .subflow import State, Subflow

__all__ = ["Announcement", "Behaviour", "Connection", "Listener", "RawUnavailable", "Segment",
           "Stack", "State", "Subflow", "Unexpected", "connect", "listen"]
