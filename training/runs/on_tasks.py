"""Runs on tasks of an environment: their settings by default, and what keeps one from starting.

`training.runs.defaults.values`, `training.runs.services` and `manage.py train` call it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training.engine.environments.protocol import BaseEnvironment
from training.engine.environments.registry import BadEnvironment, UnknownEnvironment, find_environment
from training.engine.spec.methods import RowKind
from training.models import DatasetSnapshot
from workspaces.errors import FieldFault

FROM_TASKS = "grpo"
"""The method that learns by acting."""
STEPS = 120
ONLINE: Mapping[str, Any] = {"steps": STEPS, "prompts_per_step": 8, "group": 8, "gamma": 0.95, "kl": 0.0}
LEARNING_RATE = 2e-3
"""Of a tiny model, all its weights (docs/results.md)."""
LORA: Mapping[str, Any] = {"r": 16, "alpha": 32}
LORA_RATE = 1e-4
"""Of an adapter over a real one. Nobody has measured it on tasks yet."""
AT_ONCE, AT_ONCE_OF_REAL = 64, 8
"""Steps of episodes that are learnt from at once."""
SHORTEST, UNTOLD = 64, 256
"""Tokens. Observations of unknown length get UNTOLD."""
CERTAIN = 256
"""Up to so many characters each gets a token: numbers and signs are one each."""


def tokens_for(longest: int | None, most: int | None = None) -> int:
    """Room for observations of so many characters, in tokens, a multiple of 32; `most` is what the base can hold."""
    if longest is None:
        room = UNTOLD
    else:
        room = max(SHORTEST, longest if longest <= CERTAIN else max(CERTAIN, math.ceil(longest / 2)))
    room = 32 * math.ceil(room / 32)
    return min(room, most) if most is not None else room


def choose_task_settings(*, is_tiny: bool, longest: int | None, most: int | None = None) -> dict[str, Any]:
    """Fields of the engine's spec for a run on tasks. `longest`: of the observations, in characters."""
    told: dict[str, Any] = {
        "max_prompt_tokens": tokens_for(longest, most),
        "online": dict(ONLINE),
        "evaluate": {"free_rows": 0},
    }
    if is_tiny:
        return told | {"optimiser": {"learning_rate": LEARNING_RATE, "batch_size": AT_ONCE}}
    return told | {"lora": dict(LORA), "optimiser": {"learning_rate": LORA_RATE, "batch_size": AT_ONCE_OF_REAL}}


def demonstration_settings(longest: int | None, most: int | None = None) -> dict[str, Any]:
    """What a base that learns from demonstrations needs besides: room for observations, and no loss on written texts,
    since actions are scored and never written."""
    return {
        "max_prompt_tokens": tokens_for(longest, most),
        "text_weight": 0.0,
        "pretrain": {"option_tokens": False},
    }


def find_class(name: str) -> type[BaseEnvironment] | None:
    """None where nothing of this name can be used here."""
    try:
        return find_environment(name)
    except (UnknownEnvironment, BadEnvironment):
        return None


def find_task_faults(
    dataset: DatasetSnapshot, heldout: DatasetSnapshot | None, settings: Mapping[str, Any]
) -> list[FieldFault]:
    """Why nothing can be learnt from these tasks, or measured on those. What `dataset` holds, and whether the method
    takes it, is checked elsewhere."""
    return list(_find_faults(dataset, heldout, settings))


def _find_faults(
    dataset: DatasetSnapshot, heldout: DatasetSnapshot | None, settings: Mapping[str, Any]
) -> Iterator[FieldFault]:
    measured = heldout if heldout is not None and heldout.is_of_tasks else None
    for field, one in (("dataset", dataset if dataset.is_of_tasks else None), ("heldout", measured)):
        if one is not None and find_class(one.environment) is None:
            yield FieldFault(field, f"environment {one.environment!r} cannot be used here", "one that is installed")
    if dataset.is_held_out_split:
        yield FieldFault("dataset", "its tasks are held out, to measure on", "tasks of the training split")
    if dataset.is_of_tasks and settings.get("reward"):
        yield FieldFault("settings.reward", "is given, but for tasks the environment gives the reward", "leave it out")
    if dataset.is_of_tasks and heldout is not None and measured is None:
        yield FieldFault("heldout", f"has {heldout.kind} rows", f"held-out tasks of {dataset.environment}")
    if measured is None:
        return
    if measured.environment != dataset.environment:
        learnt = (
            f"are of {dataset.environment}" if dataset.environment else "are neither tasks nor demonstrations of them"
        )
        reason = f"its tasks are of {measured.environment}, and the rows to learn from {learnt}"
        yield FieldFault("heldout", reason, "tasks of the same environment")
    elif _overlap(measured, dataset):
        yield FieldFault("heldout", "has tasks that the run learns from", "tasks of the held-out split")


def _overlap(one: DatasetSnapshot, other: DatasetSnapshot) -> bool:
    """Whether the two were drawn from the same split with a number in common."""
    a, b = one.query, other.query
    if a.get("split") != b.get("split"):
        return False
    return bool(max(a["first"], b["first"]) < min(a["first"] + a["count"], b["first"] + b["count"]))


def count_steps(names: Sequence[str]) -> int | None:
    """Actions that an episode in one of these environments has at most; None where none of them is known here."""
    known = [found.max_steps for name in names if (found := find_class(name)) is not None]
    return max(known, default=None)


def count_most_steps(*datasets: DatasetSnapshot | None) -> int | None:
    """The same, of the datasets that hold tasks."""
    return count_steps([one.environment for one in datasets if one is not None and one.row_kind is RowKind.TASKS])
