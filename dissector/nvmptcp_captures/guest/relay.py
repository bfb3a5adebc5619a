# SPDX-License-Identifier: GPL-2.0-or-later
"""A target in user space, in the guest: MPTCP in front, the kernel's target behind it.

It does what the kernel's target can't: TLS over MPTCP (with a certificate; the kernel's TLS has a
pre-shared key, and no MPTCP), and C2HTermReq.
"""

import contextlib
import socket
import ssl
import threading

from nvmptcp_conformance.endpoints.mptcp_socket import IPPROTO_MPTCP
from nvmptcp_conformance.layers import nvme_tcp
from nvmptcp_lab.guest.netns import inside
from scapy.compat import raw

Address = tuple[str, int]
CHUNK = 65536  # bytes


class Relay:
    """Passes the bytes of each connection on, until the end of either side.

    tls: the server's side of TLS, on the connections in front. terminate_after: the number of PDUs
    of the target after which a connection gets C2HTermReq instead of the next one.
    """

    def __init__(self, front: Address, back: Address, *, tls: ssl.SSLContext | None = None,
                 terminate_after: int | None = None) -> None:
        """Listen on the port of `front`, at all addresses of the target."""
        self._back, self._tls, self._terminate_after = back, tls, terminate_after
        with inside("target"):
            self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
            self._listener.bind(("", front[1]))
            self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, front: socket.socket) -> None:
        front.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            front = self._tls.wrap_socket(front, server_side=True)
        with inside("target"):
            back = socket.create_connection(self._back)
        pump = threading.Thread(target=_pump, args=(front, back), daemon=True)
        pump.start()
        if self._terminate_after is None:
            _pump(back, front)
        else:
            self._pump_pdus(back, front, self._terminate_after)
        for end in (front, back):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _pump_pdus(back: socket.socket, front: socket.socket, left: int) -> None:
        stream = b""
        with contextlib.suppress(OSError):
            while received := back.recv(CHUNK):
                pdus, stream = nvme_tcp.split_pdus(stream + received)
                for pdu in pdus:
                    if left == 0:
                        front.sendall(raw(nvme_tcp.C2HTermReq(
                            fes="Invalid PDU header field", pdu_header=raw(pdu)[:24])))
                        return
                    left -= 1
                    front.sendall(raw(pdu))


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while received := source.recv(CHUNK):
            sink.sendall(received)
