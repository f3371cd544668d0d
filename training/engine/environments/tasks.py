"""A task: what an environment is set up with, and what a row of kind `task` holds. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

Split = Literal["train", "heldout"]
"""Which tasks: those to learn from, or others that a model is measured on. An environment draws no task for both."""


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task. `text` is what the agent is told; `facts` are JSON that the environment sets its world up from, what is
    right among them, which the agent never reads.

    `template` names what tasks of one making have in common: intervals are clustered by it. `level`: 1 is easy, 3 is
    hard. `seed` is the episode's where a model is measured; in training each episode of a task has its own.
    """

    id: str
    environment: str
    text: str
    facts: dict[str, Any] = {}
    domain: str = ""
    template: str = ""
    level: int = 1
    seed: int = 0

    @property
    def group(self) -> str:
        """The cluster that it belongs to."""
        return self.template or self.id

    def faults(self) -> Iterator[str]:
        if not self.text.strip():
            yield "text: is empty"
        if not 1 <= self.level <= 3:
            yield f"level: {self.level} must be 1, 2 or 3"
