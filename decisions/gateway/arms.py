"""Asks for the policy of each question: the version that should act, who stands in for it, and both arms' opinions.

The gateway calls `ask_questions`. There are at most three rounds of requests: every question for the version that is
assigned; those that failed for the version that stands in (the control for a treatment, else the model's `fallback`),
together with the answered ones of a conditioned experiment for the other arm; and what failed again for the `fallback`.
When the other arm cannot answer, the decision still succeeds, and the unit keeps the plain contrast. So does one whose
action is written: nobody knows how probable the other arm's model finds it.

Both arms are asked with the same limits. An arm that answers only when it is asked first would make the contrast of a
unit depend on its assignment, and bias it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from decisions.agents.current import CurrentAgent
from decisions.gateway.exploration import first_places
from decisions.gateway.questions import Question, Reply, Scoring, Writing
from models_registry.backends.asking import (
    Asked,
    Delivered,
    Ordered,
    Told,
    score_versions,
    write_versions,
)
from models_registry.errors import BackendRefused
from models_registry.models import ModelVersion
from workspaces.errors import FieldFault


def ask_questions(current: CurrentAgent, questions: Sequence[Question]) -> list[Reply]:
    """In order. Raises BackendRefused where a question itself is wrong."""
    started = time.perf_counter()
    first = _ask(current, [(question, question.route.version) for question in questions])
    waited_ms = (time.perf_counter() - started) * 1000
    replies = [replace(one, latency_ms=waited_ms) for one in first]
    _refuse_what_no_model_answers(replies)
    replies = _ask_again(current, replies, turn=0, started=started)
    return _ask_again(current, replies, turn=1, started=started)


def _ask_again(current: CurrentAgent, replies: Sequence[Reply], *, turn: int, started: float) -> list[Reply]:
    """One more round: the next stand-in of each question without an answer, and in the first one the other arm of those
    with one."""
    asked: dict[int, ModelVersion] = {}
    for index, one in enumerate(replies):
        stand_ins = one.question.stand_ins(one.question.route.version)
        if not one.answered and turn < len(stand_ins):
            asked[index] = stand_ins[turn]
        elif one.answered and turn == 0 and (other := _other_arm(one.question)) is not None:
            asked[index] = other
    answers = _ask(current, [(replies[index].question, version) for index, version in asked.items()])
    waited_ms = (time.perf_counter() - started) * 1000
    after = list(replies)
    for (index, version), answer in zip(asked.items(), answers, strict=True):
        before = replies[index]
        if before.answered:
            after[index] = replace(before, other=answer.probabilities)
            continue
        failures = f"{before.failures} {answer.failures}".strip()
        question = replace(before.question, served=version, fallback=True)
        found = replace(answer, question=question) if answer.answered else before
        after[index] = replace(found, latency_ms=waited_ms, failures=failures, unusable=before.unusable)
    return after


def _other_arm(question: Question) -> ModelVersion | None:
    route = question.route
    conditioned = route.phase is not None and route.phase.experiment.conditioned
    return route.other if conditioned and isinstance(question.wanted.asks, Scoring) else None


def _ask(current: CurrentAgent, asked: Sequence[tuple[Question, ModelVersion]]) -> list[Reply]:
    """In order; those of one agent are all scored or all written."""
    most = current.version.max_prompt_tokens
    scores = [
        Asked(version, prompt, one.wanted.asks.options, most, one.stand_ins(version))
        for one, version in asked
        if isinstance(one.wanted.asks, Scoring)
        for prompt in one.wanted.asks.prompts
    ]
    orders = [
        Ordered(version, one.wanted.asks.item, one.wanted.asks.read, one.stand_ins(version))
        for one, version in asked
        if isinstance(one.wanted.asks, Writing)
    ]
    told, delivered = iter(score_versions(scores)), iter(write_versions(orders))
    replies = []
    for one, _ in asked:
        asks = one.wanted.asks
        if isinstance(asks, Scoring):
            replies.append(_scored(one, asks, [next(told) for _ in asks.prompts]))
        else:
            replies.append(_delivered(one, next(delivered)))
    return replies


def _scored(question: Question, asks: Scoring, told: Sequence[Told]) -> Reply:
    """Of all its prompts together: one that nobody could score leaves the question without an answer."""
    scores = [one.score for one in told]
    missing = next((score for score in scores if score.probabilities is None), None)
    rows = [score.probabilities for score in scores if score.probabilities is not None]
    probabilities = None
    if missing is None:
        probabilities = first_places([row[0] for row in rows]) if asks.each_item else rows[0]
    failures = " ".join(dict.fromkeys(failure for one in told for failure in one.failures))
    endpoint = next((one.endpoint for one in told if one.endpoint is not None), None)
    costs = [one.endpoint.price(one.score.tokens_in, one.score.tokens_out) for one in told if one.endpoint is not None]
    return Reply(
        question,
        0.0,
        probabilities,
        error=missing.error if missing is not None else None,
        refused=missing is not None and missing.refused,
        picked=any(score.picked for score in scores),
        backend=endpoint.backend if endpoint is not None else None,
        failures=failures if missing is None else missing.error or "",
        tokens_in=_add([score.tokens_in for score in scores]),
        tokens_out=_add([score.tokens_out for score in scores]),
        cost=None if not costs or None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
    )


def _delivered(question: Question, told: Delivered) -> Reply:
    written, endpoint = told.written, told.endpoint
    if written.text is None:
        return Reply(question, 0.0, error=written.error, failures=written.error or "", unusable=told.unusable)
    return Reply(
        question,
        0.0,
        written=written,
        action=told.action,
        backend=endpoint.backend if endpoint is not None else None,
        failures=" ".join(told.failures),
        unusable=told.unusable,
        tokens_in=written.tokens_in,
        tokens_out=written.tokens_out,
        cost=endpoint.price(written.tokens_in, written.tokens_out) if endpoint is not None else None,
    )


def _add(counts: Sequence[int | None]) -> int | None:
    """None where one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _refuse_what_no_model_answers(replies: Sequence[Reply]) -> None:
    refused = [
        FieldFault(one.question.path.rstrip("."), one.error or "", "a question that fits the model")
        for one in replies
        if one.refused
    ]
    if refused:
        raise BackendRefused("The model server cannot score this request.", faults=refused)
