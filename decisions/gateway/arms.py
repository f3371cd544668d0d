"""Asks both arms of an experiment: the assigned version acts, the other arm's says how it would have chosen.

The gateway calls `score_questions`. The model server gets at most two requests: every question for the assigned arm;
then for the other arm, the questions whose treatment failed (the control answers them), and all others in an experiment
with a conditioned contrast. When the other arm cannot answer, the decision still succeeds, and the unit keeps the plain
contrast.

Both requests have the same limits. An arm that answers only when it is asked first would make the contrast of a unit
depend on its assignment, and bias it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from decisions.agents.current import CurrentAgent
from decisions.ingest.schemas import DecideItem
from models_registry.backends.model_server import Score, ScoreItem, score
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.experiments import Route
from models_registry.models import Arm, ModelVersion
from workspaces.errors import FieldFault


@dataclass(frozen=True, slots=True)
class Question:
    """One item on its way: who answers it, and what is asked. `path` is where its faults are, "" or "items[3]."."""

    id: uuid.UUID
    path: str
    item: DecideItem
    unit: str
    options: tuple[str, ...]
    prompt: str
    route: Route
    served: ModelVersion
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Scored:
    """A question with the probabilities of the version that serves it, one per option; None, with the reason in
    `error`, where neither the arm assigned nor another in its place could answer.

    other: those of the other arm; None where it was not asked or could not answer. latency_ms: what this question
    waited for, without the wait for `other`: the arms are compared by it.
    """

    question: Question
    probabilities: tuple[float, ...] | None
    latency_ms: float
    other: tuple[float, ...] | None = None
    error: str | None = None


def score_questions(current: CurrentAgent, questions: Sequence[Question]) -> list[Scored]:
    """In order. Raises BackendRefused where a question itself is wrong."""
    started = time.perf_counter()
    first = _try_score(current, questions, [question.served for question in questions])
    latency_ms = (time.perf_counter() - started) * 1000
    _refuse_what_no_model_answers(questions, first)
    # By position, the version that is asked in the second request.
    again: dict[int, ModelVersion] = {}
    for index, (question, answer) in enumerate(zip(questions, first, strict=True)):
        if _wants_other_arm(question, answered=answer.probabilities is not None):
            assert question.route.other is not None
            again[index] = question.route.other
    second = dict(
        zip(again, _try_score(current, [questions[index] for index in again], list(again.values())), strict=True)
    )
    total_ms = (time.perf_counter() - started) * 1000
    scored = []
    for index, (question, answer) in enumerate(zip(questions, first, strict=True)):
        other = second.get(index)
        if answer.probabilities is not None:
            scored.append(Scored(question, answer.probabilities, latency_ms, other.probabilities if other else None))
        elif other is not None and other.probabilities is not None:
            served = replace(question, served=again[index], fallback=True)
            scored.append(Scored(served, other.probabilities, total_ms))
        else:
            scored.append(Scored(question, None, total_ms, error=answer.error))
    return scored


def _wants_other_arm(question: Question, *, answered: bool) -> bool:
    """The champion is there for a treatment that fails; nobody is for the champion."""
    if question.route.phase is None:
        return False
    return question.route.phase.experiment.conditioned if answered else question.route.arm == Arm.TREATMENT


def _try_score(current: CurrentAgent, questions: Sequence[Question], versions: Sequence[ModelVersion]) -> list[Score]:
    """One request; where it fails as a whole, so does each of its questions."""
    if not questions:
        return []
    items = [
        ScoreItem(version.stored.digest, question.prompt, question.options, current.version.max_prompt_tokens)
        for question, version in zip(questions, versions, strict=True)
    ]
    try:
        return score(items)
    except (BackendUnavailable, BackendRefused) as error:
        return [Score(None, error.message)] * len(questions)


def _refuse_what_no_model_answers(questions: Sequence[Question], answers: Sequence[Score]) -> None:
    refused = [
        FieldFault(question.path.rstrip("."), answer.error or "", "a question that fits the model")
        for question, answer in zip(questions, answers, strict=True)
        if answer.refused
    ]
    if refused:
        raise BackendRefused("The model server cannot score this request.", faults=refused)
