# SPDX-License-Identifier: GPL-2.0-or-later
"""Data integrity while a path comes and goes, inside the guest.

`python -m nvmptcp_lab.guest.integrity DIRECTORY`: fio writes and reads back blocks with a
CRC-32C in each, over MPTCP; meanwhile one path is cut (its veth set down) and restored. Writes
DIRECTORY/integrity.json. Nothing may be lost: no I/O error, no block with a wrong checksum.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import fabrics, fio, nvmet, sockets

SAMPLE_SECONDS = 0.2


def _set_link(path: int, state: str) -> None:
    subprocess.run(["ip", "-n", "target", "link", "set", f"path{path}", state], check=True)


def _bytes_by_path() -> dict[str, int]:
    carried: dict[str, int] = {}
    for flow in sockets.subflows().values():
        carried[flow.remote] = carried.get(flow.remote, 0) + flow.bytes_sent + flow.bytes_received
    return carried


def _watch(process: "subprocess.Popen[str]", path: int, cell: dict[str, Any]) -> dict[str, Any]:
    """Cut the path and restore it on time; note what each path has carried, several times a second.

    Returns `events` (seconds, what) and `samples` (seconds, bytes by remote address).
    """
    due = [(cell["cut_at"], "down"), (cell["restore_at"], "up")]
    events: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    begin = time.monotonic()
    while process.poll() is None and (due or len(samples) < cell["samples"]):
        now = time.monotonic() - begin
        samples.append({"at": round(now, 3), "bytes": _bytes_by_path()})
        if due and now >= due[0][0]:
            state = due.pop(0)[1]
            _set_link(path, state)
            events.append({"at": round(now, 3), "event": f"path{path} {state}"})
        time.sleep(max(0, begin + len(samples) * SAMPLE_SECONDS - time.monotonic()))
    process.wait()
    return {"events": events, "samples": samples}


def main() -> int:
    directory = Path(sys.argv[1])
    cell = json.loads((directory / "cell.json").read_text())
    subsystem = nvmet.subsystem(nvmet.null_block(cell["size_mib"], memory_backed=True))
    port = nvmet.Port(1, cell["traddrs"][0], variant="mptcp", attributes="adda")
    try:
        nvmet.add_port(port, subsystem)
        controller = fabrics.connect(cell["traddrs"][0], variant="mptcp")
        device = fabrics.block_device()
        time.sleep(0.5)
        output = directory / "fio-verify.json"
        process = subprocess.Popen(
            fio.command(device, output, [
                "--name=verify", "--ioengine=libaio", "--rw=randwrite", "--bsrange=4k-128k",
                "--iodepth=32", f"--size={cell['size_mib']}m", "--verify=crc32c",
                "--verify_backlog=256", "--verify_fatal=1", f"--loops={cell['loops']}",
            ]), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        watched = _watch(process, 2, cell)
        words = process.stdout.read().strip() if process.stdout else ""
        if process.returncode:
            raise fio.FioError(f"fio ended with {process.returncode}: {words}")
        job = fio.result(output)["jobs"][0]
        state, queues = controller.attribute("state"), controller.queues()
    except (OSError, TimeoutError, fio.FioError) as error:
        print(f"integrity: {error}", file=sys.stderr)
        return 1
    (directory / "integrity.json").write_text(json.dumps({
        "written": job["write"]["io_bytes"], "verified": job["read"]["io_bytes"],
        "errors": job["error"], "seconds": job["job_runtime"] / 1000,
        "worst_latency_ms": max(job[rw]["clat_ns"]["max"] for rw in ("read", "write")) / 1e6,
        "controller": state, "queues": queues, **watched,
    }))
    return 0


if __name__ == "__main__":
    sys.exit(main())
