"""Reward models of a log that have not seen what they pay for: folds, what each fit knows, and how good it is."""

from __future__ import annotations

import random
import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from training.engine.methods.cross_fitted import FITS, SETTINGS, area, guess_apart, measure_quality
from training.engine.methods.direct_method import count_words
from training.engine.rows.folds import assign_folds, can_teach_rewards
from training.engine.rows.types import Logged, Slate

OPTIONS = ("x", "y", "z")
COLOURS = ("red", "green", "blue")
NAMES = "ash birch cedar elm fir hazel larch maple oak pine rowan spruce willow yew alder aspen beech".split()  # noqa: SIM905


def prompt(rng: random.Random, colour: str) -> str:
    """A template around words of its own, in which a number stands for an id."""
    own = " ".join(rng.choice(NAMES) for _ in range(8))
    return f'{{"item": {{"id": "i{rng.randrange(10**6)}", "title": "{colour} {own}"}}, "lanes": "of this app"}}'


def log(count: int, seed: int = 0) -> tuple[list[Logged], list[int]]:
    """Decisions at random on prompts whose colour says what is right, with their right places."""
    rng = random.Random(seed)
    rows, right = [], []
    for number in range(count):
        place, tried = rng.randrange(3), rng.randrange(3)
        text = prompt(rng, COLOURS[place])
        rows.append(Logged(str(number), text, OPTIONS, OPTIONS[tried], reward=float(place == tried)))
        right.append(place)
    return rows, right


def fold_of(rows: list[Logged], count: int = 5, seed: int = 0) -> list[int]:
    folds = assign_folds(rows, count, seed)
    assert folds is not None
    return [int(fold) for fold in folds.of]


def test_what_belongs_together_stands_in_one_fold() -> None:
    rows, _ = log(60)
    twin = rows[0].prompt.upper().replace(" ", "  ")
    nearly = re.sub(r"i\d+", "i7", rows[1].prompt) + " now"
    more = [
        Logged("twin", twin, OPTIONS, "x", reward=1.0),
        Logged("nearly", nearly, OPTIONS, "x", reward=1.0),
        *(
            Logged(f"of ann {n}", prompt(random.Random(n), "red"), OPTIONS, "x", reward=1.0, group="ann")
            for n in (7, 8)
        ),
        Logged("bob", prompt(random.Random(9), "red"), OPTIONS, "x", reward=1.0, group="bob"),
    ]
    seeds = range(20)
    placed = [fold_of([*rows, *more], seed=seed) for seed in seeds]
    for folds in placed:
        assert folds[60] == folds[0] and folds[61] == folds[1] and folds[62] == folds[63]
        assert max(map(folds.count, range(5))) - min(map(folds.count, range(5))) <= 2
    assert any(folds[64] != folds[62] for folds in placed), "another group may be elsewhere"
    assert fold_of([*rows, *more], seed=3) == placed[3] != placed[4]
    clusters = assign_folds([*rows, *more], 5, 0)
    assert clusters is not None and len(set(clusters.clusters.tolist())) == 62, "a template joins nothing"


def test_groups_are_let_go_where_they_leave_too_few_folds() -> None:
    rows, _ = log(40)
    by_ann = [Logged(row.id, row.prompt, OPTIONS, row.action, reward=row.reward, group="ann") for row in rows]
    folds = assign_folds(by_ann, 5, 0)
    assert folds is not None and not folds.by_group
    one_large = assign_folds([*by_ann, *log(6, 1)[0]], 5, 0)
    assert one_large is not None and not one_large.by_group, "a group with most of the rows"
    one_prompt = [Logged(str(n), "a", OPTIONS, "x", reward=float(n % 2)) for n in range(60)]
    assert assign_folds([*rows[:4], *one_prompt], 5, 0) is not None
    assert assign_folds([*rows[:3], *one_prompt], 5, 0) is None


def guess(rows: list[Logged], rewards: np.ndarray, folds: Any, **changes: Any) -> np.ndarray:
    count = len(rows)
    told: dict[str, Any] = {
        "base": np.log(np.full((count, 3), 1 / 3)),
        "offered": np.ones((count, 3), dtype=bool),
        "action": np.array([OPTIONS.index(row.action) for row in rows]),
        "folds": folds,
        "weigh": np.ones(count, dtype=bool),
        "seed": 0,
    }
    features = [count_words([row.prompt for row in rows])]
    return guess_apart(features, [row.action for row in rows], rewards, [OPTIONS] * count, **told | changes)


def test_no_fold_is_paid_by_what_its_own_decisions_said() -> None:
    rows, right = log(150)
    folds = assign_folds(rows, SETTINGS.folds, 0)
    assert folds is not None
    rewards = np.array([row.reward for row in rows])
    fits: list[None] = []
    q = guess(rows, rewards, folds, begin_fit=lambda: fits.append(None))
    assert len(fits) == FITS == len(list(combinations(range(SETTINGS.folds), 2))) + SETTINGS.folds
    assert q.sum(1).tolist() == pytest.approx([1.0] * 150)
    assert (q.argmax(1) == right).mean() > 0.9
    for fold in (0, SETTINGS.folds - 1):
        mine = folds.of == fold
        other = guess(rows, np.where(mine, 1 - rewards, rewards), folds)
        assert np.array_equal(other[mine], q[mine]), "bit by bit"
        assert not np.array_equal(other[~mine], q[~mine])


def test_the_area_is_the_usual_one_and_its_error_counts_clusters() -> None:
    rng = np.random.default_rng(0)
    good = rng.random(200) < 0.4
    scores = np.round(rng.normal(size=200) + good, 1)  # with equal ones
    each = np.arange(200)
    found, error = area(scores, good, each)
    assert found == pytest.approx(roc_auc_score(good, scores))
    draws = [rng.integers(0, 200, 200) for _ in range(150)]
    resampled = np.std([roc_auc_score(good[drawn], scores[drawn]) for drawn in draws])
    assert error == pytest.approx(resampled, rel=0.2)
    # Each row five times says no more than once, if its copies are of its cluster.
    copies = np.repeat(each, 5)
    assert area(scores[copies], good[copies], copies) == pytest.approx((found, error))
    assert area(scores[copies], good[copies], np.arange(1000))[1] < 0.5 * error


def test_a_constant_and_noise_are_no_reward_models() -> None:
    rng = np.random.default_rng(1)
    reward = (rng.random(300) < 0.5).astype(float)
    each, noise = np.arange(300), rng.normal(size=300)
    flat = measure_quality(np.full(300, 0.3), noise, reward, each)
    assert (flat.auc, flat.correlation, flat.beats_a_constant) == (0.5, 0.0, False)
    beaten = sum(
        measure_quality(rng.normal(size=300), noise, reward, each).beats_a_constant for _ in range(200)
    )  # one-sided 2.5 % of them
    assert beaten <= 12
    told = measure_quality(reward + noise, noise, reward, each)
    assert told.beats_a_constant and 0.65 < told.auc < 0.85 and told.correlation > 0.3
    assert told.low < told.auc < told.high and "AUC of 0." in str(told)


def test_what_a_reward_model_is_learnt_from_at_least() -> None:
    def rows(good: int, bad: int, **more: Any) -> list[Logged]:
        rewards = [1.0] * good + [0.0] * bad
        return [Logged(str(n), str(n), ("yes", "no"), "yes", reward=r, **more) for n, r in enumerate(rewards)]

    assert can_teach_rewards(rows(5, 45)) and can_teach_rewards(rows(45, 5))
    assert not can_teach_rewards(rows(25, 24)) and not can_teach_rewards(rows(4, 96))
    assert not can_teach_rewards(rows(60, 0))
    assert not can_teach_rewards(rows(30, 30, slate=Slate("d", "i"))), "an item of a ranking"
