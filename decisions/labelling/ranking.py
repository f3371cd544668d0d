"""In which order a queue asks for labels. PURE; `decisions.labelling.filling` ranks what it found.

With u = 1 − confidence, the chance by the model's own word that it was wrong:

- sequential: the oldest decision first.
- random: a hash of queue and decision, the same at any time.
- uncertainty: the largest u first. An unknown confidence comes last.
- value: the largest u / (1 + n) first, where n is how many decisions of the same agent and action (a cell) are labelled
  already, or are asked before this one. A label on a cell with n labels changes its mean verdict by about
  (y − mean) / (n + 1) (Sutton and Barto 2018, "Reinforcement Learning", equation 2.3), and u stands for the expected
  |y − mean|. It is a proxy for what a model learns. Asking cells in turn also makes the labels diverse.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Cell = tuple[uuid.UUID, str]
"""An agent's id and an action, as text."""
UNKNOWN = 2.0
"""The rank of an unknown confidence: behind every known one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A decision that a queue may ask about. `confidence` in [0, 1] or None."""

    decision: uuid.UUID
    confidence: float | None
    cell: Cell


def rank_candidates(
    strategy: str, candidates: Sequence[Candidate], *, labelled: Mapping[Cell, int], salt: uuid.UUID
) -> list[float]:
    """A rank for each candidate; the lowest is asked first, and of equal ones the oldest decision. `labelled` counts
    labels of each cell, for value alone. Raises ValueError for an unknown strategy."""
    if strategy == "sequential":
        return [0.0] * len(candidates)
    if strategy == "random":
        return [_hashed(salt, candidate.decision) for candidate in candidates]
    if strategy == "uncertainty":
        return [UNKNOWN if one.confidence is None else one.confidence for one in candidates]
    if strategy != "value":
        raise ValueError(f"{strategy!r} is no strategy")
    ranks = [0.0] * len(candidates)
    asked: Counter[Cell] = Counter(labelled)
    for place in sorted(range(len(candidates)), key=lambda one: (-_uncertainty(candidates[one]), one)):
        cell = candidates[place].cell
        ranks[place] = -_uncertainty(candidates[place]) / (1 + asked[cell])
        asked[cell] += 1
    return ranks


def _uncertainty(candidate: Candidate) -> float:
    return 0.0 if candidate.confidence is None else 1.0 - candidate.confidence


def _hashed(salt: uuid.UUID, decision: uuid.UUID) -> float:
    """From 0 to 1."""
    digest = hashlib.blake2b(salt.bytes + decision.bytes, digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
