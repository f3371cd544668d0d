"""The office as an environment: a request, short calls on offer, and checkpoints that each pay once."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, ClassVar

from training.engine.environments.office.calls import DONE, Deal, ToolCall, as_tool_call, names_in, plain
from training.engine.environments.office.expert import find_next
from training.engine.environments.office.graders import grade_world
from training.engine.environments.office.sheets import describe
from training.engine.environments.office.templates.catalogue import TRAINED, UNSEEN, draw_office
from training.engine.environments.office.templates.drawing import Template
from training.engine.environments.office.tools import TOOLS, Answer, call, find_fault
from training.engine.environments.office.world import World, set_up_world
from training.engine.environments.protocol import BaseEnvironment, Checkpoint, EnvironmentFault, Tool
from training.engine.environments.tasks import Split, Task

PAID_ON_THE_WAY = 0.5
"""What the checkpoints of a task pay together, each its points' share when it is reached first. The rest is paid for
ending the episode with all of them reached."""
LONGEST_ANSWER = 300
"""Characters of an answer that the agent reads."""


class Office(BaseEnvironment):
    """An episode is one request. Agents take the calls on offer, or call the tools freely; both act on one office."""

    name: ClassVar[str] = "office"
    does: ClassVar[str] = "Office work in eight professions: files, spreadsheets, a database, chat, issues and a drive."
    max_steps: ClassVar[int] = 10
    most_reward: ClassVar[float] = 1.0
    templates: ClassVar[tuple[Template, ...]] = TRAINED

    world: World

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        template = cls.templates[number % len(cls.templates)]
        request, facts = draw_office(template, number, split)
        return Task(
            id=f"{cls.name}/{split}/{number}",
            environment=cls.name,
            text=plain(request),
            facts={**facts, "request": request},
            domain=template.domain,
            template=template.name,
            level=template.level,
        )

    def begin(self) -> None:
        facts = self.task.facts
        try:
            self.world = set_up_world(facts)
            self.request, self.plan, self.goals = facts["request"], facts["plan"], facts["goals"]
            # Not the episode's seed: episodes of one task that are compared with each other read the same letters.
            draw = random.Random(f"letters/{self.task.id}/{self.task.seed}")  # noqa: S311 - no secret
            self.deal = Deal(names_in([self.request, *facts["offers"]]), draw)
            self.offers = {self.deal.shorten(offer): offer for offer in facts["offers"]}
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"task {self.task.id}: facts: {type(error).__name__}: {error}") from error
        self.paid: set[int] = set()
        self.taken: list[str] = []
        self.failed: list[str] = []
        self.last, self.heard = Answer(True, ""), ""

    def observe(self) -> str:
        """The request with letters, what was done and what failed, what lies on the desk, the last answer."""
        lines = [self.deal.explain(plain(self.request)), f"Done: {', '.join(self.taken) or 'nothing'}."]
        if self.failed:
            lines.append(f"Failed: {', '.join(self.failed)}.")
        if self.world.desk:
            lines.append(f"Desk: {self._short(describe(self.world.on_desk))}")
        if self.heard:
            lines.append(self._short(self.heard))
        return "\n".join(lines)

    def list_actions(self) -> tuple[str, ...]:
        return tuple(sorted(self.offers))

    def is_valid(self, action: str) -> bool:
        """What is offered, or a call of any tool as `read_call` writes it."""
        return action in self.offers or _read_written(action) is not None

    def act(self, action: str) -> float:
        offered = action in self.offers
        if action == DONE:
            self.taken.append(action)
            self.done, self.last = True, Answer(True, "the work has ended")
            return 1.0 - PAID_ON_THE_WAY if self.solved else 0.0
        wanted = as_tool_call(self.world, self.offers[action]) if offered else _read_written(action)
        assert wanted is not None, "step asks is_valid first"
        before = len(self.world.desk)
        try:
            self.last = call(self.world, *wanted)
        except Exception as error:  # a tool answers what a caller got wrong: this is the office's own fault
            raise EnvironmentFault(f"{wanted.tool}: {type(error).__name__}: {error}") from error
        (self.taken if self.last.ok else self.failed).append(action if offered else wanted.tool)
        if not self.last.ok:
            self.heard = f"No: {self.last.text}"
        else:  # what came onto the desk is read there
            self.heard = self.last.text if len(self.world.desk) == before else ""
        return self._pay()

    def take_call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """A step by a call of a tool, for `server`; what is no call is told, and is no step.

        Raises EnvironmentFault.
        """
        if self.done:
            return Answer(False, "the work has ended")
        try:
            action = self.read_call(tool, arguments)
        except ValueError as error:
            return Answer(False, str(error))
        self.step(action)
        return self.last

    def checkpoints(self) -> list[Checkpoint]:
        return grade_world(self.world, self.goals)

    def find_expert_action(self) -> str:
        step = find_next(self.world, self.plan, self.goals)
        return DONE if step is None else self.deal.shorten(step)

    def tools(self) -> list[Tool]:
        end = {"type": "object", "properties": {}, "additionalProperties": False}
        return [*(one.tool for one in TOOLS.values()), Tool(DONE, "Ends the work when all is done.", end)]

    def read_call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if tool == DONE:
            return DONE
        if (why := find_fault(tool, arguments)) is not None:
            raise ValueError(why)
        return f"{tool} {json.dumps(dict(arguments), ensure_ascii=False, sort_keys=True)}"

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "letters": self.deal.letters, "world": self.world.as_json()}

    def _pay(self) -> float:
        reached = self.checkpoints()
        total = sum(point.points for point in reached)
        fresh = [at for at, point in enumerate(reached) if point.reached and at not in self.paid]
        self.paid.update(fresh)
        return PAID_ON_THE_WAY * sum(reached[at].points for at in fresh) / total

    def _short(self, text: str) -> str:
        return self.deal.explain(text[:LONGEST_ANSWER])


class OfficeUnseen(Office):
    """Templates that `Office` never draws, to measure on. It has nothing to learn from."""

    name: ClassVar[str] = "office-unseen"
    does: ClassVar[str] = "Office work by templates that no training task uses: for measuring only."
    splits: ClassVar[tuple[Split, ...]] = ("heldout",)
    templates: ClassVar[tuple[Template, ...]] = UNSEEN

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        """Raises ValueError for tasks to learn from."""
        if split == "train":
            raise ValueError(f"{cls.name} is for measuring: it has no tasks to learn from")
        return super().draw_task(number, split)


def _read_written(action: str) -> ToolCall | None:
    """A call as `read_call` writes it: the tool's name, a space, its arguments as JSON. None for anything else."""
    tool, _, content = action.partition(" ")
    if tool not in TOOLS:
        return None
    try:
        arguments = json.loads(content)
    except ValueError:
        return None
    fits = isinstance(arguments, dict) and find_fault(tool, arguments) is None
    return ToolCall(tool, arguments) if fits else None
