"""In which order a queue asks for labels. PURE; `decisions.labelling.filling` ranks what it found.

With u = 1 − confidence, the chance by the model's own word that it was wrong:

- sequential: the oldest decision first.
- random: a hash of queue and decision, the same at any time.
- uncertainty: what the auto-labeler doubts most first, by its margin (`decisions.labelling.classifier`). What it has
  not looked at yet goes by the model's confidence, which comes last where it is unknown.
- value: the largest u / (1 + n) first, where n is how many decisions of the same agent and action (a cell) are labelled
  already, or are asked before this one. A label on a cell with n labels changes its mean verdict by about
  (y − mean) / (n + 1) (Sutton and Barto 2018, "Reinforcement Learning", equation 2.3), and u stands for the expected
  |y − mean|. It is a proxy for what a model learns. Asking cells in turn also makes the labels diverse.
- diversity: the n texts of what one look found are put into at most ⌈√n⌉ groups by greedy k-centre (Gonzalez 1985,
  "Clustering to minimize the maximum intercluster distance") with 1 − likeness as distance: the first centre is the
  most uncertain decision, each next one is the least like any centre, and a decision belongs to the centre that it is
  most like. The groups are asked in turn, each from its largest u on, beginning with the group that has the largest.
  Ties are broken by the hash of `random`, so a queue's order is the same at any time.

Of an episode u is that of its least certain decision, and the value is how far the rewards of its decisions lie apart,
zero among them: one verdict on the whole episode is worth most where its decisions earned much, little or both.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from decisions.labelling.wording import Wording

Cell = tuple[uuid.UUID, str]
"""An agent's id and an action, as text."""
UNKNOWN = 2.0
"""The rank of an unknown confidence: behind every known one."""
SAME = 1 - 1e-9
"""Texts that are this alike have the same words."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A decision that a queue may ask about. `confidence`, of the model that decided, and `margin`, the auto-labeler's,
    are in [0, 1], or None where they are not known; `text` is that of its state, for diversity alone."""

    subject: uuid.UUID
    confidence: float | None
    cell: Cell
    text: str = ""
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class EpisodeCandidate:
    """`confidence` of its least certain decision, in [0, 1] or None. `spread`: the highest minus the lowest of its
    decisions' raw rewards and 0; at least 0."""

    subject: uuid.UUID
    confidence: float | None
    spread: float


def rank_candidates(
    strategy: str, candidates: Sequence[Candidate], *, labelled: Mapping[Cell, int], salt: uuid.UUID
) -> list[float]:
    """A rank for each candidate; the lowest is asked first, and of equal ones the oldest. `labelled` counts
    labels of each cell, for value alone. Raises ValueError for an unknown strategy."""
    if strategy == "sequential":
        return [0.0] * len(candidates)
    if strategy == "random":
        return [_hashed(salt, candidate.subject) for candidate in candidates]
    if strategy == "uncertainty":
        return [_sureness(one) for one in candidates]
    if strategy == "diversity":
        return _rank_by_turns(candidates, salt)
    if strategy != "value":
        raise ValueError(f"{strategy!r} is no strategy")
    ranks = [0.0] * len(candidates)
    asked: Counter[Cell] = Counter(labelled)
    for place in sorted(range(len(candidates)), key=lambda one: (-_uncertainty(candidates[one]), one)):
        cell = candidates[place].cell
        ranks[place] = -_uncertainty(candidates[place]) / (1 + asked[cell])
        asked[cell] += 1
    return ranks


def _rank_by_turns(candidates: Sequence[Candidate], salt: uuid.UUID) -> list[float]:
    """Places in the order of diversity, from 0 on."""
    order = sorted(
        range(len(candidates)),
        key=lambda one: (-_uncertainty(candidates[one]), _hashed(salt, candidates[one].subject)),
    )
    wording = Wording([candidate.text for candidate in candidates])
    groups: list[list[int]] = []
    nearest = [(-1.0, 0)] * len(candidates)  # likeness to the nearest centre, and that centre's group
    while len(groups) < math.isqrt(max(0, len(candidates) - 1)) + 1:
        centre = min(order, key=lambda one: nearest[one][0], default=None)
        if centre is None or nearest[centre][0] >= SAME:
            break
        likeness = wording.compare(centre)
        nearest = [max(old, (new, -len(groups))) for old, new in zip(nearest, likeness, strict=True)]
        groups.append([])
    for one in order:
        groups[-nearest[one][1]].append(one)
    groups.sort(key=lambda group: order.index(group[0]))
    turns = [one for turn in zip_longest(*groups) for one in turn if one is not None]
    ranks = [0.0] * len(candidates)
    for rank, one in enumerate(turns):
        ranks[one] = float(rank)
    return ranks


def _sureness(candidate: Candidate) -> float:
    if candidate.margin is not None:
        return candidate.margin
    return UNKNOWN if candidate.confidence is None else candidate.confidence


def rank_episodes(strategy: str, candidates: Sequence[EpisodeCandidate], *, salt: uuid.UUID) -> list[float]:
    """As `rank_candidates`. Raises ValueError for a strategy that says nothing of episodes."""
    if strategy == "value":
        return [-one.spread for one in candidates]
    if strategy not in {"sequential", "random", "uncertainty"}:
        raise ValueError(f"{strategy!r} is no strategy for episodes")
    alone = [Candidate(one.subject, one.confidence, (one.subject, "")) for one in candidates]
    return rank_candidates(strategy, alone, labelled={}, salt=salt)


def _uncertainty(candidate: Candidate) -> float:
    return 0.0 if candidate.confidence is None else 1.0 - candidate.confidence


def _hashed(salt: uuid.UUID, subject: uuid.UUID) -> float:
    """From 0 to 1."""
    digest = hashlib.blake2b(salt.bytes + subject.bytes, digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
