"""The simulated person who gives a loop its feedback. PURE: each reaction follows from the seed and the example's id.

The person sees only the chosen action and says whether it was right.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

When = Literal["at_once", "late", "never"]
WORTH_A_LABEL = (0.0, None, 1.0)
"""The person's verdicts, none among them, from the one to which a reviewer's label adds most: a rejection has not told
what is right, a confirmation has."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """`verdict` is what the person says of the action, `when` whether and how soon."""

    when: When
    verdict: Literal["confirmed", "corrected"]


@dataclass(frozen=True, slots=True)
class Person:
    """`missing`: the chance that a decision is never answered, in [0, 1); `late`: that an answer comes late, in [0, 1];
    `noise`: that an answer says the opposite of the truth, in [0, 0.5)."""

    seed: int
    missing: float
    late: float
    noise: float

    def react(self, example_id: str, *, right: bool) -> Reaction:
        missing = unit_interval(self.seed, example_id, "missing") < self.missing
        late = unit_interval(self.seed, example_id, "late") < self.late
        says_right = right != (unit_interval(self.seed, example_id, "noise") < self.noise)
        when: When = "never" if missing else "late" if late else "at_once"
        return Reaction(when, "confirmed" if says_right else "corrected")

    def expected_feedback(self, probability_of_right: float) -> float:
        """P(the feedback says right) when the action is right with this probability."""
        return self.noise + (1 - 2 * self.noise) * probability_of_right


def unit_interval(seed: int, *parts: str) -> float:
    """A number in [0, 1) that follows from the seed and the parts."""
    digest = hashlib.sha256("|".join([str(seed), *parts]).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
