# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the command against the kernel's target in the lab's guest, in all ways that a run can go;
prints what happened as JSON. `python -m runs_in_guest`
"""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from nvmptcp_lab.guest import nvmet
from nvmptcp_lab.guest.netns import inside
from scapy.layers.inet import IP, TCP
from scapy.utils import RawPcapNgReader

TARGET = "10.0.1.2"
ADDA = nvmet.Port(1, TARGET, 4420, "mptcp", "adda", maximum_subflows=8)
NO_ADDA = nvmet.Port(2, TARGET, 4421, "mptcp")
SOFT = nvmet.Port(3, TARGET, 4422)  # of another target
COMMAND = [sys.executable, "-m", "nvmptcp_conformance.cli", "target", "--traddr", TARGET]
SCRATCH = Path("/run/results")


def start(results: Path, *options: str, port: nvmet.Port = ADDA,
          before: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    with inside("host"):
        return subprocess.Popen(
            [*before, *COMMAND, "--trsvcid", str(port.trsvcid), "--results", str(results),
             *options],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def state(results: Path) -> dict[str, Any]:
    """What a directory of results holds; nothing if there is no results.json."""
    file = results / "results.json"
    if not file.exists():
        return {}
    kept = json.loads(file.read_text())
    return {"results": [[r["test"], r["verdict"], r.get("capture", "")] for r in kept["results"]],
            "finished": kept["finished"],
            "files": sorted(str(p.relative_to(results)) for p in results.rglob("*") if p.is_file())}


def ended(process: "subprocess.Popen[str]", results: Path) -> dict[str, Any]:
    out, err = process.communicate()
    return {"code": process.returncode, "out": out, "err": err, **state(results)}


def run(name: str, *options: str, port: nvmet.Port = ADDA,
        before: tuple[str, ...] = ()) -> dict[str, Any]:
    results = SCRATCH / name
    return ended(start(results, *options, port=port, before=before), results)


def profile(text: str) -> list[str]:
    file = SCRATCH / "dut.toml"
    file.write_text(text)
    return ["--profile", str(file)]


def interrupted() -> dict[str, Any]:
    """A run that gets SIGINT after some results; what is refused then; and the rest of it."""
    results = SCRATCH / "interrupted"
    process = start(results, "--section", "8")
    while len([r for r in state(results).get("results", []) if r[1]]) < 5:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    found = {"first": ended(process, results)}
    found["again"] = run("interrupted")
    found["other port"] = run("interrupted", "--resume", port=NO_ADDA)
    found["resumed"] = run("interrupted", "--resume")
    found["once more"] = run("interrupted", "--resume")
    return found


def soft_target(*options: str) -> "subprocess.Popen[bytes]":
    """A target in user space, at the port SOFT."""
    with inside("target"):
        process = subprocess.Popen(
            [sys.executable, "-m", "nvmptcp_conformance.softtarget", "--listen", TARGET,
             "--trsvcid", str(SOFT.trsvcid), *options], stdout=subprocess.DEVNULL)
    while True:
        with inside("host"), socket.socket() as probe:
            if not probe.connect_ex((TARGET, SOFT.trsvcid)):
                return process
        time.sleep(0.1)


def failed() -> dict[str, Any]:
    """A target that fails a test, is mended, and then tested with --failed."""
    found = {}
    for when, selection, fault in (
            ("before", ["--section", "15"], ["--fault", "FormatVersion"]),
            ("after", ["--failed"], [])):
        target = soft_target(*fault)
        found[when] = run("failed", *selection, port=SOFT)
        target.terminate()
        target.wait()
    return found


def disk_full() -> dict[str, Any]:
    place = SCRATCH / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)], check=True)
    return run("full", "--captures", "all")


def capture_of(results: Path, test: str) -> dict[str, Any]:
    """What a capture has: interfaces, ports, and whether times go by nanoseconds."""
    file = results / "captures" / f"{test}.pcapng"
    packets, ports, times, options = 0, set(), [], set()
    with RawPcapNgReader(str(file)) as reader:
        for data, metadata in reader:
            meta: Any = metadata  # Scapy's type lacks those of pcapng
            packet = IP(data)
            packets += 1
            ports |= {packet[TCP].sport, packet[TCP].dport} & {4420, 4421, 8009}
            times.append((meta.tshigh << 32) + meta.tslow)
            options |= {kind for kind, _ in packet[TCP].options if isinstance(kind, int)}
            resolution = meta.tsresol
    return {"packets": packets, "ports": sorted(ports), "options": sorted(options),
            "ordered": times == sorted(times), "resolution": resolution,
            "seconds": (times[-1] - times[0]) / resolution}


def main() -> None:
    SCRATCH.mkdir()
    subsystem = nvmet.subsystem(nvmet.null_block(16, memory_backed=True))
    for port in (ADDA, NO_ADDA):
        nvmet.add_port(port, subsystem)
    found: dict[str, Any] = {"all": run("all", "--captures", "all")}
    found["capture"] = capture_of(SCRATCH / "all", "close-data_fin_ends_the_association")
    found["none"] = run("none", "--captures", "none", "--section", "5")
    found["without the capability"] = run(
        "bare", "--section", "5", "--captures", "all",
        before=("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"))
    found["interrupted"] = interrupted()
    found["disk full"] = disk_full()
    hooks = ("[hooks]\nset_up = 'echo up'\nclean_up = 'echo down; ls'\n"
             f"[target]\ntraddr = '192.0.2.77'\ntrsvcid = {ADDA.trsvcid}\n")
    found["profile"] = run("profile", *profile(
        f"name = 'ACME Array'\nversion = '1.0'\n{hooks}[claims]\nadda = true\nhdgst = true\n"
        "in_capsule = true\nmaxsf = 8\n"), "--section", "0")
    found["hooks"] = {name: (SCRATCH / "profile" / f"hook-{name}.txt").read_text()
                      for name in ("set_up", "clean_up")}
    wrong = profile(
        "[claims]\nmptcp = false\nadda = true\ndcsr = false\nddgst = false\nmaxsf = 4\n")
    found["claims"] = run("claims", "--section", "0", *wrong, port=NO_ADDA)
    found["gated"] = run("gated", "--section", "9", *wrong, port=NO_ADDA)
    found["failed"] = failed()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
