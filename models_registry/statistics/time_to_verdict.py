"""How long an experiment takes until it promotes, expected before it starts.

`models_registry.experiments.outlook` asks, with what the agent met lately. Nothing is simulated and nothing decided:
each test's wealth grows as the bets of `e_process` make it grow on average, and the slowest condition of the promotion
rule counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models_registry.statistics.e_process import CAP, Floats

LEARNING = 1.15
"""A bet that has to be learnt needs about this many times the units of the best bet, by simulations of effects of 5 to
20 points at even and uneven splits (within a fifth; tests/models_registry/statistics/test_time_to_verdict.py)."""
MOST_UNITS = 100_000_000
_GRID = 4_000
DURATION, UNITS = "duration", "units_per_arm"


@dataclass(frozen=True, slots=True)
class Hurdle:
    """One e-value that a promotion needs.

    gain: the mean of what is bet on, above 0: the difference of the arms, or a guardrail's margin where they are equal.
    variance: of one unit's value, at least 0. log_e: the bound. seen: the share of the units that have a value, in
    (0, 1]. cap: the largest bet as a share of 1 / c_t, as in `e_process.run_e_process`.
    """

    name: str
    gain: float
    variance: float
    log_e: float
    seen: float = 1.0
    cap: float = CAP


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How new units come in, by what was watched.

    reached: (k,), not falling, k >= 2: how many units had come by the end of each of k equal parts of `seconds`. Beyond
    that they go on as in the later half. Raises ValueError where nobody came in it.
    """

    seconds: float
    reached: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.seconds <= 0.0 or len(self.reached) < 2 or not self.rate > 0.0:
            raise ValueError("arrivals need at least two parts of some time, and units in the later half of them")

    @property
    def rate(self) -> float:
        """New units a second in the later half."""
        half = len(self.reached) // 2
        return (self.reached[-1] - self.reached[half - 1]) / (self.seconds * (1 - half / len(self.reached)))

    def thin(self, share: float) -> "Arrivals":
        """A part of the units in (0, 1], chosen by chance."""
        return Arrivals(self.seconds, tuple(share * units for units in self.reached))

    def find_moment(self, units: float) -> float:
        """Seconds from the start until so many units have come."""
        if units > self.reached[-1]:
            return self.seconds + (units - self.reached[-1]) / self.rate
        return float(np.interp(units, (0.0, *self.reached), np.linspace(0.0, self.seconds, len(self.reached) + 1)))

    def count_until(self, seconds: float) -> float:
        """Units that have come after so many seconds."""
        if seconds > self.seconds:
            return self.reached[-1] + (seconds - self.seconds) * self.rate
        return float(np.interp(seconds, np.linspace(0.0, self.seconds, len(self.reached) + 1), (0.0, *self.reached)))


@dataclass(frozen=True, slots=True)
class Schedule:
    """shares: of the treatment, phase by phase, in (0, 1). phase_units: matured units that a phase needs before the
    next. window_seconds: from a unit's first decision until it has matured. min_units, min_seconds: what the rule asks
    of each arm, and of the age. rewarded: the share of units with an outcome, in (0, 1]."""

    shares: tuple[float, ...]
    phase_units: int
    window_seconds: float
    min_units: int
    min_seconds: float
    rewarded: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """seconds, units: until a promotion, and how many units have met an arm when the last one that it needs has; None
    beyond `MOST_UNITS`. slowest: the name of the hurdle that takes longest, `DURATION` or `UNITS`. phases: (share,
    seconds until it opens)."""

    seconds: float | None
    units: int | None
    slowest: str
    phases: tuple[tuple[float, float], ...]


def forecast_verdict(schedule: Schedule, hurdles: Sequence[Hurdle], arrivals: Arrivals) -> Forecast:
    """When every condition of the promotion rule is expected to be met, of a treatment that is as the hurdles say.

        growth of log E a unit = max over l <= cap / c of  l g - l^2 (v / (p (1 - p)) + g^2) / 2,  c = 1 / min(p, 1 - p)

    g, v of the hurdle, p the treatment's share of the unit's phase: the second-order growth of the bets of
    `e_process.run_e_process` (Waudby-Smith & Ramdas, JRSS-B 2024), with `LEARNING` for their not being known at first.
    """
    phases, begins = [(schedule.shares[0], 0.0)], [0.0]
    for share in schedule.shares[1:]:
        opens = arrivals.find_moment(begins[-1] + schedule.phase_units) + schedule.window_seconds
        phases.append((share, opens))
        begins.append(arrivals.count_until(opens))
    units = np.unique(np.geomspace(1.0, MOST_UNITS, _GRID).round())
    shares = np.array(schedule.shares)[np.searchsorted(begins, units, side="right") - 1]
    widths = np.diff(units, prepend=0.0)
    reached = {
        hurdle.name: _first(units, hurdle.seen * _grow(hurdle, shares) * widths, hurdle.log_e * LEARNING)
        for hurdle in hurdles
    }
    arms = [schedule.rewarded * share * widths for share in (shares, 1.0 - shares)]
    reached[UNITS] = max(_first(units, arm, schedule.min_units) for arm in arms)
    slowest = max(reached, key=reached.__getitem__)
    needed = reached[slowest]
    if not math.isfinite(needed):
        return Forecast(None, None, slowest, tuple(phases))
    seconds = arrivals.find_moment(needed) + schedule.window_seconds
    if schedule.min_seconds > seconds:
        seconds, slowest = schedule.min_seconds, DURATION
    return Forecast(seconds, round(needed), slowest, tuple(phases))


def _grow(hurdle: Hurdle, shares: Floats) -> Floats:
    """Expected growth of log E by one unit that has a value."""
    second = hurdle.variance / (shares * (1.0 - shares)) + hurdle.gain**2
    bets = np.minimum(hurdle.gain / second, hurdle.cap * np.minimum(shares, 1.0 - shares))
    growth: Floats = bets * hurdle.gain - np.square(bets) * second / 2.0
    return growth


def _first(units: Floats, steps: ArrayLike, bound: float) -> float:
    """The unit at which the sum of the steps reaches the bound; inf where it does not."""
    sums = np.cumsum(steps)
    return float(units[int(np.argmax(sums >= bound))]) if sums[-1] >= bound else math.inf
