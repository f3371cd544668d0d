"""The demo of learning by acting (`manage.py demo math`): a tiny model that learns to solve equations step by step.

It needs no database and no network. A base is made from demonstrations of a worker who takes some steps at random; from
it `grpo` acts with the weights in training; both then act on the same unseen tasks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from training.engine.environments.demonstrations import demonstrate
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task
from training.engine.spec.result import ModelScore
from training.evaluation.paired_tasks import PairedTasks, read_paired_tasks
from training.local.runs import run_here
from training.runs.on_tasks import AT_ONCE, LEARNING_RATE, ONLINE

ENVIRONMENT = "equations"
WRONG = 0.15
PROMPT_TOKENS = 96
APART = 1_000_000
"""Between the numbers of one seed's tasks and another's."""
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """`demonstrations` make the base; then `updates` of `tasks_each` tasks, in `group` episodes each."""

    demonstrations: int = 300
    updates: int = 60
    tasks_each: int = 8
    group: int = 8
    held_out: int = 200
    seed: int = 0


def run_demo(plan: Plan, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Trains in `folder` and returns what it showed, as plain values. Goes on where it was stopped. Raises UnusableRun,
    Interrupted, EngineFailed."""
    began = time.monotonic()
    environment, first = find_environment(ENVIRONMENT), plan.seed * APART
    shown = list(draw_tasks(environment, plan.demonstrations, "train", first=first))
    say(f"a base from {plan.demonstrations} demonstrations, {WRONG:.0%} of their steps wrong")
    rows = _plain(demonstrate(shown, WRONG, plan.seed))
    base, _ = run_here(_base_spec(plan), {"train.jsonl": rows}, folder / "base", say)
    acted = list(draw_tasks(environment, plan.updates * plan.tasks_each, "train", first=first + plan.demonstrations))
    held_out = list(draw_tasks(environment, plan.held_out, "heldout"))
    say(f"{plan.updates} updates, each by {plan.tasks_each * plan.group} episodes of its own weights")
    spec = _training_spec(plan, base / "model")
    files = {"train.jsonl": _plain(acted), "heldout.jsonl": _plain(held_out)}
    attempt, result = run_here(spec, files, folder / "trained", say)
    assert result.predictions is not None and result.episodes is not None
    episodes = list(_read(attempt / result.episodes))
    return {
        "environment": ENVIRONMENT,
        "tasks": plan.held_out,
        **_compare(read_paired_tasks(attempt / result.predictions)),
        "scores": {which: _measures(score) for which, score in result.scores.items()},
        "example": _find_example(held_out, episodes),
        "alarm": result.alarm.reason if result.alarm is not None else None,
        "model": str(attempt / "model"),
        "seconds": round(time.monotonic() - began, 1),
    }


def _base_spec(plan: Plan) -> dict[str, Any]:
    return {
        "run_id": "demo-base",
        "method": "pretrain",
        "seed": plan.seed,
        "base": {"tiny": {"vocabulary": 600}},
        "max_prompt_tokens": PROMPT_TOKENS,
        "optimiser": {"learning_rate": 3e-3, "epochs": 6, "batch_size": 64},
        "pretrain": {"calibration_share": 0.1},
        "text_weight": 0.0,
        "data": {"train": "train.jsonl"},
    }


def _training_spec(plan: Plan, base: Path) -> dict[str, Any]:
    online = {**ONLINE, "steps": plan.updates, "prompts_per_step": plan.tasks_each, "group": plan.group}
    return {
        "run_id": "demo-episodes",
        "method": "grpo",
        "seed": plan.seed,
        "base": {"path": str(base)},
        "max_prompt_tokens": PROMPT_TOKENS,
        "optimiser": {"learning_rate": LEARNING_RATE, "batch_size": AT_ONCE},
        "online": online,
        "evaluate": {"free_rows": 0},
        "data": {"train": "train.jsonl", "rows": "tasks", "heldout": "heldout.jsonl"},
    }


def _plain(rows: Any) -> list[Line]:
    return [msgspec.to_builtins(row) for row in rows]


def _read(path: Path) -> Iterator[Line]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _compare(paired: PairedTasks) -> dict[str, Any]:
    """Solved tasks before and after, and the paired difference with its interval, of all and by template; clustered by
    task, since a template is no cluster of its own. `solved` is by the policy that serves, with its exploration."""

    def solved(tasks: Sequence[str], measure: str = "accuracy") -> dict[str, Any]:
        before, after = (paired.mean(which, measure, tasks).mean for which in ("base", "trained"))
        gain = paired.gain(measure, tasks, clusters=tasks)
        return {"base": before, "trained": after, "gain": [round(end, 4) for end in (gain.mean, gain.low, gain.high)]}

    templates = {name: solved(tasks) for name, tasks in paired.tasks_by("group").items()}
    greedily = {"solved_greedily": solved(paired.tasks, "greedy_success")} if paired.knows("greedy_success") else {}
    return {"solved": solved(paired.tasks), **greedily, "by_template": templates}


def _measures(score: ModelScore) -> dict[str, float]:
    assert score.episodes is not None
    wanted = ("score", "reward", "steps", "progress", "finished")
    return {name: round(getattr(score.episodes, name), 4) for name in wanted}


def _find_example(tasks: Sequence[Task], episodes: Sequence[Line]) -> dict[str, Any] | None:
    """The first held-out task that the trained model solved and the base did not, with what each did."""
    serving = (one for one in episodes if one.get("policy", "serving") == "serving")
    did: Mapping[tuple[str, str], Line] = {(one["task"], one["model"]): one for one in serving}
    for task in tasks:
        before, after = did[task.id, "base"], did[task.id, "trained"]
        if after["success"] and not before["success"]:
            taken = {
                which: [(step["action"], step["reward"]) for step in one["trajectory"]]
                for which, one in (("base", before), ("trained", after))
            }
            return {"task": task.text, **taken}
    return None
