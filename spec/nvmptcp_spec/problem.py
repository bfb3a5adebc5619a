# SPDX-License-Identifier: GPL-2.0-or-later
"""What a gate finds."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One finding. It reads `file:line: what`."""

    path: str  # from the root of the checkout
    line: int  # 0: the file as a whole
    gate: str
    what: str

    def __str__(self) -> str:
        place = [self.path, str(self.line or "")]
        return ": ".join([":".join(filter(None, place)), self.what] if self.path else [self.what]
                         ) + f" [{self.gate}]"

    def as_json(self) -> dict[str, str | int]:
        """Ready for `json.dumps`."""
        return asdict(self)
