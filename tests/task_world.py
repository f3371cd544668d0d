"""Datasets of tasks, and a run on them that has ended, with the episodes of its models on held-out tasks, without an
engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from tools.factories import ArtifactFactory, DatasetSnapshotFactory, EvaluationFactory, TrainingRunFactory, put_rows
from training.engine.environments.agents import ExpertAgent, RandomAgent, act_now
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment
from training.environments.drawing import count_tasks
from training.evaluation.tasks import score_tasks

LINES = "heldout_episodes.jsonl"
ACTED = "ab" * 32
"""The hash of the weights that acted greedily, base and trained."""


def tasks_of(agent: Any, environment: str) -> Any:
    """A dataset of tasks to learn from, of which another one is held out; their rows are none of tasks."""
    query = {"environment": environment, "first": 0, "count": 4}
    common = {"agent": agent, "kind": "tasks", "rows": 4}
    tasks = DatasetSnapshotFactory(name=environment, query=query | {"split": "train"}, **common)
    told = {"held_out_of": str(tasks.id)}
    DatasetSnapshotFactory(name="held out", query=query | {"split": "heldout"}, statistics=told, **common)
    return tasks


def make_acted_run(agent: Any, runs: Path, count: int = 4, **fields: Any) -> Any:
    """It solved every held-out task but the last, whose environment failed; its base acted at random. Half of the tasks
    are said to be of another domain."""
    equations = find_environment("equations")
    tasks = [
        msgspec.structs.replace(task, domain=("math", "school")[number % 2])
        for number, task in enumerate(draw_tasks(equations, count, "heldout"))
    ]
    stored = put_rows([msgspec.to_builtins(task) for task in tasks])
    dataset = DatasetSnapshotFactory(
        agent=agent,
        name="Equations",
        kind="tasks",
        rows=count,
        query={"environment": "equations", "split": "heldout", "first": 0, "count": count},
        statistics=count_tasks(tasks),
        artifact=ArtifactFactory(workspace=agent.workspace, kind="dataset", digest=stored.digest),
    )
    made = TrainingRunFactory(agent=agent, dataset=dataset, heldout=dataset, method="grpo", **fields)
    lines: list[dict[str, Any]] = []
    for worker, model in ((RandomAgent(1), "base"), (ExpertAgent(), "trained")):
        for task in tasks:
            episode = act_now(worker, equations(), task)
            lines.append({"model": model, "policy": "serving", **msgspec.to_builtins(episode)})
    lines[-1] |= {"fault": "the grader failed", "success": False}
    lines[count]["trajectory"][0]["log_p"] = -0.6931471805599453
    for model in ("base", "trained"):  # greedily, both are experts on the first tasks alone
        for task, worker in zip(tasks, (ExpertAgent(), ExpertAgent(), *(RandomAgent(1) for _ in tasks)), strict=False):
            episode = act_now(worker, equations(), task)
            lines.append({"model": model, "policy": "greedy", "weights_hash": ACTED, **_without_hash(episode)})
    attempt = runs / str(made.id) / "attempts" / "1"
    attempt.mkdir(parents=True)
    (attempt / LINES).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (attempt / "result.json").write_text(json.dumps({"run_id": "r", "method": "grpo", "attempt": 1, "episodes": LINES}))
    predictions = attempt / "predictions.jsonl"
    greedy = {(one["model"], one["task"]): one["success"] for one in lines if one["policy"] == "greedy"}
    serving = [one for one in lines if one["policy"] == "serving" and one["fault"] is None]
    predictions.write_text("".join(json.dumps(_predict(line, greedy)) + "\n" for line in serving))
    scored = score_tasks(predictions)
    EvaluationFactory(run=made, dataset=dataset, rows=scored.rows, scores=scored.scores, differences=scored.differences)
    return made


def _without_hash(episode: Any) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(episode).items() if name != "weights_hash"}


def _predict(line: dict[str, Any], greedy: dict[tuple[str, str], bool]) -> dict[str, Any]:
    told = {name: line[name] for name in ("model", "group", "domain", "score")}
    told["greedy_correct"] = greedy[line["model"], line["task"]]
    return told | {"id": line["task"], "correct": line["success"]}
