"""Alarms: what stops a run that learns by acting, before it has spoilt what was good.

Every few updates the weights in training act once on the same held-out tasks, with the same seeds, and answer the same
rows of each suite. Two things raise an alarm:

- *reward hacking*: the reward of the training episodes has risen since the first looks, and the share of the held-out
  tasks that are solved has fallen below that of the starting policy. What is paid is then no longer what is wanted.
- *forgetting*: on a suite fewer rows are right than the starting policy had, by more than the margin.

Each fall is a paired difference d over the same tasks or rows; it counts where mean(d) + Z · SE(d) lies below 0, or
below minus the margin. With Z = 3 a look that finds no real fall gives an alarm once in 700. The run then ends with the
weights of the look that solved most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Z = 3.0
"""Standard errors that a fall has to be clear of."""
Z_RISE = 2.0
"""The same of the rise of the reward, which alone is no alarm."""
POOLED = 3
"""Updates whose rewards are compared: the first so many and the last so many."""


class Alarm(Exception):
    """The run is to stop. `step`: updates that were made."""

    def __init__(self, reason: str, step: int) -> None:
        super().__init__(reason)
        self.reason, self.step = reason, step


@dataclass(slots=True)
class History:
    """What the looks found. All of it is tensors, for the checkpoint.

    `rewards` (updates, groups): the mean reward of each group of training episodes, nan where all of them failed.
    `solved` (tasks,), nan where an episode failed, and `suites` (rows,) in [0, 1]: of the starting policy. `best` is
    the share that was solved at the best look, after `best_step` updates, with the weights `best_weights`.
    """

    rewards: list[Tensor] = field(default_factory=list)
    solved: Tensor | None = None
    suites: dict[str, Tensor] = field(default_factory=dict)
    best: float = -1.0
    best_step: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)

    def as_kept(self) -> dict[str, Tensor]:
        kept = {f"alarms.best.{name}": value for name, value in self.best_weights.items()}
        kept |= {f"alarms.suite.{name}": value for name, value in self.suites.items()}
        if self.rewards:
            # The last update of an epoch may have fewer groups.
            kept["alarms.rewards"] = pad_sequence(self.rewards, batch_first=True, padding_value=math.nan)
        if self.solved is not None:
            kept["alarms.solved"] = self.solved
            kept["alarms.looked"] = torch.tensor([self.best, float(self.best_step)], dtype=torch.float64)
        return kept

    @classmethod
    def from_kept(cls, kept: Mapping[str, Tensor]) -> History:
        history = cls(list(kept.get("alarms.rewards", ())), kept.get("alarms.solved"))
        for name, value in kept.items():
            if name.startswith("alarms.suite."):
                history.suites[name.removeprefix("alarms.suite.")] = value
            if name.startswith("alarms.best."):
                history.best_weights[name.removeprefix("alarms.best.")] = value
        if "alarms.looked" in kept:
            history.best, history.best_step = float(kept["alarms.looked"][0]), int(kept["alarms.looked"][1])
        return history

    def find_hacking(self, solved: Tensor) -> str | None:
        """What is wrong where the reward rose and the held-out tasks are solved less often; `solved` (tasks,) now."""
        assert self.solved is not None
        rise = compare_rewards(self.rewards)
        fall = compare_pairs(solved, self.solved)
        if rise is None or rise[0] - Z_RISE * rise[1] <= 0 or fall[0] + Z * fall[1] >= 0:
            return None
        return (
            f"the reward in training rose by {rise[0]:.3f} ± {rise[1]:.3f}, while {float(solved.nanmean()):.3f} of the "
            f"held-out tasks are solved, and {float(self.solved.nanmean()):.3f} were at the start: the reward does not "
            "measure what is wanted"
        )

    def find_forgetting(self, name: str, right: Tensor, margin: float) -> str | None:
        """What is wrong where a suite is answered worse than at the start by more than the margin; `right` (rows,)."""
        fall = compare_pairs(right, self.suites[name])
        if fall[0] + Z * fall[1] >= -margin:
            return None
        before = float(self.suites[name].mean())
        return (
            f"{float(right.mean()):.3f} of the suite {name} are right, and {before:.3f} were at the start: "
            f"more than {margin:g} were forgotten"
        )


def compare_pairs(now: Tensor, before: Tensor) -> tuple[float, float]:
    """Mean and standard error of the paired difference of two (n,), where both are known (not nan)."""
    difference = (now - before).double()
    return _mean_and_error(difference[~difference.isnan()])


def compare_rewards(rewards: Sequence[Tensor]) -> tuple[float, float] | None:
    """Rise of the groups' rewards from the first POOLED updates to the last, with its standard error; None before there
    are enough updates."""
    if len(rewards) < 2 * POOLED:
        return None
    parts = [torch.cat(list(some)).double() for some in (rewards[:POOLED], rewards[-POOLED:])]
    sound = [part[~part.isnan()] for part in parts]
    if any(len(part) < 2 for part in sound):
        return None
    (before, before_error), (after, after_error) = map(_mean_and_error, sound)
    return after - before, math.hypot(before_error, after_error)


def _mean_and_error(values: Tensor) -> tuple[float, float]:
    if len(values) < 2:
        return 0.0, math.inf
    return float(values.mean()), float(values.std()) / math.sqrt(len(values))
