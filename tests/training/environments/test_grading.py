"""Checkpoints become points, scores and rewards as a table says; what failed is named and pays nothing."""

from __future__ import annotations

import pytest

from training.engine.environments.grading import (
    Check,
    Checked,
    Scheme,
    Strategy,
    grade,
    rank_rewards,
    rank_within,
    run_checks,
    score_of,
)
from training.engine.environments.protocol import EnvironmentFault

ALL, NONE, FIRST, LAST = (1, 2, 3), (0, 0, 0), (1, 0, 0), (0, 0, 3)
MOST, SECOND, PART = (1, 2, 2), (0, 2, 0), (0, 1, 2)
GOLDEN = [  # worth 1, 2 and 3 points: earned, strategy, given, points, score
    (ALL, Strategy.SUM, (), 6, 1.0),
    (NONE, Strategy.SUM, (), 0, 0.0),
    (LAST, Strategy.SUM, (), 3, 0.25),
    (MOST, Strategy.SUM, (), 5, 5 / 12),
    (LAST, Strategy.FINAL, (), 6, 1.0),
    (MOST, Strategy.FINAL, (), 5, 5 / 12),
    (NONE, Strategy.FINAL, (), 0, 0.0),
    (LAST, Strategy.ANY, (), 4, 1 / 3),
    (SECOND, Strategy.ANY, (), 3, 0.25),
    (PART, Strategy.ANY, (), 3, 0.25),
    (FIRST, Strategy.ANY, (), 1, 1 / 12),
    ((0, 2, 3), Strategy.ANY, (), 6, 1.0),
    (SECOND, Strategy.ANY_OF, (1, 2), 3, 0.25),
    (LAST, Strategy.ANY_OF, (1, 2), 3, 0.25),
    (LAST, Strategy.ANY_OF, (3,), 4, 1 / 3),
]


def checked(earned: tuple[int, ...]) -> list[Checked]:
    return [Checked(f"step {number}", number, points) for number, points in enumerate(earned, start=1)]


@pytest.mark.parametrize(("earned", "strategy", "given", "points", "score"), GOLDEN)
def test_the_strategies_are_these(
    earned: tuple[int, ...], strategy: Strategy, given: tuple[int, ...], points: int, score: float
) -> None:
    told = grade(checked(earned), strategy, given)
    assert (told.points, told.total) == (points, 6)
    assert told.score == pytest.approx(score)
    assert told.reward() == told.score
    assert told.reward(Scheme.SUCCESS) == (1.0 if points == 6 else 0.2)
    assert [one.earned for one in told.checkpoints] == list(earned)  # what was earned, without the bonus


def test_an_evaluator_that_raises_is_not_passed_is_named_and_is_not_trained_on() -> None:
    asked = []

    def broken() -> bool:
        raise OSError("the chat does not answer")

    checks = [
        Check("said hello", 1, lambda: True),
        Check("told Mia", 2, broken),
        Check("rows", 4, lambda: asked.append("rows") or 3),  # type: ignore[func-returns-value]
        Check("sheet", 1, lambda: 7),
    ]
    told = grade(run_checks(checks))
    assert asked == ["rows"]  # what comes after a failure is checked as well
    assert (told.points, told.total, told.failed) == (4, 8, ("told Mia", "sheet"))
    assert told.score == score_of(4, 8) == 0.25
    assert told.checkpoints[1].error == "OSError: the chat does not answer"
    assert told.checkpoints[3].error == "returned 7: true, false or 0 to 1"
    assert not told.trainable
    for scheme in Scheme:
        with pytest.raises(EnvironmentFault, match="told Mia: OSError: the chat does not answer; sheet: returned 7"):
            told.reward(scheme)
    sound = grade(run_checks([checks[0], checks[2]]))
    assert (sound.trainable, sound.reward()) == (True, score_of(4, 5))


def test_a_failed_evaluator_counts_as_not_passed_for_the_bonus_too() -> None:
    first, last = Checked("first", 1, 0), Checked("last", 2, error="RuntimeError: no server")
    assert grade([first, last], Strategy.FINAL).points == 0
    assert grade([first, last], Strategy.ANY).points == 0
    passed = grade([last, first, Checked("final", 1, 1)], Strategy.FINAL)
    assert (passed.score, passed.full, passed.trainable) == (1.0, True, False)


@pytest.mark.parametrize(
    ("checkpoints", "strategy", "given", "says"),
    [
        ([], Strategy.SUM, (), "checkpoints: at least one is needed"),
        ([Checked("a", 0, 0)], Strategy.SUM, (), "a: points: 0 must be at least 1"),
        ([Checked("a", 1, 2)], Strategy.SUM, (), "a: earned: 2 must lie in 0 to 1"),
        ([Checked("a", 1, 1)], Strategy.ANY_OF, (), "given: any_of needs checkpoints"),
        ([Checked("a", 1, 1)], Strategy.FINAL, (1,), "given: final takes no checkpoints"),
        ([Checked("a", 1, 1)], Strategy.ANY_OF, (0, 2), r"given: \[0, 2\] must be numbers of checkpoints, from 1 to 1"),
    ],
)
def test_what_cannot_be_graded_is_refused(
    checkpoints: list[Checked], strategy: Strategy, given: tuple[int, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        grade(checkpoints, strategy, given)


@pytest.mark.parametrize(
    ("scores", "rewards"),
    [
        ([3.0, -1.0, 7.5], [0.5, 0.0, 1.0]),
        ([2.0, 2.0, 1.0], [0.75, 0.75, 0.0]),
        ([4.0, 4.0, 4.0, 4.0], [0.5] * 4),
        ([9.0], [0.5]),
        ([], []),
    ],
)
def test_ranks_within_a_group_are_rewards(scores: list[float], rewards: list[float]) -> None:
    assert rank_rewards(scores) == rewards
    with pytest.raises(ValueError, match="not a number"):
        rank_rewards([*scores, float("nan")])


def test_groups_are_ranked_each_by_itself() -> None:
    assert rank_within([7, 2, 7, 2, 7], [0.9, -3.0, 0.1, 5.0, 0.9]) == [0.75, 0.0, 0.0, 1.0, 0.75]
