"""Estimates the decisions until a share of the ceiling, and the units until an experiment decides. PURE numpy.

It interpolates within the tried range, and beyond it follows a fitted curve, up to ten times the tried decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models_registry.statistics.e_process import CAP, SHARP_CAP, compute_posteriors, run_e_process
from models_registry.statistics.guardrails import run_guardrail
from models_registry.statistics.promotion import Bounds

FURTHEST = 10.0
SIMULATIONS = 200
SHORT_UNITS, MOST_UNITS = 4_000, 20_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Needed:
    """`share` of the ceiling's accuracy; `decisions` until it, None where even ten times as many would not do.

    `extrapolated`: more than were tried, so it comes from the fitted curve.
    """

    share: float
    accuracy: float
    decisions: int | None
    extrapolated: bool


def needed_decisions(
    decisions: Sequence[int], accuracy: Sequence[float], *, base: float, ceiling: float, shares: Sequence[float]
) -> list[Needed]:
    """For each share of the ceiling. `decisions` grow; `accuracy` is what held-out rows gave after them.

    The curve is a power law from the base towards the ceiling, ceiling − (ceiling − base) · (1 + n/s)^(−b), fitted by
    least squares over a grid of s and b (compare Hestness et al. 2017, "Deep learning scaling is predictable").
    """
    tried_n = np.concatenate([[0.0], np.asarray(decisions, dtype=np.float64)])
    # Accuracy that falls by chance is no reason to need fewer decisions: the best so far counts.
    tried = np.maximum.accumulate(np.concatenate([[base], np.asarray(accuracy, dtype=np.float64)]))
    found: list[Needed] = []
    for share in shares:
        target = share * ceiling
        if target <= base:
            found.append(Needed(share, target, 0, extrapolated=False))
        elif tried[-1] >= target:
            after = int(np.argmax(tried >= target))
            within = (target - tried[after - 1]) / (tried[after] - tried[after - 1])
            n = tried_n[after - 1] + within * (tried_n[after] - tried_n[after - 1])
            found.append(Needed(share, target, round(float(n)), extrapolated=False))
        else:
            n = _solve(tried_n, tried, base=base, ceiling=ceiling, target=target)
            found.append(Needed(share, target, n, extrapolated=True))
    return found


def _solve(n: Floats, accuracy: Floats, *, base: float, ceiling: float, target: float) -> int | None:
    if ceiling <= base or target >= ceiling or accuracy[-1] <= base:
        return None
    most = float(n[-1])
    scale = np.geomspace(most / 1000, most * 10, 121)[:, None, None]
    power = np.linspace(0.05, 3.0, 119)[None, :, None]
    curve = ceiling - (ceiling - base) * (1 + n / scale) ** -power
    best = np.unravel_index(int(np.square(curve - accuracy).sum(-1).argmin()), curve.shape[:2])
    s, b = float(scale[best[0], 0, 0]), float(power[0, best[1], 0])
    needed = s * (((ceiling - base) / (ceiling - target)) ** (1 / b) - 1)
    return round(needed) if most < needed <= FURTHEST * most else None


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Two versions that act on the same rows, and the person who answers.

    control, treatment: (n, k), P(option | row) as either version acts, exploration included.
    right: (n,), the place of the option that is right.
    outcomes: in [0, 1], what a unit is worth of which the person says wrong, and right, after rescaling.
    noise, missing: chance that the person says the opposite, and nothing; in [0, 0.5) and [0, 1).
    """

    control: Floats
    treatment: Floats
    right: NDArray[np.int64]
    outcomes: tuple[float, float] = (0.0, 1.0)
    noise: float = 0.0
    missing: float = 0.0

    @property
    def gain(self) -> float:
        """How much more often the treatment is right."""
        rows = np.arange(len(self.right))
        return float((self.treatment[rows, self.right] - self.control[rows, self.right]).mean())


def needed_units(
    pair: VersionPair,
    *,
    seed: int,
    margins: tuple[float, float, float],
    bounds: Bounds | None = None,
    most: int = MOST_UNITS,
) -> int | None:
    """Units of an even experiment until it promotes, in half of the simulated experiments.

    The experiment's own rule after every unit of one decision: conditioned and rescaled e-process, guardrails on
    errors, latency and missing feedback with their `margins`, and `bounds`, but for the age. Errors and slow answers
    never happen. None where fewer than half of them have promoted after `most` units.
    """
    bounds = bounds or Bounds()
    if pair.gain <= 0:
        return None
    rng = np.random.default_rng(seed)
    # Most experiments end early: long ones are only simulated where short ones did not decide.
    for units in sorted({min(SHORT_UNITS, most), most}):
        ends = np.array([_simulate(pair, units, rng, margins, bounds) for _ in range(SIMULATIONS)])
        if np.isfinite(np.median(ends)):
            return int(np.median(ends))
    return None


def _simulate(
    pair: VersionPair, units: int, rng: np.random.Generator, margins: tuple[float, float, float], bounds: Bounds
) -> float:
    """`promoted_after` of one experiment's units, drawn at random."""
    arms = (rng.random(units) < 0.5).astype(int)
    rows = rng.integers(len(pair.right), size=units)
    actions = np.where(arms == 1, _draw(pair.treatment, rows, rng), _draw(pair.control, rows, rng))
    said_right = (actions == pair.right[rows]) ^ (rng.random(units) < pair.noise)
    silent = rng.random(units) < pair.missing
    with np.errstate(divide="ignore"):
        log_l = [np.log(policy[rows, actions])[~silent] for policy in (pair.control, pair.treatment)]
    outcomes = np.where(said_right, pair.outcomes[1], pair.outcomes[0])[~silent]
    posteriors = compute_posteriors(arms[~silent], 0.5, *log_l)
    return promoted_after(arms, 0.5, ~silent, outcomes, posteriors=posteriors, margins=margins, bounds=bounds)


def promoted_after(
    arms: NDArray[np.int64],
    share: float,
    rewarded: NDArray[np.bool_],
    outcomes: Floats,
    *,
    posteriors: Floats | None,
    margins: tuple[float, float, float] | None,
    bounds: Bounds,
) -> float:
    """The unit, from 1, at which an experiment promotes; inf where it rolls back before, or does not get there.

    Its own rule, but for its age, after every unit.
    arms, rewarded: (n,), 1 for the treatment, which a unit gets with probability `share`; whether it has an outcome.
    outcomes: (m,) in [0, 1], of those that have one. posteriors: as `run_e_process` takes them; None is the plain
    contrast. margins: of the guardrails on errors, latency and missing feedback, of which the first two never happen;
    None is without guardrails.
    """
    if not rewarded.any():
        return np.inf
    cap = CAP if posteriors is None else SHARP_CAP
    process = run_e_process(arms[rewarded], share, outcomes, posteriors=posteriors, cap=cap)
    # What the rule knows after each unit: the last rewarded one's evidence, and none before the first.
    known = rewarded.cumsum()
    better, worse = (np.concatenate([[0.0], found])[known] for found in (process.log_e_plus, process.log_e_minus))
    treated = (arms * rewarded).cumsum()
    enough = np.minimum(treated, known - treated) >= bounds.min_units_per_arm
    ready = (better >= np.log(bounds.promote_e)) & enough
    harmed = worse >= np.log(bounds.rollback_e)
    if margins is not None:
        never = np.zeros(len(arms))
        for measures, margin in zip((never, never, (~rewarded).astype(float)), margins, strict=True):
            guardrail = run_guardrail(arms, share, measures, margin=margin)
            ready &= guardrail.log_e_non_inferior >= np.log(bounds.guardrail_e)
            harmed |= guardrail.log_e_harm >= np.log(bounds.rollback_e * len(margins))
    first, harm = (float(reached.argmax()) if reached.any() else np.inf for reached in (ready, harmed))
    return first + 1 if first < harm else np.inf


def _draw(policy: Floats, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """An option of each row by the policy's probabilities; (units,)."""
    # Cumulated, every row lies in its own unit of one growing line: row r takes (r, r + 1].
    line = (np.arange(len(policy))[:, None] + policy.cumsum(1) / policy.sum(1, keepdims=True)).ravel()
    drawn = np.searchsorted(line, rows + rng.random(len(rows)), side="right")
    places: NDArray[np.int64] = np.minimum(drawn - rows * policy.shape[1], policy.shape[1] - 1)
    return places
