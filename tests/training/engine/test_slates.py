"""Rankings from items that were scored one by one: Plackett and Luce's probability by hand, what a log tells of it,
and a model that learns to rank from a log and is measured."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.engine.engine_world import engine, read_result, write_run
from training.engine.methods.reward_weighted_rankings import find_lessons, first_log_p
from training.engine.rows.slates import (
    best_first,
    find_rankings,
    find_slates,
    first_propensity,
    log_odds,
    log_probability,
)
from training.engine.rows.types import Labelled, Logged, Slate
from training.engine.spec.result import RunResult
from training.evaluation.rankings import measure_rankings
from training.evaluation.scores import read_rankings


def test_the_probability_of_a_ranking_is_a_product_over_its_places() -> None:
    scores = {"a": math.log(5), "b": math.log(3), "c": math.log(2)}
    assert math.exp(log_probability(scores, ["b", "a", "c"])) == pytest.approx(3 / 10 * 5 / 7)
    assert math.exp(log_probability(scores, ["c"])) == pytest.approx(2 / 10)
    every = [log_probability(scores, order) for order in itertools.permutations(scores, 2)]
    assert math.fsum(map(math.exp, every)) == pytest.approx(1.0)
    assert best_first(scores) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="two places"):
        log_probability(scores, ["a", "a"])


def test_a_score_is_the_log_odds_of_yes_and_stays_finite() -> None:
    assert log_odds(0.75) == pytest.approx(math.log(3))
    assert math.isfinite(log_odds(0.0)) and log_odds(1.0) == pytest.approx(-log_odds(0.0))


def test_the_items_of_a_ranking_are_found_in_its_order() -> None:
    def row(item: str, place: int | None) -> Logged:
        return Logged(item, item, ("yes", "no"), "no", slate=Slate("d", item, place))

    rows = [row("x", None), row("b", 2), row("a", 1), Logged("e", "p", ("yes",), "yes")]
    assert {name: [one.id for one in items] for name, items in find_slates(rows).items()} == {"d": ["a", "b", "x"]}


def item(ranking: str, place: int, **fields: Any) -> Logged:
    """Of the items a, b and c in this order; the last is not ranked."""
    name = "abc"[place]
    told = {"propensity": fields.pop("propensity", None), "first": fields.pop("first", None)}
    slate = Slate(ranking, name, place + 1 if place < 2 else None, **told)
    action = "no" if place else "yes"
    return Logged(f"{ranking}{place}", f"{ranking} {name}", ("yes", "no"), action, slate=slate, **fields)


def test_decisions_say_what_belongs_first_only_where_they_were_right() -> None:
    rows = [item(name, place, reward=None if place else reward) for name, reward in (("r", 1.0), ("w", 0.0))
            for place in range(3)]  # fmt: skip
    [found] = find_rankings(rows)
    assert (found.id, found.relevant) == ("r", (True, False, False))
    assert [row.id for row in found.items] == ["r0", "r1", "r2"]
    labels = [Labelled(str(n), "p", ("yes", "no"), "no", slate=Slate("d", str(n))) for n in range(3)]
    assert find_rankings(labels) == []


def test_the_propensity_of_a_first_place_is_logged_or_comes_from_that_of_the_whole_ranking() -> None:
    rows = [[item("r", place, **told) for place in range(3)] for told in ({}, {"propensity": 0.2}, {"first": 0.5})]
    # Two rankings of two of three items begin with one item.
    assert [first_propensity(one) for one in rows] == [None, pytest.approx(0.4), 0.5]


def test_a_ranking_weighs_its_reward_by_that_propensity() -> None:
    log = [item("r", place, first=0.5, reward=None if place else 0.8) for place in range(3)]
    log += [item("w", place, first=0.5, reward=None if place else 0.0) for place in range(3)]
    log += [Logged("x", "p", ("finance", "travel", "health"), "travel", 0.25, 1.0)]
    ranking, alone, label = find_lessons(log, [Labelled("y", "p", ("yes", "no"), "no")])
    assert [one.weight for one in (ranking, alone, label)] == pytest.approx([1.6, 4.0, 1.0])
    assert [len(one.rows) for one in (ranking, alone, label)] == [3, 1, 1]
    # log π of yes and no of three items, then of three options of a row that is of no ranking.
    yes = [0.5, 0.2, 0.8]
    p = torch.tensor([*([p, 1 - p, 1e-9] for p in yes), [0.2, 0.7, 0.1]])
    odds = [p / (1 - p) for p in yes]
    found = first_log_p(p.log(), [0, 0, 0, 0], [0, 1, 1, 1], [3, 1]).exp().tolist()
    assert found == pytest.approx([odds[0] / sum(odds), 0.7])


def test_a_model_learns_to_rank_from_a_log_and_is_measured_by_ranking(tmp_path: Path) -> None:
    rng = random.Random(5)
    words = ("flood", "smoke", "leak", "dust", "paint", "lamp")

    def rows(count: int, *, labels: bool) -> list[dict[str, Any]]:
        """Lists of four, ranked at random; a flood, smoke or a leak is right for the first place."""
        found = []
        for number in range(count):
            shown = [rng.choice(words[:3]), *rng.sample(words[3:], 3)]
            rng.shuffle(shown)
            for place, word in enumerate(shown, start=1):
                slate = {"id": f"{labels}{number}", "item": word, "place": place, "propensity": 1 / 24}
                row: dict[str, Any] = {"id": f"{labels}{number}/{place}", "options": ["yes", "no"], "slate": slate}
                row |= {"prompt": f"{word} in room {rng.randrange(9)}", "group": f"g{number % 20}"}
                right = word in words[:3]
                if labels:
                    found.append(row | {"answer": "yes" if right else "no"})
                else:
                    earned = float(right) if place == 1 else None
                    found.append(row | {"action": "yes" if place == 1 else "no", "reward": earned})
        return found

    tiny = {"tiny": {"hidden": 32, "vocabulary": 320, "layers": 1, "heads": 2, "key_value_heads": 1}}
    short = {"learning_rate": 1e-3, "epochs": 1, "batch_size": 64}
    taught = rows(4, labels=True)
    base = write_run(tmp_path / "base", {"method": "pretrain", "base": tiny, "optimiser": short}, train=taught)
    assert engine(base) == 0
    spec = {
        "method": "reward_weighted",
        "base": {"path": str(base / "attempts/1/model")},
        "optimiser": {"learning_rate": 1e-2, "epochs": 6, "batch_size": 64},
        "evaluate": {"free_rows": 0},
    }
    run = write_run(tmp_path / "run", spec, train=rows(250, labels=False), heldout=rows(40, labels=True))
    assert engine(run) == 0
    result = RunResult.model_validate(read_result(run))
    assert result.rankings == "rankings.jsonl" and result.rows < 4 * 250  # rankings that earned something
    attempt = run / "attempts" / "1"
    lists, _ = read_rankings(attempt / result.rankings)
    trained, before = measure_rankings(lists["trained"]), measure_rankings(lists["base"])
    assert trained["hit_1"].mean > 0.9 > before["hit_1"].mean
    assert (trained["ndcg_10"].n, trained["ndcg_10"].clusters) == (40, 20)
