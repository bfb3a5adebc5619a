# SPDX-License-Identifier: GPL-2.0-or-later
"""What the situations share, in the guest: target, host, traffic, and how results get out."""

import json
import mmap
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nvmptcp_lab.guest import fabrics, nvmet

TARGET = "10.0.1.2"  # the address that hosts connect to; path i joins 10.0.i.1 and 10.0.i.2
SETTLE = 0.5  # seconds of the guest's clock: enough for joins and for the partition scan


class CommandError(Exception):
    """A command of the guest failed; its own words."""


def command(*words: str) -> str:
    """Run a command of the guest, return its standard output. Raises CommandError."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise CommandError(f"{' '.join(words)}: {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def ip(netns: str, *words: str) -> str:
    return command("ip", "-n", netns, *words)


def on(netns: str, *words: str) -> str:
    return command("nsenter", f"--net=/run/netns/{netns}", *words)


def block(netns: str, *rules: str) -> None:
    """Add nft rules to what comes in (chain `i`, or `l`, which can reject) or goes out (`o`)."""
    on(netns, "nft", "; ".join([
        "add table ip block",
        "add chain ip block i { type filter hook prerouting priority 0; }",
        "add chain ip block l { type filter hook input priority 0; }",
        "add chain ip block o { type filter hook output priority 0; }",
        *(f"add rule ip block {rule}" for rule in rules)]))


def unblock(netns: str) -> None:
    on(netns, "nft", "delete table ip block")


def target(*ports: nvmet.Port, attributes: str = "adda") -> Path:
    """A target with these ports; with none given, with an MPTCP port on TARGET."""
    subsystem = nvmet.subsystem(nvmet.null_block(16, memory_backed=True))
    for port in ports or (nvmet.Port(1, TARGET, variant="mptcp", attributes=attributes),):
        nvmet.add_port(port, subsystem)
    return subsystem


def connect(options: str = "", traddr: str = TARGET) -> fabrics.Controller:
    """A controller by the MPTCP variant, its subflows joined and its device there."""
    controller = fabrics.connect(traddr, variant="mptcp", options=options)
    fabrics.block_device()
    time.sleep(SETTLE)
    return controller


def transfer(size: int = 64 * 1024, offset: int = 0) -> bool:
    """Write a pattern past the page cache and read it back. Returns whether it came back whole.

    Raises OSError where NVMe reports an error.
    """
    file = os.open(fabrics.block_device(), os.O_RDWR | os.O_DIRECT)
    try:
        with mmap.mmap(-1, size) as buffer:
            pattern = os.urandom(size)
            buffer.write(pattern)
            os.pwritev(file, [buffer], offset)
    finally:
        os.close(file)
    return read(size, offset) == pattern


def read(size: int, offset: int) -> bytes:
    """Read past the page cache. Raises OSError where NVMe reports an error."""
    file = os.open(fabrics.block_device(), os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, size) as buffer:
            os.preadv(file, [buffer], offset)
            return bytes(buffer)
    finally:
        os.close(file)


def wait_until(condition: Callable[[], Any], seconds: float, step: float = 0.05) -> float | None:
    """Seconds of the guest's clock until the condition holds; None if it never did in the time."""
    begin = time.monotonic()
    while time.monotonic() - begin <= seconds:
        if condition():
            return round(time.monotonic() - begin, 3)
        time.sleep(step)
    return None


def mark() -> float:
    """The time, such that what happens before and after it has time stamps well before and after.

    Without the pauses many things happen at one instant of virtual time.
    """
    time.sleep(0.001)
    now = time.time()
    time.sleep(0.001)
    return now


def counters(netns: str) -> dict[str, int]:
    """The MPTCP counters of a namespace, as nstat(8) names them, without `MPTcpExt`."""
    lines = (line.split() for line in on(netns, "nstat", "-azs", "MPTcpExt*").splitlines())
    return {words[0].removeprefix("MPTcpExt"): int(words[1]) for words in lines
            if words and words[0].startswith("MPTcpExt")}


def sockets(netns: str, port: int = 4420) -> int:
    """The number of MPTCP connections (not listeners) of a namespace on a port of the target."""
    side = "sport" if netns == "target" else "dport"
    return len(on(netns, "ss", "-HnM", "state", "all", "exclude", "listening",
                  "exclude", "time-wait", f"( {side} = :{port} )").splitlines())


def mptcp_sockets(netns: str) -> int:
    """The number of MPTCP sockets, listeners among them, that somebody in a namespace holds."""
    lines = on(netns, "cat", "/proc/net/protocols").splitlines()
    return next(int(line.split()[2]) for line in lines if line.startswith("MPTCP "))


def subflow_ends(netns: str) -> list[tuple[str, str]]:
    """(local, remote) address and port of each established TCP connection of a namespace."""
    lines = on(netns, "ss", "-Htn", "state", "established").splitlines()
    return [(words[2], words[3]) for words in map(str.split, lines)]


def kernel_log(pattern: str) -> list[str]:
    """The lines of the guest's log in which a pattern is found."""
    return [line for line in command("dmesg").splitlines() if re.search(pattern, line)]


def main(situations: Iterable[Callable[[], Any]]) -> None:
    """Run the situation that the command line names; print what it returns as JSON."""
    by_name = {situation.__name__: situation for situation in situations}
    print(json.dumps(by_name[sys.argv[1]]()))
