"""Measures of rankings by hand, their clusters, and that equal scores win nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from decisions.rewards.specs import current_reward_spec
from tools.factories import ModelVersionFactory
from training.engine.spec.result import RunResult
from training.evaluation.measures import measure_evaluation
from training.evaluation.rankings import MEASURES, Scored, compare_rankings, measure_rankings
from training.evaluation.scores import gate_version, score_predictions
from training.models import Evaluation


def ranking(name: str, order: list[bool], group: str = "") -> Scored:
    """Whose items were scored in the order given."""
    return Scored(name, group or name, [-float(place) for place in range(len(order))], order)


def test_each_measure_of_one_ranking() -> None:
    order = [False, True, True, *[False] * 7, True]
    found = {name: of(order) for name, of in MEASURES.items()}
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    expected = {"hit_1": 0.0, "hit_3": 1.0, "ndcg_10": (1 / math.log2(3) + 1 / 2) / ideal, "recall_10": 2 / 3}
    assert found == pytest.approx(expected)
    assert ranking("r", order).order == order


def test_intervals_are_of_clusters_and_differences_of_pairs() -> None:
    right, wrong = [True, False, False], [False, False, True]
    these = [ranking(str(n), right if n % 4 else wrong, f"unit {n % 2}") for n in range(8)]
    found = measure_rankings(these)["hit_1"]
    assert (found.mean, found.n, found.clusters) == (0.75, 8, 2)
    alone = measure_rankings([ranking(str(n), right) for n in range(8)])["hit_1"]
    assert (alone.mean, alone.high) == (1.0, 1.0) and 0.6 < alone.low < 0.7  # Wilson's, as there is no spread
    others = [ranking(str(n), wrong, f"unit {n % 2}") for n in range(8)]
    assert compare_rankings(these, others)["hit_1"].mean == 0.75
    assert measure_rankings([]) == compare_rankings([], []) == {}
    with pytest.raises(ValueError, match="different"):
        compare_rankings(these, others[1:])


def test_equal_scores_are_right_as_often_as_chance() -> None:
    alike = [Scored(str(n), str(n), [0.0] * 4, [True, False, False, False]) for n in range(400)]
    assert measure_rankings(alike)["hit_1"].mean == pytest.approx(0.25, abs=0.06)


@pytest.mark.django_db
@pytest.mark.parametrize("judged", [True, False])
def test_labelled_rankings_are_scored_and_gated_as_rankings(agent: Any, tmp_path: Path, judged: bool) -> None:
    """`judged`: of every item it is known whether it belongs first; else, as of a log, of the first ones alone."""
    lists = [f"d{n}" for n in range(12)]
    places = range(3 if judged else 1)
    predictions = [
        {"id": f"{name}/{place}", "group": name, "model": model, "correct": place != 0, "expected_right": 0.5}
        for model in ("base", "trained")
        for name in lists
        for place in places
    ]
    told = [
        {"id": name, "group": name, "model": model, "items": [f"{name}/{place}" for place in range(3)],
         "scores": [1.0 if model == "trained" else 0.1, 0.5, 0.0], "relevant": [True, False, False]}
        for model in ("base", "trained") for name in lists
    ]  # fmt: skip
    for file, lines in (("predictions", predictions), ("rankings", told)):
        (tmp_path / f"{file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = RunResult(run_id="r", method="reward_weighted", attempt=1, rankings="rankings.jsonl")
    scored = score_predictions(tmp_path / "predictions.jsonl", result, spec=current_reward_spec(agent), free_rows=0)
    assert (scored.scores["trained"]["hit_1"]["mean"], scored.scores["base"]["hit_1"]["mean"]) == (1.0, 0.0)
    assert scored.differences["ndcg_10"]["mean"] == pytest.approx(1 - 1 / math.log2(3))
    base, version = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
    verdict = gate_version(version=version, against=base, scored=scored)
    assert verdict is not None
    # Both models say the same of every item by itself: only their order differs.
    assert (verdict.details["measure"], verdict.passed) == (("ndcg_10", True) if judged else ("accuracy", False))
    lines = measure_evaluation(Evaluation(scores=scored.scores, differences=scored.differences))
    assert [line.name for line in lines] == ["accuracy", "reward", "hit_1", "hit_3", "ndcg_10", "recall_10"]
