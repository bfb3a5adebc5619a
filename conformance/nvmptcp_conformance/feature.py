# SPDX-License-Identifier: GPL-2.0-or-later
"""What a device shows of an optional feature, against what its profile claims."""

from dataclasses import dataclass

from .profile import Claims
from .suite.verdict import Failed, NotApplicable, check


@dataclass(frozen=True)
class Feature:
    """What was seen of a feature with a claim (profile.Claims), and the words that prove it."""

    name: str
    value: bool | int
    proof: str

    def require(self, claims: Claims) -> None:
        """NotApplicable if the device shows that it lacks the feature, Failed if it claims it."""
        if not self.value:
            claimed = getattr(claims, self.name)
            raise Failed(f"{self.proof}, but the profile claims `{self.name}`") if (
                claimed) else NotApplicable(self.proof)

    def check(self, claims: Claims) -> None:
        """Failed unless the claim is true, no more and no less."""
        claimed = getattr(claims, self.name)
        check(self.value == claimed, f"{self.proof}, but the profile says"
                                     f" `{self.name} = {str(claimed).lower()}`")


def claim(claims: Claims, name: str) -> None:
    """NotApplicable if the profile doesn't say anything of a feature."""
    if getattr(claims, name) is None:
        raise NotApplicable(f"the profile has no claim `{name}`")
