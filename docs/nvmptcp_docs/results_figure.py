# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx directive `results-figure`: the bandwidths of kernel-impl/results.json as a plot.

Drawn twice, dark on light and light on dark; the theme shows the one that fits.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RESULTS = "kernel-impl/results.json"
INK = {"light": "#1f2328", "dark": "#e6e6e6"}


def draw(rows: list[dict[str, Any]], ink: str, path: Path) -> None:
    """Write the plot of `rows` as SVG on a transparent ground, lines and text in `ink`."""
    from matplotlib import rc_context
    from nvmptcp_lab.report import bandwidth

    plain: Any = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color",
                                "ytick.color"), ink)
    with rc_context({**plain, "axes.facecolor": "none", "font.size": 12,
                     "svg.hashsalt": "nvmptcp"}):
        bandwidth(rows, row_height=0.42).savefig(
            path, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})


class ResultsFigure(SphinxDirective):
    """`.. results-figure:: ALT TEXT`"""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        source = Path(self.env.srcdir) / RESULTS
        self.env.note_dependency(str(source))
        try:
            text = source.read_text()
            rows = json.loads(text)["rows"]
        except (OSError, ValueError, KeyError) as error:
            raise self.error(f"{source}: {error}: `make results` writes it") from error
        # The name has the content's hash, so that what is drawn already stays.
        key = hashlib.sha256(text.encode() + Path(__file__).read_bytes()).hexdigest()[:12]
        directory = Path(self.env.app.outdir).parent / "figures"
        directory.mkdir(parents=True, exist_ok=True)
        found: list[nodes.Node] = []
        for theme, ink in INK.items():
            path = directory / f"results-{theme}-{key}.svg"
            if not path.exists():
                draw(rows, ink, path)
            image = nodes.image(alt=self.arguments[0], classes=[f"only-{theme}"])
            # A leading slash means the source directory.
            image["uri"] = "/" + os.path.relpath(path, self.env.srcdir)
            found.append(image)
        return found


def setup(app: "Sphinx") -> dict[str, Any]:
    app.add_directive("results-figure", ResultsFigure)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
