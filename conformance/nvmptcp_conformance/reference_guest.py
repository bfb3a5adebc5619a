# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs in the lab's guest: sets the reference kernel up as a target or host, and tests it.

`python -m nvmptcp_conformance.reference_guest SIDE … -- OPTIONS of nvmptcp-conformance SIDE`
"""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from nvmptcp_lab.guest import nvmet
from nvmptcp_lab.guest.netns import inside

from . import cli

TARGET, TRSVCID = "10.0.1.2", 4420
FURTHER = ("10.0.2.2", "10.0.3.2", "10.0.4.2")
MAXSF = 8
ATTRIBUTES = ("adda", "dcsr", "mpreq")


def profile(args: argparse.Namespace) -> str:
    """What the kernel is and claims, as a profile."""
    lines = ['name = "Linux, reference kernel"', f'version = "{args.version}"']
    if args.side == "target":
        mptcp = args.variant == "mptcp"
        given = args.attributes.split(",") if mptcp else []
        claims = {"mptcp": mptcp, **{name: name in given for name in ATTRIBUTES}, "tls": False,
                  "maxsf": MAXSF if mptcp else 0, "hdgst": True, "ddgst": True, "groups": False}
        lines += ["[target]", f'traddr = "{TARGET}"', f"trsvcid = {TRSVCID}"]
    else:
        python = shlex.quote(sys.executable)
        claims = {"mptcp": True, "discovery": False, "hdgst": True, "ddgst": True}
        lines += ["[host]", f'listen = "{TARGET}"', f"trsvcid = {TRSVCID}",
                  f"further = {list(FURTHER)}", "[hooks]",
                  *(f'{hook} = "{python} -m nvmptcp_conformance.reference_host {verb}"'
                    for hook, verb in (("trigger", "connect"), ("untrigger", "disconnect"),
                                       ("status", "status")))]
    lines += ["[claims]", *(f"{name} = {str(value).lower()}" for name, value in claims.items())]
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="reference_guest")
    parser.add_argument("side", choices=cli.SIDES)
    for name in ("version", "variant", "attributes"):
        parser.add_argument(f"--{name}", required=True)
    split = sys.argv.index("--")
    args = parser.parse_args(sys.argv[1:split])
    with tempfile.TemporaryDirectory() as scratch:
        known = Path(scratch) / "profile.toml"
        known.write_text(profile(args))
        arguments = [args.side, "--profile", str(known), *sys.argv[split + 1:]]
        if args.side == "target":
            port = nvmet.Port(1, TARGET, TRSVCID, args.variant, args.attributes,
                              maximum_subflows=MAXSF)
            nvmet.add_port(port, nvmet.subsystem(nvmet.null_block(64, memory_backed=True)))
            with inside("host"):
                return cli.main(arguments)
        with inside("target"):
            return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
