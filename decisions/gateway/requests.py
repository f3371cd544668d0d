"""What passes from step to step of `decisions.gateway.decide`, whatever the kind of action:

    IdentifiedItem → RenderedPrompt → RoutedRequest → ModelReply → DrawnAction

The first and the last step depend on the way in which the agent acts (`decisions.gateway.ways`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from decisions.agents.current import CurrentAgent
from decisions.agents.items import NO, YES
from decisions.agents.prompts import PromptError
from decisions.ingest.schemas import DecideItem
from decisions.ingest.writer import Row
from models_registry.backends.endpoint import WriteItem, Written
from models_registry.backends.prompts import Prompt
from models_registry.models import ModelVersion
from models_registry.routing.router import Route
from workspaces.errors import FieldFault

AGENT = "agent"
"""The field of a fault that lies in the agent."""


@dataclass(frozen=True, slots=True)
class IdentifiedItem:
    """An item of a call, with the id of its decision. `path` is where its faults are, "" or "items[3]."."""

    id: uuid.UUID
    path: str
    item: DecideItem


@dataclass(frozen=True, slots=True)
class ScoringPrompt:
    """Asks for probabilities: of the `options` after the one prompt; of a ranking, which shows so many `places`, of yes
    and no after the prompt of each option."""

    options: tuple[str, ...]
    prompts: tuple[Prompt, ...]
    places: int = 0

    @property
    def scored(self) -> tuple[str, ...]:
        """What the model gives the probabilities of, after each prompt."""
        return (YES, NO) if self.places else self.options


@dataclass(frozen=True, slots=True)
class WritingPrompt:
    """Asks for an answer that the server writes. options: the tools' names, which are recorded. read: makes an action
    of it, or raises UnusableAnswer."""

    options: tuple[str, ...]
    order: WriteItem
    read: Callable[[Written], Any]


RenderedPrompt = ScoringPrompt | WritingPrompt


def fault_of(error: PromptError) -> FieldFault:
    """Of a state that the prompt template does not fit."""
    return FieldFault(error.field, str(error), "a value")


@dataclass(frozen=True, slots=True)
class Rendering:
    """An item as a version of the agent asks about it. With faults it is not asked; its prompt may then be None."""

    prompt: RenderedPrompt | None
    faults: Sequence[FieldFault] = ()

    def faults_at(self, path: str) -> list[FieldFault]:
        """The item's stand at its path; what is wrong with the agent itself is no item's."""
        return [fault if fault.field == AGENT else replace(fault, field=path + fault.field) for fault in self.faults]


@dataclass(frozen=True, slots=True)
class Answerer:
    """Who may answer a request: a model version, asked by the `prompt` of a version of the agent. None: the item does
    not fit that version of the agent, so that it cannot answer, and `refusal` says why."""

    version: ModelVersion
    current: CurrentAgent
    prompt: RenderedPrompt | None
    refusal: str = ""

    def is_as(self, other: Answerer) -> bool:
        return (self.version.id, self.current.version.id) == (other.version.id, other.current.version.id)


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """One item on its way: who answers it, and what is asked. `path` is where its faults are, "" or "items[3].".

    answerer: of the version assigned, or of one that stands in, with `fallback`. control: of an experiment, or the
    champion outside any. other: of the arm that was not assigned, None outside experiments. unasked: why whoever was
    assigned was not asked at all.
    """

    id: uuid.UUID
    path: str
    item: DecideItem
    unit: str
    route: Route
    answerer: Answerer
    control: Answerer
    other: Answerer | None = None
    fallback: bool = False
    unasked: str = ""

    @property
    def served(self) -> ModelVersion:
        return self.answerer.version

    @property
    def current(self) -> CurrentAgent:
        """The agent with the version that acts for this request."""
        return self.answerer.current

    @property
    def prompt(self) -> RenderedPrompt:
        assert self.answerer.prompt is not None  # what cannot be asked serves nobody
        return self.answerer.prompt

    @property
    def is_tried(self) -> bool:
        """It is asked by a version of the agent that is tried, and is not the agent's own: what is wrong with such a
        request is no fault of the caller's."""
        return self.current.version.id != self.control.current.version.id

    def stand_ins(self, answerer: Answerer) -> tuple[Answerer, ...]:
        """Who is asked, in order, where `answerer` cannot: the control for a treatment, then the model's fallback. They
        depend on the answerer alone, whether it was assigned or is asked as the other arm."""
        found = [] if answerer.is_as(self.control) else [self.control]
        fallback = self.route.fallback
        if fallback is not None and fallback.id not in {answerer.version.id, *(one.version.id for one in found)}:
            found.append(replace(self.control, version=fallback))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A request with the answer of the version that serves it: `probabilities`, one per option (of a ranking those of
    the first place), or what was `written`, with the `action` that it is. Neither, with the reason in `error`, where
    neither the version assigned nor another in its place could answer.

    other: the probabilities of the other arm; None where it was not asked or could not answer. latency_ms: what this
    request waited for, without the wait for `other`: the arms are compared by it. picked: the server named one option,
    and gave no probabilities. backend: whose answer it is, or where there is none, who was asked last; None for the
    instance's own model server. asked: whether any server was. failures: why others that stood before could not answer.
    unusable: how many answers of the version assigned could not be used. wasted: what such answers and the other arm's
    cost, which no decision counts as its own.
    """

    request: RoutedRequest
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
    wasted: Decimal = Decimal(0)

    @property
    def call_cost(self) -> Decimal | None:
        """The cost of everything that servers answered; None where it is unknown, or nothing was answered."""
        if self.cost is None:
            return None if self.answered else self.wasted or None
        return self.cost + self.wasted

    @property
    def answered(self) -> bool:
        return self.probabilities is not None or self.written is not None


@dataclass(frozen=True, slots=True)
class DrawnAction:
    """What is done after a reply. probabilities: of the acting policy, one per option; empty for what was written,
    where the action's own `propensity` is unknown as well. columns: what else the decision's row holds."""

    reply: ModelReply
    action: Any
    probabilities: tuple[float, ...]
    propensity: float | None
    confidence: float | None
    columns: Row
