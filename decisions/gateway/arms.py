"""Asks for the policy of each question: the version that should act, who stands in for it, and both arms' opinions.

The gateway calls `score_questions`. There are at most three rounds of requests: every question for the version that is
assigned; those that failed for the version that stands in (the control for a treatment, else the model's `fallback`),
together with the answered ones of a conditioned experiment for the other arm; and what failed again for the `fallback`.
When the other arm cannot answer, the decision still succeeds, and the unit keeps the plain contrast.

Both arms are asked with the same limits. An arm that answers only when it is asked first would make the contrast of a
unit depend on its assignment, and bias it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from decisions.agents.current import CurrentAgent
from decisions.ingest.schemas import DecideItem
from models_registry.backends.asking import Asked, Told, score_versions
from models_registry.errors import BackendRefused
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

    def stand_ins(self, version: ModelVersion) -> tuple[ModelVersion, ...]:
        """Who is asked, in order, where `version` cannot answer: the control for a treatment, then the model's
        fallback. They depend on the version alone, whether it was assigned or is asked as the other arm."""
        route = self.route
        found: list[ModelVersion] = []
        control = route.other if route.arm == Arm.TREATMENT else route.version
        if route.other is not None and control is not None and version.id != control.id:
            found.append(control)
        if route.fallback is not None and route.fallback.id not in {version.id, *(one.id for one in found)}:
            found.append(route.fallback)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Scored:
    """A question with the probabilities of the version that serves it, one per option; None, with the reason in
    `error`, where neither the version assigned nor another in its place could answer.

    other: those of the other arm; None where it was not asked or could not answer. latency_ms: what this question
    waited for, without the wait for `other`: the arms are compared by it. picked: the server named one option, and gave
    no probabilities. backend: whose answer it is, None for the instance's own model server. failures: why others that
    stood before could not answer.
    """

    question: Question
    probabilities: tuple[float, ...] | None
    latency_ms: float
    other: tuple[float, ...] | None = None
    error: str | None = None
    picked: bool = False
    backend: uuid.UUID | None = None
    failures: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: Decimal | None = None


def score_questions(current: CurrentAgent, questions: Sequence[Question]) -> list[Scored]:
    """In order. Raises BackendRefused where a question itself is wrong."""
    started = time.perf_counter()
    first = _ask(current, [(question, question.route.version) for question in questions])
    _refuse_what_no_model_answers(questions, first)
    waited_ms = (time.perf_counter() - started) * 1000
    scored = [_scored(one, told, waited_ms) for one, told in zip(questions, first, strict=True)]
    scored = _ask_again(current, scored, turn=0, started=started)
    return _ask_again(current, scored, turn=1, started=started)


def _ask_again(current: CurrentAgent, scored: Sequence[Scored], *, turn: int, started: float) -> list[Scored]:
    """One more round: the next stand-in of each question without an answer, and in the first one the other arm of those
    with one."""
    asked: dict[int, ModelVersion] = {}
    for index, one in enumerate(scored):
        stand_ins = one.question.stand_ins(one.question.route.version)
        if one.probabilities is None and turn < len(stand_ins):
            asked[index] = stand_ins[turn]
        elif one.probabilities is not None and turn == 0 and (other := _other_arm(one.question)) is not None:
            asked[index] = other
    told = _ask(current, [(scored[index].question, version) for index, version in asked.items()])
    waited_ms = (time.perf_counter() - started) * 1000
    after = list(scored)
    for (index, version), answer in zip(asked.items(), told, strict=True):
        before = scored[index]
        if before.probabilities is not None:
            after[index] = replace(before, other=answer.score.probabilities)
            continue
        question = replace(before.question, served=version, fallback=True)
        found = _scored(question, answer, waited_ms)
        failures = f"{before.failures} {found.failures}".strip()
        missed = found.probabilities is None
        after[index] = replace(before if missed else found, latency_ms=waited_ms, failures=failures)
    return after


def _other_arm(question: Question) -> ModelVersion | None:
    route = question.route
    return route.other if route.phase is not None and route.phase.experiment.conditioned else None


def _ask(current: CurrentAgent, asked: Sequence[tuple[Question, ModelVersion]]) -> list[Told]:
    most = current.version.max_prompt_tokens
    return score_versions(
        [Asked(version, one.prompt, one.options, most, one.stand_ins(version)) for one, version in asked]
    )


def _scored(question: Question, told: Told, latency_ms: float) -> Scored:
    score, endpoint = told.score, told.endpoint
    return Scored(
        question,
        score.probabilities,
        latency_ms,
        error=score.error,
        picked=score.picked,
        backend=endpoint.backend if endpoint is not None else None,
        failures=" ".join(told.failures) if score.probabilities is not None else score.error or "",
        tokens_in=score.tokens_in,
        tokens_out=score.tokens_out,
        cost=endpoint.price(score.tokens_in, score.tokens_out) if endpoint is not None else None,
    )


def _refuse_what_no_model_answers(questions: Sequence[Question], answers: Sequence[Told]) -> None:
    refused = [
        FieldFault(question.path.rstrip("."), told.score.error or "", "a question that fits the model")
        for question, told in zip(questions, answers, strict=True)
        if told.score.refused
    ]
    if refused:
        raise BackendRefused("The model server cannot score this request.", faults=refused)
