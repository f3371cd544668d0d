"""Differences between the arms that decide nothing: secondary measures and slices of the units.

`models_registry.experiments.exploring` keeps a tally of each; the page and the API show them with an interval that
takes account of how many there are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models_registry.statistics.e_process import Past, count_on, sum_on
from models_registry.statistics.intervals import Interval, display_interval

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Tally:
    """What is known of a measure after `units` units, in sums: of the values, of the treated units' values, and of the
    contrasts x_i and x_i^2."""

    units: int = 0
    treated: int = 0
    values: float = 0.0
    treated_values: float = 0.0
    contrasts: float = 0.0
    squares: float = 0.0

    @property
    def means(self) -> tuple[float | None, float | None]:
        """Of the values in control and treatment; None for an arm without any."""
        control = self.units - self.treated
        return (
            (self.values - self.treated_values) / control if control else None,
            self.treated_values / self.treated if self.treated else None,
        )


EMPTY = Tally()


def tally_on(past: Tally, arms: ArrayLike, probabilities: ArrayLike, values: ArrayLike) -> Tally:
    """The tally after these units, (n,) each, in exposure order, which come after those that `past` knows.

    arms: 0 (control) and 1 (treatment). probabilities: P(treatment) of the unit's own phase, in (0, 1). values: finite,
    in any unit.

        m_t = sum_{i<t} Y_i / (t - 1), 0 for the first        x_t = (A_t - p_t) / (p_t (1 - p_t)) * (Y_t - m_t)

    The contrast of `e_process.run_e_process`, for values that have no bounds. Cutting a sequence anywhere changes
    nothing. Raises ValueError for shapes that differ, values that are not finite, or probabilities out of range.
    """
    arm = np.asarray(arms, dtype=np.float64)
    p, value = np.asarray(probabilities, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if arm.ndim != 1 or not arm.shape == p.shape == value.shape:
        raise ValueError(f"arms {arm.shape}, probabilities {p.shape} and values {value.shape} must have one shape (n,)")
    if not np.isfinite(value).all() or not ((p > 0.0) & (p < 1.0)).all():
        raise ValueError("values must be finite, and probabilities lie strictly between 0 and 1")
    if arm.size == 0:
        return past
    before = Past(units=past.units)
    sums = np.concatenate([[past.values], sum_on(value, past.values)])
    mean = sums[:-1] / np.maximum(count_on(value, before) - 1.0, 1.0)
    x = (arm - p) / (p * (1.0 - p)) * (value - mean)
    return Tally(
        units=past.units + arm.size,
        treated=past.treated + int(arm.sum()),
        values=float(sums[-1]),
        treated_values=float(sum_on(arm * value, past.treated_values)[-1]),
        contrasts=float(sum_on(x, past.contrasts)[-1]),
        squares=float(sum_on(np.square(x), past.squares)[-1]),
    )


def compare(tally: Tally, comparisons: int) -> Interval | None:
    """Treatment - control, with a confidence sequence at 1 - 0.05 / comparisons, so that all of them hold together, at
    any time, with 95%. comparisons: how many were planned, whether they have data or not. None below 50 units an arm.

    Bonferroni over `intervals.display_interval`. Raises ValueError for less than one comparison.
    """
    if comparisons < 1:
        raise ValueError("there is at least one comparison")
    return display_interval(
        units=tally.units,
        treated=tally.treated,
        contrasts=tally.contrasts,
        squares=tally.squares,
        alpha=ALPHA / comparisons,
    )
