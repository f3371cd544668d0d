"""The settings that a run on a log of decisions has by default make a tiny model better, whatever was drawn.

Bounds are loose: `python -m benchmarks.methods` measures how much each method teaches.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_world import World, engine, logged, read_events, read_result, write_run

from training.engine.spec.settings import LOG_KL, Online
from training.runs.defaults.recipes import TINY, round_settings

SEEDS = range(3)
WORST, MEAN = 0.0, 0.04
"""Least gain in accuracy with any seed, and of all."""


def test_the_anchor_is_heavier_on_logs_unless_somebody_sets_it() -> None:
    assert (Online().kl_of_fresh, Online().kl_of_log) == (0.01, LOG_KL)
    assert (Online(kl=0.0).kl_of_fresh, Online(kl=0.0).kl_of_log) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [("reward_weighted", "reward_weighted"), ("kto", "kto"), ("ppo", "online"), ("grpo", "online")],
)
def test_an_anchor_keeps_the_policy_near_the_one_that_it_begins_with(
    tmp_path: Path, world: World, method: str, settings: str
) -> None:
    some = slice(0, 100)
    log = [row for seed in SEEDS for row in logged(world.stream[some], world.probabilities[some], seed)]
    distances = []
    for kl in (0.0, 20.0):
        spec = {"method": method, "base": {"path": str(world.base)}, "data": {"rows": "logged"}, settings: {"kl": kl}}
        run = write_run(tmp_path / str(kl), spec | {"samples": 1}, train=log)
        assert engine(run) == 0
        looks = [event["values"] for event in read_events(run) if event["kind"] == "metric"]
        distances.append(looks[-1]["kl"])
    assert 0 <= distances[1] < 0.75 * distances[0], distances


@pytest.mark.slow
@pytest.mark.parametrize("method", ["reward_weighted", "kto", "ppo"])
def test_a_log_teaches_by_default_settings(tmp_path: Path, world: World, method: str) -> None:
    gains = []
    for seed in SEEDS:
        log = logged(world.stream, world.probabilities, seed)
        spec = {
            "method": method,
            "seed": seed,
            "base": {"path": str(world.base)},
            "data": {"rows": "logged"},
            "evaluate": {"free_rows": 0},
            **round_settings(TINY, len(log)),
        }
        run = write_run(tmp_path / str(seed), spec, train=log, heldout=world.heldout)
        assert engine(run) == 0
        scores = read_result(run)["scores"]
        gains.append(scores["trained"]["accuracy"] - scores["base"]["accuracy"])
    assert min(gains) > WORST and sum(gains) / len(gains) > MEAN, gains
