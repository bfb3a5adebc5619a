# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `python -m nvmptcp_conformance.softtarget`."""

import argparse
import signal
import sys
import textwrap
from collections.abc import Sequence

from ..errors import UsageError
from ..layers.registry import MPATTR_KEYWORDS
from .faults import FAULTS
from .target import NQN, SoftTarget, TargetOptions


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    faults = "\n".join(f"  {name:20} {' '.join(fault.breaks)}" for name, fault in FAULTS.items())
    top = argparse.ArgumentParser(
        prog="nvmptcp-softtarget", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=textwrap.fill(
            "An NVMe/TCP target of the MPTCP variant in user space: a port with an NVM subsystem,"
            " whose namespace is in memory and starts empty, and a Discovery controller. Needs"
            " Linux 5.16 with MPTCP, and no rights. It runs until it is interrupted.", 80),
        epilog="faults (--fault), and the requirements that each breaks:\n" + faults,
    )
    top.add_argument("--listen", required=True, metavar="ADDRESS",
                     help="TRADDR of the port: an address of this machine")
    top.add_argument("--trsvcid", type=_number(1, 65535), default=4420, metavar="PORT",
                     help="TCP port number (default: %(default)s)")
    top.add_argument("--nqn", default=NQN, help="of the NVM subsystem (default: %(default)s)")
    top.add_argument("--join", action="append", default=[], metavar="ADDRESS",
                     help="accept joins at this address, too (repeatable); the kernel announces it"
                     " if it is an endpoint: `ip mptcp endpoint add ADDRESS signal`")
    top.add_argument("--tcp", action="store_true", help="a plain TCP port: no MPTCP, TCPV 0h")
    top.add_argument("--mpattr", type=_attributes, default=0, metavar="LIST",
                     help="some of adda,dcsr,mpreq (default: none; adda with --join)")
    top.add_argument("--maxsf", type=_number(0, 255), default=0, metavar="N",
                     help="MAXSF, reported only")
    top.add_argument("--sfgid", type=_number(0, 65535), default=0, metavar="N",
                     help="SFGID, reported only")
    top.add_argument("--group", action="append", default=[], metavar="ADDRESS",
                     help="be a port of the same subflow group there, too (repeatable); needs"
                     " --sfgid")
    top.add_argument("--size", type=_number(1, 1 << 16), default=16, metavar="MIB",
                     help="of the namespace (default: %(default)s)")
    top.add_argument("--fault", choices=FAULTS, metavar="NAME", help="have one of the faults below")
    return top


def _number(low: int, high: int) -> "type[int]":
    def number(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"has to be from {low} to {high}")
        return value
    return number  # type: ignore[return-value]


def _attributes(text: str) -> int:
    words = text.split(",")
    if unknown := [word for word in words if word not in MPATTR_KEYWORDS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]}: none of {', '.join(MPATTR_KEYWORDS)}")
    return sum({MPATTR_KEYWORDS[word] for word in words})


def main(argv: Sequence[str] | None = None) -> int:
    command_line = parser()
    args = command_line.parse_args(argv)
    if args.group and not args.sfgid:
        command_line.error("--group needs --sfgid")
    mpattr = args.mpattr | (MPATTR_KEYWORDS["adda"] if args.join else 0)
    kind = FAULTS[args.fault] if args.fault else SoftTarget
    target = kind(TargetOptions(args.listen, args.trsvcid, args.nqn, tuple(args.join),
                                not args.tcp, mpattr | kind.needs, args.maxsf, args.sfgid,
                                tuple(args.group), args.size << 20))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        target.start()
        print(f"{args.nqn} at {args.listen} port {args.trsvcid}", flush=True)
        while True:
            signal.pause()
    except (UsageError, OSError) as error:
        text = getattr(error, "strerror", None) or str(error)
        print(f"nvmptcp-softtarget: error: {args.listen}:{args.trsvcid}: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        target.stop()


if __name__ == "__main__":
    sys.exit(main())
