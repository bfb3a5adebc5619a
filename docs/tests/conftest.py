# SPDX-License-Identifier: GPL-2.0-or-later
"""The documents, built once for all tests; `make docs` shares what is up to date."""

from pathlib import Path

import pytest
from nvmptcp_docs import build


@pytest.fixture(scope="session")
def built() -> Path:
    """build/docs, renewed: a warning of Sphinx or LaTeX, or a misspelt word, is an error here."""
    output = build.ROOT / "build" / "docs"
    build.build(output)
    return output
