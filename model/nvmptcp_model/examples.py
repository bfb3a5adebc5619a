# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `examples`: runs the module's three examples, and draws what each connection carried."""

import argparse
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvmptcp_lab import verbs as lab_verbs
from nvmptcp_lab.errors import LabError

from . import traces
from .backend import default_build, last_words

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from matplotlib.figure import Figure

TRANSPORTS: Mapping[str, Sequence[str]] = {"MPTCP": ["--mptcp=true"], "TCP": ["--mptcp=false"]}
# Of each example the runs, by what is written above their panels; `policies` runs all at once.
RUNS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "first": TRANSPORTS, "failure": TRANSPORTS, "policies": {"": []}}
TARGET_PORT = ":4420"
LEAST = 1 << 20  # bytes: a connection that carried less is an admin queue

Flows = Mapping[str, tuple[list[float], list[float]]]


@dataclass(frozen=True)
class Panel:
    """What a run of an example printed, and what the target's connections carried: s and bytes."""

    title: str
    flows: Flows


def add_parsers(subparsers: "_SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser(
        "examples", help="run the module's examples, and draw them",
        description="Run nvme-mptcp-first, nvme-mptcp-failure and nvme-mptcp-policies, and draw"
        " what each connection of the target had sent when, as PNG and SVG: the pictures of the"
        " module's documentation.")
    parser.add_argument("--output", type=Path, default=Path("."), metavar="DIR",
                        help="(default: %(default)s)")
    parser.set_defaults(func=_examples)


def panels(build: Path, name: str) -> list[Panel]:
    """Run an example. Raises LabError."""
    found = []
    for title, options in RUNS[name].items():
        with tempfile.TemporaryDirectory() as directory:
            said = _run(build / f"nvme-mptcp-{name}", [*options, f"--trace={directory}"])
            if title:
                found.append(_panel(f"{title}: {said[0]}", Path(directory)))
            else:
                found += [_panel(line, Path(directory) / line.partition(":")[0].lower())
                          for line in said]
    return found


def _run(program: Path, options: Sequence[str]) -> list[str]:
    """What the program printed, by line."""
    try:
        done = subprocess.run([program, *options], capture_output=True, text=True)
    except OSError as error:
        raise LabError(f"{program}: {error.strerror}: run `make model` first") from None
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise LabError(f"{program.name} ended with {done.returncode}: {last_words(done.stderr)}")
    return lines


def _panel(title: str, directory: Path) -> Panel:
    flows = traces.read(directory / "subflow_bytes.csv")
    return Panel(title, {
        name.partition(":")[0]: series for name, series in sorted(flows.items())
        if name.partition(" ")[0].endswith(TARGET_PORT) and max(series[1]) > LEAST})


def draw(found: Sequence[Panel]) -> "Figure":
    """Bytes that were sent and acknowledged, over time: a panel each run, a line each connection.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.7 * len(found) + 0.6), layout="constrained")
    column = figure.subplots(len(found), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, panel in zip(column, found, strict=True):
        for flow, (times, sent) in panel.flows.items():
            axes.step(times, [size / 2**20 for size in sent], where="post", linewidth=1.2,
                      label=flow)
        axes.set_title(panel.title, fontsize=9, loc="left")
        axes.set_ylabel("MiB sent")
        axes.legend(frameon=False, fontsize=7, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
    column[-1].set_xlabel("s (simulated)")
    return figure


def _examples(args: argparse.Namespace) -> int:
    from nvmptcp_conformance.perf.plots import save

    output = lab_verbs.directory(args.output, "--output")
    assert output
    build = (args.build or default_build()).resolve()
    for name in RUNS:
        found = panels(build, name)
        written = save(draw(found), output / f"nvme-mptcp-{name}")
        for panel in found:
            print(f"{name}: {panel.title}")
        print("\n".join(str(path) for path in written))
    return 0
