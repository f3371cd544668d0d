"""Whoever gives the feedback in a rehearsal. PURE: what becomes of a row follows from the seed and its id.

The person sees the action that was chosen and says whether it was right; nobody is told what would have been.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from training.rehearsal.plan import Plan


@dataclass(frozen=True, slots=True)
class Reaction:
    """`when` the person says `verdict` of the action. What is never said is still reckoned, for the truth's sake."""

    when: Literal["at_once", "late", "never"]
    verdict: Literal["confirmed", "corrected"]


def react(plan: Plan, seed: int, row_id: str, *, right: bool) -> Reaction:
    missing = unit_interval(seed, row_id, "missing") < plan.missing
    late = unit_interval(seed, row_id, "late") < plan.late
    says_right = right != (unit_interval(seed, row_id, "noise") < plan.noise)
    return Reaction("never" if missing else "late" if late else "at_once", "confirmed" if says_right else "corrected")


def expected_feedback(plan: Plan, probability_of_right: float) -> float:
    """P(the feedback says right) when the action is right with this probability."""
    return plan.noise + (1 - 2 * plan.noise) * probability_of_right


def unit_interval(seed: int, *parts: str) -> float:
    """A number in [0, 1) that follows from the seed and the parts."""
    digest = hashlib.sha256("|".join([str(seed), *parts]).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
