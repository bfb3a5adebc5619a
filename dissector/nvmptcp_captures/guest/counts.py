# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel counts while a capture is made: the expected values of the dissector's tests.

Commands and completions are those that the target's trace points report, sequence numbers those of
the MPTCP sockets, bytes those of the TCP sockets, I/O that of the block device below the target.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from nvmptcp_lab.guest import sockets
from nvmptcp_lab.guest.netns import inside
from requirements.guest.situation import command, counters, kernel_log, mark, wait_until

TRACING = Path("/sys/kernel/tracing")
EVENTS = ("nvmet_req_init", "nvmet_req_complete")
SECTOR = 512  # bytes
QUIET = 0.3  # seconds of the guest's clock without I/O before counters are read

# nvmet_req_init: nvmet1: qid=0, cmdid=14, nsid=0, flags=0x40, meta=0x0, cmd=(nvme_admin_identify, …
_RECEIVED = re.compile(r" nvmet_req_init: .*?\bqid=(\d+), .*cmd=\((\w+)[,)]")
_COMPLETED = re.compile(r" nvmet_req_complete: .*?\bqid=(\d+), .*status=(0x\w+)")
_DSN = re.compile(r"\b(write_seq|rcv_nxt):([0-9a-f]+)")
_TOKEN = re.compile(r"\btoken:([0-9a-f]+)")


class Counts:
    """Begin to count, before the target is set up; `result()` ends it."""

    def __init__(self) -> None:
        subprocess.run(["mount", "-t", "tracefs", "trace", TRACING], check=True)
        (TRACING / "buffer_size_kb").write_text("16384")
        for event in EVENTS:
            (TRACING / "events" / "nvmet" / event / "enable").write_text("1")
        self._samples: list[dict[str, Any]] = []
        self._fio: list[dict[str, Any]] = []

    def fio(self, result: dict[str, Any]) -> None:
        """Take in what fio says it did."""
        for job in result["jobs"]:
            self._fio.append({
                "reads": job["read"]["total_ios"], "read_bytes": job["read"]["io_bytes"],
                "writes": job["write"]["total_ios"], "written_bytes": job["write"]["io_bytes"]})

    def sample(self) -> None:
        """Read what the host's sockets say, once the traffic has ended."""
        before: list[Any] = []

        def quiet() -> bool:
            now = [_connections(), sockets.subflows()]
            before.append(now)
            return len(before) > 1 and before[-2] == now

        if wait_until(quiet, 60, step=QUIET) is None:
            raise TimeoutError("the connections don't come to rest")
        self._samples.append({
            "until": mark(), "connections": _connections(),
            "subflows": [{"ends": " ".join(ends.split()), **vars(subflow)}
                         for ends, subflow in sorted(sockets.subflows().items())]})

    def result(self) -> dict[str, Any]:
        """All counts, as they are at the time `until` (seconds, as in the capture)."""
        self.sample()
        trace = (TRACING / "trace").read_text()
        reads, _, sectors_read, _, writes, _, sectors_written, *_ = map(
            int, Path("/sys/block/nullb0/stat").read_text().split())
        return {
            "until": self._samples[-1]["until"],
            # Connect comes before the target knows which queue it is for: with qid 0.
            "commands": _table(_RECEIVED.findall(trace)),
            "completions": _table(_COMPLETED.findall(trace)),
            "fio": self._fio,
            "target_device": {"reads": reads, "read_bytes": sectors_read * SECTOR,
                              "writes": writes, "written_bytes": sectors_written * SECTOR},
            "terminations": len(kernel_log(r"nvme\d+: .*C2HTermReq")),
            "samples": self._samples,
            "mptcp": {netns: {name: value for name, value in counters(netns).items() if value}
                      for netns in ("host", "target")},
        }


def _table(found: list[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Queue ID → what → how often."""
    table: dict[str, dict[str, int]] = {}
    for (queue, what), count in sorted(Counter(found).items()):
        table.setdefault(queue, {})[what] = count
    return table


def _connections() -> list[dict[str, str]]:
    """The host's MPTCP connections: token, next DSN to send and to receive (hexadecimal)."""
    with inside("host"):
        lines = command("ss", "-OHniM", "state", "established").splitlines()
    return [{"token": token[1], **dict(_DSN.findall(line))}
            for line in lines if (token := _TOKEN.search(line))]
