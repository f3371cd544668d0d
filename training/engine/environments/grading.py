"""Checkpoints to points, points to a score, a score to a reward, by the four strategies of TheAgentCompany. No torch.

With r_i the points that checkpoint i earned and t_i what it is worth, T = Σ t_i, the points P are

    sum      Σ r_i
    final    T where the last checkpoint is full, else Σ r_i
    any      Σ r_i with t_1 in the place of r_1 where any checkpoint is full, else Σ r_i
    any_of   as `any`, but only the checkpoints that the task names count

A checkpoint is full where r_i = t_i. The score is 0.5 · P/T + 0.5 where P = T, and 0.5 · P/T elsewhere: a task that is
almost done earns less than half.

Source: Xu et al. 2024, "TheAgentCompany: Benchmarking LLM Agents on Consequential Real World Tasks", section 4.2; the
bonuses are those of the benchmark's evaluators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from training.engine.environments.protocol import EnvironmentFault

SOLVED, UNSOLVED = 1.0, 0.2
"""What `Scheme.SUCCESS` pays."""


class Strategy(StrEnum):
    """How the points of checkpoints add up."""

    SUM = "sum"
    FINAL = "final"
    ANY = "any"
    ANY_OF = "any_of"


class Scheme(StrEnum):
    """What a graded task pays. `score`: its score, in [0, 1]. `success`: 1.0 where the score is full, else 0.2."""

    SCORE = "score"
    SUCCESS = "success"


class Check(NamedTuple):
    """A checkpoint with its evaluator, which returns True, False, or the points that are earned."""

    name: str
    points: int
    evaluate: Callable[[], int]


class Checked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an evaluator found: `earned` of `points`, or why it failed. One that failed has earned nothing."""

    name: str
    points: int
    earned: int = 0
    error: str | None = None

    @property
    def full(self) -> bool:
        return self.error is None and self.earned == self.points


class Grade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A graded task: `points` of `total`, bonus included, its `score` in [0, 1], and its checkpoints without a bonus.

    `failed` names the checkpoints whose evaluators failed. The score counts them as not passed, so that it may be
    reported; nothing may learn from it, because the agent may have done what could not be checked.
    """

    strategy: Strategy
    points: int
    total: int
    score: float
    checkpoints: tuple[Checked, ...]
    failed: tuple[str, ...] = ()

    @property
    def full(self) -> bool:
        return self.points == self.total

    @property
    def trainable(self) -> bool:
        return not self.failed

    def reward(self, scheme: Scheme = Scheme.SCORE) -> float:
        """What training may learn from. Raises EnvironmentFault, which leaves the episode out, where an evaluator
        failed."""
        if self.failed:
            errors = "; ".join(f"{one.name}: {one.error}" for one in self.checkpoints if one.error is not None)
            raise EnvironmentFault(f"evaluators failed, so nothing may learn from the score: {errors}")
        if scheme is Scheme.SUCCESS:
            return SOLVED if self.full else UNSOLVED
        return self.score


def run_checks(checks: Sequence[Check]) -> list[Checked]:
    """Asks every evaluator, those after a failed one too. What it raises, or an answer that is no number of points from
    0 to the checkpoint's, becomes `error`."""
    return [_run_check(check) for check in checks]


def _run_check(check: Check) -> Checked:
    try:
        earned = check.evaluate()
    except Exception as error:  # noqa: BLE001 - a task's own code may raise anything; it is named and never a score
        return Checked(check.name, check.points, error=f"{type(error).__name__}: {error}")
    if earned is True or earned is False:
        return Checked(check.name, check.points, check.points if earned else 0)
    if not isinstance(earned, int) or not 0 <= earned <= check.points:
        return Checked(check.name, check.points, error=f"returned {earned!r}: true, false or 0 to {check.points}")
    return Checked(check.name, check.points, earned)


def grade(checkpoints: Sequence[Checked], strategy: Strategy = Strategy.SUM, given: Collection[int] = ()) -> Grade:
    """The grade by a strategy. `given`: for `any_of` the numbers of its checkpoints, from 1.

    Raises ValueError without checkpoints, for one that is worth nothing or earned what it cannot, and for `given` that
    are missing, not wanted, or no checkpoints.
    """
    _refuse_bad(checkpoints, strategy, given)
    total = sum(one.points for one in checkpoints)
    earned = [0 if one.error is not None else one.earned for one in checkpoints]
    if strategy is Strategy.FINAL and checkpoints[-1].full:
        earned = [one.points for one in checkpoints]
    named = range(1, len(checkpoints) + 1) if strategy is Strategy.ANY else given
    if any(checkpoints[number - 1].full for number in named):
        earned[0] = checkpoints[0].points
    points = sum(earned)
    return Grade(
        strategy=strategy,
        points=points,
        total=total,
        score=score_of(points, total),
        checkpoints=tuple(checkpoints),
        failed=tuple(one.name for one in checkpoints if one.error is not None),
    )


def score_of(points: int, total: int) -> float:
    """0.5 · points/total, and 0.5 more where all points are reached; in [0, 1]."""
    if not 0 <= points <= total or not total:
        raise ValueError(f"points: {points} of {total} must lie between 0 and a total above 0")
    return 0.5 * points / total + (0.5 if points == total else 0.0)


def rank_rewards(scores: Sequence[float]) -> list[float]:
    """Ranks within a group as rewards in [0, 1]: the best 1, the worst 0, equals the mean of their places.

    For scores that tell better from worse but have no scale, such as a judge's: r_i = (#below_i + ½ (#equal_i − 1)) /
    (n − 1). A group of one gets 0.5, which says nothing. The mean of a group is ½, whatever the scores are. Raises
    ValueError for scores that are no numbers.
    """
    if any(score != score for score in scores):
        raise ValueError("scores: one of them is not a number, so it has no rank")
    if len(scores) < 2:
        return [0.5] * len(scores)
    below = [sum(other < score for other in scores) for score in scores]
    equal = [sum(other == score for other in scores) - 1 for score in scores]
    return [(under + same / 2) / (len(scores) - 1) for under, same in zip(below, equal, strict=True)]


def rank_within(groups: Sequence[int], scores: Sequence[float]) -> list[float]:
    """`rank_rewards` of each group by itself; `groups` says of each score which it belongs to. Raises ValueError for
    scores that are no numbers."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        places[group].append(place)
    ranked = [0.0] * len(scores)
    for members in places.values():
        for place, reward in zip(members, rank_rewards([scores[place] for place in members]), strict=True):
            ranked[place] = reward
    return ranked


def _refuse_bad(checkpoints: Sequence[Checked], strategy: Strategy, given: Collection[int]) -> None:
    if not checkpoints:
        raise ValueError("checkpoints: at least one is needed")
    for one in checkpoints:
        if one.points < 1:
            raise ValueError(f"{one.name}: points: {one.points} must be at least 1")
        if not 0 <= one.earned <= one.points:
            raise ValueError(f"{one.name}: earned: {one.earned} must lie in 0 to {one.points}")
    if (strategy is Strategy.ANY_OF) != bool(given):
        raise ValueError(
            f"given: {strategy.value} {'needs' if strategy is Strategy.ANY_OF else 'takes no'} checkpoints"
        )
    if wrong := sorted(number for number in given if not 1 <= number <= len(checkpoints)):
        raise ValueError(f"given: {wrong} must be numbers of checkpoints, from 1 to {len(checkpoints)}")
