"""What is said of a judge beside people: agreement, biases that were planted, drift, and no number on few labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decisions.judges.agreement import agree
from decisions.judges.assessing import (
    LEAST_LABELS,
    TooFewLabels,
    assess_judge,
    find_objections,
    find_warnings,
)
from decisions.judges.drift import find_drift
from decisions.judges.scored import Labelled, Unlabelled
from decisions.labelling.alpha import interval_alpha, nominal_alpha

ALONE = 2_000


def made(seed: int, labels: int = 400, wrong: float = 0.05, name: str = "u") -> Labelled:
    """Answers of which half are right, and a judge that errs evenly."""
    rng = np.random.default_rng(seed)
    people = (rng.random(labels) < 0.5).astype(float)
    return Labelled(
        people=people,
        judge=np.where(rng.random(labels) < wrong, 1.0 - people, people),
        clusters=np.array([f"{name}{number // 2}" for number in range(labels)]),
        lengths=rng.integers(20, 2_000, labels).astype(float),
        places=(np.arange(labels) % 3).astype(float),
        slices={"policy": np.where(np.arange(labels) % 4 == 0, "ours", "theirs")},
    )


def alone(judge: float | None = None) -> Unlabelled:
    """Scores of decisions that nobody labelled."""
    scores = made(99, ALONE).judge if judge is None else np.full(ALONE, judge)
    return Unlabelled(scores, np.array([f"v{number}" for number in range(ALONE)]))


def test_a_good_judge_has_no_objections_and_no_warnings() -> None:
    found = assess_judge(made(1), alone())
    assert find_objections(found) == ()
    assert find_warnings(found) == ()
    assert found.alpha.low > 0.8
    assert found.corrected.low < 0.5 < found.corrected.high
    assert found.corrected.high - found.corrected.low < 0.7 * (found.labels_only.high - found.labels_only.low)
    assert (found.labels, found.units, found.scores) == (400, 200, 2_400)


@pytest.mark.parametrize(
    ("where", "warning"),
    [
        ("long", "When the length doubles, its scores change by +"),
        ("first", "The first option gets +"),
        ("ours", "In policy ours its scores differ from people's by +"),
        ("all", "Its scores differ from people's by +"),
    ],
)
def test_a_planted_bias_is_found(where: str, warning: str) -> None:
    rows = made(2)
    chosen = {
        "long": rows.lengths > 1_000,
        "first": rows.places == 0,
        "ours": rows.slices["policy"] == "ours",
        "all": np.ones(400, dtype=bool),
    }[where]
    generous = chosen & (np.random.default_rng(3).random(400) < 0.4)
    told = find_warnings(assess_judge(replace(rows, judge=np.where(generous, 1.0, rows.judge)), alone()))
    assert any(one.startswith(warning) for one in told), told


def test_labels_of_chosen_decisions_and_a_judge_that_guesses_are_objected_to() -> None:
    assert "not a random sample" in " ".join(find_objections(assess_judge(made(4), alone(judge=1.0))))
    assert "agrees too little" in " ".join(find_objections(assess_judge(made(4, wrong=0.4), alone())))


@pytest.mark.parametrize(
    ("rows", "others", "reason"),
    [
        (made(5, labels=LEAST_LABELS - 1), alone(), "99 scored decisions have a label, 100 are needed."),
        (
            replace(made(5), clusters=np.array(["a", "b"] * 200)),
            alone(),
            "The labels belong to 2 units; 30 are needed.",
        ),
        (replace(made(5), people=np.ones(400)), alone(), "400 of 400 labels are the same; at least 10 others"),
        (made(5), Unlabelled(np.empty(0), np.empty(0, dtype=str)), "has scored no decision without a label."),
    ],
)
def test_too_few_labels_have_a_reason_and_no_number(rows: Labelled, others: Unlabelled, reason: str) -> None:
    with pytest.raises(TooFewLabels, match=reason):
        assess_judge(rows, others)


def test_alpha_of_two_observers_is_the_general_one() -> None:
    people = np.array([1, 0, 1, 1, 0, 0, 1, 0, 1, 1.0])
    judge = np.array([0.9, 0.2, 0.7, 0.4, 0.3, 0.6, 0.8, 0.1, 0.9, 0.5])
    found = agree(people, judge, np.arange(10))
    assert found is not None
    # The package krippendorff 0.9.0, level_of_measurement="interval".
    assert found.mean == pytest.approx(0.6214421252, abs=1e-9)
    assert interval_alpha(zip(people, judge, strict=True)) == pytest.approx(found.mean)
    binary = [(1, 0), (1, 1), (0, 0), (0, 1), (1, 1)]
    assert interval_alpha(binary) == pytest.approx(nominal_alpha(binary))
    assert interval_alpha([(1, 1)]) is agree(np.ones(5), np.ones(5), np.arange(5)) is None


def test_the_interval_of_alpha_covers() -> None:
    """α of a judge that is wrong in 10 % of even answers is 0.8."""
    rows = [made(seed, labels=150, wrong=0.1) for seed in range(200)]
    found = [agree(one.people, one.judge, one.clusters) for one in rows]
    assert sum(one is not None and one.low <= 0.8 <= one.high for one in found) >= 182


def test_drift_is_found_when_errors_grow_and_not_by_chance() -> None:
    old = made(6)
    worse = find_drift(old, made(7, labels=100, wrong=0.3, name="n"))
    same = find_drift(old, made(8, labels=100, name="n"))
    assert worse is not None and worse.found and worse.size.low > 0
    assert same is not None and not same.found
    assert find_drift(old, made(9, labels=49, wrong=0.9, name="n")) is None
