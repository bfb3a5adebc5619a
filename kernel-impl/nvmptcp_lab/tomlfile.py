# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads TOML that a user wrote."""

import tomllib
from pathlib import Path
from typing import Any

from .errors import UsageError


def read(path: Path, what: str) -> tuple[str, dict[str, Any]]:
    """A file's text and its tables. `what` it is, such as "topology". Raises UsageError."""
    try:
        text = path.read_text()
        return text, tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UsageError(f"{path}: can't read the {what}: {why}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
