# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `validate`: every scenario that the lab runs, kernel against model."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvmptcp_conformance.perf import verbs as perf_verbs
from nvmptcp_lab import verbs as lab_verbs

from . import verbs

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from matplotlib.figure import Figure

    from .validation import Check

NAME = "validate"


def add_parsers(subparsers: "_SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser(
        NAME, help="the kernel's figures against the model's",
        description="Simulate every scenario that the lab runs, and compare with what the reference"
        " kernel measured, cell by cell: bandwidth, p50, p99, the paths' shares, the gap of a"
        " fail-over. Lossless cells have to be within 3 %, lossy and unequal ones within 15 %, a"
        " gap within 25 %. What is outside is named in model/deviations.toml with its cause. Exit"
        " code 1 when something outside isn't, or something inside is. Leaves validate.json,"
        " results.json and a plot.")
    perf_verbs.add_scenarios(parser, "*")
    perf_verbs.add_cache(parser, verbs.CACHE)
    parser.add_argument("--kernel", type=Path, metavar="FILE",
                        help="the kernel's results (default: docs/results/perf.json)")
    parser.add_argument("--deviations", type=Path, metavar="FILE",
                        help="causes of what is outside (default: model/deviations.toml)")
    parser.add_argument("--output", type=Path, default=Path(verbs.OUTPUT), metavar="DIR",
                        help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.set_defaults(func=_validate)


def _validate(args: argparse.Namespace) -> int:
    from nvmptcp_conformance.perf import results, runner, scenario

    from . import schema, validation

    causes = validation.causes(args.deviations or validation.DEVIATIONS)
    scenarios = perf_verbs.choose(args.scenarios or ["all"], args.only, schema.find,
                                  scenario.names())
    kernel = results.load(args.kernel or validation.KERNEL)
    validation.require(scenarios, kernel)
    output = lab_verbs.directory(args.output, "--output")
    assert output
    model = runner.run(scenarios, perf_verbs.cache_directory(args.cache, verbs.CACHE),
                       verbs.backend(args), jobs=args.jobs, scheduler=args.scheduler)
    found = validation.check(scenarios, kernel, model, causes)
    model.write(output)
    document = json.dumps(found.document(), indent=1)
    (output / f"{NAME}.json").write_text(document + "\n")
    write_plot(found.checks, output)
    print(document if args.json else validation.table(found))
    return 0 if found.ok else 1


def write_plot(checks: "Sequence[Check]", directory: Path) -> list[Path]:
    """validate.png and .svg. Raises OSError."""
    from nvmptcp_conformance.perf import plots

    return plots.save(draw(checks), directory / NAME)


def draw(checks: "Sequence[Check]") -> "Figure":
    """Model over kernel, a dot a figure: bandwidth, then latencies."""
    from matplotlib.figure import Figure

    from .validation import LOSSLESS

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, (ending, title) in zip(panels, (
            ("_mib_s", "bandwidth, MiB/s"), ("_p50_ms", "p50, ms"), ("_p99_ms", "p99, ms")),
            strict=True):
        shown = [one for one in checks if one.figure.endswith(ending)
                 and one.kernel > 0 and one.model > 0]
        for lossless, colour, label in ((True, "#3b75af", "lossless, equal paths"),
                                        (False, "#e08a3c", "lossy or unequal")):
            part = [one for one in shown if (one.tolerance == LOSSLESS) is lossless]
            axes.plot([one.kernel for one in part], [one.model for one in part], "o",
                      markersize=3, alpha=0.7, color=colour, label=label)
        axes.axline((1, 1), slope=1, color="#888888", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("kernel")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("model")
    panels[0].legend(frameon=False, fontsize=8)
    return figure
