# SPDX-License-Identifier: GPL-2.0-or-later
"""A small NVMe/TCP host in user space, on an MPTCP socket of the kernel: an Admin Queue on which
the situation decides what is sent, and when and how it is closed.
"""

import socket
import struct

from nvmptcp_conformance.layers import nvme, nvme_tcp
from nvmptcp_lab.guest.fabrics import HOST_NQN
from nvmptcp_lab.guest.netns import inside
from nvmptcp_lab.guest.nvmet import NQN
from scapy.compat import raw

from .situation import TARGET

IPPROTO_MPTCP = 262
KEEP_ALIVE = 0x18


class UserHost:
    """An association with an Admin Queue alone. Raises OSError where the connection is lost."""

    def __init__(self, kato: int) -> None:
        """Connect with a Keep Alive Timeout of `kato` milliseconds."""
        with inside("host"):
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
        self._socket.connect((TARGET, 4420))
        self._cid = 0
        self.send(raw(nvme_tcp.ICReq()))
        self._pdu()
        data = nvme.ConnectData(hostid=bytes(range(16)), subnqn=NQN.encode(),
                                hostnqn=HOST_NQN.encode())
        connect = nvme.Connect(kato=kato)
        connect.sgl1 = nvme.SGLDescriptor(length=nvme.CONNECT_DATA_SIZE, type=0, subtype=1)
        self._complete(nvme_tcp.CapsuleCmd(ccsqe=connect, data=raw(data)))
        enable = nvme.PropertySet(ofst=0x14, value=0x460001)  # CC: EN, IOSQES 6, IOCQES 4
        self._complete(nvme_tcp.CapsuleCmd(ccsqe=enable))

    def keep_alive(self) -> None:
        """Send a Keep Alive command and wait for its completion."""
        self._complete(nvme_tcp.CapsuleCmd(ccsqe=nvme.Command(opcode=KEEP_ALIVE)))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end_stream(self) -> None:
        """Have the kernel send DATA_FIN, and nothing else."""
        self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Have the kernel send MP_FASTCLOSE."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def wait_for_end(self, seconds: float) -> str:
        """What the controller does within some time: "ends" or "aborts" the connection, "nothing";
        PDUs that it sends are read and dropped.
        """
        self._socket.settimeout(seconds)
        try:
            while self._socket.recv(4096):
                pass
        except TimeoutError:
            return "nothing"
        except ConnectionError:
            return "aborts"
        return "ends"

    def _complete(self, capsule: nvme_tcp.CapsuleCmd) -> None:
        self._cid += 1
        capsule.ccsqe.cid = self._cid
        self.send(raw(capsule))
        response = self._pdu()
        assert isinstance(response, nvme_tcp.CapsuleResp), response.summary()
        assert response.rccqe.cid == self._cid, response.rccqe.cid

    def _pdu(self) -> nvme_tcp.NVMeTCP:
        stream = b""
        while True:
            pdus, _ = nvme_tcp.split_pdus(stream)
            if pdus:
                return pdus[0]
            received = self._socket.recv(4096)
            if not received:
                raise ConnectionError("the controller closed the connection")
            stream += received
