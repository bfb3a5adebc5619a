# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `python -m nvmptcp_conformance.softhost`."""

import argparse
import os
import signal
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..endpoints.host import DISCOVERY_NQN, ProtocolError
from ..endpoints.raw import RawUnavailable
from .association import Variant
from .faults import FAULTS
from .host import KATO, ConnectError, HostOptions, SoftHost
from .raw_faults import RAW_FAULTS
from .raw_host import RawHost

EVERY: dict[str, type[SoftHost]] = {**FAULTS, **{f"raw:{n}": f for n, f in RAW_FAULTS.items()}}


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The whole command line; the variables of a trigger are its defaults."""
    def given(name: str, default: str = "") -> str:
        return environment.get(f"NVMPTCP_{name}") or default

    faults = "\n".join(f"  {name:28} {' '.join(fault.breaks)}" for name, fault in EVERY.items())
    top = argparse.ArgumentParser(
        prog="nvmptcp-softhost", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=textwrap.fill(
            "An NVMe/TCP host in user space that knows the MPTCP variant: it connects to an NVM"
            " subsystem, or to what a discovery log lists, and stays connected until SIGTERM or"
            " SIGINT; then it disconnects in an orderly way. As the trigger of"
            " `nvmptcp-conformance host` it takes its options from the environment.", 80),
        epilog="faults (--fault), and the requirements that each breaks:\n" + faults,
    )
    traddr = given("TRADDR")
    top.add_argument("--traddr", default=traddr, required=not traddr, metavar="ADDRESS",
                     help="where to connect to")
    top.add_argument("--trsvcid", type=int, default=given("TRSVCID", "4420"), metavar="PORT",
                     help="TCP port number (default: 4420)")
    top.add_argument("--nqn", default=given("NQN"), help="of the NVM subsystem")
    top.add_argument("--discover", action="store_true", default=given("ACTION") == "discover",
                     help="read the discovery log there, and connect to what it lists")
    top.add_argument("--tcp-variant", type=Variant, choices=tuple(Variant),
                     default=given("TCP_VARIANT") or None,
                     help="for an association without an entry (default: tcp)")
    top.add_argument("--hdgst", action="store_true", default=given("HDGST") == "1",
                     help="ask for header digests")
    top.add_argument("--ddgst", action="store_true", default=given("DDGST") == "1",
                     help="ask for data digests")
    top.add_argument("--copy", type=int, default=given("COPY", "0"), metavar="BYTES",
                     help="copy so many from the start of the namespace to what follows them")
    top.add_argument("--max-subflows", type=int, metavar="N",
                     default=given("MAX_SUBFLOWS") or None,
                     help="of a connection; sets `ip mptcp limits`, which needs root")
    top.add_argument("--kato", type=int, default=KATO, metavar="MS",
                     help="Keep Alive Timeout (default: %(default)s)")
    top.add_argument("--io-queues", type=int, default=2, metavar="N", help="default: %(default)s")
    top.add_argument("--status", type=Path, metavar="FILE",
                     help="show there what is in effect, of each queue")
    top.add_argument("--raw", action="store_true",
                     help="on a TCP and MPTCP stack of its own; needs CAP_NET_RAW")
    top.add_argument("--fault", choices=EVERY, metavar="NAME", help="have one of the faults below")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    command_line = parser(os.environ)
    args = command_line.parse_args(argv)
    if not args.nqn and not args.discover:
        command_line.error("--nqn or --discover is required")
    kind = EVERY[args.fault] if args.fault else RawHost if args.raw else SoftHost
    host = kind(HostOptions(
        args.traddr, args.trsvcid, args.nqn or DISCOVERY_NQN, args.discover, args.tcp_variant,
        args.hdgst, args.ddgst, args.io_queues, args.copy, args.kato, args.max_subflows,
        status=args.status))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: host.stop())
    try:
        host.run()
    except (ConnectError, ProtocolError, RawUnavailable, OSError) as error:
        text = getattr(error, "strerror", None) or str(error)
        print(f"nvmptcp-softhost: error: {args.traddr}:{args.trsvcid}: {text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
