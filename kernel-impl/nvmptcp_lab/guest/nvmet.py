# SPDX-License-Identifier: GPL-2.0-or-later
"""The Linux NVMe target, set up through configfs (drivers/nvme/target)."""

from dataclasses import dataclass
from pathlib import Path

from .netns import inside

NVMET = Path("/sys/kernel/config/nvmet")
NULLB = Path("/sys/kernel/config/nullb")
NQN = "nqn.2026-11.org.example:nvmptcp"


@dataclass(frozen=True)
class Port:
    """One listener: an entry of the discovery log."""

    number: int
    traddr: str
    trsvcid: int = 4420
    variant: str = "tcp"  # "mptcp": TCPV = 1
    attributes: str = "none"  # MPATTR, such as "adda,mpreq"
    subflow_group: int = 0  # SFGID
    maximum_subflows: int = 0  # MAXSF

    @property
    def path(self) -> Path:
        return NVMET / "ports" / str(self.number)


def write(file: Path, value: object) -> None:
    """Write one attribute. Raises OSError that names the file and the value."""
    try:
        file.write_text(f"{value}\n")
    except OSError as error:
        raise OSError(error.errno, f"{file}: {value}: {error.strerror}") from None


def null_block(size_mib: int, memory_backed: bool, name: str = "nullb0") -> Path:
    """A null_blk device: without memory it answers at once, with it it keeps what is written."""
    device = NULLB / name
    device.mkdir()
    for key, value in (("size", size_mib), ("blocksize", 512),
                        ("memory_backed", int(memory_backed)), ("irqmode", 0), ("queue_mode", 2),
                        ("hw_queue_depth", 4096), ("power", 1)):
        write(device / key, value)
    return Path("/dev") / name


def subsystem(device: Path, nqn: str = NQN) -> Path:
    """A subsystem that any host may use, with one namespace on `device`."""
    path = NVMET / "subsystems" / nqn
    path.mkdir()
    write(path / "attr_allow_any_host", 1)
    namespace = path / "namespaces" / "1"
    namespace.mkdir()
    write(namespace / "device_path", device)
    write(namespace / "enable", 1)
    return path


def add_port(port: Port, subsystem_path: Path, netns: str | None = "target") -> None:
    """Make a port and start it: linking a subsystem to it opens the listener, in `netns`."""
    port.path.mkdir()
    family = "ipv6" if ":" in port.traddr else "ipv4"
    for name, value in (("trtype", "tcp"), ("adrfam", family), ("traddr", port.traddr),
                        ("trsvcid", port.trsvcid)):
        write(port.path / f"addr_{name}", value)
    if port.variant != "tcp":
        write(port.path / "addr_tcp_variant", port.variant)
        for name, setting in (("attrs", port.attributes), ("maxsf", port.maximum_subflows),
                              ("sfgid", port.subflow_group)):
            write(port.path / f"addr_mptcp_{name}", setting)
    offer(port, subsystem_path, netns)


def offer(port: Port, subsystem_path: Path, netns: str | None = "target") -> None:
    """Offer a subsystem, maybe another one, on a port."""
    with inside(netns):
        (port.path / "subsystems" / subsystem_path.name).symlink_to(subsystem_path)


def remove_port(port: Port) -> None:
    """Stop a port and remove it."""
    for link in (port.path / "subsystems").iterdir():
        link.unlink()
    port.path.rmdir()
