"""A template for an environment of your own: copy it, rename it, and fill in your domain.

The domain here is a panel of lamps: the task names those to be lit, each press turns one on or off, and the episode
ends when the panel is right. docs/environments.md goes through it step by step.
"""

from __future__ import annotations

import random
from typing import ClassVar

from training.engine.environments.protocol import BaseEnvironment, Checkpoint
from training.engine.environments.tasks import Split, Task

LAMPS = ("red", "green", "blue")


class Lamps(BaseEnvironment):
    """One panel."""

    name: ClassVar[str] = "lamps"
    does: ClassVar[str] = "A panel of lamps, of which those that the task names are to be lit."
    max_steps: ClassVar[int] = 5
    most_reward: ClassVar[float] = 2.0  # 1 for the lamps that come on, and 1 when the panel is right

    wanted: frozenset[str]
    lit: set[str]
    settled: set[str]

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        """The split is part of the draw, so no task is in both."""
        draw = random.Random(f"lamps/{split}/{number}")  # noqa: S311 - reproducible
        wanted = sorted(draw.sample(LAMPS, draw.randint(1, 2)))
        return Task(
            id=f"lamps-{split}-{number}",
            environment=cls.name,
            text=f"Light {' and '.join(wanted)}",
            facts={"wanted": wanted},
            domain="panels",
            template=f"lamps-{len(wanted)}",
            level=len(wanted),
        )

    def begin(self) -> None:
        wanted = self.task.facts.get("wanted")
        if not isinstance(wanted, list) or not set(wanted) <= set(LAMPS):
            raise ValueError(f"task {self.task.id}: facts.wanted: must be a list of {', '.join(LAMPS)}")
        self.wanted, self.lit, self.settled = frozenset(wanted), set(), set()

    def observe(self) -> str:
        return f"{self.task.text}. Lit: {', '.join(sorted(self.lit)) or 'none'}"

    def list_actions(self) -> tuple[str, ...]:
        actions = [*(f"press {lamp}" for lamp in LAMPS), "wait"]
        self.random.shuffle(actions)  # the order must not say which is right
        return tuple(actions)

    def act(self, action: str) -> float:
        if action == "wait":
            return 0.0
        self.lit ^= {action.removeprefix("press ")}
        # Progress is paid once: a lamp that is turned off and on again earns nothing more.
        came_on = (self.wanted & self.lit) - self.settled
        self.settled |= came_on
        self.done = self.solved
        return len(came_on) / len(self.wanted) + (1.0 if self.solved else 0.0)

    def checkpoints(self) -> list[Checkpoint]:
        """Read off the panel as it is, whatever was pressed on the way."""
        return [
            *(Checkpoint(f"{lamp} is lit", 1, lamp in self.lit) for lamp in sorted(self.wanted)),
            Checkpoint("no other lamp is lit", 1, self.lit <= self.wanted),
        ]

    def find_expert_action(self) -> str | None:
        wrong = sorted(self.wanted ^ self.lit)
        return f"press {wrong[0]}" if wrong else None
