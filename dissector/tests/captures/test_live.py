# SPDX-License-Identifier: GPL-2.0-or-later
"""tshark with the plugin while the capture is still being made."""

import threading
from pathlib import Path
from queue import Queue
from typing import IO

import pytest
from nvmptcp_captures.pdus import PDU_FIELDS
from nvmptcp_captures.streams import NANOSECONDS, packets
from nvmptcp_captures.tshark import Tshark
from scapy.utils import PcapWriter

FIELDS = ["frame.number", *PDU_FIELDS, "nvme_mptcp.connection", "nvme_mptcp.subflow",
          "nvme_mptcp.dsn", "nvme_mptcp.pdu.segment", "nvme_mptcp.reorder_delay", "_ws.malformed"]
OPTIONS = ["-n", "-T", "fields", *(word for name in FIELDS for word in ("-e", name))]
BATCHES = 5
SECONDS = 240  # before a test gives up
ETHERNET = 1  # link type


def _read(output: IO[bytes], lines: Queue[str]) -> None:
    for line in output:
        lines.put(line.decode().rstrip("\n"))


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.only("four-paths", "impaired", "fallback-after", "tcp")
def test_capture_from_a_pipe(file: Path, dissector: Tshark) -> None:
    """dumpcap takes packets from a pipe, as it does from an interface. The next ones are written
    only when tshark has shown all that came before, so what it shows can't depend on the future.
    """
    expected = dissector.run("tshark", "-r", file, *OPTIONS).splitlines()
    sent = list(packets(file))
    assert len(sent) == len(expected)
    process = dissector.start("tshark", "-i", "-", "-l", *OPTIONS)
    assert process.stdin
    assert process.stdout
    lines: Queue[str] = Queue()

    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    shown = []
    try:
        writer = PcapWriter(process.stdin, linktype=ETHERNET, nano=True, sync=True)
        writer.write_header(None)
        for batch in range(BATCHES):
            first, last = (len(sent) * n // BATCHES for n in (batch, batch + 1))
            for data, time in sent[first:last]:
                seconds, part = divmod(time, NANOSECONDS)
                writer.write_packet(data, sec=seconds, usec=part)
            shown += [lines.get(timeout=SECONDS) for _ in range(last - first)]
        writer.close()
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
    assert shown == expected
    assert lines.empty()
