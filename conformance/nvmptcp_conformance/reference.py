# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `reference`: boots the reference kernel in the lab and runs the suite on it there."""

import argparse
import sys
from pathlib import Path

from .errors import UsageError

TOPOLOGY = "four-gigabit"


def run(args: argparse.Namespace, results: Path) -> int:
    """Test one side or both, each in a guest of its own; the exit code, the worst of them.

    Raises UsageError where there is no lab, or where it breaks.
    """
    from nvmptcp_lab import boot, series, verbs
    from nvmptcp_lab.build import ensure_kernel
    from nvmptcp_lab.errors import LabError

    if not series.SERIES.is_dir():
        raise UsageError("`reference` needs the lab, which is in a checkout of the project (`make"
                         " setup`, `make kernel`); this is an installation without one")
    codes = []
    try:
        verbs.require("ip", "nsenter", "insmod", "perl")
        kernel = ensure_kernel()
        version = f"{kernel.release}, series {series.digest(series.load(series.SERIES))[:12]}"
        for side in [args.side] if args.side else ["target", "host"]:
            directory = results / side
            directory.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "nvmptcp_conformance.reference_guest", side,
                       "--version", version, "--variant", args.variant,
                       "--attributes", args.attributes, "--", *_forwarded(args, directory)]
            package = Path(__file__).parents[1]
            codes.append(verbs.finish(boot.run(boot.Guest(
                kernel=kernel, topology=verbs.find_topology(TOPOLOGY), writable=[directory],
                command=["env", f"PYTHONPATH={package}", "PYTHONDONTWRITEBYTECODE=1", *command]))))
    except LabError as error:
        raise UsageError(f"the lab: {error}") from None
    return max(codes)


def _forwarded(args: argparse.Namespace, directory: Path) -> list[str]:
    """The options of this command that the one in the guest gets, too."""
    options = ["--results", str(directory.resolve()), "--captures", args.captures]
    options += ["--color", "always" if args.color == "auto" and _on_a_terminal() else args.color]
    for name in ("requirement", "section"):
        if (value := getattr(args, name)) is not None:
            options += [f"--{name}", str(value)]
    if args.destructive:
        options.append("--destructive")
    return [*options, *([f"--{args.mode}"] if args.mode else [])]


def _on_a_terminal() -> bool:
    from .report.terminal import is_for_a_person

    return is_for_a_person(sys.stdout)
