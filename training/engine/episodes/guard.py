"""Looks at a run that learns by acting, for its alarms (training.engine.episodes.alarms)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from training.engine.actions import ActionScorer
from training.engine.attempt import Attempt
from training.engine.data import RunData
from training.engine.environments.episodes import Episode
from training.engine.environments.registry import find_environment
from training.engine.episodes.alarms import Alarm, History
from training.engine.episodes.rollouts import roll_out, score_by
from training.engine.fit import Metrics, Updates
from training.engine.models import Loaded
from training.engine.rows import Labelled, prompts_of
from training.engine.scoring import score_rows
from training.engine.settings import Alarms

R = TypeVar("R")
SUITE_ROWS = 300
"""Of a suite at most so many rows are answered at each look, always the same ones."""


class Guard:
    """Looks every few updates. `kept` belongs into the checkpoint."""

    def __init__(self, attempt: Attempt, loaded: Loaded, data: RunData, settings: Alarms, updates: Updates) -> None:
        """Looks at the starting policy, unless the run goes on: call before the weights change or are restored."""
        self.attempt, self.settings, self.updates, self.model = attempt, settings, updates, loaded.model
        self.tasks = _sample(data.heldout_tasks, settings.tasks)
        self.suites: Mapping[str, Sequence[Labelled]] = {
            name: _sample(rows, SUITE_ROWS) for name, rows in data.suites.items()
        }
        self.scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, attempt.device)
        self.kept: dict[str, Tensor] = {}
        if attempt.resume is not None:
            self.history = History.from_kept(attempt.resume.state["kept"])
        else:
            self.history = History()
            self.history.solved, self.history.suites = self._look()
            self._keep_weights(0, self._worth(self.history.solved, 0))
        self.kept.update(self.history.as_kept())

    def note(self, step: int, groups: Sequence[Sequence[Episode]]) -> Metrics:
        """After the update `step`, counted from 1. Raises Alarm."""
        self.history.rewards.append(torch.tensor([_mean_reward(group) for group in groups]))
        told: dict[str, Tensor] = {}
        if step % self.settings.every == 0:
            solved, suites = self._look()
            told = {f"suite_{name}": right.mean() for name, right in suites.items()}
            if solved is not None:
                told["heldout_solved"] = solved.nanmean()
            reasons = [
                *([] if solved is None else [self.history.find_hacking(solved)]),
                *(self.history.find_forgetting(name, right, self.settings.margin) for name, right in suites.items()),
            ]
            if found := [reason for reason in reasons if reason is not None]:
                raise Alarm("; ".join(found), step)
            self._keep_weights(step, self._worth(solved, step))
        self.kept.update(self.history.as_kept())
        return told

    def go_back(self) -> int:
        """Puts the weights of the best look into the model; how many updates those had."""
        with torch.no_grad():
            for name, parameter in self.updates.parameters.items():
                parameter.copy_(self.history.best_weights[name])
        return self.history.best_step

    def _look(self) -> tuple[Tensor | None, dict[str, Tensor]]:
        """By the main process for all of them: which held-out tasks are solved, which rows of each suite are right."""
        processes = self.attempt.processes
        found = (self._act(), self._answer()) if processes.is_main else None
        looked: tuple[Tensor | None, dict[str, Tensor]] = processes.from_main(found)
        return looked

    def _act(self) -> Tensor | None:
        if not self.tasks:
            return None
        episodes = roll_out(score_by(self.attempt, self.model, self.scorer), [(task, task.seed) for task in self.tasks])
        return torch.tensor([float("nan") if one.fault is not None else float(one.success) for one in episodes])

    def _answer(self) -> dict[str, Tensor]:
        return {name: self._right(rows) for name, rows in self.suites.items()}

    def _right(self, rows: Sequence[Labelled]) -> Tensor:
        prompts, options = self.scorer.encode(prompts_of(rows)), [row.options for row in rows]
        said = score_rows(self.attempt, self.model, self.scorer, prompts, options).argmax(1).tolist()
        return torch.tensor([row.options[place] == row.answer for place, row in zip(said, rows, strict=True)]).float()

    def _worth(self, solved: Tensor | None, step: int) -> float:
        """Of a look without an alarm: the share of solved tasks, or where there are none the later the better."""
        return float(step) if solved is None else float(solved.nanmean())

    def _keep_weights(self, step: int, worth: float) -> None:
        history = self.history
        if worth >= history.best:
            history.best, history.best_step = worth, step
            history.best_weights = {
                name: parameter.detach().to("cpu", copy=True) for name, parameter in self.updates.parameters.items()
            }


def _mean_reward(group: Sequence[Episode]) -> float:
    """As a share of the most that is paid; nan where every episode failed."""
    most = find_environment(group[0].environment).most_reward
    sound = [one.total_reward / most for one in group if one.fault is None]
    return sum(sound) / len(sound) if sound else float("nan")


def _sample(rows: Sequence[R], count: int) -> list[R]:
    return random.Random("guard").sample(list(rows), min(count, len(rows)))  # noqa: S311 - the same ones in every run
