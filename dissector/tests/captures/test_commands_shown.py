# SPDX-License-Identifier: GPL-2.0-or-later
"""tshark with the plugin, on whole captures: commands with their latencies, links, statistics."""

import csv
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from nvmptcp_captures.stored import captures
from nvmptcp_captures.streams import SIDES, Connection
from nvmptcp_captures.tshark import Tshark
from nvmptcp_conformance.layers import nvme, nvme_tcp
from nvmptcp_conformance.layers.mptcp_stream import INITIATOR, LISTENER

READABLE = [name for name in captures() if name not in ("tls", "tcp")]
SUCCESS = 8  # flag of C2HData: the command is complete
TOLERANCE = 2e-6  # s; times of the reassembler are floats of the seconds since 1970
Row = dict[str, str]


class Command(NamedTuple):
    """A completed command, by our own reassembler. Times in s, from the command on."""

    cid: int
    opcode: int
    frame: int
    response_frame: int
    data_bytes: int
    status: int
    first_byte: float
    completion: float


def _commands(connection: Connection) -> list[Command]:
    """The completed commands of a connection, in the order of their completions."""
    done: list[Command] = []
    pending: dict[int, tuple[int, int, float, list[float], list[int]]] = {}
    pdus = sorted(((each, side) for side in SIDES for each in connection.pdus(side)),
                  key=lambda item: item[0].frame)

    def complete(cid: int, frame: int, time: float, status: int) -> None:
        opcode, begun, sent, first, data = pending.pop(cid)
        done.append(Command(cid, opcode, begun, frame, sum(data), status,
                            min([*first, time]) - sent, time - sent))

    for (_, frame, time, pdu), _ in pdus:
        match pdu:
            case nvme_tcp.CapsuleCmd():
                command = nvme.command(bytes(pdu.ccsqe))
                pending[command.cid] = command.opcode, frame, time, [], []
            case nvme_tcp.R2T():
                pending[pdu.cccid][3].append(time)
            case nvme_tcp.H2CData():
                pending[pdu.cccid][4].append(pdu.datal)
            case nvme_tcp.C2HData():
                pending[pdu.cccid][3].append(time)
                pending[pdu.cccid][4].append(pdu.datal)
                if int(pdu.flags) & SUCCESS:
                    complete(pdu.cccid, frame, time, 0)
            case nvme_tcp.CapsuleResp():
                complete(pdu.rccqe.cid, frame, time, int.from_bytes(
                    bytes(pdu.rccqe)[14:16], "little") >> 1)
    return done


def _csv(dissector: Tshark, file: Path, what: str) -> list[Row]:
    """The lines of `-z nvme_mptcp,WHAT`."""
    return list(csv.DictReader(dissector.run(
        "tshark", "-n", "-q", "-r", file, "-z", f"nvme_mptcp,{what}").splitlines()))


@pytest.fixture
def mptcp(connections: list[Connection]) -> list[Connection]:
    return [connection for connection in connections if connection.protocol == "mptcp"]


@pytest.mark.only(*READABLE)
def test_commands_as_csv(mptcp: list[Connection], file: Path, dissector: Tshark) -> None:
    """Each completed command: frames, bytes, status, time to the first byte and to completion."""
    expected = sorted(command for connection in mptcp for command in _commands(connection))
    rows = _csv(dissector, file, "commands")
    shown = sorted(Command(
        int(row["cid"]), int(row["opcode"], 16), int(row["command_frame"]),
        int(row["response_frame"]), int(row["data_bytes"]), int(row["status"], 16),
        float(row["first_byte_s"]), float(row["completion_s"])) for row in rows)
    assert len(shown) > 10
    assert [command[:6] for command in shown] == [command[:6] for command in expected]
    for one, other in zip(shown, expected, strict=True):
        assert one[6:] == pytest.approx(other[6:], abs=TOLERANCE)


@pytest.mark.only("four-paths", "slow-path", "digests", "hosts", "ipv6")
def test_service_response_time(file: Path, dissector: Tshark) -> None:
    """Number and longest time by command, and by queue, as the CSV has them."""
    rows = [row for row in _csv(dissector, file, "commands")
            if "Asynchronous" not in row["command"]]
    output = dissector.run("tshark", "-n", "-q", "-r", file, "-z", "nvme_mptcp,srt")
    _, completion, first_byte, queues = re.split(r"^Index .*$", output, flags=re.MULTILINE)
    for table, time in ((completion, "completion_s"), (first_byte, "first_byte_s")):
        shown = re.findall(r"^ *\d+  (.*?) +(\d+) +[\d.]+ +([\d.]+) +[\d.]+ +[\d.]+$", table,
                           re.MULTILINE)
        assert {name: int(calls) for name, calls, _ in shown} == Counter(
            row["command"] for row in rows)
        for name, _, longest in shown:
            assert float(longest) == pytest.approx(max(
                float(row[time]) for row in rows if row["command"] == name), abs=TOLERANCE)
    calls = re.findall(r"connection (\d+), queue (\d+).*? +(\d+) +[\d.]+ +[\d.]+", queues)
    assert {(connection, queue): int(count) for connection, queue, count in calls} == Counter(
        (row["connection"], row["queue"]) for row in rows)


@pytest.mark.only(*READABLE)
def test_segments_as_csv(mptcp: list[Connection], file: Path, dissector: Tshark) -> None:
    """What is neither repeated nor reinjected is the stream, byte by byte."""
    streams: dict[str, Counter[str]] = {}
    for row in _csv(dissector, file, "segments"):
        streams.setdefault(row["connection"], Counter())[row["direction"]] += (
            int(row["bytes"]) - int(row["repeated_bytes"]) - int(row["reinjected_bytes"]))
    expected = sorted((len(connection.stream(INITIATOR)), len(connection.stream(LISTENER)))
                      for connection in mptcp)
    assert sorted((counts["to_controller"], counts["to_host"])
                  for counts in streams.values()) == expected


@pytest.mark.only("four-paths", "slow-path", "impaired", "joins")
def test_statistics_by_subflow(file: Path, dissector: Tshark) -> None:
    """Bytes by connection, direction and subflow, as the CSV has them; PDUs by connection."""
    expected: Counter[str] = Counter()
    for row in _csv(dissector, file, "segments"):
        expected[f"connection {row['connection']} {row['direction'].replace('_', ' the ')}"
                 .replace("to the", "to the") + f", subflow {row['subflow']}"] += int(row["bytes"])
    output = dissector.run("tshark", "-n", "-q", "-r", file, "-z", "nvme_mptcp_subflows,tree")
    shown = {name: int(count) for name, count in re.findall(
        r"^ *(connection \d+ to the \w+, subflow \d+) +(\d+) ", output, re.MULTILINE)}
    assert shown == {name: count for name, count in expected.items() if count}
    pdus = dissector.fields(file, ["nvme_mptcp.connection", "nvme_mptcp.pdu.length"])
    counted = Counter({number: sum(len(row["nvme_mptcp.pdu.length"]) for row in pdus
                                   if row["nvme_mptcp.connection"] == [number])
                       for number in {value for row in pdus
                                      for value in row["nvme_mptcp.connection"]}})
    assert counted == {number: int(count) for number, count in re.findall(
        r"^ *connection (\d+): PDUs +(\d+) ", output, re.MULTILINE)}


@pytest.mark.only(*READABLE)
def test_links_to_the_frames_of_a_pdu(mptcp: list[Connection], file: Path,
                                      dissector: Tshark) -> None:
    """A PDU that isn't in one frame alone names those that carried it."""
    expected: dict[int, list[int]] = {}
    for connection in mptcp:
        for side in SIDES:
            for each, frames in zip(connection.pdus(side), connection.carriers(side),
                                    strict=True):
                if frames != [each.frame]:
                    expected.setdefault(each.frame, []).extend(frames)
    rows = dissector.fields(file, ["frame.number", "nvme_mptcp.pdu.segment"])
    assert {int(row["frame.number"][0]): [int(value) for value in row["nvme_mptcp.pdu.segment"]]
            for row in rows if row["nvme_mptcp.pdu.segment"]} == expected


@pytest.mark.only("four-paths", "slow-path", "digests")
def test_links_between_commands_and_responses(file: Path, dissector: Tshark) -> None:
    """In both directions; a second pass knows what comes later."""
    names = ["frame.number", "nvme_mptcp.command_in", "nvme_mptcp.response_in"]
    rows = dissector.fields(file, names, "-2")
    begun: dict[int, list[str]] = {int(row["frame.number"][0]): row["nvme_mptcp.response_in"]
                                   for row in rows}
    ended: dict[int, list[str]] = {int(row["frame.number"][0]): row["nvme_mptcp.command_in"]
                                   for row in rows}
    commands = _csv(dissector, file, "commands")
    for row in commands:
        assert row["response_frame"] in begun[int(row["command_frame"])]
        assert row["command_frame"] in ended[int(row["response_frame"])]
    assert len(commands) > 50
