"""Asks for the policy of each request: the version that should act, who stands in for it, and both arms' opinions.

The gateway calls `ask_arms`. Servers are asked in at most three rounds: every request for the version that is
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
from decisions.gateway.requests import Answerer, ModelReply, RenderedPrompt, RoutedRequest, ScoringPrompt
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


def ask_arms(requests: Sequence[RoutedRequest]) -> list[ModelReply]:
    """In order. Raises BackendRefused where a request itself is wrong."""
    started = time.perf_counter()
    first = ask_each([(request, request.answerer) for request in requests])
    waited_ms = (time.perf_counter() - started) * 1000
    replies = [
        replace(one, latency_ms=waited_ms, failures=f"{one.request.unasked} {one.failures}".strip()) for one in first
    ]
    _refuse_what_no_model_answers(replies)
    chains = [one.stand_ins(one.answerer) for one in requests]
    replies = _ask_again(replies, chains, turn=0, started=started)
    return _ask_again(replies, chains, turn=1, started=started)


def _ask_again(
    replies: Sequence[ModelReply], chains: Sequence[tuple[Answerer, ...]], *, turn: int, started: float
) -> list[ModelReply]:
    """One more round: the next stand-in of each request without an answer, and in the first one the other arm of those
    with one."""
    asked: dict[int, Answerer] = {}
    after = list(replies)
    for index, (one, stand_ins) in enumerate(zip(replies, chains, strict=True)):
        if not one.answered and turn < len(stand_ins):
            asked[index] = stand_ins[turn]
        elif one.answered and turn == 0 and (other := _other_arm(one.request)) is not None:
            if _asks_the_same(one.request.answerer, other):
                after[index] = replace(one, other=one.probabilities)
            else:
                asked[index] = other
    answers = ask_each([(replies[index].request, answerer) for index, answerer in asked.items()])
    waited_ms = (time.perf_counter() - started) * 1000
    for (index, answerer), answer in zip(asked.items(), answers, strict=True):
        before = replies[index]
        if before.answered:
            wasted = before.wasted + answer.wasted + (answer.cost or 0)
            after[index] = replace(before, other=answer.probabilities, wasted=wasted)
            continue
        failures = f"{before.failures} {answer.failures}".strip()
        request = replace(before.request, answerer=answerer, fallback=True)
        if answer.refused and before.request.is_tried:  # only now it is asked as the agent itself would ask
            _refuse_what_no_model_answers([replace(answer, request=request)])
        last = answer.backend if answer.asked else before.backend
        found = replace(answer, request=request) if answer.answered else replace(before, backend=last)
        wasted = before.wasted + answer.wasted
        after[index] = replace(found, latency_ms=waited_ms, failures=failures, unusable=before.unusable, wasted=wasted)
    return after


def _other_arm(request: RoutedRequest) -> Answerer | None:
    """Of a conditioned experiment, where the arm that was assigned decides itself, and the other one can be asked."""
    route, other = request.route, request.other
    conditioned = route.phase is not None and route.phase.experiment.conditioned
    return other if conditioned and other is not None and isinstance(other.prompt, ScoringPrompt) else None


def ask_each(asked: Sequence[tuple[RoutedRequest, Answerer]]) -> list[ModelReply]:
    """Each request of one answerer alone, whose servers are asked in turn; in order. Shadows ask their candidate so."""
    scores: list[Asked] = []
    orders: list[Ordered] = []
    for one, answerer in asked:
        prompt = _prompt_of(answerer)
        stand_ins = tuple(other.version for other in one.stand_ins(answerer))
        if isinstance(prompt, ScoringPrompt):
            most = answerer.current.version.max_prompt_tokens
            assert most is not None  # only agents that chat have none, and their answers are written
            scores += [Asked(answerer.version, filled, prompt.scored, most, stand_ins) for filled in prompt.prompts]
        else:
            orders.append(Ordered(answerer.version, prompt.order, prompt.read, stand_ins))
    told, delivered = iter(score_versions(scores)), iter(write_versions(orders))
    replies = []
    for one, answerer in asked:
        prompt = _prompt_of(answerer)
        if isinstance(prompt, ScoringPrompt):
            replies.append(_scored(one, prompt, [next(told) for _ in prompt.prompts]))
        else:
            replies.append(_delivered(one, next(delivered)))
    return replies


def _asks_the_same(answerer: Answerer, other: Answerer) -> bool:
    """Versions of an agent that differ in their exploration alone: one answer of the model tells both policies."""
    most = {one.current.version.max_prompt_tokens for one in (answerer, other)}
    return answerer.version.id == other.version.id and answerer.prompt == other.prompt and len(most) == 1


def _prompt_of(answerer: Answerer) -> RenderedPrompt:
    assert answerer.prompt is not None  # whoever cannot be asked is not
    return answerer.prompt


def _scored(request: RoutedRequest, prompt: ScoringPrompt, told: Sequence[Told]) -> ModelReply:
    """Of all its prompts together: one that nobody could score leaves the request without an answer."""
    scores = [one.score for one in told]
    failed = next((one for one in told if one.score.probabilities is None), None)
    missing = failed.score if failed is not None else None
    rows = [score.probabilities for score in scores if score.probabilities is not None]
    probabilities = None
    if missing is None:
        probabilities = first_places([row[0] for row in rows]) if prompt.places else rows[0]
    failures = " ".join(dict.fromkeys(failure for one in told for failure in one.failures))
    endpoint = next((one.endpoint for one in told if one.endpoint is not None), None)
    last = endpoint if failed is None else failed.endpoint or failed.last
    costs = [one.endpoint.price(one.score.tokens_in, one.score.tokens_out) for one in told if one.endpoint is not None]
    known = sum((cost for cost in costs if cost is not None), Decimal(0))
    wasted = sum((one.wasted for one in told), Decimal(0))
    return ModelReply(
        request,
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
        cost=known if missing is None and costs and None not in costs else None,
        wasted=wasted if missing is None else wasted + known,
    )


def _delivered(request: RoutedRequest, told: Delivered) -> ModelReply:
    written, endpoint = told.written, told.endpoint
    if written.text is None:
        return ModelReply(
            request,
            0.0,
            error=written.error,
            backend=told.last.backend if told.last is not None else None,
            asked=told.last is not None,
            failures=written.error or "",
            unusable=told.unusable,
            wasted=told.wasted,
        )
    return ModelReply(
        request,
        0.0,
        written=written,
        action=told.action,
        backend=endpoint.backend if endpoint is not None else None,
        failures=" ".join(told.failures),
        unusable=told.unusable,
        tokens_in=written.tokens_in,
        tokens_out=written.tokens_out,
        cost=endpoint.price(written.tokens_in, written.tokens_out) if endpoint is not None else None,
        wasted=told.wasted,
    )


def _add(counts: Sequence[int | None]) -> int | None:
    """None where one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _refuse_what_no_model_answers(replies: Sequence[ModelReply]) -> None:
    refused = [
        FieldFault(one.request.path.rstrip("."), one.error or "", "a question that fits the model")
        for one in replies
        if one.refused and not one.request.is_tried
    ]
    if refused:
        error = BackendRefused("The model server cannot score this request.", faults=refused)
        error.backends = {one.request.id: one.backend for one in replies}
        error.costs = {one.request.id: one.call_cost for one in replies}
        raise error
