"""Rankings from items that were scored one by one: Plackett and Luce's probability by hand."""

from __future__ import annotations

import itertools
import math

import pytest

from training.engine.rows import Logged, Slate
from training.engine.slates import best_first, find_slates, log_odds, log_probability


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
