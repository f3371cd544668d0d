"""Answers of the gateway, as they were recorded: to new questions, and to those that are asked again."""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from msgspec import UNSET

from decisions.agents.arm_setups import find_arm_setups
from decisions.agents.choices import option_of
from decisions.agents.current import CurrentAgent
from decisions.errors import Erased, IdConflict, IdNotUsable
from decisions.gateway.requests import DrawnAction, IdentifiedItem
from decisions.ingest.batches import content_hash
from decisions.ingest.schemas import DecideItem
from decisions.models import Decision
from decisions.models.tombstones import ERASED_HASH
from models_registry.models import Call, ModelVersion
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault


@dataclass(frozen=True, slots=True)
class Answer:
    """What the caller gets, and what was recorded under `decision_id`.

    `probabilities` are those of the acting policy, one per option (of a ranking those of the first place);
    `propensity` is that of `action`. Of an action that was written there are neither, and `logprob` is what its tokens
    add up to under the model, where the server tells that. The options of a structured action are canonical JSON
    (`decisions.agents.choices`).
    """

    decision_id: uuid.UUID
    action: Any
    options: tuple[str, ...]
    probabilities: tuple[float, ...]
    propensity: float | None
    confidence: float | None
    logprob: float | None
    reasoning: str | None
    model_version: ModelVersion
    arm: str | None
    assignment_probability: float | None
    fallback: bool


def answer_of(drawn: DrawnAction) -> Answer:
    request = drawn.reply.request
    return Answer(
        decision_id=request.id,
        action=drawn.action,
        options=request.prompt.options if drawn.probabilities else (),
        probabilities=drawn.probabilities,
        propensity=drawn.propensity,
        confidence=drawn.confidence,
        logprob=sum_logprobs(drawn.columns.get("logprobs")),
        reasoning=drawn.columns.get("reasoning"),
        model_version=request.served,
        arm=request.route.arm,
        assignment_probability=request.route.assignment_probability,
        fallback=request.fallback,
    )


def as_plain(answer: Answer) -> dict[str, object]:
    """The answer as the API sends it."""
    probabilities = dict(zip(answer.options, answer.probabilities, strict=True)) if answer.probabilities else None
    return {
        "decision_id": answer.decision_id,
        "action": answer.action,
        "probabilities": probabilities,
        "propensity": answer.propensity,
        "confidence": answer.confidence,
        "logprob": answer.logprob,
        "model_version": str(answer.model_version),
        "variant": answer.arm,
        "assignment_probability": answer.assignment_probability,
        "fallback": answer.fallback,
    }


def sum_logprobs(logprobs: Any) -> float | None:
    return math.fsum(logprobs) if logprobs else None


def request_hash(item: DecideItem) -> bytes:
    """A drawn action is the server's; a retry is recognised by what was asked."""
    return hashlib.sha256(b"decide" + content_hash(item)).digest()


def conflict(row_id: uuid.UUID, message: str = "") -> IdConflict:
    message = message or f"{row_id} was already recorded with different content"
    error = IdConflict(message, faults=[FieldFault("id", message, "a new ID, or the same content")])
    error.ids = frozenset([row_id])
    return error


def find_recorded_answers(
    by: Actor, current: CurrentAgent, identified: Iterable[IdentifiedItem]
) -> dict[uuid.UUID, Answer]:
    """By id, of the items that carry one which was decided before. Raises IdConflict when the question was another,
    Erased."""
    given = {one.id: one.item for one in identified if one.item.id is not UNSET}
    if not given:
        return {}
    with_all = ("model_version__registered_model", "exposure", "agent_version")
    recorded = Decision.objects.filter(id__in=given).select_related(*with_all)
    stood_in = set(Call.objects.filter(id__in=given).exclude(served=F("assigned")).values_list("id", flat=True))
    answers: dict[uuid.UUID, Answer] = {}
    for decision in recorded:
        if decision.workspace_id != by.workspace.id:
            raise IdNotUsable.of(ids=[decision.id])
        same = decision.agent_id == current.agent.id
        if same and bytes(decision.content_hash) == ERASED_HASH:
            raise Erased.of([decision.id])
        if not same or bytes(decision.content_hash) != request_hash(given[decision.id]):
            raise conflict(decision.id)
        exposure = decision.exposure
        alternatives = decision.alternatives or ()
        answers[decision.id] = Answer(
            decision_id=decision.id,
            action=decision.action,
            options=tuple(_option(decision, one["action"]) for one in alternatives),
            probabilities=tuple(entry["probability"] for entry in alternatives),
            propensity=decision.propensity,
            confidence=decision.confidence,
            logprob=sum_logprobs(decision.logprobs),
            reasoning=decision.reasoning,
            model_version=decision.model_version,
            arm=exposure.arm if exposure else None,
            assignment_probability=exposure.assignment_probability if exposure else None,
            fallback=decision.id in stood_in or not _acted_as_assigned(decision),
        )
    return answers


def _acted_as_assigned(decision: Decision) -> bool:
    """By the version of the agent: of an experiment on those, the arm's."""
    exposure = decision.exposure
    setups = find_arm_setups(exposure.experiment_id) if exposure is not None else None
    return setups is None or exposure is None or setups.versions[exposure.arm].id == decision.agent_version_id


def _option(decision: Decision, action: Any) -> str:
    """Alternatives of a structured action are objects, all others are options already."""
    return action if isinstance(action, str) else option_of(decision.agent_version, action) or ""
