# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx directives that plot measured figures.

`results-figure`: the bandwidths of kernel-impl/results.json; `perf-figure`: a scenario of
docs/results/perf.json.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from nvmptcp_lab.errors import LabError

from .themed_figure import ThemedFigure

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RESULTS, PERF = "kernel-impl/results.json", "docs/results/perf.json"


class ResultsFigure(ThemedFigure):
    """`.. results-figure:: ALT TEXT`"""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from nvmptcp_lab.report import bandwidth

        source = Path(self.env.srcdir) / RESULTS
        self.env.note_dependency(str(source))
        try:
            text = source.read_text()
            rows = json.loads(text)["rows"]
        except (OSError, ValueError, KeyError) as error:
            raise self.error(f"{source}: {error}: `make results` writes it") from error
        return self.images("results", self.arguments[0], text,
                           lambda: bandwidth(rows, row_height=0.42))


class PerfFigure(ThemedFigure):
    """`.. perf-figure:: SCENARIO [WORDS]`: of the cells whose name has the words, if any."""

    required_arguments = 1
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from nvmptcp_conformance.perf import plots, results

        source = Path(self.env.srcdir) / PERF
        self.env.note_dependency(str(source))
        scenario, words = self.arguments[0], (*self.arguments[1:], "")[0]
        try:
            found = results.load(source)
        except LabError as error:
            raise self.error(f"{error}: `make perf` writes it") from error
        cells = [cell for cell in found.cells if cell.scenario == scenario and words in cell.name]
        if not cells:
            raise self.error(f"{source}: no cells of {scenario!r} with {words!r} in their name")
        return self.images(f"perf-{scenario}", f"{found.scenarios[scenario]['title']}, {words}",
                           repr(cells) + Path(plots.__file__).read_text(),
                           lambda: plots.draw(cells))


def setup(app: "Sphinx") -> dict[str, Any]:
    app.add_directive("results-figure", ResultsFigure)
    app.add_directive("perf-figure", PerfFigure)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
