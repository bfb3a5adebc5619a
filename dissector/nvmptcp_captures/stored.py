# SPDX-License-Identifier: GPL-2.0-or-later
"""The captures of dissector/captures/: their list, their files, their expected values.

NAME.pcapng.xz holds what the host's end of each link carried, NAME.json what the kernel counted
meanwhile (see guest/counts.py).
"""

import json
import lzma
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvmptcp_lab.topology import Topology, from_table

DISSECTOR = Path(__file__).parents[1]
CAPTURES = DISSECTOR / "captures"
LIST = CAPTURES / "captures.toml"


@dataclass(frozen=True)
class Capture:
    """One capture of the list."""

    name: str
    about: str
    situation: str  # a function of guest/situations.py
    seed: int
    topology: Topology

    @property
    def packed(self) -> Path:
        return CAPTURES / f"{self.name}.pcapng.xz"

    @property
    def keys(self) -> Path:
        """TLS secrets in the format of SSLKEYLOGFILE, where there are any."""
        return CAPTURES / f"{self.name}.keys"

    @property
    def expected_file(self) -> Path:
        return CAPTURES / f"{self.name}.json"

    @property
    def expected(self) -> dict[str, Any]:
        """What the kernel counted."""
        expected: dict[str, Any] = json.loads(self.expected_file.read_text())
        return expected

    def unpack(self, directory: Path) -> Path:
        """Write NAME.pcapng into a directory. Raises OSError."""
        file = directory / f"{self.name}.pcapng"
        with lzma.open(self.packed) as packed:
            file.write_bytes(packed.read())
        return file


def captures() -> dict[str, Capture]:
    """The list, in the file's order. Raises OSError, ValueError, UsageError."""
    with LIST.open("rb") as file:
        table = tomllib.load(file)
    return {name: Capture(name, entry["about"], entry["situation"], entry["seed"],
                          from_table(entry["topology"], f"{LIST}: {name}"))
            for name, entry in table.items()}
