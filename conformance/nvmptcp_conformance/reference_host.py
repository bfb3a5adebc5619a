# SPDX-License-Identifier: GPL-2.0-or-later
"""Trigger, untrigger and status command of the reference kernel as a host, in the lab's guest.

`python -m nvmptcp_conformance.reference_host connect|disconnect|status`; trigger.py has the
environment and the exit codes.
"""

import os
import subprocess
import sys
from pathlib import Path

from nvmptcp_lab.guest import fabrics, nvmet

from .trigger import NOT_SUPPORTED

NETNS = "host"
JOINS = 8  # subflows of a connection beside the first, as the topology has it
BLOCK = 64 << 10  # bytes
VARIANTS = ("", "tcp", "mptcp")


def _limit_joins(number: int) -> None:
    subprocess.run(["ip", "-n", NETNS, "mptcp", "limits", "set", "subflows", str(number)],
                   check=True)


def _setting(name: str) -> str:
    return os.environ.get(f"NVMPTCP_{name}", "")


def connect() -> int:
    """Connect, and copy if that is wanted."""
    variant = _setting("TCP_VARIANT")
    if _setting("ACTION") != "connect" or variant not in VARIANTS:
        return NOT_SUPPORTED  # reading the log and requiring MPTCP would be user space's
    if most := _setting("MAX_SUBFLOWS"):
        _limit_joins(int(most) - 1)
    digests = [word for word, name in (("hdr_digest", "HDGST"), ("data_digest", "DDGST"))
               if _setting(name) == "1"]
    fabrics.connect(_setting("TRADDR"), trsvcid=int(_setting("TRSVCID")), nqn=_setting("NQN"),
                    variant=variant or None, netns=NETNS, options=",".join(digests))
    if size := int(_setting("COPY") or 0):
        device = fabrics.block_device()
        subprocess.run(["dd", f"if={device}", f"of={device}", f"bs={BLOCK}", "iflag=direct",
                        "oflag=direct", "conv=notrunc", f"count={size // BLOCK}",
                        f"seek={size // BLOCK}"], check=True, stderr=subprocess.DEVNULL)
    return 0


def disconnect() -> int:
    """Delete all controllers."""
    for path in sorted(Path("/sys/class/nvme").glob("nvme*")):
        nvmet.write(path / "delete_controller", 1)
    _limit_joins(JOINS)
    return 0


def status() -> int:
    """What sysfs shows of the first controller."""
    for path in sorted(Path("/sys/class/nvme").glob("nvme*"))[:1]:
        controller = fabrics.Controller(path.name)
        print("requested", controller.attribute("tcp_variant"))
        for queue in controller.queues():
            print(*queue)
    return 0


if __name__ == "__main__":
    sys.exit({"connect": connect, "disconnect": disconnect, "status": status}[sys.argv[1]]())
