# SPDX-License-Identifier: GPL-2.0-or-later
"""Situations of the chapter Discovery."""

import time
from typing import Any

from nvmptcp_lab.guest import fabrics, nvmet

from .ports import change, read_log, refer
from .situation import SETTLE, TARGET, counters, main, target

PORT = nvmet.Port(1, TARGET, variant="mptcp", attributes="adda")
REFERRED = nvmet.Port(2, "10.0.2.2", variant="mptcp", attributes="adda")
CHANGES = (("mptcp_attrs", "adda,dcsr"), ("mptcp_maxsf", "4"), ("mptcp_sfgid", "5"),
           ("tcp_variant", "tcp"), ("tcp_variant", "mptcp"))


def log() -> dict[str, Any]:
    """The log of a port again and again, while its TSAS changes; a referral; a second port that
    would be a second entry for the same address.
    """
    subsystem = target(PORT, REFERRED)
    refer(PORT, REFERRED)
    logs = [read_log(PORT).hex(), read_log(PORT).hex()]  # the second: nothing has changed
    for attribute in CHANGES:
        change(PORT, attribute)
        logs.append(read_log(PORT).hex())
    doubles: dict[str, int | str | None] = {}
    for number, (traddr, variant) in enumerate(
            ((TARGET, "tcp"), (TARGET, "mptcp"), ("0.0.0.0", "tcp")), 10):
        double = nvmet.Port(number, traddr, variant=variant)
        try:
            nvmet.add_port(double, subsystem)
            doubles[f"{traddr} {variant}"] = "accepted"
        except OSError as error:
            doubles[f"{traddr} {variant}"] = error.errno
    return {"logs": logs, "doubles": doubles, "last": read_log(PORT).hex()}


def _asked(variant: str | None, nqn: str = nvmet.NQN) -> dict[str, Any]:
    """What a connection to one and the same port becomes, and how many MP_CAPABLE it took."""
    before = counters("host")["MPCapableSYNTX"]
    controller = fabrics.connect(TARGET, variant=variant, nqn=nqn)
    time.sleep(SETTLE)
    queues = controller.queues()
    controller.disconnect()
    return {"queues": queues, "mp_capable": counters("host")["MPCapableSYNTX"] - before}


def direct() -> dict[str, Any]:
    """Direct connects to a port by both variants and without saying which, and to its Discovery
    controller.
    """
    target(PORT)
    return {"default": _asked(None), "tcp": _asked("tcp"), "mptcp": _asked("mptcp"),
            "discovery": _asked("mptcp", fabrics.DISCOVERY_NQN),
            "discovery, default": _asked(None, fabrics.DISCOVERY_NQN)}


SITUATIONS = (log, direct)

if __name__ == "__main__":
    main(SITUATIONS)
