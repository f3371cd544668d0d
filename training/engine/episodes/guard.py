"""Looks at a run that learns by acting, for its alarms (training.engine.episodes.alarms), and what follows from one."""

from __future__ import annotations

import random
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.data.reading import RunData
from training.engine.environments.episodes import Episode
from training.engine.environments.tasks import Task
from training.engine.episodes.alarms import Alarm, History
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded
from training.engine.rows.types import Labelled, prompts_of
from training.engine.scoring.rows import score_rows
from training.engine.spec.result import AlarmRaised
from training.engine.spec.settings import Alarms
from training.engine.updates.fit import Metrics, Updates, fit

R = TypeVar("R")
Act = Callable[[Sequence[Task], int], Sequence[Episode]]
"""(tasks, updates so far) → an episode of each with its own seed, by the weights as they are."""
SUITE_ROWS = 300
"""Of a suite at most so many rows are answered at each look, always the same ones."""


class Guard:
    """Looks every few updates. `kept` belongs into the checkpoint."""

    def __init__(
        self, attempt: Attempt, loaded: Loaded, data: RunData, settings: Alarms, updates: Updates, act: Act
    ) -> None:
        """Looks at the starting policy, unless the run goes on: call before the weights change or are restored."""
        self.attempt, self.settings, self.updates, self.model = attempt, settings, updates, loaded.model
        self.act = act
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
            self.history.solved, self.history.suites = self._look(0)
            self._keep_weights(0, self._worth(self.history.solved, 0))
        self.kept.update(self.history.as_kept())

    def note(self, step: int, groups: Sequence[Sequence[Episode]]) -> Metrics:
        """After the update `step`, counted from 1. Raises Alarm."""
        self.history.rewards.append(torch.tensor([_mean_reward(group) for group in groups]))
        told: dict[str, Tensor] = {}
        if step % self.settings.every == 0:
            solved, suites = self._look(step)
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

    def _look(self, step: int) -> tuple[Tensor | None, dict[str, Tensor]]:
        """By the main process for all of them: which held-out tasks are solved, which rows of each suite are right."""
        processes = self.attempt.processes
        found = (self._solve(step), self._answer()) if processes.is_main else None
        looked: tuple[Tensor | None, dict[str, Tensor]] = processes.from_main(found)
        return looked

    def _solve(self, step: int) -> Tensor | None:
        if not self.tasks:
            return None
        episodes = self.act(self.tasks, step)
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


def open_guard(attempt: Attempt, loaded: Loaded, data: RunData, updates: Updates, act: Act) -> Guard | None:
    """None without alarms, or with nothing to look at."""
    alarms = attempt.spec.online.alarms
    if alarms is None or not (data.heldout_tasks or data.suites):
        return None
    return Guard(attempt, loaded, data, alarms, updates, act)


def learn_guarded(
    attempt: Attempt,
    updates: Updates,
    take_step: Callable[[int], Metrics],
    message: str,
    *,
    tasks: int,
    guard: Guard | None,
    kept: Mapping[str, Tensor],
) -> Outcome:
    """All updates of a run on so many tasks, or where an alarm is raised those before it, with the weights of the best
    look. `kept` belongs into the checkpoint, beside the guard's."""
    steps, whole = attempt.spec.online.steps, ChainMap(guard.kept if guard is not None else {}, dict(kept))
    try:
        return Outcome(steps, tasks, fit(attempt, updates, steps, take_step, message, whole))
    except Alarm as alarm:
        assert guard is not None
        kept_step = guard.go_back()
        attempt.events.warn(
            f"alarm after {alarm.step} updates: {alarm.reason}. "
            f"The run stopped, and keeps the weights after {kept_step}"
        )
        told = AlarmRaised(reason=alarm.reason, step=alarm.step, kept_step=kept_step)
        return Outcome(alarm.step, tasks, alarm=told)


def _mean_reward(group: Sequence[Episode]) -> float:
    """As a share of the most that is paid; nan where every episode failed."""
    sound = [one.reward_share for one in group if one.fault is None]
    return sum(sound) / len(sound) if sound else float("nan")


def _sample(rows: Sequence[R], count: int) -> list[R]:
    return random.Random("guard").sample(list(rows), min(count, len(rows)))  # noqa: S311 - the same ones in every run
