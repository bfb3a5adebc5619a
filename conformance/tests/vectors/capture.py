# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the captures beside this file again: `python conformance/tests/vectors/capture.py`.

The lab's kernel is the author of every byte. Keys, nonces and sequence numbers are random, so each
run gives other bytes and the same kinds of packets; the tests hold for any of them.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from nvmptcp_lab.topology import load
from scapy.layers import inet, inet6  # noqa: F401 - so that packets are dissected
from scapy.layers.l2 import Ether  # noqa: F401
from scapy.utils import rdpcap, wrpcap

HERE = Path(__file__).parent
# name of topology and capture, transport
CAPTURES = {"ipv4": "mptcp", "ipv6": "mptcp", "tcp": "tcp"}


def record(name: str, transport: str) -> None:
    """Run guest.py, and write what the host's two links carried to NAME.pcap."""
    topology = load(HERE / f"{name}.toml")
    addresses = [topology.target_address(path) for path in (1, 2)]
    lab = Path(sys.executable).with_name("nvmptcp-lab")
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [lab, "run", "--topology", HERE / f"{name}.toml", "--capture", directory, "--",
             sys.executable, "-B", HERE / "guest.py", *addresses, transport], check=True)
        packets = [packet for path in (1, 2)
                   for packet in rdpcap(f"{directory}/host-path{path}.pcapng") if "TCP" in packet]
    # A packet that the host sends is older than what it answers; the sort is stable.
    wrpcap(str(HERE / f"{name}.pcap"), sorted(packets, key=lambda packet: packet.time))
    print(f"{name}.pcap: {len(packets)} packets")


if __name__ == "__main__":
    for name, transport in CAPTURES.items():
        record(name, transport)
