# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Compatibility: each cell of its matrix."""

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from nvmptcp_lab.guest import discovery, fabrics, nvmet

from .middlebox import MP_CAPABLE, STRIP, SYN, SYN_ACK, THIRD_ACK, box
from .ports import read_log
from .situation import SETTLE, TARGET, kernel_log, main, target, transfer

PORTS = {"old": nvmet.Port(1, TARGET, trsvcid=4420),
         "new": nvmet.Port(2, TARGET, trsvcid=4421, variant="mptcp", attributes="adda"),
         "required": nvmet.Port(3, TARGET, trsvcid=4422, variant="mptcp", attributes="adda,mpreq")}
# The columns: (host, target). "read": the host goes by the entry; "told": by its administrator.
PAIRS = (("old", "old"), ("old", "new"), ("old", "required"), ("read", "old"), ("told", "old"),
         ("read", "new"), ("read", "required"))


def _data() -> AbstractContextManager[Any]:
    """Remove the options from data, the first ones included, and from their acknowledgements."""
    boxes = ExitStack()
    syns = "tcp flags & syn == syn accept"
    boxes.enter_context(box("target", syns, f"{THIRD_ACK} accept", STRIP))
    boxes.enter_context(box("host", syns, STRIP))
    return boxes


def _later() -> AbstractContextManager[Any]:
    boxes = ExitStack()
    boxes.enter_context(box("target", STRIP))
    boxes.enter_context(box("host", STRIP))
    return boxes


# The rows: what happens to the first subflow; the last word says whether only after the connect.
NETWORKS: tuple[tuple[str, Callable[[], AbstractContextManager[Any]], bool], ...] = (
    ("Clean path", contextlib.nullcontext, False),
    ("Options removed from the SYN", lambda: box("target", f"{SYN} {STRIP}"), False),
    ("Options removed from the SYN/ACK", lambda: box("host", f"{SYN_ACK} {STRIP}"), False),
    ("Options removed from the third ACK", lambda: box("target", f"{THIRD_ACK} {STRIP}"), False),
    ("Options removed from data, from the first on", _data, False),
    ("Options removed from data, later", _later, True),
    ("SYNs with MP_CAPABLE dropped",
     lambda: box("target", f"{MP_CAPABLE} drop"), False),
)


def _cell(port: nvmet.Port, variant: str | None, network: Callable[[], AbstractContextManager[Any]],
          later: bool) -> str:
    """T, M, R or X as the matrix has them; anything else says what went wrong."""
    refused = len(kernel_log("MPTCP is required"))
    with contextlib.nullcontext() if later else network():
        try:
            controller = fabrics.connect(port.traddr, trsvcid=port.trsvcid, variant=variant)
        except OSError:
            return "R" if len(kernel_log("MPTCP is required")) > refused else "X"
        time.sleep(SETTLE)
        with network() if later else contextlib.nullcontext():
            whole = transfer()
        protocols = {protocol for _, protocol, _ in controller.queues()}
        controller.disconnect()
    letter = {"tcp": "T", "mptcp": "M"}[protocols.pop()] if len(protocols) == 1 else "mixed"
    return letter if whole else f"{letter}, data wrong"


def matrix() -> dict[str, Any]:
    """The RECFMT of the log of each port, and network → the cells of the row."""
    target(*PORTS.values())
    by_entry = {}
    recfmt = {}
    for name, port in PORTS.items():
        (entry,) = (entry for entry in discovery.read_log(TARGET, port.trsvcid, variant="mptcp")
                    if entry.subtype == discovery.NVM_SUBSYSTEM)
        by_entry[name] = entry.variant
        recfmt[name] = read_log(port)[16:18].hex()
    cells: dict[str, list[str]] = {}
    for row, network, later in NETWORKS:
        cells[row] = []
        for host, name in PAIRS:
            variant = {"old": None, "told": "mptcp", "read": by_entry[name]}[host]
            cells[row].append(_cell(PORTS[name], variant, network, later))
    return {"recfmt": recfmt, "cells": cells}


SITUATIONS = (matrix,)

if __name__ == "__main__":
    main(SITUATIONS)
