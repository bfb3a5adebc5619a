# SPDX-License-Identifier: GPL-2.0-or-later
"""NVMe/TCP in TLS 1.3 over the kernel's MPTCP sockets, by Python's ssl, in the guest."""

import contextlib
import socket
import ssl
import time
from pathlib import Path

from nvmptcp_conformance.endpoints.host import Host
from nvmptcp_conformance.endpoints.mptcp_socket import open_socket
from nvmptcp_conformance.layers import nvme
from nvmptcp_lab.guest.fabrics import HOST_NQN
from nvmptcp_lab.guest.netns import inside
from nvmptcp_lab.guest.nvmet import NQN
from requirements.guest.situation import SETTLE, command

NAME = "target.example.org"
BLOCK = 512  # bytes
TRANSFERS = (1, 17, 33, 65)  # blocks: in one TLS record, and in several


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate of the target, signed by itself, and its key."""
    certificate, key = directory / "target.crt", directory / "target.key"
    command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "1", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}",
            "-keyout", str(key), "-out", str(certificate))
    return certificate, key


def server(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    return context


def client(certificate: Path, key_log: Path) -> ssl.SSLContext:
    """A host's context; its secrets go to `key_log`, in the format of SSLKEYLOGFILE."""
    context = ssl.create_default_context(cafile=str(certificate))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(key_log)
    return context


def traffic(target: tuple[str, int], context: ssl.SSLContext, stack: contextlib.ExitStack) -> None:
    """An Admin Queue and an I/O Queue, Write and Read commands. The queues stay open until
    `stack` is closed.
    """
    admin = stack.enter_context(Host(_connected(target, context)))
    admin.initialize()
    cntlid = admin.connect(NQN, HOST_NQN)
    admin.enable()
    admin.wait_ready()
    admin.identify_controller()
    admin.allow_io_queues()
    queue = stack.enter_context(Host(_connected(target, context)))
    queue.initialize()
    queue.connect(NQN, HOST_NQN, qid=1, cntlid=cntlid)
    for blocks in TRANSFERS:
        in_capsule = nvme.Write(nsid=1, slba=blocks, nlb=0)
        in_capsule.sgl1 = nvme.SGLDescriptor(length=BLOCK, type=0, subtype=1)
        data = bytes(index % 251 for index in range(BLOCK))
        queue.command(in_capsule, data)
        queue.read(nvme.Read(nsid=1, slba=blocks, nlb=blocks - 1), blocks * BLOCK)


def _connected(target: tuple[str, int], context: ssl.SSLContext) -> socket.socket:
    with inside("host"):
        connection = open_socket(*target, timeout=30)
    protected = context.wrap_socket(connection, server_hostname=NAME)
    time.sleep(SETTLE)  # until the subflows have joined
    return protected
