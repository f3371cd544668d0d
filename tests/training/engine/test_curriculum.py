"""Which prompts a run decides on: easy ones first, or those on which the model is uncertain."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_world import World, engine, logged, read_events, read_result, write_run

from training.engine.methods.curriculum import Order
from training.engine.spec.settings import Curriculum

SUCCESS = torch.linspace(0, 1, 200)  # the last row is the easiest
REWARD = [{"name": "matches_answer"}]


def order_of(kind: str, steps: int = 100, **settings: Any) -> Order:
    return Order(Curriculum(order=kind, **settings), SUCCESS, batch_size=10, group=8, steps=steps, seed=1)  # type: ignore[arg-type]


def test_stages_go_from_easy_to_hard_as_they_succeed() -> None:
    order = order_of("easy_first", stages=4, pass_at=0.5)
    drawn: list[Counter[int]] = [Counter() for _ in range(5)]
    for step in range(60):
        rows = order.at(step)
        assert len(set(rows)) == 10
        told = order.note(rows, torch.full((10,), 0.6 if step < 30 else 0.0))
        drawn[int(told["stage"])].update(int(order.stage_of[row]) for row in rows)
    for stage in range(4):  # those that succeeded are passed long before the run's half
        assert drawn[stage].most_common(1)[0][0] == stage and drawn[stage].total() < 100
    assert int(told["stage"]) == 4 and min(drawn[4].values()) > 0.5 * max(drawn[4].values())


def test_a_stage_that_never_succeeds_is_left_when_its_share_of_the_steps_is_over() -> None:
    order = order_of("easy_first", stages=4, pass_at=0.9)
    stages = []
    for step in range(100):
        told = order.note(order.at(step), torch.zeros(10))
        stages.append(int(told["stage"]))
    assert [stages.index(stage) for stage in range(5)] == [0, 13, 25, 38, 50]


def test_uncertain_prompts_are_drawn_more_often_and_others_stay_within_reach() -> None:
    order = order_of("uncertain")
    counted = Counter(row for step in range(400) for row in order.at(step))
    middle, ends = (sum(counted[row] for row in rows) for rows in (range(75, 125), (*range(25), *range(175, 200))))
    assert middle > 1.4 * ends and 0 < counted[0] < 10 and 0 < counted[199] < 10
    for step in range(400):
        order.note(order.at(step), torch.ones(10))
    assert set(order.note([0], torch.zeros(1))) == {"success"}
    assert float(order.state["success"].mean()) > 0.9


@pytest.mark.parametrize("kind", ["easy_first", "uncertain"])
def test_a_run_follows_its_curriculum_and_says_so(kind: str, world: World, tmp_path: Path) -> None:
    """Resuming one is in test_engine_resume.py."""
    online = {"steps": 6, "prompts_per_step": 16, "group": 4, "curriculum": {"order": kind, "stages": 2}}
    spec = {"method": "grpo", "base": {"path": str(world.base)}, "online": online, "reward": REWARD}
    run = write_run(tmp_path / "run", spec, train=world.stream[:60])
    assert engine(run) == 0
    told = [event["values"] for event in read_events(run) if event["kind"] == "metric"]
    assert ("stage" in told[-1]) == (kind == "easy_first") and 0 < told[-1]["success"] < 1
    assert read_result(run)["steps"] == 6


@pytest.mark.parametrize("rows", ["logged", "text"])
def test_a_curriculum_where_nothing_is_decided_afresh_is_refused(
    rows: str, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"method": "grpo", "base": {"path": str(world.base)}, "online": {"curriculum": {}}, "data": {"rows": rows}}
    log = logged(world.stream[:20], world.probabilities[:20], 1)
    run = write_run(tmp_path / "run", spec, train=log)
    assert engine(run) == 2
    assert "online.curriculum: " in capsys.readouterr().err and not (run / "attempts").exists()
