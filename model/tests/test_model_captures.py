# SPDX-License-Identifier: GPL-2.0-or-later
"""Captures that the model writes: what stock tshark, the project's plugin, and the plugin's
independent reassembler make of them."""

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from nvmptcp_captures.pdus import expected_pdus, shown_pdus
from nvmptcp_captures.streams import SIDES, read
from nvmptcp_captures.tshark import Tshark, built_plugin, require

pytest_plugins = ("model_fixtures",)

# transport, DSS checksums, loss, family; stock tshark leaves PDUs out where TCP loses segments
CELLS = {
    "mptcp": ("mptcp", False, 0.002, "ipv4"),
    "mptcp-checksum": ("mptcp", True, 0.002, "ipv4"),
    "mptcp-ipv6": ("mptcp", False, 0.002, "ipv6"),
    "tcp": ("tcp", False, 0, "ipv4"),
    "tcp-ipv6": ("tcp", False, 0, "ipv6"),
}
MSS = {"ipv4": 1460, "ipv6": 1440}  # of an MTU of 1500
COMMAND, RESPONSE = 4, 5  # types of PDUs
WRONG = ["framing_error", "unmapped", "checksum_bad", "not_captured", "duplicate_cid",
         "unknown_cid", "mp_fail", "fallback"]  # of the plugin's expert information


class Capture(NamedTuple):
    """All links of a cell, as the host sees them."""

    file: Path
    transport: str
    checksum: bool
    family: str


@pytest.fixture(params=CELLS, scope="module")
def capture(request: pytest.FixtureRequest, built: Path) -> Iterator[Capture]:
    transport, checksum, loss, family = CELLS[request.param]
    direction = {"rate_bps": 2e8, "delay_us": 200, "loss": loss, "limit": 1000}
    path = {"to_target": direction, "to_host": direction}
    # not pytest's directory, which the ordinary user can't read as which tshark runs
    with tempfile.TemporaryDirectory(prefix="nvmptcp-model-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        settings = {
            "paths": [path, path],
            "family": family,
            "mptcp": {"subflows": 8, "add_addr_accepted": 8, "target_endpoints": "signal",
                      "checksum": checksum},
            "association": {"transport": transport, "ports": 1},
            "fio": {"rw": "randrw", "bs": 32768, "iodepth": 8, "runtime": 0.15},
            "output": {"pcap": str(directory / "link")},
        }
        done = subprocess.run([built / "nvme-mptcp-cell"], input=json.dumps(settings), text=True,
                              capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        merged = directory / "host.pcapng"
        subprocess.run([require("mergecap"), "-F", "pcapng", "-w", merged,
                        *sorted(directory.glob("link-0-*"))], check=True)
        yield Capture(merged, transport, checksum, family)


def test_stock_tshark_finds_nothing_wrong(capture: Capture) -> None:
    tshark = Tshark(capture.file.parent)
    checked = ["-n", "-r", capture.file, "-o", "tcp.check_checksum:TRUE",
               "-o", "ip.check_checksum:TRUE"]
    assert tshark.run("tshark", *checked, "-Y", "tcp.checksum.status == 1", "-c", "100")
    assert not tshark.run("tshark", *checked, "-Y",
                          "_ws.malformed || tcp.checksum.status != 1 || ip.checksum.status != 1"
                          " || icmpv6.checksum.status != 1")


def test_syns_say_the_mss_of_the_link(capture: Capture) -> None:
    tshark = Tshark(capture.file.parent)
    shown = tshark.run("tshark", "-n", "-r", capture.file, "-Y", "tcp.flags.syn == 1",
                       "-T", "fields", "-e", "tcp.options.mss_val").split("\n")
    said = [value for value in shown if value]
    assert len(said) >= 4  # of two connections, each with a SYN and a SYN-ACK
    assert set(said) == {str(MSS[capture.family])}, shown


def test_addresses_announced_are_of_the_family(capture: Capture) -> None:
    tshark = Tshark(capture.file.parent)
    for family in MSS:
        announced = tshark.run("tshark", "-n", "-r", capture.file, "-Y",
                               f"tcp.options.mptcp.{family}")
        expected = capture.transport == "mptcp" and capture.family == family
        assert bool(announced) == expected, announced


def test_plugin_finds_every_pdu(capture: Capture) -> None:
    connections = read(capture.file)
    # of the admin queue and the I/O queue
    assert [each.protocol for each in connections] == 2 * [capture.transport]
    if capture.transport == "mptcp":
        assert all(len(each.flows) == 2 for each in connections)
        mappings = [mapping for each in connections for flow in each.flows for side in SIDES
                    for mapping in flow.mappings[side]]
        assert all((mapping.checksum is not None) == capture.checksum for mapping in mappings)

    expected = expected_pdus(connections)
    types = Counter(pdu[0] for pdus in expected.values() for pdu in pdus)
    assert types[COMMAND] == types[RESPONSE] + 1 > 50  # an asynchronous event request stays
    tshark = Tshark(capture.file.parent)
    tshark.install(built_plugin())
    shown = shown_pdus(tshark, capture.file)
    assert {frame: Counter(pdus) for frame, pdus in shown.items()} == {
        frame: Counter(pdus) for frame, pdus in expected.items()}
    wrong = " || ".join(f"nvme_mptcp.{name}" for name in WRONG)
    assert not tshark.run("tshark", "-n", "-r", capture.file, "-Y", wrong)
