"""Every method learns: from a base that is half right to a model that is clearly better."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from engine_world import OPTIONS, World, engine, labelled, logged, read_events, read_result, write_run

LEARNED_FROM_LOGS = {"learning_rate": 2e-3, "epochs": 4, "batch_size": 32}
ONLINE = {
    "optimiser": {"learning_rate": 1e-3, "batch_size": 64},
    "online": {"steps": 20, "prompts_per_step": 64},
    "reward": [{"name": "matches_answer"}],
}


# Half of the stream, or less, is enough where a method gains far more than its bound.
ROWS, FEW = 500, 300


def trained(folder: Path, world: World, spec: dict[str, Any], **data: list[dict[str, Any]]) -> dict[str, Any]:
    spec = {"base": {"path": str(world.base)}, "evaluate": {"free_rows": 0}} | spec
    run = write_run(folder / "run", spec, heldout=world.heldout, **data)
    assert engine(run) == 0
    return read_result(run)


def test_pretraining_learns_half_the_task_and_writes_options_freely(world: World) -> None:
    score = read_result(world.pretrained)["scores"]["trained"]
    assert 0.35 < score["accuracy"] < 0.85
    assert score["valid_share"] > 0.9


def test_the_base_is_as_sure_as_it_is_right(world: World) -> None:
    """Mean confidence is close to accuracy, on rows it never saw."""
    lines = (world.pretrained / "attempts" / "1" / "predictions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    confidence = sum(row["p_action"] for row in rows) / len(rows)
    accuracy = sum(row["correct"] for row in rows) / len(rows)
    assert read_result(world.pretrained)["metrics"]["temperature"] != 1.0
    assert abs(confidence - accuracy) < 0.15


def test_posterior_learns_from_what_was_tried(tmp_path: Path, world: World) -> None:
    log = logged(world.stream[:FEW], world.probabilities[:FEW], 1)
    spec = {"method": "posterior", "seed": 1, "optimiser": LEARNED_FROM_LOGS}
    spec |= {"samples": 4, "evaluate": {"free_rows": 8}}
    result = trained(tmp_path, world, spec, train=log, replay=world.taught)
    scores = result["scores"]
    assert scores["trained"]["accuracy"] > scores["base"]["accuracy"] + 0.15
    told = [event["values"] for event in read_events(tmp_path / "run") if event["kind"] == "metric"][-1]
    speed = {"learning_rate", "grad_norm", "tokens_per_second", "peak_memory_gb"}
    assert speed | {"loss", "kl", "entropy", "heldout_accuracy", "probability_of_right", "valid_share"} <= told.keys()
    assert told["kl"] > 0 and told["entropy"] > 0 and told["peak_memory_gb"] > 0.01
    assert told["heldout_accuracy"] == pytest.approx(scores["trained"]["accuracy"], abs=0.2)  # of 64 of the rows
    assert not told.keys() & {"kl", "entropy"} & result["metrics"].keys()  # what is looked at is no result


@pytest.mark.parametrize(("method", "rows"), [("reward_weighted", ROWS), ("all_action", FEW), ("kto", 1000)])
def test_logged_rewards_teach(
    tmp_path: Path, world: World, method: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.engine.methods.direct_method.WIDE", 16)  # all_action reads the hidden states as well
    log = logged(world.stream[:rows], world.probabilities[:rows], 1)
    spec = {"method": method, "seed": 1, "optimiser": LEARNED_FROM_LOGS}
    result = trained(tmp_path, world, spec, train=log, replay=world.taught)
    scores, losses = result["scores"], result["metrics"]
    assert scores["trained"]["accuracy"] > scores["base"]["accuracy"] + 0.12
    assert losses["loss_at_end"] < losses["loss_at_start"]
    known = [row["reward"] for row in log if row["reward"] is not None]
    assert result["rewards"]["counts"] == [known.count(0.0), *[0] * 8, known.count(1.0)]


@pytest.mark.parametrize("method", ["grpo", "ppo"])
def test_fresh_decisions_teach(tmp_path: Path, world: World, method: str) -> None:
    result = trained(tmp_path, world, ONLINE | {"method": method, "seed": 1}, train=world.stream)
    assert result["scores"]["trained"]["accuracy"] > result["scores"]["base"]["accuracy"] + 0.15
    assert result["metrics"]["kl"] > 0


@pytest.mark.parametrize("method", ["grpo", "ppo"])
def test_stored_decisions_teach(tmp_path: Path, world: World, method: str) -> None:
    """250 prompts, each decided four times."""
    log = [row for seed in range(4) for row in logged(world.stream[:250], world.probabilities[:250], seed)]
    spec = {"method": method, "seed": 1, "optimiser": LEARNED_FROM_LOGS, "data": {"rows": "logged"}}
    result = trained(tmp_path, world, spec, train=log)
    assert result["scores"]["trained"]["accuracy"] > result["scores"]["base"]["accuracy"] + 0.05
    assert result["metrics"]["kl"] > 0


def without_propensities(rows: list[dict[str, Any]], some: int | None = None) -> list[dict[str, Any]]:
    """The first `some` of them, or all, as a policy logs them that does not tell its probabilities."""
    return [row | {"propensity": None} if some is None or n < some else row for n, row in enumerate(rows)]


@pytest.mark.parametrize(("seed", "some"), [(1, None), (2, None), (3, 40)])
def test_ppo_acts_afresh_where_a_log_tells_no_propensities(
    tmp_path: Path, world: World, seed: int, some: int | None
) -> None:
    """Paid by a reward model of the log; measured on rows with the right answer, which that model never saw."""
    log = without_propensities(logged(world.stream[:FEW], world.probabilities[:FEW], seed), some)
    spec = {
        "method": "ppo",
        "seed": seed,
        "optimiser": {"learning_rate": 1e-3, "epochs": 5},
        "data": {"rows": "logged"},
        "online": {"prompts_per_step": 64},
    }
    result = trained(tmp_path, world, spec, train=log)
    judged = [row for row in log if row["reward"] is not None]
    without = sum(row["propensity"] is None for row in judged)
    metrics, scores = result["metrics"], result["scores"]
    assert scores["trained"]["accuracy"] > scores["base"]["accuracy"] + 0.05
    assert (metrics["without_propensity"], metrics["reward_model_folds"]) == (without, 5)
    assert 0.6 < metrics["reward_model_auc_low"] < metrics["reward_model_auc"] < metrics["reward_model_auc_high"]
    assert metrics["kl"] > 0 and 0 < metrics["reward"] < 1
    told = next(line for line in result["warnings"] if "propensity" in line)
    assert told.startswith(f"{without} of {len(judged)} decisions have no propensity: the model acts afresh")
    assert "cross-fitted in 5 folds" in told and f"AUC of {metrics['reward_model_auc']:.2f}" in told
    assert result["steps"] == 5 * -(-len(judged) // 64)


def test_ppo_is_refused_where_its_reward_model_is_no_better_than_a_constant(
    tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdicts by a coin: nothing is trained, and nothing is saved."""
    rng = random.Random(1)
    rows = without_propensities(logged(world.stream[:100], [[1 / len(OPTIONS)] * len(OPTIONS)] * 100, 1))
    log = [row | {"reward": float(rng.random() < 0.5)} for row in rows]
    spec = {"method": "ppo", "base": {"path": str(world.base)}, "data": {"rows": "logged"}}
    run = write_run(tmp_path / "run", spec, train=log)
    assert engine(run) == 2
    [fault] = json.loads(capsys.readouterr().err.splitlines()[-1])["faults"]
    assert "is not shown to be better than a constant" in fault and "AUC of 0." in fault
    assert read_events(run)[-1] | {"error": fault} == read_events(run)[-1]
    assert {path.name for path in (run / "attempts" / "1").iterdir()} == {"events.jsonl"}


@pytest.mark.parametrize("targets", ["all-linear", "attention"])
def test_an_adapter_learns_and_leaves_the_base_alone(tmp_path: Path, world: World, targets: str) -> None:
    log = logged(world.stream, world.probabilities, 1)
    spec = {
        "method": "posterior",
        "lora": {"r": 8, "targets": targets, "dropout": 0.05},
        "optimiser": LEARNED_FROM_LOGS | {"learning_rate": 5e-3, "epochs": 2},
    }
    result = trained(tmp_path, world, spec, train=log)
    assert result["output"] == "adapter"
    assert result["trainable_parameters"] < result["total_parameters"] / 4
    assert result["scores"]["trained"]["accuracy"] > result["scores"]["base"]["accuracy"] + 0.1


def test_corrections_teach_as_preferences(tmp_path: Path, world: World) -> None:
    """Of each decision that was wrong, the right option is better than the one that was taken."""
    stream = world.stream[:ROWS]
    log = zip(stream, logged(stream, world.probabilities[:ROWS], 1), strict=True)
    pairs = [
        {"id": row["id"], "prompt": row["prompt"], "chosen": row["answer"], "rejected": decision["action"]}
        for row, decision in log
        if decision["action"] != row["answer"]
    ]
    spec = {"method": "dpo", "seed": 1, "optimiser": LEARNED_FROM_LOGS | {"learning_rate": 1e-3}}
    result = trained(tmp_path, world, spec | {"evaluate": {"free_rows": 40}}, train=pairs)
    assert result["scores"]["trained"]["accuracy"] > result["scores"]["base"]["accuracy"] + 0.1
    assert result["scores"]["trained"]["valid_share"] > 0.8
    assert result["metrics"]["preferred_share"] > 0.5


def test_an_adapter_learns_answers(tmp_path: Path, world: World) -> None:
    spec = {"method": "sft", "lora": {"r": 8}, "optimiser": LEARNED_FROM_LOGS | {"learning_rate": 5e-3}}
    result = trained(tmp_path, world, spec, train=world.stream[:400])
    assert (result["output"], result["rows"]) == ("adapter", 400)
    assert result["scores"]["trained"]["accuracy"] > result["scores"]["base"]["accuracy"] + 0.1


def test_rows_may_offer_different_options(tmp_path: Path, world: World) -> None:
    """Two, three or all options, in any order: the union is learned, and nothing else is offered."""
    log = []
    for i, row in enumerate(logged(world.stream[:300], world.probabilities[:300], 1)):
        others = [option for option in OPTIONS if option != row["action"]]
        offered = [row["action"], *others[: 1 + i % 5]]
        log.append(row | {"options": offered[::-1] if i % 2 else offered})
    spec = {"method": "posterior", "optimiser": LEARNED_FROM_LOGS | {"epochs": 1}}
    run = write_run(
        tmp_path / "run",
        spec | {"base": {"path": str(world.base)}, "evaluate": {"free_rows": 20}},
        train=log,
        heldout=[row | {"options": [row["answer"], "zzz never seen"]} for row in labelled(60, 9)],
    )
    assert engine(run) == 0
    predictions = [json.loads(line) for line in (run / "attempts/1/predictions.jsonl").read_text().splitlines()]
    assert len(predictions) == 120
    for prediction in predictions:
        assert len(prediction["p"]) == 2
        assert math.isclose(sum(prediction["p"]), 1.0, abs_tol=1e-5)


def test_predictions_and_result_agree(tmp_path: Path, world: World) -> None:
    spec = {
        "method": "evaluate",
        "base": {"path": str(world.base)},
        "serving": {"temperature": 0.5, "epsilon": 0.12},
        "evaluate": {"free_rows": 0},
    }
    log = logged(world.heldout[:50], [[1 / len(OPTIONS)] * len(OPTIONS)] * 50, 1)
    run = write_run(tmp_path / "run", spec, heldout=world.heldout[:50], log=log)
    assert engine(run) == 0
    predictions = [json.loads(line) for line in (run / "attempts/1/predictions.jsonl").read_text().splitlines()]
    score = read_result(run)["scores"]["base"]
    assert score["accuracy"] == pytest.approx(sum(row["correct"] for row in predictions) / 50)
    assert score["probability_of_right"] == pytest.approx(sum(row["expected_right"] for row in predictions) / 50)
    for row, held in zip(predictions, world.heldout, strict=False):
        squares = [p**2 for p in row["p"]]
        acting = 0.88 * row["p_answer"] ** 2 / sum(squares) + 0.12 / len(squares)
        assert row["expected_right"] == pytest.approx(acting, abs=1e-4)
        assert (row["id"], row["group"]) == (held["id"], held["group"])
        assert row["correct"] == (row["action"] == held["answer"])
    thoughts = [json.loads(line) for line in (run / "attempts/1/log.jsonl").read_text().splitlines()]
    assert thoughts == [{"id": row["id"], "p": row["p"]} for row in predictions]


def test_events_tell_the_whole_story(world: World) -> None:
    events = read_events(world.pretrained)
    assert [event["seq"] for event in events] == list(range(len(events)))
    kinds = [event["kind"] for event in events]
    assert kinds[0] == "started" and kinds[-1] == "finished"
    assert {"progress", "metric", "checkpoint"} <= set(kinds)
    assert events[-1]["result"] == read_result(world.pretrained)
    assert all(0 <= event["fraction"] <= 1 for event in events if event["kind"] == "progress")
