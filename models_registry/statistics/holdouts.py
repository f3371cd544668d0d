"""What a holdout shows: the difference between the units that get what is promoted and those that keep an earlier
version. `models_registry.experiments.holdouts` has the sums."""

from dataclasses import dataclass

from models_registry.statistics.intervals import Interval, display_interval


@dataclass(frozen=True, slots=True)
class ArmSums:
    """Units of one arm, and the sums of their outcomes, a unit's mean reward each, and of the squares of these."""

    units: int = 0
    total: float = 0.0
    squares: float = 0.0

    @property
    def mean(self) -> float | None:
        return self.total / self.units if self.units else None


def compare_arms(served: ArmSums, held: ArmSums) -> Interval | None:
    """Mean of the served minus that of the held, with the 95% confidence sequence of `intervals.display_interval`; None
    below 50 units in either.

        x_i = (A_i - p) / (p (1 - p)) * (Y_i - m),   A_i = 1 of a served unit, p their share, m the mean of all units

    p and m are those of the units at hand, so that the mean of x is the difference of the means; an experiment's
    contrast takes the planned share and the past's mean. Nothing is decided on this interval, and outcomes of earlier
    units still change.
    """
    units = served.units + held.units
    if not served.units or not held.units:
        return None
    p, m = served.units / units, (served.total + held.total) / units
    contrasts = (served.total - served.units * m) / p - (held.total - held.units * m) / (1.0 - p)
    spread = [one.squares - 2.0 * m * one.total + one.units * m * m for one in (served, held)]
    squares = spread[0] / p**2 + spread[1] / (1.0 - p) ** 2
    return display_interval(units=units, treated=served.units, contrasts=contrasts, squares=squares)
