"""How the page of a draft shows its comparison: two histograms over each other, and intervals on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decisions.rewards.comparison import Comparison, Measured, VersionLine


@dataclass(frozen=True, slots=True)
class Bin:
    """Rewards from `low` to `high`: x, width, y and height in percent of the chart, and the counts."""

    low: float
    high: float
    x: str
    width: str
    before: int
    after: int
    before_y: str
    before_height: str
    after_y: str
    after_height: str


@dataclass(frozen=True, slots=True)
class Shown:
    """`highest`: the largest count of a bin. `reach`: low and high ends of the versions' scale. The rest is in words;
    `winner_says` is empty with fewer than two versions."""

    bins: tuple[Bin, ...]
    highest: int
    reach: tuple[float, float]
    sample_says: str
    before_says: str
    after_says: str
    changed_says: str
    winner_says: str

    @property
    def filled(self) -> list[Bin]:
        return [one for one in self.bins if one.before or one.after]


def show_comparison(result: Comparison) -> Shown:
    before, after = result.before.histogram, result.after.histogram
    highest = max(*before, *after, 1)
    size = len(before)
    bins = tuple(_bin(place, size, before[place], after[place], highest) for place in range(size))
    return Shown(
        bins,
        highest,
        _reach(result.versions),
        sample_says=_tell_sample(result),
        before_says=_tell_interval(result.before.reward),
        after_says=_tell_interval(result.after.reward),
        changed_says=f"{result.changed:,} of {result.both:,} rewards differ",
        winner_says=_tell_winner(result),
    )


def _tell_sample(result: Comparison) -> str:
    if result.sampled == result.population:
        return "all that can have a reward"
    return f"a random sample of {result.population:,}, seed {result.seed}"


def _tell_interval(found: Measured | None) -> str:
    if found is None:
        return "no decision has a reward"
    if found.low is None or found.high is None:
        return f"over {found.n:,}"
    return f"{found.low:.2f} to {found.high:.2f}, over {found.n:,}"


def _tell_winner(result: Comparison) -> str:
    """Which version would have won by each of the two."""
    before, after = result.leader_before, result.leader_after
    if before is None or after is None:
        return ""
    if before.actor == after.actor:
        best = f"{after.actor} has the largest mean reward before and after"
    else:
        best = f"{before.actor} has the largest mean reward before, {after.actor} after"
    if after.clear:
        return f"{best}. After, its interval is above all others."
    return f"{best}. After, the intervals overlap, so no version clearly wins."


def _bin(place: int, size: int, before: int, after: int, highest: int) -> Bin:
    first, second = 100 * before / highest, 100 * after / highest
    return Bin(
        place / size,
        (place + 1) / size,
        f"{100 * place / size:.2f}%",
        f"{100 / size:.2f}%",
        before,
        after,
        f"{100 - first:.2f}%",
        f"{first:.2f}%",
        f"{100 - second:.2f}%",
        f"{second:.2f}%",
    )


def _reach(versions: Sequence[VersionLine]) -> tuple[float, float]:
    """From the least to the largest end of an interval, with a little room."""
    measured = [one for line in versions for one in (line.before, line.after)]
    lows, highs = [_low(one) for one in measured], [_high(one) for one in measured]
    low, high = min(lows, default=0.0), max(highs, default=1.0)
    room = 0.05 * (high - low) or 0.05
    return max(0.0, low - room), min(1.0, high + room)


def _low(one: Measured) -> float:
    return one.mean if one.low is None else one.low


def _high(one: Measured) -> float:
    return one.mean if one.high is None else one.high
