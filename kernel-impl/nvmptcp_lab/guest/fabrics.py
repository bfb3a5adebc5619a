# SPDX-License-Identifier: GPL-2.0-or-later
"""The Linux NVMe host: connections through /dev/nvme-fabrics, state from sysfs."""

import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path

from .netns import inside
from .nvmet import NQN, write

HOST_ID = "6e766d70-7463-4000-8000-000000000001"
HOST_NQN = f"nqn.2014-08.org.nvmexpress:uuid:{HOST_ID}"
DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"


@dataclass(frozen=True)
class Controller:
    """One association, as /sys/class/nvme shows it."""

    name: str

    @property
    def path(self) -> Path:
        return Path("/sys/class/nvme") / self.name

    def attribute(self, name: str) -> str:
        return (self.path / name).read_text().strip()

    def queues(self) -> list[tuple[int, str, int]]:
        """(queue ID, protocol in effect, subflows) of each queue."""
        lines = (line.split() for line in self.attribute("tcp_queues").splitlines())
        return [(int(qid), protocol, int(subflows)) for qid, protocol, subflows in lines]

    def disconnect(self) -> None:
        write(self.path / "delete_controller", 1)


def connect(traddr: str, *, trsvcid: int = 4420, nqn: str = NQN, variant: str | None = None,
            netns: str | None = "host", options: str = "", host_id: str = HOST_ID,
            host_nqn: str | None = None) -> Controller:
    """Connect as `nvme connect` does. Raises OSError.

    host_nqn: None: the one that is made from host_id, a UUID.
    """
    words = ["transport=tcp", f"traddr={traddr}", f"trsvcid={trsvcid}", f"nqn={nqn}",
             f"hostnqn={host_nqn or f'nqn.2014-08.org.nvmexpress:uuid:{host_id}'}",
             f"hostid={host_id}"]
    if variant:
        words.append(f"tcp_variant={variant}")
    if options:
        words.append(options)
    with inside(netns), open("/dev/nvme-fabrics", "r+b", buffering=0) as device:
        # Python's raw write() returns None for EAGAIN, where others raise
        if device.write(",".join(words).encode()) is None:
            raise OSError(errno.EAGAIN, f"/dev/nvme-fabrics: {os.strerror(errno.EAGAIN)}")
        words = device.read(4096).decode().strip().split(",")
    reply = dict(word.partition("=")[::2] for word in words)
    return Controller(f"nvme{reply['instance']}")


def set_iopolicy(policy: str, nqn: str = "") -> None:
    """numa, round-robin or queue-depth, for each subsystem, or those whose NQN begins so."""
    for subsystem in Path("/sys/class/nvme-subsystem").iterdir():
        if not nqn or (subsystem / "subsysnqn").read_text().startswith(nqn):
            write(subsystem / "iopolicy", policy)


def block_device(nqn: str | None = None, timeout: float = 10) -> Path:
    """The namespace's (multipath) block device, once it is there. Raises TimeoutError.

    nqn: of its subsystem; None: whatever there is.
    """
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        for entry in sorted(Path("/sys/class/block").glob("nvme*n1")):
            owner = entry.resolve().parent  # the subsystem; without native multipath the controller
            if "c" not in entry.name.removeprefix("nvme") and (
                    nqn is None or (owner / "subsysnqn").read_text().strip() == nqn):
                return Path("/dev") / entry.name
        time.sleep(0.01)
    raise TimeoutError("no NVMe block device came up")
