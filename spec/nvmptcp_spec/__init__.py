# SPDX-License-Identifier: GPL-2.0-or-later
"""The Technical Proposal as code: registry of the wire layout, requirements, gates, traceability.

As a Sphinx extension (`extensions = ["nvmptcp_spec"]`) it brings the directives of the proposal.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: "Sphinx") -> "ExtensionMetadata":
    """Register the directives; here, so that reading the registry needs no Sphinx."""
    for part in ("requirements", "tables", "trace", "examples"):
        app.setup_extension(f"nvmptcp_spec.{part}")
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
