# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx directives that plot measured figures.

`results-figure`: the bandwidths of kernel-impl/results.json; `perf-figure`: a scenario of
docs/results/perf.json; `model-figure`: the model against the kernel, or a scenario of its own.
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
MODEL, VALIDATION = "docs/results/model.json", "docs/results/model-validation.json"


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

    source, command = PERF, "make perf"
    required_arguments = 1
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from nvmptcp_conformance.perf import plots, results

        source = Path(self.env.srcdir) / self.source
        self.env.note_dependency(str(source))
        scenario, words = self.arguments[0], (*self.arguments[1:], "")[0]
        try:
            found = results.load(source)
        except LabError as error:
            raise self.error(f"{error}: `{self.command}` writes it") from error
        cells = [cell for cell in found.cells if cell.scenario == scenario and words in cell.name]
        if not cells:
            raise self.error(f"{source}: no cells of {scenario!r} with {words!r} in their name")
        return self.images(f"perf-{scenario}", f"{found.scenarios[scenario]['title']}, {words}",
                           repr(cells) + Path(plots.__file__).read_text(),
                           lambda: plots.draw(cells))


class ModelFigure(PerfFigure):
    """`.. model-figure:: SCENARIO [WORDS]`: as `perf-figure`, of the model's own scenarios."""

    source, command = MODEL, "make validate"


class ValidationFigure(ThemedFigure):
    """`.. validation-figure::`: the model's figures by the kernel's."""

    def run(self) -> list[nodes.Node]:
        from nvmptcp_model import validate, validation

        source = Path(self.env.srcdir) / VALIDATION
        self.env.note_dependency(str(source))
        try:
            found = validation.load(source)
        except LabError as error:
            raise self.error(f"{error}: `make validate` writes it") from error
        return self.images("model-validation", "Figures of the model by those of the kernel",
                           repr(found.checks), lambda: validate.draw(found.checks))


def setup(app: "Sphinx") -> dict[str, Any]:
    app.add_directive("results-figure", ResultsFigure)
    app.add_directive("perf-figure", PerfFigure)
    app.add_directive("model-figure", ModelFigure)
    app.add_directive("validation-figure", ValidationFigure)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
