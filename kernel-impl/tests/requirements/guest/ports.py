# SPDX-License-Identifier: GPL-2.0-or-later
"""Ports of the target, in the guest: changes, referrals, and the log page as it goes over the wire.
"""

import subprocess

from nvmptcp_lab.guest import fabrics, nvmet
from nvmptcp_lab.guest.netns import inside

LOG_LENGTH = 16 * 1024  # bytes: the header and 15 entries; what the port has not is zeroes


def change(port: nvmet.Port, *attributes: tuple[str, object]) -> None:
    """Set attributes (without `addr_`) of a port, which has to be closed for that."""
    link = port.path / "subsystems" / nvmet.NQN
    subsystem = link.resolve()
    link.unlink()
    for name, value in attributes:
        nvmet.write(port.path / f"addr_{name}", value)
    with inside("target"):
        link.symlink_to(subsystem)


def refer(port: nvmet.Port, to: nvmet.Port) -> None:
    """Give the log of a port a referral to another one."""
    path = port.path / "referrals" / "1"
    path.mkdir()
    for name, value in (("trtype", "tcp"), ("adrfam", "ipv4"), ("traddr", to.traddr),
                        ("trsvcid", to.trsvcid), ("portid", to.number)):
        nvmet.write(path / f"addr_{name}", value)
    nvmet.write(path / "enable", 1)


def read_log(port: nvmet.Port) -> bytes:
    """Ask a port's Discovery controller for its log, with nvme-cli over MPTCP. Raises OSError."""
    controller = fabrics.connect(port.traddr, trsvcid=port.trsvcid, nqn=fabrics.DISCOVERY_NQN,
                                 variant="mptcp")
    try:
        return subprocess.run(
            ["nvme", "get-log", f"/dev/{controller.name}", "--log-id=0x70",
             f"--log-len={LOG_LENGTH}", "--raw-binary"], check=True, capture_output=True).stdout
    finally:
        controller.disconnect()
