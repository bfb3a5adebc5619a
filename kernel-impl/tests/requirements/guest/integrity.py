# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Integrity and TLS."""

import contextlib
import random
import socket
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvmptcp_conformance.endpoints.mptcp_socket import IPPROTO_MPTCP
from nvmptcp_conformance.layers import mptcp, nvme, nvme_tcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER, Connection
from nvmptcp_lab.guest import fabrics, nvmet
from nvmptcp_lab.guest.netns import inside
from scapy.compat import raw
from scapy.layers.inet import TCP
from scapy.packet import Packet

from .middlebox import corruption
from .ports import change
from .situation import (
    SETTLE,
    TARGET,
    connect,
    counters,
    kernel_log,
    main,
    on,
    subflow_ends,
    target,
    transfer,
    wait_until,
)
from .wire import Joiner, Observer, Tap

DIGESTS = ("", "hdr_digest", "data_digest", "hdr_digest,data_digest")
DCSR = nvmet.Port(2, TARGET, trsvcid=4421, variant="mptcp", attributes="dcsr")
DATA, OFFSET = "meta length > 1000", 300  # see guest/fallback.py
# A segment with the header of a PDU and its digest alone, after 80 bytes of IP and TCP headers.
HEADER, HEADER_BYTE = "meta length 108", 80 + 16
HOST_FOUND = r"nvme\d: .*header digest error"


def digests() -> None:
    """Each combination of digests with a port that requires DSS checksums and one that doesn't."""
    ports = (nvmet.Port(1, TARGET, variant="mptcp"), DCSR)
    target(*ports)
    for port in ports:
        for options in DIGESTS:
            controller = fabrics.connect(port.traddr, trsvcid=port.trsvcid, variant="mptcp",
                                         options=options)
            fabrics.block_device()
            assert transfer()
            controller.disconnect()


class Speaker(Joiner):
    """A stranger with an MPTCP connection of its own, or a subflow of another's."""

    def __init__(self, tap: Tap, destination: str, dport: int) -> None:
        super().__init__(tap, "10.0.1.99", destination, dport)
        self._key, self._peer_key = random.randrange(1, 1 << 64), 0
        self.dsn = (mptcp.idsn(self._key) + 1) % (1 << 64)

    def handshake(self) -> None:
        """Open a connection; the flag A is set, as a host does that is asked for checksums."""
        assert self.syn(mptcp.MPCapableSYN()) == "syn/ack"
        answer = self.answer and mptcp.find_option(self.answer, mptcp.MPCapableSYNACK)
        assert answer
        assert answer.flags.A, "no DSS checksums"
        self._peer_key = answer.sender_key

    def third(self) -> None:
        self.send("A", [("MPTCP", mptcp.MPCapableACK(
            flags="AH", sender_key=self._key, receiver_key=self._peer_key))])

    def capable_data(self, payload: bytes) -> None:
        """The first data, with MP_CAPABLE and without a checksum."""
        self.send("PA", [("MPTCP", mptcp.MPCapableData(
            flags="AH", sender_key=self._key, receiver_key=self._peer_key,
            data_len=len(payload)))], payload)

    def mapping(self, payload: bytes, *, checksum: bool) -> None:
        """Data at the next DSN, with a right checksum or none."""
        ssn = (self._next - self.isn) % (1 << 32)
        fields: dict[str, Any] = {"flags": "Mm", "dsn": self.dsn, "ssn": ssn,
                                  "data_len": len(payload)}
        option = mptcp.DSS(**fields) if not checksum else mptcp.DSSChecksum(
            **fields, checksum=mptcp.dss_checksum(self.dsn, ssn, len(payload), payload))
        self.send("PA", [("MPTCP", option)], payload)
        self.dsn = (self.dsn + len(payload)) % (1 << 64)

    def result(self) -> str:
        """What comes back: "data" or what `_reset()` tells."""
        answers = self.receive()
        return "data" if any(raw(tcp.payload) for tcp in answers) else _reset(answers)


def _reset(answers: Iterable[Packet]) -> str:
    """Tell "reset" with the reason of MP_TCPRST (RFC 8684 §3.6), "reset" without, or "nothing"."""
    for tcp in answers:
        if tcp.flags.R:
            option = mptcp.find_option(tcp, mptcp.MPTCPReset)
            return f"reset: {mptcp.RESET_REASONS[option.reason]}" if option else "reset"
    return "nothing"


def unchecked() -> dict[str, Any]:
    """Mappings without checksum on connections to a port with DCSR, at several places; the control
    has one. The last one comes to the kernel's host, as if from the target.
    """
    target(DCSR)
    tap = Tap("host", 1)
    icreq = raw(nvme_tcp.ICReq())
    result: dict[str, Any] = {}

    def opened() -> Speaker:
        speaker = Speaker(tap, TARGET, DCSR.trsvcid)
        speaker.handshake()
        return speaker

    speaker = opened()
    speaker.third()
    speaker.mapping(icreq, checksum=True)
    result["control"] = speaker.result()
    speaker.reset()

    speaker = opened()
    speaker.capable_data(icreq)
    result["with MP_CAPABLE"] = speaker.result()
    speaker.reset()

    speaker = opened()
    speaker.third()
    speaker.mapping(icreq, checksum=False)
    result["first DSS"] = speaker.result()
    speaker.reset()

    speaker = opened()
    speaker.third()
    speaker.mapping(icreq, checksum=True)
    assert speaker.result() == "data"
    speaker.mapping(icreq[:8], checksum=False)
    result["later DSS"] = speaker.result()
    speaker.reset()

    observer = Observer(tap)
    controller = fabrics.connect(TARGET, trsvcid=DCSR.trsvcid, variant="mptcp")
    fabrics.block_device()
    connection = observer.update()[-1]
    speaker = Speaker(tap, TARGET, DCSR.trsvcid)
    assert speaker.join(connection.token(LISTENER)) == "syn/ack"
    assert speaker.complete(connection) == "joined"
    observer.update()
    speaker.dsn = _next_dsn(connection)
    speaker.mapping(bytes(8), checksum=False)
    result["joined subflow"] = speaker.result()
    result["connection after it"] = "works" if transfer() else "lost"
    result["queues"] = controller.queues()

    observer.update()
    watch = Tap("host", 1)
    result["to the host"] = _unchecked_to_the_host(observer, connection, watch)
    return result


def _unchecked_to_the_host(observer: Observer, connection: Connection, watch: Tap) -> str:
    subflow = connection.subflows[0]
    host, target = subflow.ends
    segment = observer.forge(subflow, LISTENER, None, "PA")
    segment[TCP].options = [("MPTCP", mptcp.DSS(
        flags="Mm", dsn=_next_dsn(connection, LISTENER), data_len=8,
        ssn=(segment[TCP].seq - subflow.isn[LISTENER]) % (1 << 32)))]
    Tap("target", 1).send([segment / bytes(8)])
    time.sleep(SETTLE)
    return _reset(seen[TCP] for seen in watch.seen() if (seen.src, seen[TCP].sport) == host
                  and (seen.dst, seen[TCP].dport) == target)


def _next_dsn(connection: Connection, sender: int = INITIATOR) -> int:
    sent = len(connection.stream(sender))
    return (connection.first_dsn(sender) + sent) % (1 << 64)


def checksum_failure() -> dict[str, Any]:
    """DSS checksums in use, two paths; a box on the second one changes data, either way."""
    target(attributes="adda,dcsr")
    result: dict[str, Any] = {}
    for name, netns in (("to target", "host"), ("to host", "target")):
        controller = connect()
        before = controller.queues()
        errors = counters("host")["DataCsumErr"] + counters("target")["DataCsumErr"]
        with corruption(netns, 2, where=DATA, offset=OFFSET):
            wholes = [transfer(1 << 20, number << 20) for number in range(4)]
        errors = counters("host")["DataCsumErr"] + counters("target")["DataCsumErr"] - errors
        result[name] = {"before": before, "after": controller.queues(), "wholes": wholes,
                        "errors": errors, "state": controller.attribute("state")}
        controller.disconnect()
    return {**result, "log": kernel_log("error recovery|I/O error|timeout")}


def header_digest() -> dict[str, Any]:
    """Two paths. A header digest is wrong: in a PDU of our own to the target; then in one to the
    kernel's host, changed by a box on the first path.
    """
    target()
    with inside("host"), socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP) as host:
        host.connect((TARGET, 4420))
        host.sendall(raw(nvme_tcp.ICReq(dgst="HDGST_ENABLE")))
        assert len(host.recv(128, socket.MSG_WAITALL)) == 128
        time.sleep(SETTLE)
        result: dict[str, Any] = {"subflows": subflow_ends("target")}
        wrong = bytearray(raw(nvme_tcp.CapsuleCmd(flags="HDGSTF", ccsqe=nvme.Connect())))
        wrong[-1] ^= 1
        host.sendall(wrong)
        host.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            result["answer"] = host.recv(1024).hex()
        result["gone"] = wait_until(lambda: not subflow_ends("target"), 1)  # ours is still open

    controller = connect("hdr_digest")
    before = subflow_ends("host")
    with ThreadPoolExecutor() as pool:
        with corruption("target", 1, where=HEADER, offset=HEADER_BYTE):
            whole = pool.submit(transfer, 4096)
            wait_until(lambda: kernel_log(HOST_FOUND), 10)
        whole.result()
    time.sleep(SETTLE)
    wait_until(lambda: controller.attribute("state") == "live", 60)
    time.sleep(SETTLE)
    after = subflow_ends("host")
    return {**result, "kept": sorted(set(before) & set(after)), "before": len(before),
            "after": len(after), "log": kernel_log(HOST_FOUND),
            "whole": transfer()}


def tls() -> dict[str, Any]:
    """TLS with the MPTCP variant, asked of a port in either order and of the host; each with the
    control of TLS without it. No attempt gets as far as to need keys.
    """
    ports = [nvmet.Port(number, f"10.0.{number}.2") for number in (1, 2)]
    last = nvmet.Port(3, TARGET, trsvcid=4421)
    target(*ports, last)
    opened: dict[str, int | str | None] = {}
    for name, port, attributes in (
            ("TLS, then MPTCP", ports[0], (("tsas", "tls1.3"), ("tcp_variant", "mptcp"))),
            ("MPTCP, then TLS", ports[1], (("tcp_variant", "mptcp"), ("tsas", "tls1.3"))),
            ("TLS", last, (("tsas", "tls1.3"),))):
        try:
            change(port, *attributes)
            opened[name] = "opened"
        except OSError as error:
            opened[name] = error.errno
    opens = _active_opens()
    connected: dict[str, int | str | None] = {}
    for variant in ("mptcp", "tcp"):
        try:
            fabrics.connect(TARGET, trsvcid=last.trsvcid, variant=variant, options="tls")
            connected[variant] = "connected"
        except OSError as error:
            connected[variant] = error.errno
    return {"opened": opened, "connected": connected, "SYNs": _active_opens() - opens,
            "log": kernel_log("TLS is not supported")}


def _active_opens() -> int:
    """TCP connections that the host has begun to open."""
    return int(on("host", "nstat", "-azs", "TcpActiveOpens").split()[-2])


SITUATIONS = (digests, unchecked, checksum_failure, header_digest, tls)

if __name__ == "__main__":
    main(SITUATIONS)
