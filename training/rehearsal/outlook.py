"""What it would take: decisions until a share of the ceiling, and units until an experiment could tell. PURE numpy.

Between what was tried it interpolates; beyond it, it follows a fitted curve and says so, and not further than ten
times the decisions that were tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models_registry.statistics.e_process import run_e_process
from models_registry.statistics.promotion import Bounds

FURTHEST = 10.0
SIMULATIONS = 200
MOST_UNITS = 20_000

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


def needed_units(control: float, treatment: float, *, seed: int, bounds: Bounds | None = None) -> int | None:
    """Units of an even experiment until E+ reaches the bound of a promotion, in half of the simulated experiments.

    `control`, `treatment`: mean outcomes in [0, 1] of the two arms, outcomes being right or wrong. The real e-process
    runs on simulated units. None where half of them are undecided after 20,000 units.
    """
    bounds = bounds or Bounds()
    if treatment <= control:
        return None
    rng = np.random.default_rng(seed)
    first = np.full(SIMULATIONS, np.inf)
    # Most experiments end early: long ones are only simulated where short ones did not decide.
    for units in (2_000, MOST_UNITS):
        arms = rng.random((SIMULATIONS, units)) < 0.5
        outcomes = rng.random((SIMULATIONS, units)) < np.where(arms, treatment, control)
        process = run_e_process(arms.astype(float), 0.5, outcomes.astype(float))
        over = (process.log_e_plus >= np.log(bounds.promote_e)) & (
            np.minimum(process.treated, np.arange(1, units + 1) - process.treated) >= bounds.min_units_per_arm
        )
        first = np.where(over.any(1), over.argmax(1) + 1.0, np.inf)
        if np.isfinite(np.median(first)):
            return int(np.median(first))
    return None
