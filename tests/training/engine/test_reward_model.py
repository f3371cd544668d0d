"""A reward model orders texts as people did, is read as a reward, and is never taken for a policy."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_world import OPTIONS, World, engine, read_events, read_result, write_run

from decisions.rewards.components import Facts
from training.engine.attempt.attempt import Attempt
from training.engine.attempt.events import Events
from training.engine.attempt.stop import StopFlag
from training.engine.data.reading import pair_with_others
from training.engine.methods.learned_reward import LearnedReward
from training.engine.methods.reward_model import RewardModel, calibration_error, pair_loss
from training.engine.models.loading import Loaded, build_tiny, build_tokenizer, save
from training.engine.rows.types import Labelled
from training.engine.spec.reward_function import RewardFunction
from training.engine.spec.run_spec import Data, ModelSource, RewardComponent, RunSpec, TinyShape


def pairs_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each row the right option, and one that is not."""
    return [
        {
            "id": row["id"],
            "prompt": row["prompt"],
            "chosen": row["answer"],
            "rejected": [option for option in OPTIONS if option != row["answer"]][place % (len(OPTIONS) - 1)],
            "group": row["group"],
        }
        for place, row in enumerate(rows)
    ]


def test_the_loss_is_that_of_bradley_and_terry() -> None:
    rewards = torch.tensor([[2.0, 0.5], [-1.0, 1.0]])
    expected = (np.log(1 + np.exp(-1.5)) + np.log(1 + np.exp(2.0))) / 2
    assert pair_loss(rewards).item() == pytest.approx(expected)
    assert pair_loss(torch.zeros(3, 2)).item() == pytest.approx(np.log(2))
    # Both pairs are told with confidence σ(2) = 0.881, and one of two is right.
    assert calibration_error([2.0, -2.0]) == pytest.approx(1 / (1 + np.exp(-2)) - 0.5)


def test_right_answers_make_pairs_with_other_options() -> None:
    rows = [Labelled(str(n), "x", ("a", "b", "c", "d"), "b", "one" if n else None) for n in range(40)]
    pairs = pair_with_others(rows, 2, seed="1")
    assert pairs == pair_with_others(rows, 2, seed="1") != pair_with_others(rows, 2, seed="2")
    assert len({pair.id for pair in pairs}) == len(pairs) == 80
    assert all((pair.chosen, pair.prompt) == ("b", "x") and not list(pair.faults()) for pair in pairs)
    assert {pair.rejected for pair in pairs} == {"a", "c", "d"}  # of every row two different ones
    assert all(first.rejected != second.rejected for first, second in zip(pairs[::2], pairs[1::2], strict=True))
    assert {pair.group for pair in pairs} == {"0", "one"}  # a row without a cluster is one
    assert len(pair_with_others(rows[:1], 9, seed="1")) == 3  # all there are
    told = tuple(map(str, range(150)))
    many = [Labelled(str(count), "x", told[:count], "0") for count in (4, 30, 150)]
    assert Counter(pair.group for pair in pair_with_others(many, None, seed="1")) == {"4": 3, "30": 10, "150": 16}


def test_what_is_saved_scores_as_it_did(tmp_path: Path) -> None:
    """r is the head's product with the state of the last token; the reward is bounded around the mean."""
    shape = TinyShape(vocabulary=300, hidden=16, layers=1, heads=2, key_value_heads=1)
    tokenizer = build_tokenizer(["an invoice", "a flight"], ["finance", "travel"], shape.vocabulary)
    loaded = Loaded(build_tiny(shape, tokenizer).eval(), tokenizer)
    spec = RunSpec(run_id="x", method="reward_model", base=ModelSource(path="/base"), data=Data(train="rows"))
    prompts, texts = ["an invoice", "a flight to the sea"], ["finance", "travel"]
    source = ModelSource(path=str(tmp_path / "model"))
    judge = RewardComponent(name="model", weight=2.0, source=source)
    value = RewardFunction([judge, RewardComponent(name="matches_answer")])
    with closing(Events(tmp_path / "events.jsonl")) as events:
        attempt = Attempt(spec, 1, tmp_path, torch.device("cpu"), events, StopFlag())
        made = RewardModel(attempt, loaded, torch.nn.Parameter(torch.randn(1, 16)), 64, mean=0.5, deviation=2.0)
        found = made.score_all(prompts, texts)
        for prompt, text, one in zip(*made.tokens(prompts, texts), found.tolist(), strict=True):
            states = loaded.model.model(input_ids=torch.tensor([prompt + text])).last_hidden_state
            assert (states[0, -1] @ made.head[0]).item() == pytest.approx(one, abs=1e-5)
        rewards = made.reward(prompts, texts)
        assert rewards == pytest.approx(((found - 0.5) / 2).sigmoid().tolist())
        save(loaded, tmp_path / "model")
        made.save_head(tmp_path / "model")
        asked = list(zip(prompts, texts, strict=True))
        assert LearnedReward(attempt, value)([*asked, asked[0]]) == pytest.approx([*rewards, rewards[0]], abs=1e-6)
    assert value(Facts(action="a", answer="a"), 0.25) == pytest.approx(2 * 0.25 + 1.0)


@pytest.mark.slow
def test_what_it_learnt_from_pairs_teaches_a_policy(tmp_path: Path, world: World) -> None:
    spec: dict[str, Any] = {
        "method": "reward_model",
        "base": {"path": str(world.base)},
        "optimiser": {"learning_rate": 2e-3, "epochs": 4, "batch_size": 32},
        "evaluate": {},
        "checkpoint_every_seconds": 0.05,
    }
    run = write_run(tmp_path / "r", spec, train=pairs_of(world.stream[:400]), heldout=pairs_of(world.heldout[:200]))
    assert engine(run) == 0
    result, folder = read_result(run), run / "attempts/1/model"
    assert result["scores"]["trained"]["accuracy"] == result["metrics"]["heldout_ordered_rightly"] > 0.7
    assert result["metrics"]["heldout_margin"] > 0.3 and result["metrics"]["heldout_calibration_error"] < 0.25
    lines = (run / "attempts/1/predictions.jsonl").read_text().splitlines()
    assert len(lines) == 200 and {"id", "group", "margin", "expected_right"} < json.loads(lines[0]).keys()
    assert json.loads((folder / "reward_model.json").read_text())["reward_model"] is True

    left = sorted((run / "attempts/1/checkpoints").iterdir())
    assert len(left) == 2  # the last one is of the end
    again = tmp_path / "again"
    shutil.copytree(run, again, ignore=lambda _, names: {"model", "result.json", left[1].name} & set(names))
    assert engine(again) == 0
    assert next(event for event in read_events(again, 2) if event["kind"] == "started")["resumed_from"]
    assert read_result(again, 2)["weights_sha256"] == result["weights_sha256"]
    assert (again / "attempts/2/predictions.jsonl").read_text().splitlines() == lines

    spec = {
        "method": "grpo",
        "base": {"path": str(world.base)},
        "optimiser": {"learning_rate": 2e-3, "batch_size": 64},
        "online": {"steps": 16, "prompts_per_step": 32},
        "reward": [{"name": "model", "source": {"path": str(folder)}}],
        "evaluate": {"free_rows": 0},
    }
    taught = write_run(tmp_path / "policy", spec, train=world.stream[:400], heldout=world.heldout[:200])
    assert engine(taught) == 0
    scores = read_result(taught)["scores"]
    assert scores["trained"]["accuracy"] > scores["base"]["accuracy"] + 0.05


@pytest.mark.parametrize("output", ["model", "adapter"])
def test_no_run_takes_one_for_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    """Exporting, evaluating and training begin with none; and a folder that is none rewards nothing."""
    plain, judge = tmp_path / "plain", tmp_path / "judge"
    for folder in (plain, judge):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    for name in ("adapter_config.json", "reward_model.json"):
        (judge / name).write_text("{}")
    base = {"path": str(judge)} if output == "model" else {"path": str(plain), "adapter": str(judge)}
    rows = [{"id": "1", "prompt": "x", "options": ["a", "b"], "answer": "a", "group": ""}]
    runs = [
        write_run(
            tmp_path / "export",
            {"method": "export", "export": {"format": "merged"}, "base": base | {"adapter": str(judge)}},
        ),
        write_run(tmp_path / "evaluate", {"method": "evaluate", "base": base}, heldout=rows),
        write_run(tmp_path / "sft", {"method": "sft", "base": base}, train=rows),
    ]
    for run in runs:
        assert engine(run) == 2
        assert f"{judge} is a reward model, which scores texts and is not a policy" in capsys.readouterr().err
        assert not (run / "attempts").exists()
    source = {name: str(plain) for name in base}
    reward = [{"name": "model", "source": source}]
    grpo = write_run(tmp_path / "grpo", {"method": "grpo", "base": {"path": str(plain)}, "reward": reward}, train=rows)
    assert engine(grpo) == 2 and f"{plain} is not a reward model" in capsys.readouterr().err
    assert not (grpo / "attempts").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"reward": [{"name": "model"}]}, "needs a reward model"),
        ({"reward": [{"name": "matches_answer", "source": {"path": "/x"}}]}, "only 'model' reads a reward model"),
        ({"method": "reward_model", "data": {"heldout_rows": "logged"}}, "no reward model is measured on logged"),
        ({"method": "reward_model", "epoch_checkpoints": True}, "cannot load a reward model"),
        ({"method": "sft", "data": {"heldout_rows": "preferences"}}, "no model is measured on preferences"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], says: str
) -> None:
    spec = {"method": "grpo", "base": {"path": str(tmp_path)}} | given
    run = write_run(tmp_path / "run", spec, train=[], heldout=[])
    assert engine(run) == 2
    assert says in capsys.readouterr().err
    assert not (run / "attempts").exists()
