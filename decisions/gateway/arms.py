"""Asks for the policy of each question: the version that should act, who stands in for it, and both arms' opinions.

The gateway calls `ask_questions`. There are at most three rounds of requests: every question for the version that is
assigned; those that failed for the version that stands in (the control for a treatment, else the model's `fallback`),
together with the answered ones of a conditioned experiment for the other arm; and what failed again for the `fallback`.
When the other arm cannot answer, the decision still succeeds, and the unit keeps the plain contrast. So does one whose
action is written: nobody knows how probable the other arm's model finds it.

In an experiment on versions of the agent each arm is asked by its own prompt. A treatment that its model refuses has
failed like one that does not answer: the caller's request is refused where the control's would be.

Both arms are asked with the same time limits. An arm that answers only when it is asked first would make the contrast
of a unit depend on its assignment, and bias it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from decisions.gateway.exploration import first_places
from decisions.gateway.questions import Question, Reply, Scoring, Side, Writing
from models_registry.backends.asking import (
    Asked,
    Delivered,
    Ordered,
    Told,
    score_versions,
    write_versions,
)
from models_registry.errors import BackendRefused
from workspaces.errors import FieldFault


def ask_questions(questions: Sequence[Question]) -> list[Reply]:
    """In order. Raises BackendRefused where a question itself is wrong."""
    started = time.perf_counter()
    first = ask_sides([(question, question.side) for question in questions])
    waited_ms = (time.perf_counter() - started) * 1000
    replies = [
        replace(one, latency_ms=waited_ms, failures=f"{one.question.unasked} {one.failures}".strip()) for one in first
    ]
    _refuse_what_no_model_answers(replies)
    chains = [one.stand_ins(one.side) for one in questions]
    replies = _ask_again(replies, chains, turn=0, started=started)
    return _ask_again(replies, chains, turn=1, started=started)


def _ask_again(
    replies: Sequence[Reply], chains: Sequence[tuple[Side, ...]], *, turn: int, started: float
) -> list[Reply]:
    """One more round: the next stand-in of each question without an answer, and in the first one the other arm of those
    with one."""
    asked: dict[int, Side] = {}
    after = list(replies)
    for index, (one, stand_ins) in enumerate(zip(replies, chains, strict=True)):
        if not one.answered and turn < len(stand_ins):
            asked[index] = stand_ins[turn]
        elif one.answered and turn == 0 and (other := _other_arm(one.question)) is not None:
            if _asks_the_same(one.question.side, other):
                after[index] = replace(one, other=one.probabilities)
            else:
                asked[index] = other
    answers = ask_sides([(replies[index].question, side) for index, side in asked.items()])
    waited_ms = (time.perf_counter() - started) * 1000
    for (index, side), answer in zip(asked.items(), answers, strict=True):
        before = replies[index]
        if before.answered:
            after[index] = replace(before, other=answer.probabilities)
            continue
        failures = f"{before.failures} {answer.failures}".strip()
        question = replace(before.question, side=side, fallback=True)
        if answer.refused and before.question.is_tried:  # only now it is asked as the agent itself would ask
            _refuse_what_no_model_answers([replace(answer, question=question)])
        last = answer.backend if answer.asked else before.backend
        found = replace(answer, question=question) if answer.answered else replace(before, backend=last)
        after[index] = replace(found, latency_ms=waited_ms, failures=failures, unusable=before.unusable)
    return after


def _other_arm(question: Question) -> Side | None:
    """Of a conditioned experiment, where the arm that was assigned decides itself, and the other one can be asked."""
    route, other = question.route, question.other
    conditioned = route.phase is not None and route.phase.experiment.conditioned
    can = other is not None and other.wanted is not None and isinstance(other.wanted.asks, Scoring)
    return other if conditioned and can else None


def ask_sides(asked: Sequence[tuple[Question, Side]]) -> list[Reply]:
    """Each question of one side alone, whose servers are asked in turn; in order. Shadows ask their candidate so."""
    scores: list[Asked] = []
    orders: list[Ordered] = []
    for one, side in asked:
        asks = _asks_of(side)
        stand_ins = tuple(other.version for other in one.stand_ins(side))
        if isinstance(asks, Scoring):
            most = side.current.version.max_prompt_tokens
            scores += [Asked(side.version, prompt, asks.options, most, stand_ins) for prompt in asks.prompts]
        else:
            orders.append(Ordered(side.version, asks.item, asks.read, stand_ins))
    told, delivered = iter(score_versions(scores)), iter(write_versions(orders))
    replies = []
    for one, side in asked:
        asks = _asks_of(side)
        if isinstance(asks, Scoring):
            replies.append(_scored(one, asks, [next(told) for _ in asks.prompts]))
        else:
            replies.append(_delivered(one, next(delivered)))
    return replies


def _asks_the_same(side: Side, other: Side) -> bool:
    """Versions of an agent that differ in their exploration alone: one answer of the model tells both policies."""
    most = {one.current.version.max_prompt_tokens for one in (side, other)}
    return side.version.id == other.version.id and side.wanted == other.wanted and len(most) == 1


def _asks_of(side: Side) -> Scoring | Writing:
    assert side.wanted is not None  # whoever cannot be asked is not
    return side.wanted.asks


def _scored(question: Question, asks: Scoring, told: Sequence[Told]) -> Reply:
    """Of all its prompts together: one that nobody could score leaves the question without an answer."""
    scores = [one.score for one in told]
    failed = next((one for one in told if one.score.probabilities is None), None)
    missing = failed.score if failed is not None else None
    rows = [score.probabilities for score in scores if score.probabilities is not None]
    probabilities = None
    if missing is None:
        probabilities = first_places([row[0] for row in rows]) if asks.each_item else rows[0]
    failures = " ".join(dict.fromkeys(failure for one in told for failure in one.failures))
    endpoint = next((one.endpoint for one in told if one.endpoint is not None), None)
    last = endpoint if failed is None else failed.endpoint or failed.last
    costs = [one.endpoint.price(one.score.tokens_in, one.score.tokens_out) for one in told if one.endpoint is not None]
    return Reply(
        question,
        0.0,
        probabilities,
        error=missing.error if missing is not None else None,
        refused=missing is not None and missing.refused,
        picked=any(score.picked for score in scores),
        backend=last.backend if last is not None else None,
        asked=last is not None,
        failures=failures if missing is None else missing.error or "",
        tokens_in=_add([score.tokens_in for score in scores]),
        tokens_out=_add([score.tokens_out for score in scores]),
        cost=None if not costs or None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
    )


def _delivered(question: Question, told: Delivered) -> Reply:
    written, endpoint = told.written, told.endpoint
    if written.text is None:
        return Reply(
            question,
            0.0,
            error=written.error,
            backend=told.last.backend if told.last is not None else None,
            asked=told.last is not None,
            failures=written.error or "",
            unusable=told.unusable,
        )
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
        if one.refused and not one.question.is_tried
    ]
    if refused:
        error = BackendRefused("The model server cannot score this request.", faults=refused)
        error.backends = {one.question.id: one.backend for one in replies}
        raise error
