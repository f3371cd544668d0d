"""The curriculum of fresh decisions: which prompts the model decides on next, by its measured success on them.

Success on a prompt x is s = π(answer | x): the starting model's at first, and after each visit that of the weights in
training. It costs no reward. Two orders:

- `easy_first` (Bengio et al. 2009): prompts are cut into equally large stages by the starting model's success, the
  easiest first. Half of the draws go to the present stage, half to all prompts. Stage k is passed when the mean success
  on its prompts that were visited in it reaches `pass_at`, at the latest after (k + 1) / (2 · stages) of the steps. In
  the second half of the run all prompts are as likely.
- `uncertain`: of G draws on a prompt some are right and some are wrong with chance 1 − s^G − (1 − s)^G; other groups
  have no advantage and teach nothing. A prompt is drawn in proportion to this chance + FLOOR. With G = 2, which holds
  for `ppo`, it is 2 s (1 − s) (Tzannetos et al. 2023; Foster and Foerster 2025).
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.engine.spec.settings import Curriculum

FLOOR = 0.05
"""Keeps every prompt within reach: what the model knows of one that it has not seen for long may be wrong by now."""


class Order:
    """The prompts of each step. `state` holds what a checkpoint needs, changed in place.

    A step's draw depends on the seed, the step and the state alone.
    """

    def __init__(
        self, settings: Curriculum, success: Tensor, *, batch_size: int, group: int, steps: int, seed: int
    ) -> None:
        """`success` (n,) in [0, 1] is the starting model's, on the CPU; `group` actions are drawn for a prompt."""
        self.group = group
        self.settings, self.steps, self.seed = settings, steps, seed
        self.batch_size = min(batch_size, len(success))
        rank = success.argsort(descending=True, stable=True).argsort()
        self.stage_of = rank * settings.stages // len(success)
        self.state = {
            "success": success.clone(),
            "visited": torch.zeros(len(success), dtype=torch.bool),  # in this stage
            "stage": torch.zeros((), dtype=torch.long),
        }

    def at(self, step: int) -> list[int]:
        """Numbers of the prompts that this step visits, each once."""
        draws = torch.Generator().manual_seed(self.seed * (self.steps + 1) + step)
        if self.settings.order == "uncertain":
            right = self.state["success"]
            weights = 1 - right**self.group - (1 - right) ** self.group + FLOOR
        else:
            self._pass_stages(step)
            weights = self._weights_of_stage()
        found: list[int] = torch.multinomial(weights, self.batch_size, generator=draws).tolist()
        return found

    def note(self, rows: list[int], success: Tensor) -> dict[str, Tensor]:
        """Remembers the success (B,) on the visited rows; what to report of it."""
        self.state["success"][rows] = success.to(self.state["success"])
        self.state["visited"][rows] = True
        told = {"success": success.mean()}
        return told if self.settings.order == "uncertain" else told | {"stage": self.state["stage"].clone()}

    def _pass_stages(self, step: int) -> None:
        stage, stages = int(self.state["stage"]), self.settings.stages
        if stage == stages:
            return
        seen = self.state["visited"] & (self.stage_of == stage)
        enough = int(seen.sum()) >= min(self.batch_size, int((self.stage_of == stage).sum()))
        passed = enough and float(self.state["success"][seen].mean()) >= self.settings.pass_at
        if passed or step * 2 * stages >= (stage + 1) * self.steps:
            self.state["stage"] += 1
            self.state["visited"].zero_()

    def _weights_of_stage(self) -> Tensor:
        """(n,) half of the draws for the present stage, and half for all prompts."""
        stage, count = int(self.state["stage"]), len(self.stage_of)
        if stage == self.settings.stages:
            return torch.ones(count)
        present = self.stage_of == stage
        return present / present.sum().clamp(min=1) + 1 / count
