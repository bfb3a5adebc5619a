# SPDX-License-Identifier: GPL-2.0-or-later
"""Inside the lab's guest: the traffic that capture.py records. Arguments: the target's addresses on
path 1 and path 2, and the transport, `mptcp` or `tcp`.
"""

import mmap
import os
import subprocess
import sys
import time

from nvmptcp_lab.guest import discovery, fabrics, nvmet

CAPSULE = 4096  # fits into the command capsule
SOLICITED = 24 * 1024  # does not: the target asks for it by R2T


def transfer(device: str, size: int, offset: int) -> None:
    """Write `size` bytes of a pattern past the page cache, and read them back."""
    file = os.open(device, os.O_RDWR | os.O_DIRECT)
    buffer = mmap.mmap(-1, size)
    buffer.write(bytes(index % 251 for index in range(size)))
    os.pwritev(file, [buffer], offset)
    written = bytes(buffer)
    os.preadv(file, [buffer], offset)
    os.close(file)
    assert bytes(buffer) == written


def ip(netns: str, *words: str) -> None:
    subprocess.run(["ip", "-n", netns, *words], check=True)


def main() -> None:
    target, target2, transport = sys.argv[1:]
    variant = transport if transport == "mptcp" else None
    subsystem = nvmet.subsystem(nvmet.null_block(4, memory_backed=True))
    nvmet.add_port(nvmet.Port(1, target, variant=transport, maximum_subflows=2, subflow_group=7,
                              attributes="adda" if variant else "none"), subsystem)
    discovery.read_log(target, variant=variant)
    controller = fabrics.connect(target, variant=variant, options="hdr_digest,data_digest")
    device = fabrics.block_device()
    time.sleep(0.5)  # let the subflows join, and the partition scan end
    transfer(str(device), CAPSULE, 0)
    transfer(str(device), SOLICITED, 1 << 20)
    if variant:
        ip("target", "mptcp", "endpoint", "change", target2, "backup")  # MP_PRIO
        time.sleep(0.2)
        transfer(str(device), CAPSULE, 1 << 20)
        ip("target", "mptcp", "endpoint", "delete", "id", "2")  # REMOVE_ADDR
        time.sleep(0.2)
    controller.disconnect()


if __name__ == "__main__":
    main()
