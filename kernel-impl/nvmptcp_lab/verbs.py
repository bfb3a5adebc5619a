# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several verbs share, and the verbs `run` and `shell`."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import boot, topology
from .build import ensure_kernel, packages, profiles
from .errors import LabError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

TOPOLOGIES = Path(__file__).parents[1] / "topologies"


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Which kernel a verb boots."""
    parser.add_argument("--profile", default="default", choices=profiles(),
                        help="which build of the kernel (default: %(default)s)")


def add_guest_options(parser: argparse.ArgumentParser, timeout: float | None = None) -> None:
    """What any verb that boots a guest takes."""
    add_profile(parser)
    parser.add_argument("--timeout", type=_seconds, metavar="S", default=timeout,
                        help="stop the guest after S seconds of this machine's clock; exit code"
                        f" {boot.TIMED_OUT} (default: {'never' if timeout is None else timeout})")
    parser.add_argument("--capture", type=Path, metavar="DIR",
                        help="write one pcapng an interface into DIR")
    parser.add_argument("--memory", default="1G", metavar="SIZE",
                        help="the guest's memory (default: %(default)s)")
    parser.add_argument("--module-option", action="append", default=[], metavar="MODULE.NAME=VALUE",
                        help="such as nvme_core.multipath=N; may be repeated")


def _seconds(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def positive(text: str) -> int:
    """A number above 0, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def module_options(given: list[str]) -> dict[str, str]:
    """`nvme_core.multipath=N` … by module. Raises UsageError."""
    options: dict[str, str] = {}
    for word in given:
        module, dot, option = word.partition(".")
        name = module.replace("_", "-")
        if not dot or "=" not in option or name not in boot.MODULES:
            raise UsageError(f"--module-option {word}: write MODULE.NAME=VALUE; modules:"
                             f" {', '.join(boot.MODULES)}")
        options[name] = f"{options.get(name, '')} {option}".strip()
    return options


def find_topology(name: str) -> topology.Topology:
    """A topology by the name of a shipped one or by its file. Raises UsageError."""
    shipped = TOPOLOGIES / f"{name}.toml"
    if shipped.exists():
        return topology.load(shipped)
    if not Path(name).exists():
        known = ", ".join(sorted(path.stem for path in TOPOLOGIES.glob("*.toml")))
        raise UsageError(f"--topology {name}: no such file, nor one of {known}")
    return topology.load(Path(name))


def directory(path: Path | None, option: str) -> Path | None:
    """Make a directory that the user named. Raises UsageError."""
    if path is None:
        return None
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise UsageError(f"{option} {path}: not writable")
    return path.resolve()


def write_json(path: Path, document: object) -> None:
    """Write what a verb found. Raises LabError that names the file, on a full disk, too."""
    try:
        path.write_text(json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None


def require(*commands: str) -> None:
    """Check for commands that the guest will call. Raises LabError that names the packages."""
    missing = [package for package in packages()
               if package.probe in commands and not package.present()]
    if missing:
        raise LabError("; ".join(f"{package.probe} is missing: install the package {package.name}"
                                 for package in missing) + " (`make setup` does)")


def finish(result: boot.Result) -> int:
    """The exit code of a run. Raises LabError when the guest's kernel complained."""
    if result.report:
        raise LabError("the guest kernel complained (the command's own exit code was"
                       f" {result.exit_code}):\n{result.report}")
    return result.exit_code


def add_parser(subparsers: "_SubParsersAction[Any]") -> None:
    run = subparsers.add_parser(
        "run", help="boot, build a topology, run a command, power off",
        description="Boot the kernel, build a topology between the namespaces `host` and `target`,"
        " run COMMAND as the guest's root, pass on its output and exit code, power off. The guest"
        " sees this machine's files; what it writes is lost, except below --writable. In the guest,"
        " `on host COMMAND` and `on target COMMAND` enter a namespace.",
    )
    run.add_argument("command", nargs="+", metavar="COMMAND")
    run.add_argument("--real-time", action="store_true",
                     help="let time pass as on this machine's clock, not as the guest needs it")
    run.set_defaults(func=_run, interactive=False)
    shell = subparsers.add_parser(
        "shell", help="the same, interactive, in real time",
        description="Boot the kernel, build a topology and start a shell. Real time, since a guest"
        " in virtual time doesn't wait for a person; --virtual-time says otherwise.",
    )
    shell.add_argument("--virtual-time", action="store_true", help="idle time passes at once")
    shell.set_defaults(func=_shell, interactive=True)
    for parser in (run, shell):
        parser.add_argument("--topology", default="four-gigabit", metavar="FILE|NAME",
                            help="a TOML file, or one of those that the lab brings; `none` for"
                            " none (default: %(default)s)")
        parser.add_argument("--netns", choices=("host", "target"),
                            help="run in this namespace (default: the guest's own)")
        parser.add_argument("--writable", type=Path, action="append", default=[], metavar="DIR",
                            help="a directory of this machine that the guest may write to")
        add_guest_options(parser)


def guest(args: argparse.Namespace, command: list[str], environment: Mapping[str, str],
          real_time: bool) -> boot.Guest:
    require("ip", "nsenter", "insmod", "perl", *(["dumpcap"] if args.capture else []))
    return boot.Guest(
        kernel=ensure_kernel(args.profile),
        command=["env", *(f"{name}={value}" for name, value in environment.items()), *command],
        topology=None if args.topology == "none" else find_topology(args.topology),
        netns=args.netns,
        writable=[path for name in args.writable if (path := directory(name, "--writable"))],
        capture=directory(args.capture, "--capture"),
        real_time=real_time, timeout=args.timeout, memory=args.memory,
        module_options=module_options(args.module_option), interactive=args.interactive,
    )


def _run(args: argparse.Namespace) -> int:
    return finish(boot.run(guest(args, args.command, {}, args.real_time)))


def _shell(args: argparse.Namespace) -> int:
    if not sys.stdin.isatty():
        raise UsageError("shell: standard input is not a terminal; use `run -- COMMAND`")
    rc = boot.GUEST / "shellrc"
    environment = {"TERM": os.environ.get("TERM", "dumb")}
    return finish(boot.run(guest(args, ["bash", "--rcfile", str(rc)], environment,
                                 not args.virtual_time)))
