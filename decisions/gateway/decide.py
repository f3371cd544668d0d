"""Decides for an agent: route, ask the model, draw an action, record.

    request → agent, version → Router (experiment or champion) → prompt → model server's probabilities
            → acting policy (temperature, ε) → drawn action with its propensity → exposure + decision, one transaction

When the treatment of an experiment cannot answer, the control does, and the exposure says so. When neither can, the
failure is recorded for the assigned arm, and the caller gets an error (`decisions.gateway.arms`,
`decisions.gateway.exposures`).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import random
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from msgspec import UNSET

from decisions.agents.choices import action_of, choices_of, option_of
from decisions.agents.current import CurrentAgent, get_current_agent
from decisions.agents.prompts import PromptError, render_prompt
from decisions.errors import Erased, IdConflict, IdNotUsable
from decisions.gateway.arms import Question, Scored, score_questions
from decisions.gateway.exploration import acting_policy, draw_action
from decisions.gateway.exposures import record_exposures, record_failures
from decisions.ingest.batches import check_id, content_hash, resolve_episodes
from decisions.ingest.decisions import DECISION_TABLE
from decisions.ingest.item_ends import mark_late_decisions
from decisions.ingest.schemas import DecideItem
from decisions.ingest.writer import Row, columns_of, write_within
from decisions.models import ActionSpaceKind, AgentVersion, Decision
from decisions.models.tombstones import ERASED_HASH
from models_registry.calls import Ending, Opening, close_calls, open_calls
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.experiments import Router
from models_registry.models import Call, CallKind, CallState, ModelVersion
from workspaces.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.ids import uuid7

# Cryptographic seeding is not needed, independence from every other generator is.
_RNG = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the caller gets, and what was recorded under `decision_id`.

    `probabilities` are those of the acting policy, one per option; `propensity` is the one of `action`. The options of
    a structured action are canonical JSON (`decisions.agents.choices`).
    """

    decision_id: uuid.UUID
    action: Any
    options: tuple[str, ...]
    probabilities: tuple[float, ...]
    propensity: float
    confidence: float | None
    model_version: ModelVersion
    arm: str | None
    assignment_probability: float | None
    fallback: bool


def decide(*, by: Actor, agent: str, items: Sequence[DecideItem], rng: random.Random | None = None) -> list[Answer]:
    """Answers in order of `items`; all are recorded, or none.

    Raises UnknownAgent, InvalidInput with every item's faults, NoChampion, BackendUnavailable, BackendRefused,
    IdConflict, IdNotUsable, Erased.
    An item whose `id` was decided before, or is decided by another call at this moment, gets the recorded answer: a
    retry is harmless.
    """
    now = timezone.now()
    current = get_current_agent(by, agent)
    assert current.agent.registered_model is not None
    ids = [uuid7() if item.id is UNSET else item.id for item in items]
    given = _by_id(items)
    answers = _find_repeats(by, current, given)
    router = Router(current.agent.registered_model)
    paths = [""] if len(items) == 1 else [f"items[{index}]." for index in range(len(items))]
    asked = {
        row_id: (path, item) for row_id, path, item in zip(ids, paths, items, strict=True) if row_id not in answers
    }
    questions = _ask(current, router, asked, now)
    open_calls(by=by, kind=CallKind.DECIDE, openings=[Opening(one.id, one.route.version) for one in questions], now=now)
    try:
        scored = score_questions(current, questions)
    except BackendRefused as error:
        reason = "; ".join(fault.reason for fault in error.faults) or error.message
        close_calls(by=by, endings=[Ending(one.id, CallState.FAILED, error=reason) for one in questions], now=now)
        raise
    if unanswered := [one for one in scored if one.probabilities is None]:
        record_failures(by, unanswered, [one for one in scored if one.probabilities is not None], timezone.now())
        raise BackendUnavailable(f"The model server could not answer: {unanswered[0].error}")
    while True:
        try:
            recorded = _record(by, current, scored, now, rng or _RNG)
        except _AnsweredMeanwhile as met:
            answers |= _find_repeats(by, current, {row_id: given[row_id] for row_id in met.ids})
            scored = [one for one in scored if one.question.id not in met.ids]
        else:
            answers |= {answer.decision_id: answer for answer in recorded}
            return [answers[row_id] for row_id in ids]


class _AnsweredMeanwhile(Exception):
    """Other calls were quicker with the same questions under these ids; nothing of this one was recorded."""

    def __init__(self, ids: Collection[uuid.UUID]) -> None:
        super().__init__(f"{len(ids)} of the decisions were recorded in the meantime")
        self.ids = ids


def _by_id(items: Sequence[DecideItem]) -> dict[uuid.UUID, DecideItem]:
    """Those that carry an id. Raises IdConflict where two that differ carry one."""
    given: dict[uuid.UUID, DecideItem] = {}
    for item in items:
        if item.id is UNSET:
            continue
        first = given.setdefault(item.id, item)
        if first is not item and _request_hash(first) != _request_hash(item):
            raise _conflict(item.id, f"{item.id} appears twice with different content")
    return given


def _ask(
    current: CurrentAgent, router: Router, asked: Mapping[uuid.UUID, tuple[str, DecideItem]], now: dt.datetime
) -> list[Question]:
    """Gathers the faults of every item before anything is asked. Raises InvalidInput."""
    if (anywhere := choices_of(current.version, None)).options is None:
        raise InvalidInput(f"The gateway decides choices, and this agent's action {anywhere.reason}.")
    faults: list[FieldFault] = []
    questions = []
    for decision_id, (path, item) in asked.items():
        if item.id is not UNSET:
            faults += [replace(fault, field=path + fault.field) for fault in check_id(item.id, now)]
        options = _find_options(current.version, item, path, faults)
        if options is None:
            continue
        if (schema := current.space.state) is not None:
            faults += [replace(fault, field=path + fault.field) for fault in schema.faults(item.state)]
        if len(set(options)) != len(options):
            faults.append(FieldFault(f"{path}options", "repeats an option", "each option once"))
        try:
            prompt = render_prompt(current.version.prompt_template, item.state, options)
        except PromptError as error:
            faults.append(FieldFault(path + error.field, str(error), "a value"))
            continue
        # Without a unit, the decision is its own unit.
        unit = item.unit or str(decision_id)
        route = router.route(unit)
        questions.append(Question(decision_id, path, item, unit, options, prompt, route, route.version))
    if faults:
        raise InvalidInput("The agent cannot answer this request.", faults=faults)
    return questions


def _find_options(
    version: AgentVersion, item: DecideItem, path: str, faults: list[FieldFault]
) -> tuple[str, ...] | None:
    """What is chosen from; None, with its fault added, where nothing can be."""
    if version.action_space != ActionSpaceKind.CHOICE:
        if item.options is not None:
            faults.append(FieldFault(f"{path}options", "given for a structured action", "none: its schema says them"))
    elif version.options is not None and item.options not in (None, version.options):
        faults.append(FieldFault(f"{path}options", "differ from those of the agent's version", "the same, or none"))
    choices = choices_of(version, item.state, item.options)
    if choices.options is not None:
        return choices.options
    if version.action_space == ActionSpaceKind.CHOICE:
        faults.append(FieldFault(f"{path}options", "is missing", "options, because the agent's version has none"))
    else:
        faults.append(FieldFault(f"{path}state", f"leaves nothing to choose: the action {choices.reason}"))
    return None


def _record(
    by: Actor,
    current: CurrentAgent,
    scored: Sequence[Scored],
    now: dt.datetime,
    rng: random.Random,
) -> list[Answer]:
    """One transaction. Raises _AnsweredMeanwhile, IdConflict, Erased."""
    answers: list[Answer] = []
    rows: list[Row] = []
    with transaction.atomic():
        exposures = record_exposures(by, [one.question for one in scored], now)
        for one in scored:
            question = one.question
            assert one.probabilities is not None
            policy = _policy(current, one.probabilities)
            draw = draw_action(policy, rng)
            action = action_of(current.version, question.options[draw.index])
            rows.append(
                _decision_row(by, current, question, now)
                | {
                    "action": action,
                    # A server that named an option has not said how sure it is.
                    "confidence": None if one.picked else min(1.0, one.probabilities[draw.index]),
                    "alternatives": [
                        {"action": action_of(current.version, option), "probability": probability}
                        for option, probability in zip(question.options, policy, strict=True)
                    ],
                    "propensity": draw.propensity,
                    "other_arm_propensity": _policy(current, one.other)[draw.index] if one.other else None,
                    "exposure_id": exposures.get(question.unit),
                    "latency_ms": one.latency_ms,
                    "tokens_in": one.tokens_in,
                    "tokens_out": one.tokens_out,
                    "cost": one.cost,
                }
            )
            answers.append(
                Answer(
                    decision_id=question.id,
                    action=action,
                    options=question.options,
                    probabilities=policy,
                    propensity=draw.propensity,
                    confidence=None if one.picked else min(1.0, one.probabilities[draw.index]),
                    model_version=question.served,
                    arm=question.route.arm,
                    assignment_probability=question.route.assignment_probability,
                    fallback=question.fallback,
                )
            )
        columns = resolve_episodes(by, columns_of(rows))
        written = write_within(DECISION_TABLE, columns)
        for row_id in written.conflicts:
            raise _conflict(row_id)
        if written.foreign:
            raise IdNotUsable.of()
        if written.duplicates:
            raise _AnsweredMeanwhile(written.duplicates)
        close_calls(by=by, endings=[_ending(one) for one in scored], now=timezone.now())
        mark_late_decisions(by.workspace.id, {row["item_ref"] for row in rows if row["item_ref"]})
    return answers


def _ending(one: Scored) -> Ending:
    question = one.question
    return Ending(
        question.id,
        CallState.ANSWERED,
        served=question.served.id,
        backend=one.backend,
        fallback=one.failures,
        tokens_in=one.tokens_in,
        tokens_out=one.tokens_out,
        cost=one.cost,
    )


def _policy(current: CurrentAgent, probabilities: Sequence[float]) -> tuple[float, ...]:
    return acting_policy(probabilities, temperature=current.version.temperature, epsilon=current.version.epsilon)


def _decision_row(by: Actor, current: CurrentAgent, question: Question, now: dt.datetime) -> Row:
    item = question.item
    return {
        "id": question.id,
        "workspace_id": by.workspace.id,
        "agent_id": current.agent.id,
        "agent_version_id": current.version.id,
        "episode_id": item.episode,
        "step_number": item.step_number,
        "unit": question.unit,
        "external_id": item.external_id,
        "item_ref": item.item_ref,
        "project_ref": item.project_ref,
        "user_ref": item.user_ref,
        "next_state": None,
        "state": item.state,
        # Those of a structured action follow from its schema and the state.
        "options": list(question.options) if current.version.action_space == ActionSpaceKind.CHOICE else None,
        "completion": None,
        "reasoning": None,
        "temperature": current.version.temperature,
        "epsilon": current.version.epsilon,
        "model_version_id": question.served.id,
        "policy_name": None,
        "observed_at": now,
        "recorded_at": now,
        "content_hash": _request_hash(item),
    }


def _request_hash(item: DecideItem) -> bytes:
    """A drawn action is the server's; a retry is recognised by what was asked."""
    return hashlib.sha256(b"decide" + content_hash(item)).digest()


def _conflict(row_id: uuid.UUID, message: str = "") -> IdConflict:
    message = message or f"{row_id} was already recorded with different content"
    return IdConflict(message, faults=[FieldFault("id", message, "a new ID, or the same content")])


def _find_repeats(by: Actor, current: CurrentAgent, given: Mapping[uuid.UUID, DecideItem]) -> dict[uuid.UUID, Answer]:
    """Recorded answers of ids that were decided before. Raises IdConflict when the question was another, Erased."""
    if not given:
        return {}
    with_all = ("model_version__registered_model", "exposure", "agent_version")
    recorded = Decision.objects.filter(id__in=given).select_related(*with_all)
    stood_in = set(Call.objects.filter(id__in=given).exclude(served=F("assigned")).values_list("id", flat=True))
    answers: dict[uuid.UUID, Answer] = {}
    for decision in recorded:
        if decision.workspace_id != by.workspace.id:
            raise IdNotUsable.of()
        same = decision.agent_id == current.agent.id
        if same and bytes(decision.content_hash) == ERASED_HASH:
            raise Erased.of([decision.id])
        if not same or bytes(decision.content_hash) != _request_hash(given[decision.id]) or not decision.alternatives:
            raise _conflict(decision.id)
        exposure = decision.exposure
        answers[decision.id] = Answer(
            decision_id=decision.id,
            action=decision.action,
            options=tuple(option_of(decision.agent_version, one["action"]) or "" for one in decision.alternatives),
            probabilities=tuple(entry["probability"] for entry in decision.alternatives),
            propensity=decision.propensity,
            confidence=decision.confidence,
            model_version=decision.model_version,
            arm=exposure.arm if exposure else None,
            assignment_probability=exposure.assignment_probability if exposure else None,
            fallback=decision.id in stood_in,
        )
    return answers


def as_plain(answer: Answer) -> dict[str, object]:
    """The answer as the API sends it."""
    return {
        "decision_id": answer.decision_id,
        "action": answer.action,
        "probabilities": dict(zip(answer.options, answer.probabilities, strict=True)),
        "propensity": answer.propensity,
        "confidence": answer.confidence,
        "model_version": str(answer.model_version),
        "variant": answer.arm,
        "assignment_probability": answer.assignment_probability,
        "fallback": answer.fallback,
    }
