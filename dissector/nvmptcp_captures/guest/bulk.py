# SPDX-License-Identifier: GPL-2.0-or-later
"""Much I/O, for a capture that the benchmark reads: `python -m nvmptcp_captures.guest.bulk
TRANSPORT MIB`, with `tcp` or `mptcp`.
"""

import sys
import time
from pathlib import Path

from nvmptcp_lab.guest import fabrics, fio, nvmet
from requirements.guest.situation import SETTLE, TARGET, target


def main() -> None:
    transport, mib = sys.argv[1:]
    target(nvmet.Port(1, TARGET, variant=transport,
                      attributes="adda" if transport == "mptcp" else "none"))
    fabrics.connect(TARGET, variant="mptcp" if transport == "mptcp" else None)
    device = fabrics.block_device()
    time.sleep(SETTLE)
    fio.run(device, Path("/run/fio.json"), [
        "--name=bulk", "--ioengine=libaio", "--rw=randrw", "--bsrange=4k-128k", "--iodepth=64",
        f"--io_size={mib}m", "--size=16m"])


if __name__ == "__main__":
    main()
