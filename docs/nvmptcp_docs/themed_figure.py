# SPDX-License-Identifier: GPL-2.0-or-later
"""Plots in pages, drawn twice, dark on light and light on dark: the theme shows what fits."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = {"light": "#1f2328", "dark": "#e6e6e6"}


class ThemedFigure(SphinxDirective):
    """What directives that draw have in common."""

    def images(self, name: str, alt: str, content: str,
               draw: Callable[[], "Figure"]) -> list[nodes.Node]:
        """The plot as two images. It is drawn anew when `content`, what it shows, changes."""
        directory = Path(self.env.app.outdir).parent / "figures"
        directory.mkdir(parents=True, exist_ok=True)
        code = b"".join(Path(path).read_bytes() for path in (__file__, draw.__code__.co_filename))
        key = hashlib.sha256(content.encode() + code).hexdigest()[:12]
        found: list[nodes.Node] = []
        for theme, ink in INK.items():
            path = directory / f"{name}-{theme}-{key}.svg"
            if not path.exists():
                _save(draw, ink, path)
            image = nodes.image(alt=alt, classes=[f"only-{theme}"])
            # A leading slash means the source directory.
            image["uri"] = "/" + os.path.relpath(path, self.env.srcdir)
            found.append(image)
        return found


def _save(draw: Callable[[], "Figure"], ink: str, path: Path) -> None:
    """Write a plot as SVG on a transparent ground, lines and text in `ink`."""
    from matplotlib import rc_context

    plain: Any = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color",
                                "ytick.color"), ink)
    with rc_context({**plain, "axes.facecolor": "none", "font.size": 12,
                     "svg.hashsalt": "nvmptcp"}):
        draw().savefig(path, format="svg", bbox_inches="tight", transparent=True,
                       metadata={"Date": None})
