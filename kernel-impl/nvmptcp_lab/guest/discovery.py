# SPDX-License-Identifier: GPL-2.0-or-later
"""Discovery and connection over both variants, inside the guest.

`python -m nvmptcp_lab.guest.discovery DIRECTORY` sets up a target with a port of each variant,
reads the discovery log as a host does, connects to each entry by the variant that it announces, and
to the MPTCP one as a host would that knows nothing of it. Writes DIRECTORY/discovery.json.
"""

import ctypes
import fcntl
import json
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import fabrics, nvmet

_ADMIN_COMMAND = 0xC0484E41  # NVME_IOCTL_ADMIN_CMD of linux/nvme_ioctl.h
_GET_LOG_PAGE, _DISCOVERY_LOG = 0x02, 0x70
_ENTRY = 1024
NVM_SUBSYSTEM = 2  # SUBTYPE
VARIANTS = {0: "tcp", 1: "mptcp"}  # TCPV


@dataclass(frozen=True)
class Entry:
    """A Discovery Log Page Entry of the TCP transport; its last 256 bytes are the TSAS."""

    subtype: int
    portid: int
    traddr: str
    trsvcid: str
    subnqn: str
    tsas: bytes

    @property
    def variant(self) -> str:
        """TCPV; a reserved value counts as 0."""
        return VARIANTS.get(self.tsas[1], "tcp")

    def fields(self) -> dict[str, Any]:
        return {
            "traddr": self.traddr, "trsvcid": self.trsvcid, "portid": self.portid,
            "sectype": self.tsas[0], "tcpv": self.tsas[1], "mpattr": self.tsas[2],
            "maxsf": self.tsas[3], "sfgid": int.from_bytes(self.tsas[4:6], "little"),
            "reserved_zero": not any(self.tsas[6:]),
        }


def _get_log_page(controller: fabrics.Controller, size: int) -> bytes:
    buffer = ctypes.create_string_buffer(size)
    dwords = size // 4 - 1
    command = struct.pack(
        "<BBHIIIQQIIIIIIIIII", _GET_LOG_PAGE, 0, 0, 0, 0, 0, 0, ctypes.addressof(buffer), 0, size,
        _DISCOVERY_LOG | (dwords & 0xFFFF) << 16, dwords >> 16, 0, 0, 0, 0, 0, 0,
    )
    with open(f"/dev/{controller.name}", "rb", buffering=0) as device:
        fcntl.ioctl(device, _ADMIN_COMMAND, bytearray(command))
    return buffer.raw


def read_log(traddr: str, trsvcid: int = 4420, variant: str | None = None) -> list[Entry]:
    """The discovery log of a target. Raises OSError."""
    controller = fabrics.connect(
        traddr, trsvcid=trsvcid, nqn=fabrics.DISCOVERY_NQN, variant=variant)
    try:
        count = int.from_bytes(_get_log_page(controller, _ENTRY)[8:16], "little")
        log = _get_log_page(controller, _ENTRY * (1 + count))
    finally:
        controller.disconnect()
    entries = (log[_ENTRY * (1 + index) :][:_ENTRY] for index in range(count))
    return [
        Entry(entry[2], int.from_bytes(entry[4:6], "little"), _text(entry[512:768]),
              _text(entry[32:64]), _text(entry[256:512]), entry[768:1024])
        for entry in entries
    ]


def _text(field: bytes) -> str:
    return field.rstrip(b"\0 ").decode(errors="replace")


def _connect(entry: Entry, variant: str | None) -> dict[str, Any]:
    controller = fabrics.connect(entry.traddr, trsvcid=int(entry.trsvcid), nqn=entry.subnqn,
                                 variant=variant)
    try:
        fabrics.block_device()
        time.sleep(0.5)  # let the subflows join
        return {"traddr": entry.traddr, "asked": variant or "(old host: no option)",
                "queues": controller.queues()}
    finally:
        controller.disconnect()


def main() -> int:
    directory = Path(sys.argv[1])
    addresses = json.loads((directory / "cell.json").read_text())["traddrs"]
    subsystem = nvmet.subsystem(nvmet.null_block(64, memory_backed=True))
    ports = [
        nvmet.Port(1, addresses[0], variant="mptcp", attributes="adda", maximum_subflows=8,
                   subflow_group=1),
        nvmet.Port(2, addresses[1], trsvcid=4421),
    ]
    try:
        for port in ports:
            nvmet.add_port(port, subsystem)
        # Linux's log holds the entries of the port that is asked.
        logs = [read_log(port.traddr, port.trsvcid) for port in ports]
        entries = [entry for log in logs for entry in log if entry.subtype == NVM_SUBSYSTEM]
        connections = []
        for entry in entries:
            connections.append(_connect(entry, entry.variant))
            if entry.variant != "tcp":
                connections.append(_connect(entry, None))
    except (OSError, TimeoutError) as error:
        print(f"discovery: {error}", file=sys.stderr)
        return 1
    (directory / "discovery.json").write_text(json.dumps(
        {"entries": [entry.fields() for entry in entries], "connections": connections}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
