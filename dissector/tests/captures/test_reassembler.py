# SPDX-License-Identifier: GPL-2.0-or-later
"""Our own reassembler against what the kernel counted, for each capture: DSNs, bytes, commands.

The dissector is compared with this reassembler afterwards, so it has to be right.
"""

from collections import Counter
from typing import Any

import pytest
from nvmptcp_captures.stored import CAPTURES as DIRECTORY
from nvmptcp_captures.stored import Capture, captures
from nvmptcp_captures.streams import SIDES, Connection
from nvmptcp_conformance.layers import mptcp, nvme
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER
from nvmptcp_conformance.layers.nvme_tcp import C2HTermReq, CapsuleCmd, CapsuleResp, split_pdus

BUDGET = 3 << 20  # bytes of all packed captures
ADMIN = {0x02: "get_log_page", 0x06: "identify", 0x09: "set_features", 0x0A: "get_features",
         0x0C: "async_event", 0x18: "keep_alive"}
IO = {0x00: "flush", 0x01: "write", 0x02: "read", 0x08: "write_zeroes", 0x09: "dsm"}
FABRICS = {0x00: "property_set", 0x01: "connect", 0x04: "property_get"}
READABLE = [name for name in captures() if name != "tls"]  # TLS records are no PDUs
# The relay of "terminated" takes commands and completions out.
DIRECT = [name for name in READABLE if name != "terminated"]
NAMESPACE = 1  # of the device that is counted
PARTITION_TABLE = 4096  # bytes that the target's kernel reads for itself
ZEROED = 131072  # bytes of the Write Zeroes command
Table = dict[str, dict[str, int]]


def test_captures_are_small() -> None:
    assert {file.name for file in DIRECTORY.glob("*.xz")} == {
        f"{name}.pcapng.xz" for name in captures()}
    assert sum(file.stat().st_size for file in DIRECTORY.iterdir()) <= BUDGET


def test_streams_end_at_the_kernels_sequence_numbers(
        capture: Capture, connections: list[Connection]) -> None:
    """The next DSN to send and to receive, of each connection at each time that it was asked for.

    Without keys, where MPTCP was removed from the SYN or its answer, the kernel counts what it
    receives from 0.
    """
    compared = 0
    by_token = {mptcp.token(each.keys[INITIATOR]): each for each in connections}
    for sample in capture.expected["samples"]:
        until = sample["until"]
        for known in sample["connections"]:
            sent, received = (int(known[name], 16) for name in ("write_seq", "rcv_nxt"))
            if connection := by_token.get(int(known["token"], 16)):
                assert [connection.next_dsn(side, until) for side in SIDES] == [sent, received]
            else:
                assert capture.name == "fallback-before"
                assert received in [len(each.stream(LISTENER, until)) for each in connections]
            compared += 1
    assert compared > 0 or capture.name == "tcp"


def test_subflows_carry_the_kernels_bytes(
        capture: Capture, connections: list[Connection]) -> None:
    flows = {flow.ends: flow for connection in connections for flow in connection.flows}
    compared = 0
    for sample in capture.expected["samples"]:
        for known in sample["subflows"]:
            (flow,) = [flow for ends, flow in flows.items() if known["ends"] == " ".join(
                f"[{end.address}]:{end.port}" if ":" in end.address
                else f"{end.address}:{end.port}" for end in ends)]
            assert len(flow.stream(LISTENER, sample["until"])) == known["bytes_received"]
            # What was sent again counts twice with the kernel.
            assert len(flow.stream(INITIATOR, sample["until"])) <= known["bytes_sent"]
            compared += 1
    assert compared > 0


def commands(connections: list[Connection], until: float) -> Table:
    """Queue ID → trace name → count, as expected.json has it."""
    table: dict[str, Counter[str]] = {}
    for connection in connections:
        queue = 0
        for _, _, _, pdu in connection.pdus(INITIATOR, until):
            if not isinstance(pdu, CapsuleCmd):
                continue
            command = nvme.command(bytes(pdu.ccsqe))
            name = _name(command, queue)
            # The target counts Connect before it knows the queue.
            table.setdefault(str(0 if "connect" in name else queue), Counter())[name] += 1
            if isinstance(command, nvme.Connect):
                queue = command.qid
    return {queue: dict(counts) for queue, counts in table.items()}


def _name(command: nvme.Command, queue: int) -> str:
    if isinstance(command, nvme.FabricsCommand):
        return f"nvme_fabrics_type_{FABRICS[command.fctype]}"
    return f"nvme_cmd_{IO[command.opcode]}" if queue else f"nvme_admin_{ADMIN[command.opcode]}"


@pytest.mark.only(*DIRECT)
def test_every_command_is_found(capture: Capture, connections: list[Connection]) -> None:
    expected = capture.expected
    assert commands(connections, expected["until"]) == expected["commands"]


@pytest.mark.only(*DIRECT)
def test_every_completion_is_found(capture: Capture, connections: list[Connection]) -> None:
    expected = capture.expected
    found = sum(isinstance(pdu, CapsuleResp) for connection in connections
                for _, _, _, pdu in connection.pdus(LISTENER, expected["until"]))
    assert found == sum(sum(counts.values()) for counts in expected["completions"].values())


@pytest.mark.only("terminated")
def test_every_termination_is_found(capture: Capture, connections: list[Connection]) -> None:
    found = sum(isinstance(pdu, C2HTermReq) for connection in connections
                for _, _, _, pdu in connection.pdus(LISTENER))
    assert found == capture.expected["terminations"] > 0


@pytest.mark.only(*DIRECT)
def test_transfers_are_the_kernels(capture: Capture, connections: list[Connection]) -> None:
    """Bytes that Read and Write commands ask for, against fio and the target's block device."""
    expected = capture.expected
    asked = {nvme.Read: 0, nvme.Write: 0}
    for connection in connections:
        found = [nvme.command(bytes(pdu.ccsqe))
                 for _, _, _, pdu in connection.pdus(INITIATOR, expected["until"])
                 if isinstance(pdu, CapsuleCmd)]
        if found[0].qid == 0:
            continue
        for command in (nvme.io_command(bytes(each)) for each in found[1:]):
            if type(command) in asked and command.nsid == NAMESPACE:
                asked[type(command)] += 512 * (command.nlb + 1)
    device, fio = expected["target_device"], expected["fio"]
    zeroed = ZEROED if "nvme_cmd_write_zeroes" in expected["commands"]["1"] else 0
    assert asked[nvme.Read] + PARTITION_TABLE == device["read_bytes"]
    assert asked[nvme.Write] + zeroed == device["written_bytes"]
    # The host reads for itself, too.
    assert asked[nvme.Read] >= sum(job["read_bytes"] for job in fio)
    assert asked[nvme.Write] == sum(job["written_bytes"] for job in fio)


@pytest.mark.only(*READABLE)
def test_nothing_is_left_over(connections: list[Connection]) -> None:
    """Each stream ends where a PDU ends."""
    for connection in connections:
        for side in SIDES:
            assert split_pdus(connection.stream(side))[1] == b""


def test_captures_hold_what_they_are_for(capture: Capture) -> None:
    """By the kernel's MPTCP counters."""
    counters: dict[str, Any] = capture.expected["mptcp"]
    both = {name: sum(counters[netns].get(name, 0) for netns in counters)
            for netns in counters for name in counters[netns]}
    for name in CONTENTS[capture.name]:
        assert both.get(name, 0) > 0, name


CONTENTS: dict[str, tuple[str, ...]] = {
    "four-paths": ("MPJoinAckRx", "OFOQueue"),
    "slow-path": ("MPJoinAckRx", "OFOQueue"),
    "keep-alive": ("MPJoinAckRx",),
    "impaired": ("MPJoinAckRx", "OFOQueue", "DuplicateData"),
    "cut": ("MPTCPRetrans", "SubflowStale", "DuplicateData"),
    "joins": ("MPJoinAckRx", "RmAddr", "MPPrioRx"),
    "checksum": ("MPJoinAckRx",),
    "checksum-failure": ("DataCsumErr", "MPRstRx"),
    "refused-joins": ("MPJoinSynTx",),
    "fallback-before": ("MPCapableFallbackSYNACK", "MPCapableFallbackACK"),
    "fallback-after": ("DataCsumErr", "MPFailRx", "InfiniteMapRx"),
    "ipv6": ("MPJoinAckRx",),
    "hosts": ("MPJoinAckRx",),
    "digests": ("MPJoinAckRx",),
    "discovery": ("MPCapableACKRX",),
    "tcp": (),
    "terminated": ("MPJoinAckRx",),
    "tls": ("MPJoinAckRx",),
}


