"""A judge model scores what episodes made: its score is a criterion, and an episode that it fails on is left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from engine_world import World, engine, read_result, write_run
from torch import Tensor

from tests.judge_model import KEY, PROMPT, judge_model, score_of
from training.engine.data.reading import find_judging_faults
from training.engine.environments.judging import JudgeFailed, JudgeModel, open_judge, read_score
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment
from training.engine.episodes.rollouts import roll_out
from training.engine.spec.run_spec import RunSpec
from training.engine.spec.settings import Judge

JUDGE: dict[str, Any] = {"metric": "creative", "model": "judge-1", "prompt": PROMPT}


def at_random(states: Sequence[str], offered: Sequence[Sequence[str]]) -> Tensor:
    """Every action on offer is as likely."""
    width = max(map(len, offered))
    return torch.tensor([[-float(torch.tensor(len(row)).log())] * width for row in offered])


def test_scores_are_criteria_and_their_share_of_the_reward_and_failures_leave_episodes_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = [(task, seed) for task in draw_tasks(find_environment("writing"), 4, "train") for seed in range(8)]
    plain = roll_out(at_random, asked)
    assert {one.components["creativity"] for one in plain} == {None} and all(one.fault is None for one in plain)
    monkeypatch.setenv("JUDGE_KEY", KEY)
    with judge_model() as (url, heard):
        judge = open_judge(Judge(**JUDGE, url=url, key_variable="JUDGE_KEY", share=0.25))
        judged = roll_out(at_random, asked, judge=judge)
        times = len(heard)
        roll_out(at_random, asked, judge=judge)
    assert {(one["path"], one["key"], one["model"]) for one in heard} == {
        ("/v1/chat/completions", f"Bearer {KEY}", "judge-1")
    }
    failed = [one for one in judged if one.fault is not None]
    assert 0 < len(failed) < len(judged) and 0 < len(heard) - times <= len(failed)  # scores are remembered
    assert all("the judge failed: it answered 'A fine text!'; expected: a number" in str(one.fault) for one in failed)
    assert all((one.components, one.success) == ({}, False) for one in failed)
    most = find_environment("writing").most_reward
    for before, after in zip(plain, judged, strict=True):
        assert [step.action for step in before.trajectory] == [step.action for step in after.trajectory]
        if after.fault is not None:
            continue
        work = after.trajectory[-1].next_state.partition("Text: ")[2].removeprefix("none")
        for part in ("[opening] ", "[middle] ", "[ending] "):
            work = work.replace(part, "")
        score = score_of(work) if work.strip() else None
        assert after.components["creativity"] == score
        wanted = 0.75 * before.total_reward + 0.25 * most * (score or 0.0)
        assert after.total_reward == pytest.approx(wanted) and after.total_reward <= most


@pytest.mark.slow
def test_a_run_learns_from_the_episodes_that_the_judge_scored(world: World, tmp_path: Path) -> None:
    tasks = [msgspec.to_builtins(task) for task in draw_tasks(find_environment("writing"), 4, "train")]
    spec = {
        "method": "grpo",
        "base": {"path": str(world.base)},
        "optimiser": {"batch_size": 64},
        "online": {"steps": 1, "prompts_per_step": 4, "group": 4, "kl": 0.0},
        "max_prompt_tokens": 160,
        "data": {"rows": "tasks"},
    }
    with judge_model() as (url, heard):
        run = write_run(tmp_path / "run", spec | {"judge": JUDGE | {"url": url, "share": 1.0}}, train=tasks)
        assert engine(run) == 0
    lines = (run / "attempts/1/training_episodes.jsonl").read_text().splitlines()
    episodes = [json.loads(line) for line in lines]
    failed = [one for one in episodes if one["fault"] is not None]
    scored = [one for one in episodes if one["components"].get("creativity") is not None]
    assert heard and failed and scored and len(episodes) == 16
    for one in scored:
        assert one["total_reward"] == pytest.approx(5.0 * one["components"]["creativity"])
    assert read_result(run)["metrics"]["faults"] == pytest.approx(len(failed) / 16)


def test_business_shows_its_decision_and_others_have_nothing_to_judge() -> None:
    world = find_environment("business")()
    world.reset(next(draw_tasks(type(world), 1, "train")))
    assert world.show_work() == ""
    world.step("decide B")
    assert world.show_work().endswith("Taken: B.") and world.components()["judgement"] is None
    spec = RunSpec.model_validate(
        {
            "run_id": "x",
            "method": "grpo",
            "base": {"path": "/b"},
            "data": {"train": "t", "rows": "tasks"},
            "judge": JUDGE,
        }
    )
    tasks = list(draw_tasks(find_environment("equations"), 1, "train"))
    assert [fault.partition(":")[0] for fault in find_judging_faults(spec, tasks, None)] == ["judge.url", "judge"]
    with pytest.raises(ValueError, match="only episodes on tasks are judged"):
        RunSpec.model_validate(spec.model_dump() | {"data": {"train": "t", "rows": "text"}})
    with pytest.raises(ValueError, match="which stands for the work"):
        Judge(**JUDGE | {"prompt": "Any good?"})


def test_only_numbers_from_0_to_1_are_scores() -> None:
    assert [read_score(text) for text in ("0.5", " 1\n", '{"score": 0}')] == [0.5, 1.0, 0.0]
    for text in ("", "1.5", "NaN", "true", '{"score": "high"}', "[1]", "Score: 1"):
        with pytest.raises(JudgeFailed):
            read_score(text)
    gone = JudgeModel(Judge(**JUDGE, url="http://127.0.0.1:9/v1", timeout_seconds=5))
    (answer,) = gone.score([("a task", "a work")])
    assert isinstance(answer, JudgeFailed) and "it does not answer: ConnectError" in str(answer)
