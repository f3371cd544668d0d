"""How long something takes to happen, where some have not lived to see it yet: the Kaplan–Meier estimate.

The pages of rewards ask it how long after a decision its first verdict arrives.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from models_registry.statistics.intervals import wilson_interval


@dataclass(frozen=True, slots=True)
class Share:
    """A share in [0, 1] with its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SurvivalCurve:
    """S(t), the share to which it has not happened after t, as a step function that falls at `times`.

    times: (k,) ascending, when it happened to somebody. survival, low, high: (k,) in [0, 1], from that time on.
    at_risk: (k,) how many were still watched just before. n: all that were watched; events: to how many it happened;
    last: the longest that anybody was watched, beyond which nothing is known unless S is 0 there.
    """

    times: NDArray[np.float64]
    survival: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    at_risk: NDArray[np.int64]
    n: int
    events: int
    last: float

    @property
    def median(self) -> float | None:
        """The first time at which S is at most one half; None where that is not reached."""
        return self.quantile(0.5)

    def quantile(self, share: float) -> float | None:
        """The first time by which it has happened to this share in (0, 1); None where that is not reached."""
        reached = np.flatnonzero(self.survival <= 1.0 - share + 1e-12)
        return float(self.times[reached[0]]) if reached.size else None

    def happened_by(self, time: float) -> Share | None:
        """1 − S(time) with its interval; None where nobody was watched for so long and S is not 0. Before anything has
        happened it is Wilson's 95% interval of none among those at risk when it first does."""
        place = int(np.searchsorted(self.times, time, side="right")) - 1
        if time > self.last and (place < 0 or self.survival[place] > 0.0):
            return None
        if place < 0:  # nothing has happened yet, of which Greenwood's variance knows nothing
            return Share(0.0, 0.0, wilson_interval(0, int(self.at_risk[0])).high if self.events else 1.0)
        return Share(*(1.0 - float(values[place]) for values in (self.survival, self.high, self.low)))


def kaplan_meier(durations: ArrayLike, happened: ArrayLike, confidence: float = 0.95) -> SurvivalCurve:
    """The product-limit estimate, with Greenwood's variance on the scale of log(−log S).

    durations: (n,) finite, at least 0: how long each was watched. happened: (n,) true where it happened then, false
    where watching ended before (censored). Of one time, what happened comes before what was censored. With d_i of the
    n_i at risk at time t_i,

        S(t) = Π_{t_i ≤ t} (1 − d_i / n_i),   G(t) = Σ_{t_i ≤ t} d_i / (n_i (n_i − d_i))
        interval: S^exp(±z sqrt(G) / log S),  which lies in [0, 1]

    Kaplan & Meier 1958; Greenwood 1926; the scale is Kalbfleisch & Prentice, "The Statistical Analysis of Failure Time
    Data", 2002, 1.4. Where S reaches 0 the variance is unknown: the interval goes from 0 to its last upper end. The n
    are taken for independent. Raises ValueError when empty, of unequal lengths, negative or not finite.
    """
    duration = np.asarray(durations, dtype=np.float64)
    event = np.asarray(happened, dtype=bool)
    if duration.ndim != 1 or event.shape != duration.shape:
        raise ValueError(f"durations {duration.shape} and happened {event.shape} must both have the shape (n,)")
    if duration.size == 0 or not np.isfinite(duration).all() or (duration < 0).any():
        raise ValueError("durations must be finite, not negative, and at least one")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
    times, deaths = np.unique(duration[event], return_counts=True)
    at_risk = duration.size - np.searchsorted(np.sort(duration), times, side="left")
    survival: NDArray[np.float64] = np.cumprod(1.0 - deaths / at_risk, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(np.cumsum(deaths / (at_risk * (at_risk - deaths)))) / np.log(survival)
        reach = np.exp(float(ndtri(0.5 + confidence / 2.0)) * np.abs(spread))
        low, high = survival**reach, survival ** (1.0 / reach)
    if times.size and survival[-1] == 0.0:
        low[-1] = 0.0
        high[-1] = high[-2] if times.size > 1 else 1.0
    return SurvivalCurve(
        times=times,
        survival=survival,
        low=low,
        high=high,
        at_risk=at_risk.astype(np.int64),
        n=int(duration.size),
        events=int(event.sum()),
        last=float(duration.max()),
    )
