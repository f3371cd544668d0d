"""When a shadow's evidence suffices."""

from __future__ import annotations

import math

import pytest
from scipy.stats import t

from models_registry.statistics.intervals import Interval
from training.evaluation.off_policy import OffPolicyGate
from training.shadows.rule import is_look_due, judge


def gate_of(mean: float, error: float, clusters: int = 401, refusals: tuple[str, ...] = ()) -> OffPolicyGate:
    reach = t.ppf(0.975, clusters - 1) * error
    lower = mean - t.ppf(0.95, clusters - 1) * error
    difference = Interval(mean, mean - reach, mean + reach, clusters, clusters)
    return OffPolicyGate(not refusals and bool(lower > 0), difference, lower, refusals, estimates=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("look", "level"), [(1, 0.025), (2, 0.05 / 6), (9, 0.05 / 90)])
def test_every_look_asks_for_more_than_the_last(look: int, level: float) -> None:
    judged = judge(gate_of(0.05, 0.02), look=look, answered=500, failed=0)
    assert judged.lower == pytest.approx(0.05 - t.ppf(1 - level, 400) * 0.02)
    assert judged.passed == (judged.lower > 0) == (look < 3)


def test_the_gate_s_refusals_and_missing_answers_are_no_pass() -> None:
    good = gate_of(0.5, 0.02)
    assert judge(good, look=1, answered=950, failed=50).passed
    missing = judge(good, look=1, answered=949, failed=51)
    assert (missing.passed, missing.refusals[0][:46]) == (False, "The candidate could not answer 51 of 1,000 dec")
    assert not judge(gate_of(0.5, 0.02, refusals=("too short",)), look=1, answered=500, failed=0).passed
    alone = judge(gate_of(0.5, math.inf, clusters=1, refusals=("one group",)), look=1, answered=500, failed=0)
    assert (alone.passed, alone.lower) == (False, -math.inf)


def test_looks_are_as_rare_as_doublings() -> None:
    looks, at = 0, []
    for answered in range(0, 5_000, 10):
        if is_look_due(looks=looks, answered=answered, rewarded=answered // 2, least=500):
            looks += 1
            at.append(answered)
    assert at == [1000, 1010, 2000, 4000]
