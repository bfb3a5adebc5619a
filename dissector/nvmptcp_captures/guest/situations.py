# SPDX-License-Identifier: GPL-2.0-or-later
"""The traffic of the captures, in the guest: one function each.

`python -m nvmptcp_captures.guest.situations NAME DIRECTORY` runs one, and writes what the kernel
counted to DIRECTORY/expected.json.

The host's controllers stay connected to the end, so that their sockets can be asked.
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvmptcp_lab.guest import discovery, fabrics, fio, nvmet
from requirements.guest.middlebox import STRIP, SYN, THIRD_ACK, box, corruption
from requirements.guest.situation import (
    SETTLE,
    TARGET,
    block,
    command,
    connect,
    ip,
    target,
    unblock,
)

from . import tls
from .counts import Counts
from .relay import Relay

TARGET6 = "fd00:1::2"
BACK = ("10.0.1.2", 4999)  # the kernel's target behind a relay
# No Keep Alive within a capture, unless it waits for one.
CALM = "keep_alive_tmo=600"
# Byte 300 of an IP packet is data of a command, if the packet is long.
DATA, OFFSET = "meta length > 1000", 300


def _port(number: int = 1, traddr: str = TARGET, *, trsvcid: int = 4420,
          attributes: str = "adda") -> nvmet.Port:
    return nvmet.Port(number, traddr, trsvcid=trsvcid, variant="mptcp", attributes=attributes)


def _connect(options: str = "", traddr: str = TARGET) -> fabrics.Controller:
    return connect(",".join(filter(None, (CALM, options))), traddr)


def _io(counts: Counts, rw: str = "randrw", *, size: str = "2m", bs: str = "4k-64k",
        depth: int = 16, options: Sequence[str] = ()) -> None:
    """Some I/O by fio. What is written is 6 % random, so that captures pack well."""
    output = Path("/run/fio.json")
    counts.fio(fio.run(fabrics.block_device(), output, [
        "--name=io", "--ioengine=libaio", f"--rw={rw}", f"--bsrange={bs}", f"--iodepth={depth}",
        f"--io_size={size}", "--size=16m", "--randrepeat=1", "--buffer_compress_percentage=94",
        *options]))
    output.unlink()


def paths(counts: Counts) -> None:
    """Reads, writes, Write Zeroes."""
    target()
    _connect()
    _io(counts)
    command("blkdiscard", "-z", "-o", "0", "-l", "131072", str(fabrics.block_device()))


def keep_alive(counts: Counts) -> None:
    """Long idle times between small I/O."""
    target()
    connect("keep_alive_tmo=4")
    for _ in range(3):
        _io(counts, size="64k", bs="4k-4k", depth=1)
        time.sleep(5)


def impaired(counts: Counts) -> None:
    """Loss, duplicates and reordering by both ends of both paths."""
    target()
    for netns in ("host", "target"):
        for device in ("path1", "path2"):
            command("tc", "-n", netns, "qdisc", "replace", "dev", device, "root", "netem", "delay",
                    "2ms", "rate", "200mbit", "loss", "1%", "duplicate", "2%", "reorder", "95%",
                    "gap", "7")
    _connect()
    _io(counts)


def cut(counts: Counts) -> None:
    """A path is cut while I/O goes on, and mended: its link goes down; later it loses packets."""
    target()
    controller = _connect()
    with ThreadPoolExecutor() as pool:
        work = pool.submit(_io, counts, size="4m", options=["--rate_iops=15,15"])
        time.sleep(0.2)
        ip("target", "link", "set", "path2", "down")
        time.sleep(2)
        ip("target", "link", "set", "path2", "up")
        time.sleep(0.5)
        block("target", "i iifname path2 drop", "o oifname path2 drop")
        time.sleep(3)
        unblock("target")
        work.result()
    assert controller.attribute("state") == "live"


def joins(counts: Counts) -> None:
    """Addresses come, change their priority and go while I/O goes on."""
    target()
    _connect()
    with ThreadPoolExecutor() as pool:
        work = pool.submit(_io, counts, options=["--rate_iops=40,40"])
        for words in ("add 10.0.2.2 dev path2 id 2 signal", "add 10.0.3.2 dev path3 id 3 signal",
                      "change id 2 backup", "delete id 3"):
            time.sleep(0.1)
            ip("target", "mptcp", "endpoint", *words.split())
        work.result()


def checksum(counts: Counts) -> None:
    """DSS checksums."""
    target(attributes="adda,dcsr")
    _connect()
    _io(counts)


def checksum_failure(counts: Counts) -> None:
    """DSS checksums; a box changes data on the second of two subflows, either way."""
    target(attributes="adda,dcsr")
    controller = _connect()
    for netns in ("host", "target"):
        with corruption(netns, 2, where=DATA, offset=OFFSET):
            _io(counts, size="1m")
        counts.sample()
        ip("target", "mptcp", "endpoint", "delete", "id", "2")
        ip("target", "mptcp", "endpoint", "add", "10.0.2.2", "dev", "path2", "id", "2", "signal")
        time.sleep(SETTLE)
    assert controller.attribute("state") == "live"


def refused_joins(counts: Counts) -> None:
    """A firewall resets the joins to one announced address, and drops those to another."""
    target()
    block("target", "l ip daddr 10.0.2.2 tcp flags syn reject with tcp reset",
          "l ip daddr 10.0.3.2 tcp flags syn drop")
    _connect()
    _io(counts, size="128k")


def fallback_before(counts: Counts) -> None:
    """A box removes MPTCP from SYNs, from third packets, from the first data, from SYN/ACKs."""
    target()
    for netns, rule in (("target", f"{SYN} {STRIP}"), ("target", f"{THIRD_ACK} {STRIP}"),
                        ("target", f"tcp flags & syn != syn meta length > 100 {STRIP}"),
                        ("host", f"tcp flags & syn == syn {STRIP}")):
        with box(netns, rule):
            controller = _connect()
            _io(counts, size="128k")
            counts.sample()
        controller.disconnect()


def fallback_after(counts: Counts) -> None:
    """DSS checksums, one path; a box changes data: MP_FAIL, an infinite mapping, TCP."""
    target(attributes="dcsr")
    for netns in ("host", "target"):
        controller = _connect()
        _io(counts, size="128k")
        with corruption(netns, 1, where=DATA, offset=OFFSET):
            _io(counts, "rw", size="64k", bs="4k-4k", depth=1)
        _io(counts, size="128k")
        counts.sample()
        controller.disconnect()


def ipv6(counts: Counts) -> None:
    target(_port(traddr=TARGET6))
    _connect(traddr=TARGET6)
    _io(counts)


def hosts(counts: Counts) -> None:
    """Two hosts with two associations each, native multipath over them."""
    ports = [_port(1), _port(2, "10.0.2.2")]
    target(*ports)
    for number in (1, 2):
        identity = f"6e766d70-7463-4000-8000-00000000001{number}"
        for port in ports:
            _connect(f"duplicate_connect,hostid={identity},"
                     f"hostnqn=nqn.2014-08.org.nvmexpress:uuid:{identity}", port.traddr)
    for policy in ("round-robin", "queue-depth", "numa"):
        fabrics.set_iopolicy(policy)
        _io(counts, size="1m")


def digests(counts: Counts) -> None:
    """Header and data digests; a namespace is added, which the host hears of by an event."""
    subsystem = target()
    _connect("hdr_digest,data_digest")
    _io(counts)
    namespace = subsystem / "namespaces" / "2"
    namespace.mkdir()
    command("truncate", "-s", "1m", "/run/second")
    nvmet.write(namespace / "device_path", "/run/second")
    nvmet.write(namespace / "enable", 1)


def discover(counts: Counts) -> None:
    """The log of ports of either variant; connections by MPTCP, and by TCP as of an old host."""
    ports = [nvmet.Port(1, TARGET, variant="mptcp", attributes="adda,dcsr", maximum_subflows=8,
                        subflow_group=1),
             nvmet.Port(2, TARGET, trsvcid=8009, variant="mptcp", attributes="adda"),
             nvmet.Port(3, "10.0.2.2")]
    target(*ports)
    for port in ports:
        discovery.read_log(port.traddr, port.trsvcid,
                           variant="mptcp" if port.variant == "mptcp" else None)
    for variant in ("mptcp", None):
        controller = fabrics.connect(TARGET, variant=variant, options=CALM)
        fabrics.block_device()
        time.sleep(SETTLE)
        _io(counts, size="128k")
        counts.sample()
        controller.disconnect()


def plain(counts: Counts) -> None:
    """NVMe/TCP over TCP."""
    target(nvmet.Port(1, TARGET))
    fabrics.connect(TARGET, options=f"hdr_digest,{CALM}")
    fabrics.block_device()
    time.sleep(SETTLE)
    _io(counts)


def terminated(counts: Counts) -> None:
    """A target in user space sends C2HTermReq; the host comes back."""
    nvmet.add_port(nvmet.Port(1, BACK[0], trsvcid=BACK[1]),
                   nvmet.subsystem(nvmet.null_block(16, memory_backed=True)))
    Relay((TARGET, 4420), BACK, terminate_after=90)
    _connect("reconnect_delay=2")
    _io(counts, "randread", size="512k", bs="4k-4k", depth=4)
    time.sleep(SETTLE)


def tls_over_mptcp(counts: Counts) -> None:
    """Host and target in user space, TLS 1.3; behind them the kernel's target."""
    nvmet.add_port(nvmet.Port(1, BACK[0], trsvcid=BACK[1]),
                   nvmet.subsystem(nvmet.null_block(16, memory_backed=True)))
    certificate, key = tls.make_certificate(Path("/run"))
    Relay((TARGET, 4420), BACK, tls=tls.server(certificate, key))
    with contextlib.ExitStack() as stack:
        tls.traffic((TARGET, 4420), tls.client(certificate, DIRECTORY / "keys.log"), stack)
        counts.sample()


SITUATIONS = (paths, keep_alive, impaired, cut, joins, checksum, checksum_failure, refused_joins,
              fallback_before, fallback_after, ipv6, hosts, digests, discover, plain, terminated,
              tls_over_mptcp)
DIRECTORY = Path(sys.argv[-1])


def main() -> None:
    counts = Counts()
    {situation.__name__: situation for situation in SITUATIONS}[sys.argv[1]](counts)
    result: dict[str, Any] = counts.result()
    (DIRECTORY / "expected.json").write_text(json.dumps(result))
    with contextlib.suppress(subprocess.CalledProcessError):
        subprocess.run(["sync"], check=True)


if __name__ == "__main__":
    main()
