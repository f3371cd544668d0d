"""What the gateway asks and what it is answered, whatever the kind of action.

A way (`decisions.gateway.ways`) turns an item into a `Question`, and a `Reply` into an `Act`; between the two lies
`decisions.gateway.arms`, which asks versions.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from decisions.agents.current import CurrentAgent
from decisions.ingest.schemas import DecideItem
from decisions.ingest.writer import Row
from models_registry.backends.endpoint import WriteItem, Written
from models_registry.backends.prompts import Prompt
from models_registry.models import ModelVersion
from models_registry.routing.router import Route
from workspaces.errors import FieldFault


@dataclass(frozen=True, slots=True)
class Scoring:
    """Asks for probabilities: of `options` after the one prompt; `each_item`: of yes and no after each item's."""

    prompts: tuple[Prompt, ...]
    options: tuple[str, ...]
    each_item: bool = False


@dataclass(frozen=True, slots=True)
class Writing:
    """Asks for an answer that the server writes. read: makes an action of it, or raises UnusableAnswer."""

    item: WriteItem
    read: Callable[[Written], Any]


Asks = Scoring | Writing


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an item asks for: the options that are recorded, and what goes to a server. places: of a ranking."""

    options: tuple[str, ...]
    asks: Asks
    places: int = 0


@dataclass(frozen=True, slots=True)
class Side:
    """Who may answer a question: a model version, asked as a version of the agent says. `wanted` None: the item does
    not fit that version of the agent, so that it cannot answer, and `refusal` says why."""

    version: ModelVersion
    current: CurrentAgent
    wanted: Wanted | None
    refusal: str = ""

    def is_as(self, other: Side) -> bool:
        return (self.version.id, self.current.version.id) == (other.version.id, other.current.version.id)


@dataclass(frozen=True, slots=True)
class Question:
    """One item on its way: who answers it, and what is asked. `path` is where its faults are, "" or "items[3].".

    side: who answers, or stands in with `fallback`. control: of an experiment, or the champion outside any. other: the
    arm that was not assigned, None outside experiments. unasked: why the side that was assigned was not asked at all.
    """

    id: uuid.UUID
    path: str
    item: DecideItem
    unit: str
    route: Route
    side: Side
    control: Side
    other: Side | None = None
    fallback: bool = False
    unasked: str = ""

    @property
    def served(self) -> ModelVersion:
        return self.side.version

    @property
    def current(self) -> CurrentAgent:
        """The agent with the version that acts for this question."""
        return self.side.current

    @property
    def wanted(self) -> Wanted:
        assert self.side.wanted is not None  # what cannot be asked serves nobody
        return self.side.wanted

    @property
    def is_tried(self) -> bool:
        """It is asked by a version of the agent that is tried, and is not the agent's own: what is wrong with such a
        question is no fault of the caller's."""
        return self.current.version.id != self.control.current.version.id

    def stand_ins(self, side: Side) -> tuple[Side, ...]:
        """Who is asked, in order, where `side` cannot answer: the control for a treatment, then the model's fallback.
        They depend on the side alone, whether it was assigned or is asked as the other arm."""
        found = [] if side.is_as(self.control) else [self.control]
        fallback = self.route.fallback
        if fallback is not None and fallback.id not in {side.version.id, *(one.version.id for one in found)}:
            found.append(replace(self.control, version=fallback))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Reply:
    """A question with the answer of the version that serves it: `probabilities`, one per option (of a ranking those of
    the first place), or what was `written`, with the `action` that it is. Neither, with the reason in `error`, where
    neither the version assigned nor another in its place could answer.

    other: the probabilities of the other arm; None where it was not asked or could not answer. latency_ms: what this
    question waited for, without the wait for `other`: the arms are compared by it. picked: the server named one option,
    and gave no probabilities. backend: whose answer it is, or where there is none, who was asked last; None for the
    instance's own model server. asked: whether any server was. failures: why others that stood before could not answer.
    unusable: how many answers of the version assigned could not be used.
    """

    question: Question
    latency_ms: float
    probabilities: tuple[float, ...] | None = None
    written: Written | None = None
    action: Any = None
    other: tuple[float, ...] | None = None
    error: str | None = None
    refused: bool = False
    picked: bool = False
    backend: uuid.UUID | None = None
    asked: bool = True
    failures: str = ""
    unusable: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: Decimal | None = None

    @property
    def answered(self) -> bool:
        return self.probabilities is not None or self.written is not None


@dataclass(frozen=True, slots=True)
class Act:
    """What was done. probabilities: of the acting policy, one per option; empty for what was written, where the
    action's own `propensity` is unknown as well. columns: what else the decision's row holds."""

    action: Any
    probabilities: tuple[float, ...]
    propensity: float | None
    confidence: float | None
    columns: Row


Want = Callable[[CurrentAgent, DecideItem, str, list[FieldFault]], Wanted | None]
"""What the item asks for; None, with its faults added under the path, where the agent cannot answer it. Raises
PromptError."""
Do = Callable[[CurrentAgent, Reply, random.Random], Act]
"""The action of an answered question."""
